//! Flags about TLS itself: versions, suites and certificates for single names. The names of versions and suites are Go's, as kube-apiserver's are.

use rustls::CipherSuite;
use server::NamedPair;

/// Reads `CERT,KEY` or `CERT,KEY:NAME,...`, with kube-apiserver's words about what is wrong.
pub(super) fn named_pair(text: &str) -> Result<NamedPair, String> {
    let (files, names) = match text.split_once(':') {
        Some((_, names)) if names.trim().is_empty() => return Err("empty names list is not allowed".to_owned()),
        Some((files, names)) => (files, names.trim().split(',').map(|name| name.trim().to_owned()).collect()),
        None => (text, Vec::new()),
    };
    let files: Vec<&str> = files.trim().split(',').map(str::trim).collect();
    match files[..] {
        [cert, key] => Ok(NamedPair { names, cert_file: cert.into(), key_file: key.into() }),
        _ => Err("expected comma separated certificate and key file paths".to_owned()),
    }
}

/// Whether `--tls-min-version` leaves only TLS 1.3.
pub(super) fn only_tls13(name: Option<&str>) -> Result<bool, String> {
    match name.unwrap_or_default() {
        "" | "VersionTLS12" => Ok(false),
        "VersionTLS13" => Ok(true),
        old @ ("VersionTLS10" | "VersionTLS11") => {
            Err(format!("--tls-min-version: {old} is not supported, because it is not secure; there are VersionTLS12 and VersionTLS13"))
        }
        other => Err(format!("--tls-min-version: unknown tls version {}", go::quote::quoted(other))),
    }
}

/// The suites that there are, by Go's names; two have an older name besides. Those of TLS 1.3 are always on, as in Go.
const SUITES: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// What Go has besides: CBC, RC4, 3DES, and RSA as key exchange. kube-apiserver takes these names.
const ONLY_IN_GO: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The suites of `--tls-cipher-suites`; none when the flag does not say.
pub(super) fn suites(names: &[String]) -> Result<Option<Vec<CipherSuite>>, String> {
    if names.is_empty() || names == [""] {
        return Ok(None);
    }
    let suite = |name: &String| match SUITES.iter().find(|(known, _)| known == name) {
        Some((_, suite)) => Ok(*suite),
        None if ONLY_IN_GO.contains(&name.as_str()) => Err(format!(
            "--tls-cipher-suites: {name} is not supported here, because it is not secure; there are only suites with GCM or CHACHA20"
        )),
        None => Err(format!("--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")),
    };
    names.iter().map(suite).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_kube_apiserver_reads_them() {
        let pair = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Ok(NamedPair { names, cert_file: "c".into(), key_file: "k".into() })
        };
        assert_eq!(named_pair("c,k"), pair(&[]));
        assert_eq!(named_pair(" c , k : *.foo.com , foo.com,10.0.0.1"), pair(&["*.foo.com", "foo.com", "10.0.0.1"]));
        assert_eq!(named_pair("c,k:fd00::1"), pair(&["fd00::1"]));
        for (text, wrong) in [
            ("c", "expected comma separated certificate and key file paths"),
            ("c,k,x", "expected comma separated certificate and key file paths"),
            ("c,k: ", "empty names list is not allowed"),
            ("", "expected comma separated certificate and key file paths"),
        ] {
            assert_eq!(named_pair(text), Err(wrong.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn every_suite_of_rustls_has_a_name() {
        let all = rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
        assert!(all.iter().all(|suite| SUITES.iter().any(|(_, known)| *known == suite.suite())));
        assert!(SUITES.iter().all(|(_, known)| all.iter().any(|suite| suite.suite() == *known)));
    }
}
