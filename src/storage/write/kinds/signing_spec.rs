//! What a CertificateSigningRequest asks for, and what it was given (`pkg/apis/certificates/validation`).

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use x509::certificate::Certificate;
use x509::pem;
use x509::request::CertificateRequest;

use crate::write::{metadata, tree};
use catalogue::NameRule;
use go::quote::quoted;
use model::invalid::FieldError;
use model::legal::wrong_subdomain;

/// Every usage there is.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The signer of requests that name none, in versions that are gone.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Bytes of a DNS subdomain.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Bytes of a signer's name: its domain, a slash, and room for a label and a subdomain.
const SIGNER_BYTES_MAX: usize = SUBDOMAIN_BYTES_MAX + 1 + 63 + 1 + SUBDOMAIN_BYTES_MAX;
/// The shortest life that may be asked for.
const EXPIRATION_SECONDS_MIN: i64 = 600;

/// What is wrong with what a request asks for. Usages and a signer that are wrong in the old one may stay.
pub(super) fn wrong_spec(request: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Err(why) = wrong_request(tree::text(request, &["spec", "request"])) {
        let shown = tree::at(request, &["spec", "request"]).unwrap_or(&Value::Null);
        errors.push(FieldError::invalid("spec.request", shown, &why));
    }
    let (usages, known) = (tree::texts(request, &["spec", "usages"]), old.map(|old| tree::texts(old, &["spec", "usages"])));
    errors.extend(wrong_usages(&usages, known.as_deref().unwrap_or_default()));
    let signer = tree::text(request, &["spec", "signerName"]);
    let was_legacy = old.is_some_and(|old| tree::text(old, &["spec", "signerName"]) == LEGACY_SIGNER);
    if signer == LEGACY_SIGNER && !was_legacy {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid("spec.signerName", &signer.into(), why));
    } else {
        errors.extend(wrong_signer(signer));
    }
    if let Some(seconds) = tree::integer(request, &["spec", "expirationSeconds"]).filter(|seconds| *seconds < EXPIRATION_SECONDS_MIN) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", &seconds.into(), why));
    }
    errors
}

/// What is wrong with a certificate that a request was given now; one that was wrong before may be replaced by another wrong one.
pub(super) fn wrong_certificate(request: &Value, old: Option<&Value>) -> Option<FieldError> {
    let of = |request| tree::text(request, &["status", "certificate"]);
    let is_lenient = old.is_some_and(|old| of(old) == of(request) || wrong_chain(of(old)).is_err());
    let why = wrong_chain(of(request)).err().filter(|_| !is_lenient)?;
    Some(FieldError::invalid("status.certificate", &"<certificate data>".into(), &why))
}

/// Why this is no request, or not signed by whoever has its key.
fn wrong_request(request: &str) -> Result<(), String> {
    let text = BASE64_STANDARD.decode(request).unwrap_or_default();
    CertificateRequest::from_pem(&text).map_err(String::from)?.check_signature()
}

/// Why these are no PEM blocks of certificates.
fn wrong_chain(certificate: &str) -> Result<(), String> {
    let text = BASE64_STANDARD.decode(certificate).unwrap_or_default();
    let mut is_empty = true;
    for block in pem::blocks(&text) {
        is_empty = false;
        if block.label != pem::CERTIFICATE {
            let label = quoted(&String::from_utf8_lossy(block.label));
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if Certificate::read_all(&block.bytes)?.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
    }
    if is_empty && !text.is_empty() { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}

fn wrong_usages(usages: &[&str], old: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let is_unknown = |usage: &&str| !USAGES.contains(usage);
    let each = || usages.iter().enumerate().map(|(at, usage)| (format!("spec.usages[{at}]"), usage));
    if !old.iter().any(is_unknown) {
        errors.extend(
            each().filter(|(_, usage)| is_unknown(usage)).map(|(at, usage)| FieldError::not_supported(at, &(*usage).into(), &USAGES)),
        );
    }
    let mut seen = HashSet::new();
    if old.iter().all(|usage| seen.insert(*usage)) {
        seen.clear();
        errors.extend(each().filter(|(_, usage)| !seen.insert(**usage)).map(|(at, usage)| FieldError::duplicate(at, &(*usage).into())));
    }
    errors
}

/// What is wrong with the name of a signer: a domain, a slash, a path of subdomains.
fn wrong_signer(signer: &str) -> Vec<FieldError> {
    const AT: &str = "spec.signerName";
    if signer.is_empty() {
        return vec![FieldError::required(AT, "")];
    }
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![FieldError::invalid(AT, &signer.into(), why)];
    };
    let mut errors = Vec::new();
    if domain.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(FieldError::too_long(AT, SUBDOMAIN_BYTES_MAX));
    }
    // Only the first label that is wrong is told.
    let told = |part: &str, wrong: &dyn Fn(&str) -> Vec<String>| -> Vec<FieldError> {
        let first = part.split('.').find_map(|label| Some((label, wrong(label))).filter(|(_, why)| !why.is_empty()));
        let (label, whys) = first.unwrap_or_default();
        whys.iter().map(|why| FieldError::invalid(AT, &part.into(), &format!("validating label {}: {why}", quoted(label)))).collect()
    };
    errors.extend(told(domain, &|label| metadata::wrong_name(NameRule::Label, label, false)));
    if !domain.contains('.') {
        errors.push(FieldError::invalid(AT, &domain.into(), "should be a domain with at least two segments separated by dots"));
    }
    errors.extend(told(path, &wrong_subdomain));
    if signer.len() > SIGNER_BYTES_MAX {
        errors.push(FieldError::too_long(AT, SIGNER_BYTES_MAX));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JOE: &str = include_str!("../../../../tests/data/certificates/joe.pem");

    fn told(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    fn request(pem: &str, signer: &str, usages: &[&str]) -> Value {
        json!({"spec": {"request": BASE64_STANDARD.encode(pem), "signerName": signer, "usages": usages}})
    }

    #[test]
    fn what_is_asked_for_must_be_a_request_of_a_signer() {
        let good = request(JOE, "example.com/a.b", &["client auth"]);
        assert_eq!(told(wrong_spec(&good, None)), [""; 0]);
        let none = told(wrong_spec(&json!({"spec": {}}), None));
        let wanted = [
            "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST",
            "spec.usages: Required value",
            "spec.signerName: Required value",
        ];
        assert_eq!(none, wanted);
        let odd = told(wrong_spec(&request(JOE, "a/B", &["any", "x", "any"]), None));
        assert!(odd[0].starts_with("spec.usages[1]: Unsupported value: \"x\": supported values: \"any\", \"cert sign\""), "{odd:?}");
        assert_eq!(odd[1], "spec.usages[2]: Duplicate value: \"any\"");
        assert_eq!(odd[2], "spec.signerName: Invalid value: \"a\": should be a domain with at least two segments separated by dots");
        assert!(
            odd[3].starts_with("spec.signerName: Invalid value: \"B\": validating label \"B\": a lowercase RFC 1123 subdomain"),
            "{odd:?}"
        );
        let known = request(JOE, "kubernetes.io/legacy-unknown", &["x", "x"]);
        assert_eq!(told(wrong_spec(&known, Some(&known))), [""; 0], "what was wrong may stay");
        assert_eq!(
            told(wrong_spec(&known, Some(&good))).pop().as_deref(),
            Some(
                r#"spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version"#
            )
        );
        let mut short = good;
        short["spec"]["expirationSeconds"] = 599.into();
        let wanted = "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)";
        assert_eq!(told(wrong_spec(&short, None)), [wanted]);
    }

    #[test]
    fn a_certificate_is_blocks_of_certificates() {
        let of = |pem: &str| json!({"status": {"certificate": BASE64_STANDARD.encode(pem)}});
        let why = |pem: &str| wrong_certificate(&of(pem), Some(&of(""))).map(|error| error.message);
        let wrong = |why: &str| Some(format!("Invalid value: \"<certificate data>\": {why}"));
        assert_eq!(why(""), None);
        assert_eq!(why("x"), wrong("must contain at least one CERTIFICATE PEM block"));
        assert_eq!(why(JOE), wrong("only CERTIFICATE PEM blocks are allowed, found \"CERTIFICATE REQUEST\""));
        let block = |contents: &str| format!("-----BEGIN CERTIFICATE-----\n{contents}\n-----END CERTIFICATE-----\n");
        assert_eq!(why(&block("a: b\n")), wrong("no PEM block headers are permitted"));
        assert_eq!(why(&block("")), wrong("found CERTIFICATE PEM block containing 0 certificates"));
        assert_eq!(why(&block("AQID")), wrong("x509: malformed certificate"));
        assert_eq!(wrong_certificate(&of("x"), Some(&of("x"))), None, "nothing changes");
        assert_eq!(wrong_certificate(&of("y"), Some(&of("x"))), None, "it was wrong before");
    }
}
