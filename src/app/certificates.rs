//! Tells the metrics when the certificates end that this server shows: to its clients, to etcd and to its upstream.

use std::fs;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use ::reload::Named;
use telemetry::Metrics;

/// The flags whose files have a certificate of this server. Of `--tls-sni-cert-key` the files of keys have none.
const SHOWN: [&str; 4] = ["--tls-cert-file", "--tls-sni-cert-key", "--proxy-client-cert-file", ETCD];
/// The one that etcd is shown. It is read once.
pub(super) const ETCD: &str = "--etcd-certfile";

/// Tells the ends of the certificates in these files, which have just come into force.
pub(super) fn show(metrics: &Metrics, files: &[Named]) {
    for file in files.iter().filter(|file| SHOWN.contains(&file.flag)) {
        // Who needs a file that cannot be read says so.
        if let Some(end) = fs::read(&file.path).ok().and_then(|pem| end(&pem)) {
            metrics.certificate_ends.with_label_values(&[file.flag, &file.path.to_string_lossy()]).set(end);
        }
    }
}

/// When the first certificate ends, seconds since 1970: the others are those of authorities.
fn end(pem: &[u8]) -> Option<i64> {
    let leaf = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
    Some(leaf.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_end_is_that_of_the_first_certificate() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let pem = |year| {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).expect("names");
            params.not_after = date_time_ymd(year, 1, 1);
            params.self_signed(&key).expect("signed").pem()
        };
        let file = |flag, name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            Named { flag, path }
        };
        let metrics = Metrics::new();
        let chain = pem(2030) + &pem(2040);
        let files = [
            file("--tls-cert-file", "chain", &chain),
            file("--tls-private-key-file", "key", &key.serialize_pem()),
            file("--tls-sni-cert-key", "other-key", &key.serialize_pem()),
            file("--client-ca-file", "authority", &pem(2050)),
        ];
        show(&metrics, &files);
        let told = || {
            let text = String::from_utf8(metrics.render()).expect("text");
            let lines = text.lines().filter(|line| line.starts_with("watchcache_certificate_"));
            lines.map(|line| line.rsplit_once(' ').expect("a value").1.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(), ["1893456000"]);
        show(&metrics, &[file("--tls-cert-file", "chain", &pem(2031))]);
        assert_eq!(told(), ["1924992000"]);
    }
}
