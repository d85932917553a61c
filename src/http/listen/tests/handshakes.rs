//! Handshakes: versions, suites, and which certificate a client gets.

use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ProtocolVersion, SupportedProtocolVersion};

use super::*;
use crate::config::NamedPair;

const SUITE: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;

/// What a handshake with this name came to: version, suite, and the certificate. None when there was none.
async fn shake(papers: &Papers, tls: &Tls, version: &'static SupportedProtocolVersion, name: &'static str) -> Option<Shaken> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(papers.authority_pem.as_bytes()).expect("PEM")).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let accepted = tls.acceptor(IpAddr::V4(Ipv4Addr::LOCALHOST)).accept(theirs);
    let name = ServerName::try_from(name).expect("a name");
    let connector = TlsConnector::from(Arc::new(client));
    let (shaken, _accepted) = tokio::join!(connector.connect(name, ours), accepted);
    let stream = shaken.ok()?;
    let connection = stream.get_ref().1;
    let certificate = connection.peer_certificates()?.first()?.clone().into_owned();
    Some(Shaken { version: connection.protocol_version()?, suite: connection.negotiated_cipher_suite()?.suite(), certificate })
}

struct Shaken {
    version: ProtocolVersion,
    suite: CipherSuite,
    certificate: CertificateDer<'static>,
}

#[tokio::test]
async fn versions_suites_and_certificates_are_those_of_the_flags() {
    let papers = Papers::new();
    let names = ["127.0.0.1", "x.a.example", "b.example"].map(str::to_owned);
    let key = KeyPair::generate().expect("a key");
    let other = CertificateParams::new(names).expect("names").signed_by(&key, &papers.issuer).expect("signed");
    papers.write("other.pem", &other.pem());
    papers.write("other.key", &key.serialize_pem());
    let path = |name: &str| papers.dir.path().join(name);
    let load = |only_tls13| {
        let names = vec!["127.0.0.1".to_owned(), "*.a.example".to_owned()];
        let named = vec![NamedPair { names, cert_file: path("other.pem"), key_file: path("other.key") }];
        let listener = SecureListener { named, only_tls13, suites: Some(vec![SUITE]), ..papers.listener() };
        Tls::load(&listener, &papers.authenticator()).expect("valid")
    };
    let tls = load(false);
    let old = shake(&papers, &tls, &TLS12, "localhost").await.expect("TLS 1.2 is on");
    assert_eq!((old.version, old.suite), (ProtocolVersion::TLSv1_2, SUITE));
    let new = shake(&papers, &tls, &TLS13, "localhost").await.expect("the suites of TLS 1.3 are on");
    assert_eq!(new.version, ProtocolVersion::TLSv1_3);
    assert!(old.certificate == new.certificate && new.certificate != *other.der());
    // Who comes to an address asks for no name.
    for name in ["127.0.0.1", "X.a.example", "b.example"] {
        let shaken = shake(&papers, &tls, &TLS13, name).await.expect("there is a certificate for it");
        assert_eq!(shaken.certificate, *other.der(), "{name}");
    }
    assert!(shake(&papers, &tls, &TLS13, "nobody.example").await.is_none(), "the certificate is for localhost");
    let tls = load(true);
    assert!(shake(&papers, &tls, &TLS12, "localhost").await.is_none() && shake(&papers, &tls, &TLS13, "localhost").await.is_some());
}
