//! The plain listener, whom it lets in, and the ports of both listeners.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use http::uri::Authority;

use apiserver::origins::Origins;
use apiserver::settings::Callers;

/// Flags of the plain listener, and of pages.
#[derive(Args, Debug)]
pub(super) struct PlainArgs {
    /// Port of the plain HTTP listener on 127.0.0.1 and [::1], without authentication; 0 = off, auto = one that is free
    /// [default: 8001, or 0 when etcd is not on loopback or uses TLS or credentials]
    #[arg(long, value_parser = port, value_name = "PORT", help_heading = "Listeners")]
    pub(super) insecure_port: Option<Port>,
    /// Address on which the plain listener listens instead. Whoever reaches it may read and write everything: give an address that only you reach, as that of a
    /// container whose port is published on loopback [default: 127.0.0.1 and [::1]]
    #[arg(long, value_name = "IP", help_heading = "Listeners")]
    pub(super) insecure_bind_address: Option<IpAddr>,
    /// Names besides localhost by which clients may call the plain listener (the header Host), comma separated: host.docker.internal
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Listeners")]
    pub(super) insecure_hosts: Vec<String>,
    /// Origins of pages that may use the API, comma separated: regular expressions that must fit a part of the header Origin, with ^ or // before the host and
    /// $ or : after it, as //example.com(:|$). Such pages may use the plain listener too [default: none]
    #[arg(long, value_delimiter = ',', value_name = "REGEXP,...", help_heading = "Listeners")]
    pub(super) cors_allowed_origins: Vec<String>,
    /// File to write when the server is ready, whole: a line INSECURE_PORT=NUMBER and a line SECURE_PORT=NUMBER for each listener that is open. One of an
    /// earlier start is removed first
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) port_file: Option<PathBuf>,
}

/// A port as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// No listener.
    Off,
    /// One that the system chooses.
    Auto,
    /// This one.
    Number(u16),
}

impl Port {
    /// The port to bind, 0 for one that the system chooses; none for no listener.
    pub(super) fn bound(self) -> Option<u16> {
        match self {
            Port::Off => None,
            Port::Auto => Some(0),
            Port::Number(number) => Some(number),
        }
    }
}

/// Reads a port.
pub(super) fn port(text: &str) -> Result<Port, String> {
    match text {
        "auto" => Ok(Port::Auto),
        _ => match text.parse() {
            Ok(0) => Ok(Port::Off),
            Ok(number) => Ok(Port::Number(number)),
            Err(_) => Err("not a port: a number up to 65535, or auto".to_owned()),
        },
    }
}

/// Reads the flags; `is_open` says whether there is a plain listener.
pub(super) fn callers(args: &PlainArgs, is_open: bool, warnings: &mut Vec<String>) -> Result<Callers, String> {
    let hosts = args.insecure_hosts.iter().map(|name| host(name)).collect::<Result<Vec<_>, _>>()?;
    if !is_open && (!hosts.is_empty() || args.insecure_bind_address.is_some()) {
        return Err("--insecure-hosts and --insecure-bind-address are for the plain listener: give --insecure-port too".to_owned());
    }
    let beyond = args.insecure_bind_address.filter(|address| !address.is_loopback());
    if let Some(address) = beyond {
        warnings.push(format!("--insecure-bind-address={address}: everybody who reaches it may read and write everything, Secrets too"));
    }
    Ok(Callers { hosts, by_address: beyond.is_some(), origins: Origins::read(&args.cors_allowed_origins)? })
}

/// A name without a port.
fn host(name: &str) -> Result<String, String> {
    match Authority::try_from(name) {
        Ok(authority) if authority.host() == name && !name.starts_with('[') => Ok(name.to_ascii_lowercase()),
        _ => Err(format!("--insecure-hosts: {name:?} is not the name of a host, without a port")),
    }
}
