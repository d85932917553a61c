//! Client certificates: which chains are trusted, and whom they name.

mod handshake;
#[cfg(test)]
mod made;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::x509::certificate::Certificate;
use ::x509::pem;
use ::x509::verify::{ChainVerifier, Purpose};
use arc_swap::ArcSwap;
use rustls::DistinguishedName;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest, Sha256};

use super::service_account::CREDENTIAL_ID;
use crate::user::User;
use handshake::AnyCertificate;
use reload::Wrong;

pub use handshake::refused_certificate;

/// What the certificate of a connection is worth: as a client's, and as that of the proxy in front.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// As a client's.
    pub trust: CertificateTrust,
    /// As the proxy's.
    pub(super) proxy: Proxy,
}

/// What a certificate is worth as a client's.
#[derive(Clone, Debug)]
pub enum CertificateTrust {
    /// None was sent, or one without a CN, which names nobody.
    Absent,
    /// Chains to a configured authority.
    Trusted {
        /// CN and O.
        user: Arc<User>,
        /// After this it is worth nothing, also on a connection that is already open.
        expires: SystemTime,
    },
    /// Sent, and not trusted: 401. The text is for the log.
    Untrusted(String),
}

/// What a certificate is worth as the proxy's.
#[derive(Clone, Debug)]
pub(super) enum Proxy {
    /// None was sent, or there is no proxy.
    Absent,
    /// What its headers say is believed until then.
    Trusted(SystemTime),
    /// Not the proxy.
    Untrusted(String),
}

/// The certificates that a client has sent in its handshake, with the last judgement about them.
#[derive(Debug)]
pub struct PresentedChain {
    chain: Vec<CertificateDer<'static>>,
    evaluated: ArcSwap<(u64, Arc<ClientCertificate>)>,
}

impl PresentedChain {
    /// Judged when the authorities had this generation.
    pub(super) fn new(generation: u64, certificate: ClientCertificate, chain: Vec<CertificateDer<'static>>) -> PresentedChain {
        PresentedChain { chain, evaluated: ArcSwap::from_pointee((generation, Arc::new(certificate))) }
    }

    /// None was sent.
    #[must_use]
    pub fn none() -> PresentedChain {
        PresentedChain::new(0, ClientCertificate::ABSENT, Vec::new())
    }

    /// Whether one was sent, whatever it is worth.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        !self.chain.is_empty()
    }

    /// What it is worth with the authorities of this generation.
    pub(super) fn evaluated(
        &self,
        generation: u64,
        evaluate: impl FnOnce(&[CertificateDer<'_>]) -> ClientCertificate,
    ) -> Arc<ClientCertificate> {
        let evaluated = self.evaluated.load();
        if evaluated.0 == generation {
            return Arc::clone(&evaluated.1);
        }
        let certificate = Arc::new(evaluate(&self.chain));
        self.evaluated.store(Arc::new((generation, Arc::clone(&certificate))));
        certificate
    }
}

impl ClientCertificate {
    /// No certificate.
    pub const ABSENT: ClientCertificate = ClientCertificate { trust: CertificateTrust::Absent, proxy: Proxy::Absent };

    /// Why a certificate that was sent is of no use at all.
    #[must_use]
    pub fn untrusted(&self) -> Option<&str> {
        match (&self.trust, &self.proxy) {
            (_, Proxy::Trusted(_)) | (CertificateTrust::Trusted { .. }, _) => None,
            (CertificateTrust::Untrusted(why), _) | (CertificateTrust::Absent, Proxy::Untrusted(why)) => Some(why),
            (CertificateTrust::Absent, Proxy::Absent) => None,
        }
    }
}

/// The authorities of `--client-ca-file` or `--requestheader-client-ca-file`.
#[derive(Clone, Debug)]
pub(super) struct Authorities {
    roots: Vec<Root>,
}

/// One authority.
#[derive(Clone, Debug)]
struct Root {
    der: CertificateDer<'static>,
    subject: Vec<u8>,
}

impl Authorities {
    /// Reads the blocks of certificates; others, and those with headers, are passed over as Go passes them over.
    pub(super) fn from_pem(bytes: &[u8]) -> Result<Authorities, String> {
        let mut roots = Vec::new();
        for der in pem::certificates(bytes).map(CertificateDer::from) {
            let subject = Certificate::read(&der).map_err(|why| format!("a certificate cannot be parsed: {why}"))?.subject.to_vec();
            roots.push(Root { der, subject });
        }
        if roots.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        Ok(Authorities { roots })
    }

    /// Of all certificates in these files.
    pub(super) fn of_files(files: &[Vec<u8>]) -> Result<Authorities, Wrong> {
        for (number, pem) in files.iter().enumerate() {
            Authorities::from_pem(pem).map_err(|what| (number, what))?;
        }
        Authorities::from_pem(&files.join(&b"\n"[..])).map_err(|what| (0, what))
    }

    /// Chain, dates and usage, as Go judges them; then the names.
    pub(super) fn evaluate(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> CertificateTrust {
        match self.verify(leaf, rest, now) {
            Ok(certificate) => named(&certificate),
            Err(why) => CertificateTrust::Untrusted(why),
        }
    }

    /// The same for the proxy: the name must be one of these, any when there are none.
    pub(super) fn evaluate_proxy(
        &self,
        allowed: &[String],
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Proxy {
        let certificate = match self.verify(leaf, rest, now) {
            Ok(certificate) => certificate,
            Err(why) => return Proxy::Untrusted(why),
        };
        let name = &certificate.names.common_name;
        if !allowed.is_empty() && !allowed.contains(name) {
            return Proxy::Untrusted(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        Proxy::Trusted(end(&certificate))
    }

    fn verify<'d>(&self, leaf: &'d CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> Result<Certificate<'d>, String> {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let certificate = read(leaf)?;
        let others = rest.iter().map(|other| read(other)).collect::<Result<Vec<_>, _>>()?;
        let issuers: Vec<&[u8]> = [&certificate].into_iter().chain(&others).map(|certificate| certificate.issuer).collect();
        let may_count = |root: &&Root| root.der == *leaf || issuers.contains(&&root.subject[..]);
        let roots = self.roots.iter().filter(may_count).map(|root| read(&root.der)).collect::<Result<Vec<_>, _>>()?;
        let now = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        ChainVerifier { roots: &roots, others: &others, now, purpose: Purpose::Client }.evaluate(&certificate)?;
        Ok(certificate)
    }

    /// The authorities themselves, but for those that have expired.
    pub(super) fn certificates(&self, now: SystemTime) -> impl Iterator<Item = &CertificateDer<'static>> {
        let counts = move |root: &&Root| Certificate::read(&root.der).is_ok_and(|certificate| now <= end(&certificate));
        self.roots.iter().filter(counts).map(|root| &root.der)
    }
}

fn read(bytes: &[u8]) -> Result<Certificate<'_>, String> {
    Certificate::read(bytes).map_err(String::from)
}

/// What a handshake asks when there are authorities: see [`AnyCertificate`].
pub(super) fn handshake_verifier(authorities: &[Arc<Authorities>]) -> Option<Arc<dyn ClientCertVerifier>> {
    authorities.first()?;
    let hints = authorities.iter().flat_map(|one| &one.roots).map(|root| DistinguishedName::from(root.subject.clone()));
    Some(Arc::new(AnyCertificate::new(hints.collect())))
}

/// User and expiry of a certificate whose chain was verified (spec api-surface §12).
fn named(certificate: &Certificate<'_>) -> CertificateTrust {
    let names = &certificate.names;
    if names.common_name.is_empty() {
        return CertificateTrust::Absent;
    }
    let uid = match names.uid() {
        Ok(uid) => uid.to_owned(),
        Err(why) => return CertificateTrust::Untrusted(why),
    };
    let digest: String = Sha256::digest(certificate.raw).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])];
    let user = User { name: names.common_name.clone(), uid, groups: names.organizations.clone(), extra }.authenticated();
    CertificateTrust::Trusted { user: Arc::new(user), expires: end(certificate) }
}

/// When the first certificate of a PEM text ends, in seconds of Unix time; none when the first block is none that can be read.
#[must_use]
pub fn not_after(text: &[u8]) -> Option<i64> {
    let (block, _) = pem::decode(text)?;
    Certificate::read_all(&block.bytes).ok()?.first().map(|certificate| certificate.not_after)
}

fn end(certificate: &Certificate<'_>) -> SystemTime {
    let seconds = u64::try_from(certificate.not_after).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use super::*;

    /// The attribute of a subject that is the user's uid.
    const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

    fn authority() -> (String, Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        (pem, Issuer::new(params, key))
    }

    fn client(issuer: &Issuer<'_, KeyPair>, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        change(&mut params);
        params.signed_by(&KeyPair::generate().expect("a key"), issuer).expect("signed").der().clone()
    }

    #[test]
    fn common_name_is_the_user_and_organization_the_group() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let leaf = client(&issuer, |_| {});
        let CertificateTrust::Trusted { user, expires } = authorities.evaluate(&leaf, &[], SystemTime::now()) else { panic!("trusted") };
        assert_eq!((user.name.as_str(), user.groups.join(" ").as_str()), ("jane", "devs system:authenticated"));
        assert!(user.extra[0].1[0].starts_with("X509SHA256=") && expires > SystemTime::now());
    }

    #[test]
    fn strangers_servers_and_the_expired_are_untrusted_and_the_nameless_absent() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let (_, stranger) = authority();
        let evaluate = |leaf: &CertificateDer<'_>| authorities.evaluate(leaf, &[], SystemTime::now());
        assert!(matches!(evaluate(&client(&stranger, |_| {})), CertificateTrust::Untrusted(_)));
        let server = client(&issuer, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert!(matches!(evaluate(&server), CertificateTrust::Untrusted(_)));
        let expired = client(&issuer, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
        assert!(matches!(evaluate(&expired), CertificateTrust::Untrusted(_)));
        let nameless = client(&issuer, |params| params.distinguished_name.remove(DnType::CommonName).then_some(()).expect("it had one"));
        assert!(matches!(evaluate(&nameless), CertificateTrust::Absent));
        assert!(matches!(evaluate(&CertificateDer::from(vec![1, 2, 3])), CertificateTrust::Untrusted(_)));
    }

    #[test]
    fn a_subject_may_have_one_uid() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let uid = |uid: &str| {
            let leaf = client(&issuer, |params| params.distinguished_name.push(DnType::CustomDnType(UID.to_vec()), uid));
            authorities.evaluate(&leaf, &[], SystemTime::now())
        };
        assert!(matches!(uid("7"), CertificateTrust::Trusted { user, .. } if user.uid == "7"));
        assert!(matches!(uid(""), CertificateTrust::Untrusted(why) if why == "UID cannot be an empty string"));
    }

    #[test]
    fn the_proxy_is_known_by_its_authority_and_its_name() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let evaluate = |allowed: &[&str], leaf: &CertificateDer<'_>| {
            let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
            authorities.evaluate_proxy(&allowed, leaf, &[], SystemTime::now())
        };
        let leaf = client(&issuer, |_| {});
        assert!(matches!(evaluate(&[], &leaf), Proxy::Trusted(end) if end > SystemTime::now()));
        assert!(matches!(evaluate(&["front", "jane"], &leaf), Proxy::Trusted(_)));
        assert!(
            matches!(evaluate(&["front"], &leaf), Proxy::Untrusted(why) if why == "x509: subject with cn=jane is not in the allowed list")
        );
        assert!(matches!(evaluate(&[], &client(&authority().1, |_| {})), Proxy::Untrusted(_)));
    }

    #[test]
    fn an_authority_file_needs_a_certificate() {
        assert_eq!(Authorities::from_pem(b"hello").expect_err("nothing in it"), "no certificate in it");
        assert!(Authorities::from_pem(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
    }
}
