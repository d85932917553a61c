//! Client certificates: which chains are trusted, and whom they name. Knows no socket.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::user::{AUTHENTICATED, User};

/// What the certificate of a connection is worth.
#[derive(Clone, Debug)]
pub enum ClientCertificate {
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

/// The authorities of `--client-ca-file`.
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

    pub(super) fn handshake_verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AnyCertificate { judge: Arc::clone(&self.verifier) })
    }

    /// Chain, dates and the client-authentication usage by webpki; then the names.
    pub(super) fn judge(&self, leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: SystemTime) -> ClientCertificate {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = self.verifier.verify_client_cert(leaf, rest, UnixTime::since_unix_epoch(since_epoch)) {
            return ClientCertificate::Untrusted(error.to_string());
        }
        named(leaf)
    }
}

/// User and expiry of a certificate whose chain was verified (spec api-surface §12).
fn named(leaf: &CertificateDer<'_>) -> ClientCertificate {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return ClientCertificate::Untrusted("cannot be parsed".to_owned());
    };
    let subject = certificate.subject();
    // Go keeps the last CN.
    let name = subject.iter_common_name().filter_map(|cn| cn.as_str().ok()).last().unwrap_or_default();
    if name.is_empty() {
        return ClientCertificate::Absent;
    }
    let mut groups: Vec<String> = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    let digest: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={digest}")])];
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    ClientCertificate::Trusted {
        user: Arc::new(User { name: name.to_owned(), uid: String::new(), groups, extra }),
        expires: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
    }
}

/// Asks for a certificate and demands that the client holds its key; whether it is trusted is decided after the handshake.
#[derive(Debug)]
struct AnyCertificate {
    judge: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.judge.root_hint_subjects()
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
        let ClientCertificate::Trusted { user, expires } = authorities.judge(&leaf, &[], SystemTime::now()) else { panic!("trusted") };
        assert_eq!((user.name.as_str(), user.groups.join(" ").as_str()), ("jane", "devs system:authenticated"));
        assert!(user.extra[0].1[0].starts_with("X509SHA256=") && expires > SystemTime::now());
    }

    #[test]
    fn strangers_servers_and_the_expired_are_untrusted_and_the_nameless_absent() {
        let (pem, issuer) = authority();
        let authorities = Authorities::from_pem(pem.as_bytes()).expect("valid");
        let (_, stranger) = authority();
        let judge = |leaf: &CertificateDer<'_>| authorities.judge(leaf, &[], SystemTime::now());
        assert!(matches!(judge(&client(&stranger, |_| {})), ClientCertificate::Untrusted(_)));
        let server = client(&issuer, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert!(matches!(judge(&server), ClientCertificate::Untrusted(_)));
        let expired = client(&issuer, |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
        assert!(matches!(judge(&expired), ClientCertificate::Untrusted(_)));
        let nameless = client(&issuer, |params| params.distinguished_name.remove(DnType::CommonName).then_some(()).expect("it had one"));
        assert!(matches!(judge(&nameless), ClientCertificate::Absent));
        assert!(matches!(judge(&CertificateDer::from(vec![1, 2, 3])), ClientCertificate::Untrusted(_)));
    }

    #[test]
    fn an_authority_file_needs_a_certificate() {
        assert_eq!(Authorities::from_pem(b"hello").expect_err("nothing in it"), "no certificate in it");
        assert!(Authorities::from_pem(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
    }
}
