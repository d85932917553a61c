//! A certificate as Go's crypto/x509 reads it: strict DER of version 1, 2 or 3, with what a chain is judged by.

use super::der::{self, Element, OCTET_STRING, Reader, SEQUENCE, constructed, primitive};
use super::extensions::Extensions;
use super::names::Names;

/// Bits of the longest RSA key that a handshake takes, as in Go.
const RSA_BITS_MAX: usize = 8_192;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const P224: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x21];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// What is wrong with a certificate.
pub(super) type Malformed = &'static str;

/// A certificate.
#[derive(Debug)]
pub(super) struct Certificate<'d> {
    /// All of it.
    pub(super) raw: &'d [u8],
    /// What is signed.
    pub(super) signed: &'d [u8],
    /// The algorithm of the signature: identifier and parameters.
    pub(super) algorithm: &'d [u8],
    pub(super) signature: &'d [u8],
    pub(super) version: u8,
    /// Of who has signed it, as a whole element.
    pub(super) issuer: &'d [u8],
    /// Its own name, as a whole element.
    pub(super) subject: &'d [u8],
    pub(super) names: Names,
    /// Seconds since 1970.
    pub(super) not_before: i64,
    /// Seconds since 1970.
    pub(super) not_after: i64,
    /// Algorithm and key, as a whole element.
    pub(super) key_info: &'d [u8],
    pub(super) key: Key<'d>,
    pub(super) extensions: Extensions<'d>,
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'d> {
    /// PKCS#1, and the bits of its modulus.
    Rsa(&'d [u8], usize),
    /// An uncompressed point on this curve.
    Ec(Curve, &'d [u8]),
    Ed25519(&'d [u8]),
    /// One that Go has no use for.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl<'d> Certificate<'d> {
    /// Reads a certificate, and nothing after it.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(super) fn read(bytes: &'d [u8]) -> Result<Certificate<'d>, Malformed> {
        let mut outer = Reader::new(bytes);
        let Element { whole: raw, contents, .. } = outer.expect(SEQUENCE).ok_or("malformed certificate")?;
        if !outer.is_empty() {
            return Err("trailing data");
        }
        let mut certificate = Reader::new(contents);
        let Element { whole: signed, contents, .. } = certificate.expect(SEQUENCE).ok_or("malformed tbs certificate")?;
        let algorithm = certificate.contents(SEQUENCE).ok_or("malformed algorithm identifier")?;
        let (signature, unused) = certificate.bits().ok_or("malformed signature")?;
        let mut tbs = Reader::new(contents);
        let version = version(&mut tbs).ok_or("malformed version")?;
        let serial = tbs.integer().ok_or("malformed serial number")?;
        if serial[0] & 0x80 != 0 {
            return Err("negative serial number");
        }
        if tbs.contents(SEQUENCE).ok_or("malformed signature algorithm identifier")? != algorithm {
            return Err("inner and outer signature algorithm identifiers don't match");
        }
        let issuer = tbs.expect(SEQUENCE).ok_or("malformed issuer")?.whole;
        Names::read(issuer)?;
        let mut validity = tbs.sequence().ok_or("malformed validity")?;
        let (not_before, not_after) = (validity.time().ok_or("malformed validity")?, validity.time().ok_or("malformed validity")?);
        let subject = tbs.expect(SEQUENCE).ok_or("malformed subject")?.whole;
        let names = Names::read(subject)?;
        let key_info = tbs.expect(SEQUENCE).ok_or("malformed spki")?;
        let key = Key::read(key_info.contents)?;
        let mut extensions = Extensions::default();
        if version > 1 {
            for unique_id in [primitive(1), primitive(2)] {
                tbs.optional(unique_id).ok_or("malformed unique ID")?;
            }
        }
        if version == 3
            && let Some(all) = tbs.optional(constructed(3)).ok_or("malformed extensions")?
        {
            extensions = Extensions::read(all)?;
        }
        if unused != 0 {
            return Err("malformed signature");
        }
        let (issuer, key_info) = (issuer, key_info.whole);
        Ok(Certificate {
            raw,
            signed,
            algorithm,
            signature,
            version,
            issuer,
            subject,
            names,
            not_before,
            not_after,
            key_info,
            key,
            extensions,
        })
    }
}

/// 1, 2 or 3.
fn version(tbs: &mut Reader<'_>) -> Option<u8> {
    match tbs.optional(constructed(0))? {
        None => Some(1),
        Some(number) => match Reader::new(number).unsigned()? {
            number @ 0..=2 => u8::try_from(number + 1).ok(),
            _ => None,
        },
    }
}

impl<'d> Key<'d> {
    /// Reads algorithm and key.
    fn read(key_info: &'d [u8]) -> Result<Key<'d>, Malformed> {
        let mut key_info = Reader::new(key_info);
        let mut algorithm = key_info.sequence().ok_or("malformed public key algorithm identifier")?;
        let oid = algorithm.oid().ok_or("malformed OID")?;
        let parameters = if algorithm.is_empty() { None } else { Some(algorithm.any().ok_or("malformed parameters")?) };
        let (bytes, unused) = key_info.bits().ok_or("malformed subjectPublicKey")?;
        if unused != 0 {
            return Err("malformed subjectPublicKey");
        }
        match oid {
            RSA if parameters.is_none_or(|parameters| parameters.whole != der::NULL) => Err("RSA key missing NULL parameters"),
            RSA => rsa(bytes).ok_or("invalid RSA public key"),
            EC => {
                let curve = parameters.and_then(|parameters| Reader::new(parameters.whole).oid()).ok_or("invalid ECDSA parameters")?;
                let curve = Curve::of(curve).ok_or("unsupported elliptic curve")?;
                let is_point = bytes.first() == Some(&4) && bytes.len() == 1 + 2 * curve.bytes();
                is_point.then_some(Key::Ec(curve, bytes)).ok_or("invalid ECDSA public key")
            }
            ED25519 if parameters.is_some() => Err("Ed25519 key encoded with illegal parameters"),
            ED25519 if bytes.len() != 32 => Err("wrong Ed25519 public key size"),
            ED25519 => Ok(Key::Ed25519(bytes)),
            _ => Ok(Key::Other),
        }
    }

    /// What it is called.
    pub(super) fn kind(&self) -> String {
        match self {
            Key::Rsa(_, bits) => format!("RSA of {bits} bits"),
            Key::Ec(curve, _) => format!("ECDSA with {curve:?}"),
            Key::Ed25519(_) => "Ed25519".to_owned(),
            Key::Other => "of another kind than RSA, ECDSA and Ed25519".to_owned(),
        }
    }
}

/// Modulus and exponent, both positive.
fn rsa(bytes: &[u8]) -> Option<Key<'_>> {
    let mut numbers = Reader::new(bytes).sequence()?;
    let (modulus, exponent) = (numbers.integer()?, numbers.unsigned()?);
    let positive = modulus[0] & 0x80 == 0 && modulus != [0] && exponent > 0;
    let digits = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let bits = digits.len() * 8 - usize::try_from(digits.first()?.leading_zeros()).ok()?;
    (positive && bits <= RSA_BITS_MAX).then_some(Key::Rsa(bytes, bits))
}

impl Curve {
    fn of(oid: &[u8]) -> Option<Curve> {
        Some(match oid {
            P224 => Curve::P224,
            P256 => Curve::P256,
            P384 => Curve::P384,
            P521 => Curve::P521,
            _ => return None,
        })
    }

    /// Bytes of a coordinate.
    fn bytes(self) -> usize {
        match self {
            Curve::P224 => 28,
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }
}

/// The bytes of an extension's value, which is the next element.
pub(super) fn value<'d>(extension: &mut Reader<'d>) -> Option<&'d [u8]> {
    extension.contents(OCTET_STRING)
}
