//! The TLS listener: where it is, what it tells browsers, and how the clients inside of a cluster find it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use auth::authn;
use http::HeaderValue;
use server::TlsFiles;

use super::args::ServeArgs;
use super::tls::{only_tls13, suites};
use super::{both, store::embedded};

/// The authority of `--write-admin-kubeconfig` in the data directory, and what it signs. Each file has a certificate and its key.
pub(super) const AUTHORITY_FILE: &str = "ca.pem";
const SERVER_FILE: &str = "server.pem";
const ADMIN_FILE: &str = "admin.pem";

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
    /// What the Service `default/kubernetes` says; none where nobody else could reach the listener.
    pub advertised: Option<Advertised>,
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

/// How clients inside of a cluster find the TLS listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The listener as other hosts see it; none: at the address of the default route.
    pub address: Option<IpAddr>,
    /// Address of the Service.
    pub service: IpAddr,
}

/// The listener that the flags ask for.
pub(super) fn check(args: &ServeArgs, auth: &authn::Config, warnings: &mut Vec<String>) -> Result<Option<SecureListener>, String> {
    let files = both("--tls-cert-file", args.tls_cert_file.clone(), "--tls-private-key-file", args.tls_private_key_file.clone())?;
    let strict_transport = strict_transport(&args.strict_transport_security_directives)?;
    let (only_tls13, suites) = (only_tls13(args.tls_min_version.as_deref())?, suites(&args.tls_cipher_suites)?);
    let service = first_of(&args.service_cluster_ip_range)?;
    match (args.secure_port.bound(), files) {
        (None, None) => unused(args).map_or(Ok(None), |flag| Err(format!("{flag} is for the TLS listener: give --secure-port too"))),
        (None, Some(_)) => Err("--tls-cert-file is given, but --secure-port is not".to_owned()),
        (_, _) if args.write_admin_kubeconfig.is_some() && !args.etcd_servers.is_empty() => {
            Err("--write-admin-kubeconfig keeps its keys in the directory of the embedded store: give no --etcd-servers".to_owned())
        }
        (_, None) if args.write_admin_kubeconfig.is_none() => {
            Err("--secure-port needs --tls-cert-file and --tls-private-key-file, or --write-admin-kubeconfig".to_owned())
        }
        (_, Some(_)) if auth.client_ca_file.is_none() && auth.token_file.is_none() && auth.own_ca_file.is_none() && !auth.asks_remote => {
            Err("--secure-port needs an authenticator: --client-ca-file, --token-auth-file or --write-admin-kubeconfig".to_owned())
        }
        (Some(port), files) => {
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
                advertised,
            }))
        }
    }
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

/// As kube-apiserver chooses it, but for a listener on loopback, which nobody else can reach.
fn advertised(args: &ServeArgs, service: IpAddr, warnings: &mut Vec<String>) -> Option<Advertised> {
    let address = match args.advertise_address.filter(|address| !address.is_unspecified()) {
        Some(address) => Some(address),
        None if args.bind_address.is_loopback() => return None,
        None => Some(args.bind_address).filter(|address| !address.is_unspecified()),
    };
    if address.is_some_and(|address| address.is_ipv4() != service.is_ipv4()) {
        warnings.push(
            "--service-cluster-ip-range is of another IP family than --advertise-address or --bind-address: no Service default/kubernetes is made"
                .to_owned(),
        );
        return None;
    }
    Some(Advertised { address, service })
}

/// The first address of a range that a Service may have. Of two ranges, for both families, the first counts.
fn first_of(ranges: &str) -> Result<IpAddr, String> {
    let first = ranges.split(',').next().unwrap_or_default();
    let parts = first.split_once('/').and_then(|(address, bits)| Some((address.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?)));
    let (width, address) = match parts {
        Some((IpAddr::V4(address), bits)) if bits <= 32 => {
            let network = address.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            (32 - bits, IpAddr::from(Ipv4Addr::from_bits(network | 1)))
        }
        Some((IpAddr::V6(address), bits)) if bits <= 128 => {
            let network = address.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            (128 - bits, IpAddr::from(Ipv6Addr::from_bits(network | 1)))
        }
        _ => return Err(format!("--service-cluster-ip-range: {first:?} is not a valid cidr")),
    };
    if width < 3 {
        Err("--service-cluster-ip-range: the service cluster IP range must be at least 8 IP addresses".to_owned())
    } else {
        Ok(address)
    }
}
