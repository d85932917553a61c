//! Handshakes: versions, suites, and which certificate a client gets.

use std::net::Ipv4Addr;

use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, SupportedProtocolVersion};

use super::super::super::settings::NamedPair;
use super::*;

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

/// Whether a client that was at one of them is resumed at another one.
async fn resumes(papers: &Papers, servers: [&Tls; 2], own: Option<(String, String)>) -> bool {
    let connector = papers.client(own, &[]);
    let mut kinds = Vec::new();
    for tls in servers {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let accepted = tls.acceptor(IpAddr::V4(Ipv4Addr::LOCALHOST)).accept(theirs);
        let (shaken, accepted) = tokio::join!(connector.connect(ServerName::try_from("localhost").expect("a name"), ours), accepted);
        let (mut client, mut server) = (shaken.expect("connected"), accepted.expect("accepted"));
        // Tickets come after the handshake, before the first byte.
        server.write_all(b"x").await.expect("written");
        server.flush().await.expect("flushed");
        assert_eq!(client.read_u8().await.expect("read"), b'x');
        kinds.push((client.get_ref().1.handshake_kind(), server.get_ref().1.peer_certificates().map(<[_]>::len)));
    }
    assert_eq!((kinds[0].0, kinds[0].1), (Some(HandshakeKind::Full), kinds[1].1), "who the client is stays the same");
    kinds[1].0 == Some(HandshakeKind::Resumed)
}

#[tokio::test]
async fn sessions_are_resumed_where_the_keys_are() {
    let papers = Papers::new();
    for name in ["a", "b", "c"] {
        papers.write(&format!("{name}.ticket"), &name.repeat(48));
    }
    let authenticator = papers.authenticator();
    let with = |keys: &[&str]| {
        let ticket_keys = keys.iter().map(|name| papers.dir.path().join(format!("{name}.ticket"))).collect();
        Tls::load(&TlsFiles { ticket_keys, ..papers.files() }, authenticator.handshake_verifier()).expect("valid")
    };
    let (a, same, both, other, without) = (with(&["a"]), with(&["a"]), with(&["b", "a"]), with(&["c"]), with(&[]));
    let bob = || Some(papers.issue("bob", ExtendedKeyUsagePurpose::ClientAuth));
    assert!(resumes(&papers, [&a, &same], None).await && resumes(&papers, [&a, &both], bob()).await);
    assert!(resumes(&papers, [&without, &without], None).await, "one server resumes its own");
    for [first, second] in [[&a, &other], [&both, &a], [&without, &with(&[])]] {
        assert!(!resumes(&papers, [first, second], bob()).await);
    }
    // A new key counts as soon as it is read.
    papers.write("c.ticket", &"a".repeat(48));
    let found: Vec<bool> = (0..2).map(|_| other.reloads().any(|file| file.look().expect("valid"))).collect();
    assert_eq!(found, [false, true], "what changes is taken when it is at rest");
    other.renew(authenticator.handshake_verifier());
    assert!(resumes(&papers, [&a, &other], None).await);
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
        let files = TlsFiles { named, only_tls13, suites: Some(vec![SUITE]), ..papers.files() };
        Tls::load(&files, papers.authenticator().handshake_verifier()).expect("valid")
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
