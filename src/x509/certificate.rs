//! A certificate as Go's `crypto/x509` reads it: strict DER of version 1, 2 or 3, with what a chain is judged by.

use std::borrow::Cow;

use crate::Malformed;
use crate::alternative::AlternativeNames;
use crate::der::{Element, Reader, SEQUENCE, constructed, primitive};
use crate::extensions::Extensions;
use crate::key::{Key, right_aligned};
use crate::names::Names;
use crate::pem;

/// A certificate.
#[derive(Debug)]
pub struct Certificate<'d> {
    /// All of it.
    pub raw: &'d [u8],
    /// What is signed.
    pub(crate) signed: &'d [u8],
    /// The algorithm of the signature: identifier and parameters.
    pub(crate) algorithm: &'d [u8],
    pub(crate) signature: Cow<'d, [u8]>,
    pub(crate) version: u8,
    /// Big-endian, positive.
    pub(crate) serial: &'d [u8],
    /// Of who has signed it, as a whole element.
    pub issuer: &'d [u8],
    /// Its own name, as a whole element.
    pub subject: &'d [u8],
    /// Its own name.
    pub names: Names,
    /// Seconds since 1970.
    pub not_before: i64,
    /// Seconds since 1970.
    pub not_after: i64,
    /// Algorithm and key, as a whole element.
    pub key_info: &'d [u8],
    /// Its key.
    pub key: Key<'d>,
    pub(crate) extensions: Extensions<'d>,
}

/// Returns the certificates of authorities in a PEM text, as client-go makes a pool of them: what cannot be read is passed over if there is another one.
///
/// # Errors
/// There is none, in client-go's words.
pub fn authorities(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<Vec<u8>> = pem::certificates(text).filter(|der| Certificate::read(der).is_ok()).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let Some((block, after)) = pem::decode(rest) else { return Err("unable to parse bytes as PEM block".to_owned()) };
        if let (pem::CERTIFICATE, false, Err(why)) = (block.label, block.has_headers, Certificate::read(&block.bytes)) {
            return Err(format!("failed to parse certificate: {why}"));
        }
        rest = after;
    }
    Err("no valid certificate authority data seen".to_owned())
}

/// Algorithm and key.
struct KeyInfo<'d> {
    whole: &'d [u8],
    key: Key<'d>,
}

impl<'d> Certificate<'d> {
    /// Reads a certificate, and nothing after it (`ParseCertificate`).
    ///
    /// # Errors
    /// Why Go could not read it.
    pub fn read(bytes: &'d [u8]) -> Result<Certificate<'d>, Malformed> {
        let (certificate, rest) = Certificate::read_first(bytes)?;
        if rest.is_empty() { Ok(certificate) } else { Err("x509: trailing data".into()) }
    }

    /// Reads certificates that follow each other (`ParseCertificates`).
    ///
    /// # Errors
    /// Why Go could not read one of them.
    pub fn read_all(bytes: &'d [u8]) -> Result<Vec<Certificate<'d>>, Malformed> {
        let mut rest = bytes;
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (certificate, after) = Certificate::read_first(rest)?;
            all.push(certificate);
            rest = after;
        }
        Ok(all)
    }

    fn read_first(bytes: &'d [u8]) -> Result<(Certificate<'d>, &'d [u8]), Malformed> {
        let mut outer = Reader::new(bytes);
        let Element { whole: raw, contents, .. } = outer.expect(SEQUENCE).ok_or("x509: malformed certificate")?;
        let mut certificate = Reader::new(contents);
        let Element { whole: signed, contents, .. } = certificate.expect(SEQUENCE).ok_or("x509: malformed tbs certificate")?;
        let mut tbs = Reader::new(contents);
        let version = version(&mut tbs)?;
        let serial = tbs.integer().ok_or("x509: malformed serial number")?;
        if serial[0] & 0x80 != 0 {
            return Err("x509: negative serial number".into());
        }
        let inner = tbs.contents(SEQUENCE).ok_or("x509: malformed signature algorithm identifier")?;
        let algorithm = certificate.contents(SEQUENCE).ok_or("x509: malformed algorithm identifier")?;
        if inner != algorithm {
            return Err("x509: inner and outer signature algorithm identifiers don't match".into());
        }
        identifier(algorithm)?;
        let issuer = tbs.expect(SEQUENCE).ok_or("x509: malformed issuer")?.whole;
        Names::read(issuer)?;
        let mut validity = tbs.sequence().ok_or("x509: malformed validity")?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = tbs.expect(SEQUENCE).ok_or("x509: malformed issuer")?.whole;
        let names = Names::read(subject)?;
        let KeyInfo { whole: key_info, key } = KeyInfo::read(&mut tbs)?;
        let extensions = extensions(version, &mut tbs)?;
        let (bytes, unused) = certificate.bits().ok_or("x509: malformed signature")?;
        let signature = right_aligned(bytes, unused);
        let read = Certificate {
            raw,
            signed,
            algorithm,
            signature,
            version,
            serial,
            issuer,
            subject,
            names,
            not_before,
            not_after,
            key_info,
            key,
            extensions,
        };
        Ok((read, outer.rest()))
    }

    /// Returns its alternative names.
    #[must_use]
    pub fn alternative_names(&self) -> &AlternativeNames {
        &self.extensions.names
    }
}

/// 1, 2 or 3.
fn version(tbs: &mut Reader<'_>) -> Result<u8, Malformed> {
    const MALFORMED: &str = "x509: malformed version";
    let Some(explicit) = tbs.optional(constructed(0)).ok_or(MALFORMED)? else { return Ok(1) };
    let mut explicit = Reader::new(explicit);
    match explicit.signed().filter(|_| explicit.is_empty()).ok_or(MALFORMED)? {
        ..0 => Err(MALFORMED.into()),
        0 => Ok(1),
        1 => Ok(2),
        2 => Ok(3),
        _ => Err("x509: invalid version".into()),
    }
}

/// An algorithm, and its parameters as a whole element: empty if there are none.
fn identifier(contents: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut parts = Reader::new(contents);
    let oid = parts.oid().ok_or("x509: malformed OID")?;
    let parameters = if parts.is_empty() { &[][..] } else { parts.any().ok_or("x509: malformed parameters")?.whole };
    Ok((oid, parameters))
}

fn time(validity: &mut Reader<'_>) -> Result<i64, Malformed> {
    validity.time().ok_or_else(|| "x509: malformed or unsupported time".into())
}

impl<'d> KeyInfo<'d> {
    fn read(tbs: &mut Reader<'d>) -> Result<KeyInfo<'d>, Malformed> {
        let info = tbs.expect(SEQUENCE).ok_or("x509: malformed spki")?;
        let mut members = Reader::new(info.contents);
        let algorithm = members.contents(SEQUENCE).ok_or("x509: malformed public key algorithm identifier")?;
        let (oid, parameters) = identifier(algorithm)?;
        let bits = members.bits().ok_or("x509: malformed subjectPublicKey")?;
        Ok(KeyInfo { whole: info.whole, key: Key::read(oid, parameters, bits)? })
    }
}

fn extensions<'d>(version: u8, tbs: &mut Reader<'d>) -> Result<Extensions<'d>, Malformed> {
    if version > 1 {
        tbs.optional(primitive(1)).ok_or("x509: malformed issuerUniqueID")?;
        tbs.optional(primitive(2)).ok_or("x509: malformed subjectUniqueID")?;
    }
    if version < 3 {
        return Ok(Extensions::default());
    }
    let all = tbs.optional(constructed(3)).ok_or("x509: malformed extensions")?;
    all.map_or(Ok(Extensions::default()), Extensions::read)
}
