//! Certificates that the server makes for itself in the data directory, and the kubeconfig of its administrator: `--write-admin-kubeconfig`.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::owner_file;
use crate::config::Admin;

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_DAYS: u32 = 3650;
const LEAF_DAYS: u32 = 365;
/// What ends sooner is made anew.
const RENEW_DAYS: u32 = 30;
/// How far the clock of a client may be behind.
const SKEW: Duration = Duration::from_secs(3600);

/// The authority. Its subject is nobody else's: OpenSSL takes a certificate whose subject is also its issuer for one that has signed itself.
const AUTHORITY: &str = "watchcache-ca";
/// The server. The authorities of older data directories are called `watchcache`, and stay good.
const SERVER: &str = "watchcache-server";
/// Cluster, user and context of the kubeconfig.
const OURS: &str = "watchcache";
/// The administrator.
const NAME: &str = "kubernetes-admin";
/// Its members may do everything.
const GROUP: &str = "system:masters";

/// Makes what is missing, wrong or about to end, and writes the kubeconfig when it says something else.
///
/// # Errors
/// One line with the file.
pub(super) fn keep(admin: &Admin, now: SystemTime) -> Result<(), String> {
    let authority = match Pair::read(&admin.authority_file)? {
        Some(pair) if pair.lasts(now) => pair,
        _ => Pair::make(&admin.authority_file, authority_params(now), None)?,
    };
    let (trusted, server_name) = if admin.makes_certificate {
        let server = Leaf { name: SERVER, organization: None, names: &admin.names, usage: ExtendedKeyUsagePurpose::ServerAuth };
        Pair::keep(&admin.cert_file, &server, &authority, now)?;
        (block(&authority.pem, "CERTIFICATE"), None)
    } else {
        given(&admin.cert_file, admin.server.ip())?
    };
    let client = Leaf { name: NAME, organization: Some(GROUP), names: &[], usage: ExtendedKeyUsagePurpose::ClientAuth };
    let client = Pair::keep(&admin.client_file, &client, &authority, now)?;
    let text = kubeconfig(admin, &trusted, server_name.as_deref(), &client);
    if fs::read(&admin.kubeconfig).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    owner_file::write(&admin.kubeconfig, &text)
        .map_err(|error| format!("--write-admin-kubeconfig {}: {error}", admin.kubeconfig.display()))?;
    tracing::info!(file = %admin.kubeconfig.display(), server = %admin.server, "the administrator's kubeconfig is written");
    Ok(())
}

/// A certificate for a server of this name, its key, and the authority that has signed it and nothing else, all as PEM. They last as long as authorities do.
///
/// # Errors
/// The name is none.
pub(super) fn serving(name: &str, now: SystemTime) -> Result<(String, String, String), String> {
    signed(name, &[name.to_owned()], AUTHORITY_DAYS, now)
}

/// The same for a server of several names and addresses, which lasts a year.
///
/// # Errors
/// One of the names is none.
pub(super) fn serving_names(name: &str, names: &[String], now: SystemTime) -> Result<(String, String, String), String> {
    signed(name, names, LEAF_DAYS, now)
}

fn signed(name: &str, names: &[String], days: u32, now: SystemTime) -> Result<(String, String, String), String> {
    let wrong = |error: rcgen::Error| format!("{name}: {error}");
    let authority_key = KeyPair::generate().map_err(wrong)?;
    let authority = authority_params(now).self_signed(&authority_key).map_err(wrong)?;
    let leaf = Leaf { name, organization: None, names, usage: ExtendedKeyUsagePurpose::ServerAuth };
    let mut leaf = leaf.params(now)?;
    leaf.not_after = moment(now + days * DAY);
    let key = KeyPair::generate().map_err(wrong)?;
    let signed = leaf.signed_by(&key, &Issuer::new(authority_params(now), &authority_key)).map_err(wrong)?;
    Ok((authority.pem(), signed.pem(), key.serialize_pem()))
}

/// Whose certificate it is, what for, and by which names and addresses.
struct Leaf<'a> {
    name: &'a str,
    organization: Option<&'a str>,
    names: &'a [String],
    usage: ExtendedKeyUsagePurpose,
}

impl Leaf<'_> {
    /// Has all that RFC 5280 asks for, which OpenSSL checks when it is strict: Python does that since 3.13.
    fn params(&self, now: SystemTime) -> Result<CertificateParams, String> {
        let named = CertificateParams::new(self.names).map_err(|error| format!("{}: {error}", self.names.join(", ")))?;
        let mut params = params(self.name, now, LEAF_DAYS);
        if let Some(organization) = self.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.subject_alt_names = named.subject_alt_names;
        // With it comes the SubjectKeyIdentifier.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![self.usage.clone()];
        Ok(params)
    }
}

/// A certificate and its key, in one file: so they are never of two kinds.
struct Pair {
    pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Pair {
    /// None when there is no such file.
    fn read(path: &Path) -> Result<Option<Pair>, String> {
        let wrong = |why: &str| format!("{}: {why}; when it is removed, a new one is made", path.display());
        let pem = match fs::read_to_string(path) {
            Ok(pem) => pem,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| wrong("no certificate in it"))?;
        X509Certificate::from_der(&certificate).map_err(|_| wrong("its certificate cannot be parsed"))?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| wrong("no private key in it"))?;
        let key = KeyPair::try_from(&key).map_err(|_| wrong("its private key cannot be parsed"))?;
        Ok(Some(Pair { pem, certificate, key }))
    }

    /// A new one in this file, signed by the authority or by itself.
    fn make(path: &Path, params: CertificateParams, authority: Option<&Pair>) -> Result<Pair, String> {
        let key = KeyPair::generate().map_err(of(path))?;
        let signed = match authority {
            None => params.self_signed(&key),
            Some(authority) => params.signed_by(&key, &authority.issuer()),
        };
        let signed = signed.map_err(of(path))?;
        let pem = signed.pem() + &key.serialize_pem();
        let pair = Pair { pem, certificate: signed.der().clone(), key };
        if authority.is_some_and(|authority| !pair.is_of(authority)) {
            return Err(format!(
                "{}: the subject of its authority is no single common name; when the authority's file is removed, a new one is made",
                path.display()
            ));
        }
        owner_file::write(path, &pair.pem).map_err(of(path))?;
        tracing::info!(file = %path.display(), "a certificate is made");
        Ok(pair)
    }

    /// The one in this file if it lasts, is for this subject, for these names and of this authority; else a new one.
    fn keep(path: &Path, leaf: &Leaf<'_>, authority: &Pair, now: SystemTime) -> Result<Pair, String> {
        match Pair::read(path) {
            Ok(Some(pair)) if pair.lasts(now) && pair.is_of(authority) && pair.is_for(leaf) => Ok(pair),
            _ => Pair::make(path, leaf.params(now)?, Some(authority)),
        }
    }

    /// The issuer of what is signed with it: its name and what follows from its key.
    fn issuer(&self) -> Issuer<'static, &KeyPair> {
        let mut params = authority_params(UNIX_EPOCH);
        params.distinguished_name.push(DnType::CommonName, self.common_name().unwrap_or_default());
        Issuer::new(params, &self.key)
    }

    fn common_name(&self) -> Option<String> {
        let certificate = parsed(&self.certificate)?;
        let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
        Some(name.to_owned())
    }

    fn lasts(&self, now: SystemTime) -> bool {
        let end = parsed(&self.certificate).map_or(0, |certificate| certificate.validity().not_after.timestamp());
        end >= moment(now + RENEW_DAYS * DAY).unix_timestamp()
    }

    fn is_for(&self, leaf: &Leaf<'_>) -> bool {
        self.common_name().as_deref() == Some(leaf.name) && names_in(&self.certificate) == leaf.names
    }

    fn is_of(&self, authority: &Pair) -> bool {
        let (Some(own), Some(theirs)) = (parsed(&self.certificate), parsed(&authority.certificate)) else { return false };
        let signer = own.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(signer) => signer.key_identifier.as_ref().map(|id| id.0),
            _ => None,
        });
        let key = theirs.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        });
        signer.is_some() && signer == key && own.issuer() == theirs.subject()
    }
}

fn of<E: ToString>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {}", path.display(), error.to_string())
}

fn parsed<'c>(certificate: &'c CertificateDer<'_>) -> Option<X509Certificate<'c>> {
    X509Certificate::from_der(certificate).ok().map(|(_, certificate)| certificate)
}

/// The DNS names and addresses that a certificate is for.
fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Some(certificate) = parsed(certificate) else { return Vec::new() };
    let names = certificate.subject_alternative_name().ok().flatten();
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            Some(v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?.to_string())
        }
        _ => None,
    };
    names.iter().flat_map(|names| &names.value.general_names).filter_map(text).collect()
}

fn authority_params(now: SystemTime) -> CertificateParams {
    let mut params = params(AUTHORITY, now, AUTHORITY_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    params
}

fn params(name: &str, now: SystemTime, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = moment(now.checked_sub(SKEW).unwrap_or(now));
    params.not_after = moment(now + days * DAY);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

fn moment(at: SystemTime) -> OffsetDateTime {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// What clients trust when the certificate was not made here: its chain; and a name that it is for, when it is not for this address.
fn given(path: &Path, server: IpAddr) -> Result<(String, Option<String>), String> {
    let pem = fs::read_to_string(path).map_err(|error| format!("--tls-cert-file {}: {error}", path.display()))?;
    let chain = block(&pem, "CERTIFICATE");
    let names = CertificateDer::from_pem_slice(chain.as_bytes()).map_or(Vec::new(), |leaf| names_in(&leaf));
    let is_for_address = names.contains(&server.to_string());
    let name = names.into_iter().find(|name| !is_for_address && !name.starts_with('*'));
    Ok((chain, name))
}

/// Returns the certificate of the authority that was made; none before there is one.
///
/// # Errors
/// One line with the file.
pub(super) fn authority(admin: &Admin) -> Result<Option<String>, String> {
    Ok(Pair::read(&admin.authority_file)?.map(|pair| block(&pair.pem, "CERTIFICATE")))
}

/// Everything in a PEM file that has this label, or ends with it.
pub(super) fn block(pem: &str, label: &str) -> String {
    let mut found = String::new();
    let mut rest = pem;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((name, body)) = after.split_once("-----") else { break };
        let end = format!("-----END {name}-----");
        let Some((body, after)) = body.split_once(&end) else { break };
        if name.ends_with(label) {
            found.push_str(&format!("-----BEGIN {name}-----{body}{end}\n"));
        }
        rest = after;
    }
    found
}

/// The key as `EC PRIVATE KEY` (RFC 5915), for Java's client finds out by the label what a key is for; as it is when it is no key of P-256.
fn labelled(pair: &Pair) -> String {
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pair.key.serialize_der()).ok();
    let der: Option<EcPrivateKeyRfc5915Der<'_>> = key.and_then(|key| key.private_key().as_der().ok());
    let Some(der) = der else { return block(&pair.pem, "PRIVATE KEY") };
    let mut text = BASE64_STANDARD.encode(der.as_ref());
    for at in (LINE..text.len()).step_by(LINE).rev() {
        text.insert(at, '\n');
    }
    format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")
}

/// The length of a line of PEM (RFC 7468).
const LINE: usize = 64;

fn kubeconfig(admin: &Admin, trusted: &str, server_name: Option<&str>, client: &Pair) -> String {
    let data = |pem: &str| BASE64_STANDARD.encode(pem);
    let server_name = server_name.map_or(String::new(), |name| format!("    tls-server-name: \"{name}\"\n"));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {OURS}
  cluster:
    server: https://{}
    certificate-authority-data: {}
{server_name}users:
- name: {OURS}
  user:
    client-certificate-data: {}
    client-key-data: {}
contexts:
- name: {OURS}
  context:
    cluster: {OURS}
    user: {OURS}
current-context: {OURS}
",
        admin.server,
        data(trusted),
        data(&block(&client.pem, "CERTIFICATE")),
        data(&labelled(client)),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn admin(dir: &Path, names: &[&str]) -> Admin {
        let file = |name: &str| dir.join(name);
        Admin {
            kubeconfig: file("admin.conf"),
            authority_file: file("ca.pem"),
            makes_certificate: true,
            cert_file: file("server.pem"),
            client_file: file("admin.pem"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            server: "127.0.0.1:6443".parse().expect("an address"),
        }
    }

    fn files(dir: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
        entries.map(|entry| (entry.file_name().into_string().expect("UTF-8"), fs::read_to_string(entry.path()).expect("text"))).collect()
    }

    /// The files that differ.
    fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
        after.iter().filter(|(name, text)| before.get(*name) != Some(*text)).map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn what_is_good_is_kept_and_the_rest_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = UNIX_EPOCH + 20_000 * DAY;
        let names = ["127.0.0.1", "::1", "localhost"];
        let keep = |names: &[&str], days: u32| {
            let before = files(dir.path());
            keep(&admin(dir.path(), names), now + days * DAY).expect("made");
            changed(&before, &files(dir.path()))
        };
        let all = ["admin.conf", "admin.pem", "ca.pem", "server.pem"];
        assert_eq!(keep(&names, 0), all);
        assert_eq!(keep(&names, 0), [""; 0]);
        assert_eq!(keep(&names, LEAF_DAYS - RENEW_DAYS), [""; 0]);
        assert_eq!(keep(&names, LEAF_DAYS - RENEW_DAYS + 1), ["admin.conf", "admin.pem", "server.pem"]);
        assert_eq!(keep(&["127.0.0.1", "192.0.2.7"], 340), ["server.pem"]);
        fs::write(dir.path().join("server.pem"), "half").expect("written");
        assert_eq!(keep(&["127.0.0.1", "192.0.2.7"], 340), ["server.pem"]);
        fs::remove_file(dir.path().join("admin.conf")).expect("removed");
        assert_eq!(keep(&["127.0.0.1", "192.0.2.7"], 340), ["admin.conf"]);
        assert_eq!(keep(&["127.0.0.1", "192.0.2.7"], AUTHORITY_DAYS - RENEW_DAYS + 1), all);
        fs::remove_file(dir.path().join("ca.pem")).expect("removed");
        assert_eq!(keep(&["127.0.0.1", "192.0.2.7"], AUTHORITY_DAYS), all, "what another authority has signed is worth nothing");
        fs::write(dir.path().join("ca.pem"), "half").expect("written");
        let error = super::keep(&admin(dir.path(), &names), now).expect_err("it may have signed much");
        assert!(error.ends_with("ca.pem: no certificate in it; when it is removed, a new one is made"), "{error}");
    }

    /// The authority and the server of an older program, both called `watchcache`: what it signed looked self-signed to OpenSSL.
    #[test]
    fn an_older_authority_stays_and_its_server_gets_another_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = UNIX_EPOCH + 20_000 * DAY;
        let admin = admin(dir.path(), &["127.0.0.1", "localhost"]);
        let mut old = params(OURS, now, AUTHORITY_DAYS);
        old.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        old.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let authority = Pair::make(&admin.authority_file, old, None).expect("made");
        let mut server = params(OURS, now, LEAF_DAYS);
        server.subject_alt_names = CertificateParams::new(admin.names.clone()).expect("names").subject_alt_names;
        let server = Pair::make(&admin.cert_file, server, Some(&authority)).expect("made");
        assert!(server.is_of(&authority) && server.common_name() == authority.common_name());
        assert!(!passes(dir.path(), "server.pem", "sslserver"));
        let before = files(dir.path());
        keep(&admin, now).expect("made");
        assert_eq!(changed(&before, &files(dir.path())), ["admin.conf", "admin.pem", "server.pem"], "clients know the authority");
        assert!(passes(dir.path(), "server.pem", "sslserver") && passes(dir.path(), "admin.pem", "sslclient"));
        let before = files(dir.path());
        keep(&admin, now + DAY).expect("made");
        assert_eq!(changed(&before, &files(dir.path())), [""; 0]);
    }

    /// fabric8 reads a key without this label as one of RSA.
    #[test]
    fn the_key_in_the_kubeconfig_says_what_it_is_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let admin = admin(dir.path(), &["localhost"]);
        keep(&admin, UNIX_EPOCH + 20_000 * DAY).expect("made");
        let text = fs::read_to_string(&admin.kubeconfig).expect("read");
        let key = text.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).expect("a key");
        let key = BASE64_STANDARD.decode(key).expect("base64");
        assert!(key.starts_with(b"-----BEGIN EC PRIVATE KEY-----\n"));
        fs::write(dir.path().join("key.pem"), &key).expect("written");
        let public = |args: &[&str]| {
            let made = std::process::Command::new("openssl").args(args).current_dir(dir.path()).output().expect("openssl runs");
            assert!(made.status.success(), "{made:?}");
            made.stdout
        };
        assert_eq!(public(&["pkey", "-in", "key.pem", "-pubout"]), public(&["x509", "-in", "admin.pem", "-noout", "-pubkey"]));
        assert!(key.split(|byte| *byte == b'\n').all(|line| line.len() <= LINE));
    }

    #[test]
    fn an_authority_of_another_form_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = UNIX_EPOCH + 20_000 * DAY;
        let admin = admin(dir.path(), &["localhost"]);
        let mut foreign = authority_params(now);
        foreign.distinguished_name.push(DnType::OrganizationName, "Example");
        Pair::make(&admin.authority_file, foreign, None).expect("made");
        let error = keep(&admin, now).expect_err("it would not be believed");
        assert!(error.contains("server.pem: the subject of its authority is no single common name"), "{error}");
        assert!(!admin.cert_file.exists());
    }

    /// Whether `openssl verify -x509_strict` takes a leaf of `ca.pem`.
    fn passes(dir: &Path, leaf: &str, purpose: &str) -> bool {
        let at = (20_000 * 24 * 3600 + 60).to_string();
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["verify", "-x509_strict", "-attime", &at, "-purpose", purpose, "-CAfile", "ca.pem", leaf]);
        openssl.current_dir(dir).output().expect("openssl runs").status.success()
    }

    #[test]
    fn a_strict_openssl_takes_the_certificates() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = UNIX_EPOCH + 20_000 * DAY;
        keep(&admin(dir.path(), &["127.0.0.1", "::1", "localhost"]), now).expect("made");
        assert!(passes(dir.path(), "server.pem", "sslserver"));
        assert!(passes(dir.path(), "admin.pem", "sslclient"));
        let (authority, server, _) = serving("watchcache.kube-system.svc", now).expect("made");
        fs::write(dir.path().join("ca.pem"), authority).expect("written");
        fs::write(dir.path().join("aggregated.pem"), server).expect("written");
        assert!(passes(dir.path(), "aggregated.pem", "sslserver"));
    }

    #[test]
    fn a_certificate_that_is_given_is_trusted_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let given = rcgen::generate_simple_self_signed(["*.example".to_owned(), "a.example".to_owned()]).expect("made");
        fs::write(dir.path().join("server.pem"), given.signing_key.serialize_pem() + &given.cert.pem()).expect("written");
        let admin = Admin { makes_certificate: false, ..admin(dir.path(), &[]) };
        keep(&admin, UNIX_EPOCH + 20_000 * DAY).expect("made");
        let text = fs::read_to_string(&admin.kubeconfig).expect("read");
        assert!(
            text.contains(&BASE64_STANDARD.encode(given.cert.pem().replace("\r\n", "\n")))
                && text.contains("tls-server-name: \"a.example\"\n"),
            "{text}"
        );
        let local = rcgen::generate_simple_self_signed(["a.example".to_owned(), "127.0.0.1".to_owned()]).expect("made");
        fs::write(&admin.cert_file, local.cert.pem()).expect("written");
        keep(&admin, UNIX_EPOCH + 20_000 * DAY).expect("made");
        assert!(!fs::read_to_string(&admin.kubeconfig).expect("read").contains("tls-server-name"));
    }
}
