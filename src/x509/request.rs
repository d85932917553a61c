//! Certificate requests (PKCS #10) as Go's `crypto/x509` reads them: kube-apiserver, its admission and the signers of kube-controller-manager alike.

use std::collections::HashSet;

use crate::Malformed;
use crate::alternative;
use crate::asn1::{self, Element, Field, Reader};
use crate::key::{Key, right_aligned};
use crate::names::Names;
use crate::pem;
use crate::signature::{self, Under};

/// What stands around a request.
const LABEL: &[u8] = b"CERTIFICATE REQUEST";

/// The attribute with the extensions that a certificate should have: 1.2.840.113549.1.9.14.
const EXTENSIONS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// Alternative names of the subject: 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// `pkix.AlgorithmIdentifier`.
const IDENTIFIER: Field = Field::sequence("AlgorithmIdentifier");

/// What a request asks for, and how it is signed.
#[derive(Debug)]
pub struct CertificateRequest {
    /// The subject.
    pub names: Names,
    /// What its signature is worth.
    signature: Result<(), String>,
}

impl CertificateRequest {
    /// Reads the request in the first block of a PEM text (`ParseCSR` of Kubernetes).
    ///
    /// # Errors
    /// Why Kubernetes could not read it.
    pub fn from_pem(text: &[u8]) -> Result<CertificateRequest, Malformed> {
        let block = pem::decode(text).map(|(block, _)| block).filter(|block| block.label == LABEL);
        CertificateRequest::read(&block.ok_or("PEM block type must be CERTIFICATE REQUEST")?.bytes)
    }

    /// Reads a request, and nothing after it (`ParseCertificateRequest`).
    ///
    /// # Errors
    /// Why Go could not read it.
    pub fn read(bytes: &[u8]) -> Result<CertificateRequest, Malformed> {
        let mut outer = Reader::new(bytes);
        let mut request = Reader::new(outer.field(Field::sequence("certificateRequest"))?.contents);
        let information = request.field(Field::sequence("tbsCertificateRequest"))?;
        let parts = Parts::read(information)?;
        let algorithm = request.field(IDENTIFIER)?.contents;
        algorithm_identifier(algorithm)?;
        let (signature, unused) = asn1::bits(request.field(Field::BITS)?.contents)?;
        if !outer.is_empty() {
            return Err(asn1::syntax("trailing data"));
        }
        let key = Key::read(parts.key_oid, parts.key_parameters, parts.key)?;
        let names = Names::of_request(parts.subject)?;
        confirm_extensions(parts.attributes)?;
        let signature = signature::check(Under::Request, algorithm, &key, information.whole, &right_aligned(signature, unused));
        Ok(CertificateRequest { names, signature })
    }

    /// Checks that whoever has made the request has the key.
    ///
    /// # Errors
    /// Why Go does not believe it.
    pub fn check_signature(&self) -> Result<(), String> {
        self.signature.clone()
    }
}

/// What is signed.
struct Parts<'d> {
    subject: &'d [u8],
    key_oid: &'d [u8],
    key_parameters: &'d [u8],
    key: (&'d [u8], u8),
    attributes: &'d [u8],
}

impl<'d> Parts<'d> {
    fn read(information: Element<'d>) -> Result<Parts<'d>, Malformed> {
        let mut members = Reader::new(information.contents);
        asn1::int64(members.field(Field::INT)?.contents)?;
        let subject = members.field(Field::ANY)?.whole;
        let mut key_info = Reader::new(members.field(Field::sequence("publicKeyInfo"))?.contents);
        let (key_oid, key_parameters) = algorithm_identifier(key_info.field(IDENTIFIER)?.contents)?;
        let key = asn1::bits(key_info.field(Field::BITS)?.contents)?;
        let attributes = members.field(Field::sequence("").implicit(0))?.contents;
        drop(Reader::new(attributes).all(Field::ANY)?);
        Ok(Parts { subject, key_oid, key_parameters, key, attributes })
    }
}

/// An algorithm, and its parameters as a whole element: empty if there are none.
fn algorithm_identifier(contents: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut members = Reader::new(contents);
    let oid = asn1::oid(members.field(Field::OID)?.contents)?;
    let parameters = members.optional(Field::ANY.optional())?;
    Ok((oid, parameters.map_or(&[][..], |parameters| parameters.whole)))
}

/// Whether the extensions that the attributes ask for can be read, with the alternative names among them. Attributes that are no lists of values are passed
/// over.
fn confirm_extensions(attributes: &[u8]) -> Result<(), Malformed> {
    let mut seen = HashSet::new();
    let (mut names, mut has_duplicates) = (None, false);
    for attribute in Reader::new(attributes).all(Field::ANY)? {
        let Some(value) = extensions(attribute.whole) else { continue };
        let list = Reader::new(value).field(Field::sequence(""))?.contents;
        for extension in Reader::new(list).all(Field::sequence(""))? {
            let mut members = Reader::new(extension.contents);
            let oid = asn1::oid(members.field(Field::OID)?.contents)?;
            if let Some(is_critical) = members.optional(Field::BOOL.optional())? {
                asn1::boolean(is_critical.contents)?;
            }
            let value = members.field(Field::BYTES)?.contents;
            has_duplicates |= !seen.insert(oid);
            if oid == ALTERNATIVE_NAMES {
                names = Some(value);
            }
        }
        if has_duplicates {
            return Err("x509: certificate request contains duplicate requested extensions".into());
        }
    }
    names.map_or(Ok(()), |value| alternative::each(value, |_| {}))
}

/// The list of extensions in an attribute, if it is one.
fn extensions(attribute: &[u8]) -> Option<&[u8]> {
    let mut outer = Reader::new(attribute);
    let mut members = Reader::new(outer.field(Field::sequence("pkcs10Attribute")).ok()?.contents);
    let oid = asn1::oid(members.field(Field::OID).ok()?.contents).ok()?;
    let first = Reader::new(members.field(Field::set("")).ok()?.contents).all(Field::ANY).ok()?.next()?;
    (outer.is_empty() && oid == EXTENSIONS).then_some(first.whole)
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::Value;

    use super::*;

    /// Errors of Go that are known to have another text here.
    fn comparable(text: &str) -> String {
        // Go prints where the number of a tag is in memory.
        let text = match (text.find("tag:0x"), text.find(" stringType")) {
            (Some(begin), Some(end)) => format!("{}tag:0{}", &text[..begin], &text[end..]),
            _ => text.to_owned(),
        };
        let is_time = text.starts_with("parsing time") || text.starts_with("asn1: time did not");
        if is_time { "a time".to_owned() } else { text }
    }

    /// Random requests with what Go reads in them: `tests/differential/requests` writes them, and `WATCHCACHE_TEST_CERTIFICATE_REQUESTS` may name a file with
    /// more.
    #[test]
    fn requests_say_what_go_reads() {
        let recorded = match std::env::var("WATCHCACHE_TEST_CERTIFICATE_REQUESTS") {
            Ok(path) => std::fs::read_to_string(path).expect("the file is there"),
            Err(_) => include_str!("../../tests/data/certificates/requests.jsonl").to_owned(),
        };
        let (mut wrong, mut count) = (Vec::new(), 0);
        for line in recorded.lines() {
            let theirs: Value = serde_json::from_str(line).expect("JSON");
            let text = |member: &str| theirs[member].as_str().unwrap_or_default();
            let organizations: Vec<&str> = theirs["organizations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let pem = BASE64_STANDARD.decode(text("request")).expect("base64");
            let is_same = match CertificateRequest::from_pem(&pem) {
                Ok(ours) => {
                    let signature = ours.check_signature().err().unwrap_or_default();
                    ours.names.common_name == text("commonName")
                        && ours.names.organizations == organizations
                        && text("error").is_empty()
                        && signature == text("signature")
                }
                Err(why) => comparable(&why) == comparable(text("error")),
            };
            count += 1;
            if !is_same {
                wrong.push(format!("{line}\n  ours: {:?}", CertificateRequest::from_pem(&pem)));
            }
        }
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
        assert!(count >= 200, "{count}");
    }
}
