//! What the TLS listener speaks with: versions, suites, and a certificate for the name that a client asks for. Made anew when the files change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DEFAULT_VERSIONS, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::settings::TlsFiles;
use super::tickets::Tickets;
use reload::{FileError, Named, Reload, Reloaded, Wrong};

static ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The files, and what follows from them now.
pub struct Tls {
    files: Files,
    current: ArcSwap<Current>,
}

struct Files {
    provider: Arc<CryptoProvider>,
    versions: &'static [&'static SupportedProtocolVersion],
    /// `--tls-cert-file` and `--tls-private-key-file`.
    pair: Reloaded<CertifiedKey>,
    /// `--tls-sni-cert-key`, with the names that the flag gives.
    named: Vec<(Vec<String>, Reloaded<CertifiedKey>)>,
    /// `--tls-session-ticket-key-file`.
    tickets: Reloaded<Tickets>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// For clients that come to one of these addresses and ask for no name.
    by_address: HashMap<IpAddr, Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files of the listener.
    ///
    /// # Errors
    /// One that cannot be read or makes no sense.
    pub(super) fn load(listener: &TlsFiles, verifier: Option<Arc<dyn ClientCertVerifier>>) -> Result<Tls, FileError> {
        let pair = |flags: [&'static str; 2], cert: &Path, key: &Path| {
            let [cert, key] = [(flags[0], cert), (flags[1], key)].map(|(flag, path)| Named { flag, path: path.to_owned() });
            Reloaded::load(vec![cert, key], certified_key)
        };
        let named = listener.named.iter().map(|named| {
            let pair = pair(["--tls-sni-cert-key"; 2], &named.cert_file, &named.key_file)?;
            Ok((named.names.clone(), pair))
        });
        let mut provider = aws_lc_rs::default_provider();
        if let Some(suites) = &listener.suites {
            // As in Go, only those of TLS 1.2 can be chosen.
            let is_allowed = |suite: &SupportedCipherSuite| suite.tls13().is_some() || suites.contains(&suite.suite());
            provider.cipher_suites.retain(is_allowed);
        }
        let ticket_keys = listener.ticket_keys.iter().map(|path| Named { flag: "--tls-session-ticket-key-file", path: path.clone() });
        let files = Files {
            provider: Arc::new(provider),
            versions: if listener.only_tls13 { ONLY_TLS13 } else { DEFAULT_VERSIONS },
            pair: pair(["--tls-cert-file", "--tls-private-key-file"], &listener.cert_file, &listener.key_file)?,
            named: named.collect::<Result<_, FileError>>()?,
            tickets: Reloaded::load(ticket_keys.collect(), Tickets::read)?,
        };
        Ok(Tls { current: ArcSwap::from_pointee(files.current(verifier)), files })
    }

    /// For a client that came to this address of ours.
    pub(super) fn acceptor(&self, local: IpAddr) -> TlsAcceptor {
        let current = self.current.load();
        TlsAcceptor::from(Arc::clone(current.by_address.get(&local.to_canonical()).unwrap_or(&current.config)))
    }

    /// What is made of files.
    pub fn reloads(&self) -> impl Iterator<Item = &dyn Reload> {
        let named = self.files.named.iter().map(|(_, pair)| pair as &dyn Reload);
        [&self.files.pair as &dyn Reload, &self.files.tickets].into_iter().chain(named)
    }

    /// New handshakes are made with the files of now, and with the authorities of now.
    pub fn renew(&self, verifier: Option<Arc<dyn ClientCertVerifier>>) {
        self.current.store(Arc::new(self.files.current(verifier)));
    }
}

impl Files {
    fn current(&self, verifier: Option<Arc<dyn ClientCertVerifier>>) -> Current {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(self.versions);
        let builder = builder.expect("TLS 1.3 is there with its suites");
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let named: Vec<_> = self.named.iter().map(|(names, pair)| (names.as_slice(), pair.now())).collect();
        let certificates = Certificates::new(self.pair.now(), &named);
        let addresses = certificates.by_name.iter().filter_map(|(name, key)| Some((name.parse::<IpAddr>().ok()?.to_canonical(), key)));
        let addresses: Vec<_> = addresses.map(|(address, key)| (address, certificates.with_unnamed(Arc::clone(key)))).collect();
        // HTTP/2 is preferred.
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Without keys sessions stay with this configuration.
        config.ticketer = self.tickets.now();
        let at_address = |certificates| {
            let mut config = config.clone();
            config.cert_resolver = Arc::new(certificates);
            Arc::new(config)
        };
        let by_address = addresses.into_iter().map(|(address, certificates)| (address, at_address(certificates))).collect();
        Current { config: Arc::new(config), by_address }
    }
}

/// A certificate with its intermediates, and its key.
fn certified_key(files: &[Vec<u8>]) -> Result<CertifiedKey, Wrong> {
    let [cert, key] = files else { return Err((0, "a certificate and a key are two files".to_owned())) };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(cert).collect::<Result<_, _>>().map_err(|error| (0, format!("not PEM: {error}")))?;
    if chain.is_empty() {
        return Err((0, "no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| (1, "no private key in it".to_owned()))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| (1, error.to_string()))
}

/// Which certificate which client gets: kube-apiserver's rules.
#[derive(Clone, Debug)]
struct Certificates {
    /// In the order in which they are tried when no name decides; at least one.
    all: Vec<Arc<CertifiedKey>>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
    /// Where a client asks for no name.
    unnamed: Option<Arc<CertifiedKey>>,
}

impl Certificates {
    /// A name that a flag gives counts more than one in a certificate, and an earlier flag more than a later one.
    fn new(default: Arc<CertifiedKey>, named: &[(&[String], Arc<CertifiedKey>)]) -> Certificates {
        let mut by_name = HashMap::new();
        let (own, given): (Vec<_>, Vec<_>) = named.iter().partition(|(names, _)| names.is_empty());
        for (names, key) in given {
            for name in *names {
                by_name.entry(name.clone()).or_insert_with(|| Arc::clone(key));
            }
        }
        for (_, key) in own {
            for name in names_of(key) {
                by_name.entry(name).or_insert_with(|| Arc::clone(key));
            }
        }
        let all = [default].into_iter().chain(named.iter().map(|(_, key)| Arc::clone(key))).collect();
        Certificates { all, by_name, unnamed: None }
    }

    fn with_unnamed(&self, key: Arc<CertifiedKey>) -> Certificates {
        Certificates { unnamed: Some(key), ..self.clone() }
    }

    /// The whole name, then `*` for its first label, then the first certificate that is good for the name; else the first.
    fn find(&self, name: Option<&str>, is_usable: impl Fn(&CertifiedKey) -> bool) -> Option<Arc<CertifiedKey>> {
        let first = self.all.first();
        let Some(name) = name.map(str::to_ascii_lowercase) else {
            let usable = || self.all.iter().find(|key| is_usable(key));
            return self.unnamed.as_ref().or_else(usable).or(first).cloned();
        };
        if self.all.len() == 1 {
            return first.cloned();
        }
        let wildcard = || format!("*{}", name.find('.').map_or("", |dot| &name[dot..]));
        let good = || self.all.iter().find(|key| is_good_for(key, &name) && is_usable(key));
        self.by_name.get(&name).or_else(|| self.by_name.get(&wildcard())).or_else(good).or(first).cloned()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name(), |key| key.key.choose_scheme(hello.signature_schemes()).is_some())
    }
}

/// The names that a certificate has: its CN, if that may be a domain, and its DNS names. Addresses are for the flag alone.
fn names_of(key: &CertifiedKey) -> Vec<String> {
    let leaf = key.end_entity_cert().ok().and_then(|leaf| X509Certificate::from_der(leaf).ok());
    let Some((_, leaf)) = leaf else { return Vec::new() };
    let common_name = leaf.subject().iter_common_name().filter_map(|cn| cn.as_str().ok()).last().unwrap_or_default();
    let is_domain = common_name == "*" || is_host_name(common_name.strip_prefix("*.").unwrap_or(common_name));
    let own = Some(common_name).filter(|name| is_domain && name.parse::<IpAddr>().is_err());
    let others = leaf.subject_alternative_name().ok().flatten();
    let others = others.iter().flat_map(|others| &others.value.general_names).filter_map(|other| match other {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    own.into_iter().chain(others).map(str::to_owned).collect()
}

/// Whether it is a name of DNS in lower case.
fn is_host_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    text.chars().all(is_plain) && !text.ends_with('.') && DnsName::try_from(text).is_ok()
}

fn is_good_for(key: &CertifiedKey, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    let leaf = key.end_entity_cert().ok().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
    leaf.is_some_and(|leaf| verify_server_name(&leaf, &name).is_ok())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn key(common_name: &str, names: &[&str]) -> Arc<CertifiedKey> {
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let pair = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&pair).expect("signed").pem();
        Arc::new(certified_key(&[cert.into_bytes(), pair.serialize_pem().into_bytes()]).expect("a pair"))
    }

    /// Who gets what: numbers of the keys, 0 is the default.
    fn chosen<'n>(keys: &[(&[&str], Arc<CertifiedKey>)], names: impl IntoIterator<Item = &'n str>) -> Vec<usize> {
        let given: Vec<Vec<String>> = keys.iter().map(|(names, _)| names.iter().map(|name| (*name).to_owned()).collect()).collect();
        let named: Vec<_> = given.iter().zip(keys).map(|(names, (_, key))| (names.as_slice(), Arc::clone(key))).collect();
        let certificates = Certificates::new(Arc::clone(&named[0].1), &named[1..]);
        let number = |name: &str| {
            let found = certificates.find(Some(name).filter(|name| !name.is_empty()), |_| true).expect("there is one");
            named.iter().position(|(_, key)| Arc::ptr_eq(key, &found)).expect("one of them")
        };
        names.into_iter().map(number).collect()
    }

    #[test]
    fn names_are_those_of_the_flag_then_those_of_the_certificate() {
        let keys: [(&[&str], _); 5] = [
            (&[], key("default", &["default.example"])),
            (&[], key("own.example", &["a.example", "*.wild.example", "10.0.0.1"])),
            (&["a.example", "*.b.example"], key("given", &["c.example"])),
            (&["a.example", "b.example"], key("later", &[])),
            (&[], key("*.b.example", &["a.example", "b.example", "d.example"])),
        ];
        let asked = [
            ("a.example", 2),
            ("A.Example", 2),
            ("b.example", 3),
            ("x.b.example", 2),
            ("x.y.b.example", 0),
            ("own.example", 1),
            ("x.wild.example", 1),
            ("wild.example", 0),
            ("d.example", 4),
            // In no flag and no list of names, but the certificate is good for it.
            ("c.example", 2),
            ("default.example", 0),
            ("nobody.example", 0),
            ("", 0),
        ];
        let found = chosen(&keys, asked.map(|(name, _)| name));
        assert_eq!(found, asked.map(|(_, number)| number));
        assert_eq!(chosen(&keys[..1], ["a.example", "x", ""]), [0, 0, 0]);
    }

    #[test]
    fn who_asks_for_no_name_is_told_apart_by_address() {
        let (default, other) = (key("default", &[]), key("other", &[]));
        let names = ["192.0.2.7".to_owned()];
        let certificates = Certificates::new(Arc::clone(&default), &[(&names, Arc::clone(&other))]);
        let found = |certificates: &Certificates, name| certificates.find(name, |_| true).expect("there is one");
        assert!(Arc::ptr_eq(&found(&certificates, None), &default));
        let at_address = certificates.with_unnamed(Arc::clone(&certificates.by_name["192.0.2.7"]));
        assert!(Arc::ptr_eq(&found(&at_address, None), &other) && Arc::ptr_eq(&found(&at_address, Some("default")), &default));
        let usable = certificates.find(None, |key| std::ptr::eq(key, &*other)).expect("there is one");
        assert!(Arc::ptr_eq(&usable, &other), "the first one that the client can verify");
    }

    #[test]
    fn a_common_name_that_is_no_domain_is_no_name() {
        for (common_name, names) in [("*", &["*"][..]), ("*.a.b", &["*.a.b"]), ("192.0.2.7", &[]), ("Some Body", &[]), ("", &[])] {
            assert_eq!(names_of(&key(common_name, &[])), names, "{common_name}");
        }
    }
}
