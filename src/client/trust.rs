//! Which certificates of servers are trusted, as TLS settings.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use x509::certificate::{self as read, Certificate as Read};
use x509::handshake;
use x509::verify::{ChainVerifier, Purpose};

/// Whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority of this machine has signed. `SSL_CERT_FILE` and `SSL_CERT_DIR` say where they are, as for Go.
    System,
    /// Those that one of these authorities has signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// Anyone's: `insecure-skip-tls-verify`.
    Anyone,
}

impl Trust {
    /// The authorities of a PEM bundle. Blocks that are none are passed over, as Go passes them over.
    ///
    /// # Errors
    /// When there is none in it.
    pub fn from_pem(text: &[u8]) -> Result<Trust, String> {
        let found = read::authorities(text)?;
        Ok(Trust::Authorities(found.into_iter().map(CertificateDer::from).collect()))
    }

    /// The authorities that chains may end in; none where everybody is trusted.
    fn roots(&self) -> Option<Vec<CertificateDer<'static>>> {
        match self {
            Trust::Anyone => None,
            Trust::System => Some(rustls_native_certs::load_native_certs().certs),
            Trust::Authorities(all) => Some(all.clone()),
        }
    }
}

/// The certificate that we show, and its key.
pub(crate) type Certificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Of PEM files.
pub(crate) fn certificate(certificates: &[u8], key: &[u8]) -> Result<Certificate, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if chain.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    Ok((chain, PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("its key: {error}"))?))
}

/// The TLS settings of a client.
pub(crate) fn settings(trust: &Trust, certificate: Option<&Certificate>) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let schemes = provider.signature_verification_algorithms;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting { roots: trust.roots(), schemes }));
    match certificate {
        Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|error| error.to_string()),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Believes what Go believes: a chain to an authority, or an authority's own certificate. Without authorities every certificate, but not that somebody has its
/// key who has not.
#[derive(Debug)]
struct Trusting {
    roots: Option<Vec<CertificateDer<'static>>>,
    schemes: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (leaf, others) = handshake::read(leaf, others.iter().map(AsRef::as_ref))?;
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let names: Vec<&[u8]> = [&leaf].into_iter().chain(&others).map(|certificate| certificate.issuer).collect();
        let roots = roots.iter().filter_map(|root| Read::read(root).ok());
        let roots: Vec<Read<'_>> = roots.filter(|root| root.raw == leaf.raw || names.contains(&root.subject)).collect();
        let name = text_of(server_name);
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let verifier = ChainVerifier { roots: &roots, others: &others, now, purpose: Purpose::Server(&name) };
        verifier.evaluate(&leaf).map(|()| ServerCertVerified::assertion()).map_err(handshake::refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::check_tls12(&self.schemes, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::check_tls13(&self.schemes, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.supported_schemes()
    }
}

/// A name or an address as Go has it.
fn text_of(server: &ServerName<'_>) -> String {
    match server {
        ServerName::IpAddress(IpAddr::V4(ip)) => std::net::Ipv4Addr::from(*ip).to_string(),
        ServerName::IpAddress(IpAddr::V6(ip)) => std::net::Ipv6Addr::from(*ip).to_string(),
        name => name.to_str().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};

    use super::*;

    type Change = fn(&mut CertificateParams);

    fn self_signed(change: impl Fn(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["hook.example".to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().clone()
    }

    fn judged(authority: &CertificateDer<'static>, shown: &CertificateDer<'static>, name: &str) -> Result<(), String> {
        let schemes = aws_lc_rs::default_provider().signature_verification_algorithms;
        let verifier = Trusting { roots: Trust::Authorities(vec![authority.clone()]).roots(), schemes };
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        verifier
            .verify_server_cert(shown, &[], &name, &[], UnixTime::now())
            .map(drop)
            .map_err(|error| handshake::refusal(&error).unwrap_or_default())
    }

    #[test]
    fn an_authority_may_be_the_server() {
        let it = self_signed(|_| {});
        assert_eq!(judged(&it, &it, "hook.example"), Ok(()));
        assert!(
            judged(&it, &it, "other.example").is_err_and(|why| why == "x509: certificate is valid for hook.example, not other.example")
        );
        assert!(judged(&it, &self_signed(|_| {}), "hook.example").is_err(), "somebody else's");
        let serves = self_signed(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert_eq!(judged(&serves, &serves, "hook.example"), Ok(()));
        let wrong: [(&str, Change); 4] = [
            ("is after 2020-01-01T00:00:00Z", |params| params.not_after = date_time_ymd(2020, 1, 1)),
            ("is before 2900-01-01T00:00:00Z", |params| params.not_before = date_time_ymd(2900, 1, 1)),
            ("incompatible key usage", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
            ("unhandled critical extension", |params| {
                let mut extension = CustomExtension::from_oid_content(&[1, 3, 9999, 1], vec![5, 0]);
                extension.set_criticality(true);
                params.custom_extensions.push(extension);
            }),
        ];
        for (what, change) in wrong {
            let it = self_signed(change);
            assert!(judged(&it, &it, "hook.example").is_err_and(|why| why.contains(what)), "{what}");
        }
    }
}
