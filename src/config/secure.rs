//! The TLS listener: where it is, what it tells browsers, and how the clients inside of a cluster find it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use auth::authn;
use http::HeaderValue;
use server::TlsFiles;

use super::args::ServeArgs;
use super::tls::{only_tls13, suites};
use super::{TokenIssuer, both, store::embedded};

/// The authority of `--write-admin-kubeconfig` in the data directory, and what it signs. Each file has a certificate and its key.
pub(super) const AUTHORITY_FILE: &str = "ca.pem";
const SERVER_FILE: &str = "server.pem";
const ADMIN_FILE: &str = "admin.pem";

/// The certificate and the key in `--cert-dir`; kube-apiserver's names.
const CERT_DIR_FILES: [&str; 2] = ["apiserver.crt", "apiserver.key"];
/// The names in that certificate; kube-apiserver's.
const CERT_DIR_NAMES: [&str; 3] = ["kubernetes.default.svc", "kubernetes.default", "kubernetes"];

/// What clients inside of a cluster call the server.
const CLUSTER_NAMES: [&str; 4] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

#[derive(Clone, Debug)]
pub struct SecureListener {
    /// Where it listens; port 0 for one that is free.
    pub address: SocketAddr,
    /// What it speaks with.
    pub files: TlsFiles,
    /// The header `Strict-Transport-Security` of its answers.
    pub strict_transport: Option<HeaderValue>,
    /// What is made for an administrator; nothing without `--write-admin-kubeconfig`.
    pub admin: Option<Admin>,
    /// The certificate that is made when there is none; nothing without `--cert-dir`.
    pub self_signed: Option<SelfSigned>,
    /// The listener as other hosts see it, for the endpoints of the Service `default/kubernetes`.
    pub advertised: Advertise,
}

/// `--write-admin-kubeconfig`: what is made in the data directory and beside it.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// The authority that signs the others; the server believes it.
    pub authority_file: PathBuf,
    /// Whether the certificate of the server is made too.
    pub makes_certificate: bool,
    /// The certificate of the server, made or given.
    pub cert_file: PathBuf,
    /// The certificate of the administrator.
    pub client_file: PathBuf,
    /// Names and addresses of the server.
    pub names: Vec<String>,
    /// Where the kubeconfig leads.
    pub server: SocketAddr,
}

/// `--cert-dir`: a certificate of the server that is made once and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfSigned {
    /// The certificate, and the authority that has signed it.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Names and addresses of the server, beside the one that it advertises.
    pub names: Vec<String>,
}

/// The address at which other hosts find the TLS listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertise {
    /// This one.
    At(IpAddr),
    /// That of the default route.
    AtDefaultRoute,
    /// None: it is of another family than the addresses of Services.
    Nowhere,
}

/// `--service-cluster-ip-range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddresses {
    /// The ranges of the addresses of Services, as networks; the first one counts where there can be one only.
    pub ranges: Vec<String>,
    /// Address of the Service `default/kubernetes`: the first one of the first range.
    pub first: IpAddr,
}

/// The listener that the flags ask for.
pub(super) fn check(
    args: &ServeArgs,
    (auth, issuer): (&authn::Config, &TokenIssuer),
    service: IpAddr,
    warnings: &mut Vec<String>,
) -> Result<Option<SecureListener>, String> {
    let files = both("--tls-cert-file", args.tls_cert_file.clone(), "--tls-private-key-file", args.tls_private_key_file.clone())?;
    let strict_transport = strict_transport(&args.strict_transport_security_directives)?;
    let (only_tls13, suites) = (only_tls13(args.tls_min_version.as_deref())?, suites(&args.tls_cipher_suites)?);
    match (args.secure_port.bound(), files) {
        (None, None) => unused(args).map_or(Ok(None), |flag| Err(format!("{flag} is for the TLS listener: give --secure-port too"))),
        (None, Some(_)) => Err("--tls-cert-file is given, but --secure-port is not".to_owned()),
        (_, _) if args.write_admin_kubeconfig.is_some() && !args.etcd_servers.is_empty() => {
            Err("--write-admin-kubeconfig keeps its keys in the directory of the embedded store: give no --etcd-servers".to_owned())
        }
        (_, None) if args.write_admin_kubeconfig.is_none() && args.cert_dir.is_none() => {
            Err("--secure-port needs --tls-cert-file and --tls-private-key-file, --cert-dir or --write-admin-kubeconfig".to_owned())
        }
        (_, Some(_)) if !has_authenticator(auth, issuer) => Err(
            "--secure-port needs an authenticator: --client-ca-file, --token-auth-file, --write-admin-kubeconfig or --service-account-key-file".to_owned(),
        ),
        (Some(port), files) => {
            let self_signed = args.cert_dir.as_deref().filter(|_| files.is_none()).map(|dir| self_signed(args, dir, service));
            let files = files.or_else(|| self_signed.as_ref().map(|made| (made.cert_file.clone(), made.key_file.clone())));
            let makes_certificate = files.is_none();
            let made = || embedded(args).data_dir.join(SERVER_FILE);
            let (cert_file, key_file) = files.unwrap_or_else(|| (made(), made()));
            let admin = admin(args, port, service, makes_certificate, &cert_file);
            let advertised = advertised(args, service, warnings);
            Ok(Some(SecureListener {
                address: SocketAddr::new(args.bind_address, port),
                files: TlsFiles {
                    cert_file,
                    key_file,
                    named: args.tls_sni_cert_key.clone(),
                    ticket_keys: args.tls_session_ticket_key_file.clone(),
                    only_tls13,
                    suites,
                },
                strict_transport,
                admin,
                self_signed,
                advertised,
            }))
        }
    }
}

/// Whether there is any way to prove who one is. kube-apiserver always has one: it does not start without keys of service accounts.
fn has_authenticator(auth: &authn::Config, issuer: &TokenIssuer) -> bool {
    let files = [&auth.client_ca_file, &auth.token_file, &auth.own_ca_file, &auth.proxy_ca_file];
    let has_account_keys = issuer.makes_key || auth.accounts.as_ref().is_some_and(|accounts| !accounts.key_files.is_empty());
    files.iter().any(|file| file.is_some()) || has_account_keys || auth.bootstrap_tokens || auth.asks_remote
}

/// The names are those that kube-apiserver puts into such a certificate.
fn self_signed(args: &ServeArgs, dir: &Path, service: IpAddr) -> SelfSigned {
    let [cert_file, key_file] = CERT_DIR_FILES.map(|name| dir.join(name));
    let bound = if args.bind_address.is_unspecified() { "localhost".to_owned() } else { args.bind_address.to_string() };
    let names = CERT_DIR_NAMES.into_iter().map(str::to_owned).chain([service.to_string(), bound]).collect();
    SelfSigned { cert_file, key_file, names }
}

fn admin(args: &ServeArgs, port: u16, service: IpAddr, makes_certificate: bool, cert_file: &Path) -> Option<Admin> {
    let kubeconfig = args.write_admin_kubeconfig.clone()?;
    let dir = embedded(args).data_dir;
    let local = |like: IpAddr| if like.is_ipv4() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { Ipv6Addr::LOCALHOST.into() };
    let server = if args.bind_address.is_unspecified() { local(args.bind_address) } else { args.bind_address };
    let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), server, service];
    let mut names: Vec<String> = Vec::new();
    for address in addresses.into_iter().chain(args.advertise_address).map(|address| address.to_string()) {
        if !names.contains(&address) {
            names.push(address);
        }
    }
    names.extend(["localhost"].into_iter().chain(CLUSTER_NAMES).map(str::to_owned));
    Some(Admin {
        kubeconfig,
        authority_file: dir.join(AUTHORITY_FILE),
        makes_certificate,
        cert_file: cert_file.to_owned(),
        client_file: dir.join(ADMIN_FILE),
        names,
        server: SocketAddr::new(server, port),
    })
}

/// A flag that does nothing without the listener.
fn unused(args: &ServeArgs) -> Option<&'static str> {
    let given = [
        ("--strict-transport-security-directives", args.strict_transport_security_directives.iter().any(|directive| !directive.is_empty())),
        ("--advertise-address", args.advertise_address.is_some()),
        ("--cert-dir", args.cert_dir.is_some()),
        ("--write-admin-kubeconfig", args.write_admin_kubeconfig.is_some()),
        ("--tls-sni-cert-key", !args.tls_sni_cert_key.is_empty()),
        ("--tls-session-ticket-key-file", !args.tls_session_ticket_key_file.is_empty()),
        ("--tls-min-version", args.tls_min_version.is_some()),
        ("--tls-cipher-suites", !args.tls_cipher_suites.is_empty()),
    ];
    given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
}

/// kube-apiserver's rules and words.
fn strict_transport(directives: &[String]) -> Result<Option<HeaderValue>, String> {
    const WRONG: &str = "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see \
                         https://tools.ietf.org/html/rfc6797#section-6.1 for more information";
    if directives.is_empty() || directives == [""] {
        return Ok(None);
    }
    for directive in directives {
        let max_age = directive.strip_prefix("max-age=").filter(|time| !time.contains('='));
        if directive.trim().is_empty() {
            return Err("empty value in strict-transport-security-directives".to_owned());
        }
        if max_age.is_none() && !["includeSubDomains", "preload"].contains(&directive.as_str()) {
            return Err(WRONG.to_owned());
        }
    }
    HeaderValue::from_str(&directives.join("; ")).map(Some).map_err(|_| WRONG.to_owned())
}

/// As kube-apiserver chooses it: an address that is no other host's way to the listener is that of the default route.
fn advertised(args: &ServeArgs, service: IpAddr, warnings: &mut Vec<String>) -> Advertise {
    let bound = Some(args.bind_address).filter(|address| !address.is_unspecified() && !address.is_loopback());
    match args.advertise_address.filter(|address| !address.is_unspecified()).or(bound) {
        None => Advertise::AtDefaultRoute,
        Some(address) if address.is_ipv4() == service.is_ipv4() => Advertise::At(address),
        Some(_) => {
            warnings.push(
                "--service-cluster-ip-range is of another IP family than --advertise-address or --bind-address: the Service default/kubernetes \
                 has no endpoints"
                    .to_owned(),
            );
            Advertise::Nowhere
        }
    }
}

/// The ranges, and the first address that a Service may have. Of two ranges, for both families, the first counts.
pub(super) fn cluster_addresses(ranges: &str) -> Result<ClusterAddresses, String> {
    let all: Vec<(IpAddr, u32)> = ranges.split(',').map(network).collect::<Result<_, _>>()?;
    let (first, bits) = all[0];
    let (width, address) = match first {
        IpAddr::V4(network) => (32 - bits, IpAddr::from(Ipv4Addr::from_bits(network.to_bits() | 1))),
        IpAddr::V6(network) => (128 - bits, IpAddr::from(Ipv6Addr::from_bits(network.to_bits() | 1))),
    };
    if width < 3 {
        return Err("--service-cluster-ip-range: the service cluster IP range must be at least 8 IP addresses".to_owned());
    }
    match all[1..] {
        [] => {}
        [(second, _)] if second.is_ipv4() != first.is_ipv4() => {}
        [_] => return Err("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family".to_owned()),
        _ => return Err("--service-cluster-ip-range must not contain more than two entries".to_owned()),
    }
    Ok(ClusterAddresses { ranges: all.iter().map(|(network, bits)| format!("{network}/{bits}")).collect(), first: address })
}

/// A network and the bits of its mask.
fn network(text: &str) -> Result<(IpAddr, u32), String> {
    let parts = text.split_once('/').and_then(|(address, bits)| Some((address.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?)));
    match parts {
        Some((IpAddr::V4(address), bits)) if bits <= 32 => {
            Ok((IpAddr::from(Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0))), bits))
        }
        Some((IpAddr::V6(address), bits)) if bits <= 128 => {
            Ok((IpAddr::from(Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0))), bits))
        }
        _ => Err(format!("--service-cluster-ip-range: {text:?} is not a valid cidr")),
    }
}
