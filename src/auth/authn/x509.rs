//! Client certificates: which chains are trusted, and whom they name. Knows no socket.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::der_parser::oid::Oid;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::service_account::CREDENTIAL_ID;
use crate::reload::Wrong;
use crate::user::User;

/// The attribute of a subject that is the user's uid.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];
const UNPARSED: &str = "cannot be parsed";

/// What the certificate of a connection is worth: as a client's, and as that of the proxy in front.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// As a client's.
    pub standing: Standing,
    /// As the proxy's.
    pub(super) proxy: Proxy,
}

/// What a certificate is worth as a client's.
#[derive(Clone, Debug)]
pub enum Standing {
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
pub struct Presented {
    chain: Vec<CertificateDer<'static>>,
    judged: ArcSwap<(u64, Arc<ClientCertificate>)>,
}

impl Presented {
    /// Judged when the authorities had this generation.
    pub(super) fn new(generation: u64, certificate: ClientCertificate, chain: Vec<CertificateDer<'static>>) -> Presented {
        Presented { chain, judged: ArcSwap::from_pointee((generation, Arc::new(certificate))) }
    }

    /// None was sent.
    #[must_use]
    pub fn none() -> Presented {
        Presented::new(0, ClientCertificate::ABSENT, Vec::new())
    }

    /// Whether one was sent, whatever it is worth.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        !self.chain.is_empty()
    }

    /// What it is worth with the authorities of this generation.
    pub(super) fn judged(&self, generation: u64, judge: impl FnOnce(&[CertificateDer<'_>]) -> ClientCertificate) -> Arc<ClientCertificate> {
        let judged = self.judged.load();
        if judged.0 == generation {
            return Arc::clone(&judged.1);
        }
        let certificate = Arc::new(judge(&self.chain));
        self.judged.store(Arc::new((generation, Arc::clone(&certificate))));
        certificate
    }
}

impl ClientCertificate {
    /// No certificate.
    pub const ABSENT: ClientCertificate = ClientCertificate { standing: Standing::Absent, proxy: Proxy::Absent };

    /// Why a certificate that was sent is of no use at all.
    #[must_use]
    pub fn untrusted(&self) -> Option<&str> {
        match (&self.standing, &self.proxy) {
            (_, Proxy::Trusted(_)) | (Standing::Trusted { .. }, _) => None,
            (Standing::Untrusted(why), _) | (Standing::Absent, Proxy::Untrusted(why)) => Some(why),
            (Standing::Absent, Proxy::Absent) => None,
        }
    }
}

/// The authorities of `--client-ca-file` or `--requestheader-client-ca-file`.
#[derive(Clone, Debug)]
pub(super) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    pub(super) fn from_pem(bytes: &[u8]) -> Result<Authorities, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(aws_lc_rs::default_provider()))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Authorities { verifier })
    }

    /// Of all certificates in these files.
    pub(super) fn of_files(files: &[Vec<u8>]) -> Result<Authorities, Wrong> {
        for (number, pem) in files.iter().enumerate() {
            Authorities::from_pem(pem).map_err(|what| (number, what))?;
        }
        Authorities::from_pem(&files.join(&b"\n"[..])).map_err(|what| (0, what))
    }

    /// Chain, dates and the client-authentication usage by webpki; then the names.
    pub(super) fn judge(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> Standing {
        match self.verify(leaf, rest, now) {
            Ok(()) => named(leaf),
            Err(why) => Standing::Untrusted(why),
        }
    }

    /// The same for the proxy: the name must be one of these, any when there are none.
    pub(super) fn judge_proxy(&self, allowed: &[String], leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> Proxy {
        if let Err(why) = self.verify(leaf, rest, now) {
            return Proxy::Untrusted(why);
        }
        let Ok((_, certificate)) = X509Certificate::from_der(leaf) else { return Proxy::Untrusted(UNPARSED.to_owned()) };
        let name = common_name(certificate.subject());
        if !allowed.is_empty() && !allowed.iter().any(|allowed| allowed == name) {
            return Proxy::Untrusted(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        Proxy::Trusted(end(&certificate))
    }

    fn verify(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> Result<(), String> {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let verified = self.verifier.verify_client_cert(leaf, rest, UnixTime::since_unix_epoch(since_epoch));
        verified.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// What a handshake asks when there are authorities: see [`AnyCertificate`].
pub(super) fn handshake_verifier(authorities: &[Arc<Authorities>]) -> Option<Arc<dyn ClientCertVerifier>> {
    let judge = Arc::clone(&authorities.first()?.verifier);
    let hints = authorities.iter().flat_map(|one| one.verifier.root_hint_subjects()).cloned().collect();
    Some(Arc::new(AnyCertificate { judge, hints }))
}

/// User and expiry of a certificate whose chain was verified (spec api-surface §12).
fn named(leaf: &CertificateDer<'_>) -> Standing {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else { return Standing::Untrusted(UNPARSED.to_owned()) };
    let subject = certificate.subject();
    let name = common_name(subject);
    if name.is_empty() {
        return Standing::Absent;
    }
    let uid = match uid(subject) {
        Ok(uid) => uid.to_owned(),
        Err(why) => return Standing::Untrusted(why),
    };
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    let digest: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])];
    let user = User { name: name.to_owned(), uid, groups, extra }.authenticated();
    Standing::Trusted { user: Arc::new(user), expires: end(&certificate) }
}

/// Go keeps the last one.
fn common_name<'c>(subject: &'c X509Name<'_>) -> &'c str {
    subject.iter_common_name().filter_map(|cn| cn.as_str().ok()).last().unwrap_or_default()
}

/// The uid that a subject may have.
fn uid<'c>(subject: &'c X509Name<'_>) -> Result<&'c str, String> {
    let oid = Oid::from(UID).map_err(|_| UNPARSED.to_owned())?;
    let uids: Result<Vec<&str>, _> = subject.iter_by_oid(&oid).map(|uid| uid.as_str()).collect();
    match uids.as_deref() {
        Err(_) => Err("unable to parse UID into a string".to_owned()),
        Ok([]) => Ok(""),
        Ok([""]) => Err("UID cannot be an empty string".to_owned()),
        Ok([uid]) => Ok(uid),
        Ok(uids) => Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
    }
}

fn end(certificate: &X509Certificate<'_>) -> SystemTime {
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Asks for a certificate and demands that the client holds its key; whether it is trusted is decided after the handshake.
#[derive(Debug)]
struct AnyCertificate {
    judge: Arc<dyn ClientCertVerifier>,
    /// Subjects of all authorities.
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use super::*;

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
        let Standing::Trusted { user, expires } = authorities.judge(&leaf, &[], SystemTime::now()) else { panic!("trusted") };
        assert_eq!((user.name.as_str(), user.groups.join(" ").as_str()), ("jane", "devs system:authenticated"));
        assert!(user.extra[0].1[0].starts_with("X509SHA256=") && expires > SystemTime::now());
    }

    #[test]
    fn strangers_servers_and_the_expired_are_untrusted_and_the_nameless_absent() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let (_, stranger) = authority();
        let judge = |leaf: &CertificateDer<'_>| authorities.judge(leaf, &[], SystemTime::now());
        assert!(matches!(judge(&client(&stranger, |_| {})), Standing::Untrusted(_)));
        let server = client(&issuer, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert!(matches!(judge(&server), Standing::Untrusted(_)));
        let expired = client(&issuer, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
        assert!(matches!(judge(&expired), Standing::Untrusted(_)));
        let nameless = client(&issuer, |params| params.distinguished_name.remove(DnType::CommonName).then_some(()).expect("it had one"));
        assert!(matches!(judge(&nameless), Standing::Absent));
        assert!(matches!(judge(&CertificateDer::from(vec![1, 2, 3])), Standing::Untrusted(_)));
    }

    #[test]
    fn a_subject_may_have_one_uid() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let uid = |uid: &str| {
            let leaf = client(&issuer, |params| params.distinguished_name.push(DnType::CustomDnType(UID.to_vec()), uid));
            authorities.judge(&leaf, &[], SystemTime::now())
        };
        assert!(matches!(uid("7"), Standing::Trusted { user, .. } if user.uid == "7"));
        assert!(matches!(uid(""), Standing::Untrusted(why) if why == "UID cannot be an empty string"));
    }

    #[test]
    fn the_proxy_is_known_by_its_authority_and_its_name() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let judge = |allowed: &[&str], leaf: &CertificateDer<'_>| {
            let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
            authorities.judge_proxy(&allowed, leaf, &[], SystemTime::now())
        };
        let leaf = client(&issuer, |_| {});
        assert!(matches!(judge(&[], &leaf), Proxy::Trusted(end) if end > SystemTime::now()));
        assert!(matches!(judge(&["front", "jane"], &leaf), Proxy::Trusted(_)));
        assert!(
            matches!(judge(&["front"], &leaf), Proxy::Untrusted(why) if why == "x509: subject with cn=jane is not in the allowed list")
        );
        assert!(matches!(judge(&[], &client(&authority().1, |_| {})), Proxy::Untrusted(_)));
    }

    #[test]
    fn an_authority_file_needs_a_certificate() {
        assert_eq!(Authorities::from_pem(b"hello").expect_err("nothing in it"), "no certificate in it");
        assert!(Authorities::from_pem(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
    }
}
