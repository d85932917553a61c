//! Which certificates of servers are trusted, as TLS settings.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

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
    /// The authorities of a PEM bundle.
    ///
    /// # Errors
    /// When there is none in it.
    pub fn from_pem(pem: &[u8]) -> Result<Trust, String> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| format!("not PEM: {error}"))?;
        if found.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        Trust::Authorities(found).checked()
    }

    fn checked(self) -> Result<Trust, String> {
        self.roots().map(|_| self)
    }

    /// The authorities, as chains end in them and as they are.
    fn roots(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
        let mut roots = RootCertStore::empty();
        let authorities = match self {
            Trust::Anyone => Vec::new(),
            Trust::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(found.iter().cloned());
                found
            }
            Trust::Authorities(all) => {
                for one in all {
                    roots.add(one.clone()).map_err(|error| error.to_string())?;
                }
                all.clone()
            }
        };
        Ok((roots, authorities))
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
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified { provider })),
        _ => match trust.roots()? {
            (roots, _) if roots.is_empty() => builder.with_root_certificates(roots),
            (roots, authorities) => {
                let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let chains = chains.map_err(|error| error.to_string())?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting { chains, authorities }))
            }
        },
    };
    match certificate {
        Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|error| error.to_string()),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Believes what an authority has signed, and as Go an authority's own certificate: servers that sign for themselves show one.
#[derive(Debug)]
struct Trusting {
    chains: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.authorities.iter().any(|authority| **authority == **end_entity) {
            return self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        may_serve(end_entity, now).map_err(Error::InvalidCertificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Judges the time and the purpose of a certificate that needs no issuer.
fn may_serve(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok()).ok_or(CertificateError::BadEncoding)?;
    if now < parsed.validity().not_before {
        return Err(CertificateError::NotValidYet);
    }
    if parsed.validity().not_after < now {
        return Err(CertificateError::Expired);
    }
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usage) if !(usage.any || usage.server_auth) => return Err(CertificateError::InvalidPurpose),
            ParsedExtension::UnsupportedExtension { .. } | ParsedExtension::ParseError { .. } if extension.critical => {
                return Err(CertificateError::UnhandledCriticalExtension);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Believes every certificate, but not that somebody has its key who has not.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
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
        let (roots, authorities) = Trust::Authorities(vec![authority.clone()]).roots().expect("an authority");
        let chains = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::new(aws_lc_rs::default_provider())).build();
        let verifier = Trusting { chains: chains.expect("a verifier"), authorities };
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        verifier.verify_server_cert(shown, &[], &name, &[], UnixTime::now()).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn an_authority_may_be_the_server() {
        let it = self_signed(|_| {});
        assert_eq!(judged(&it, &it, "hook.example"), Ok(()));
        assert!(judged(&it, &it, "other.example").is_err_and(|why| why.contains("not valid for name")));
        assert!(judged(&it, &self_signed(|_| {}), "hook.example").is_err(), "somebody else's");
        let serves = self_signed(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        assert_eq!(judged(&serves, &serves, "hook.example"), Ok(()));
        let wrong: [(&str, Change); 4] = [
            ("Expired", |params| params.not_after = date_time_ymd(2020, 1, 1)),
            ("NotValidYet", |params| params.not_before = date_time_ymd(2900, 1, 1)),
            ("InvalidPurpose", |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
            ("CriticalExtension", |params| {
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
