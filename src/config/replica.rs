//! Flags of a read replica: which kube-apiserver answers what this server does not, and as whom it is asked.

use std::path::PathBuf;

use clap::Args;

use super::both;

/// The flags as typed.
#[derive(Args, Debug)]
pub(super) struct ReplicaArgs {
    /// URL of the kube-apiserver that uses the same etcd: it gets all that this server does not answer, so that clients see one server. This server writes
    /// nothing then
    #[arg(long, value_name = "URL", requires = "etcd_servers", help_heading = "Read replica")]
    upstream_server: Option<String>,
    /// PEM file of the authorities that sign its certificate [default: the system's]
    #[arg(long, value_name = "FILE", requires = "upstream_server", help_heading = "Read replica")]
    upstream_cafile: Option<PathBuf>,
    /// Kubeconfig file of it, instead of the two flags above. Without --proxy-client-cert-file its user must have the right to impersonate all others
    #[arg(long, value_name = "FILE", requires = "etcd_servers", conflicts_with_all = ["upstream_server", "upstream_cafile"], help_heading = "Read replica")]
    upstream_kubeconfig: Option<PathBuf>,
    /// PEM file of the certificate by which it knows this server as a front proxy, whose X-Remote headers it believes (its --requestheader-client-ca-file).
    /// Without it and without --upstream-kubeconfig clients' own bearer tokens are passed on
    #[arg(long, value_name = "FILE", help_heading = "Read replica")]
    proxy_client_cert_file: Option<PathBuf>,
    /// PEM file of that certificate's key
    #[arg(long, value_name = "FILE", help_heading = "Read replica")]
    proxy_client_key_file: Option<PathBuf>,
}

/// Who answers what this server does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Where it is.
    pub upstream: UpstreamServer,
    /// PEM files of the certificate and key of a front proxy.
    pub proxy: Option<(PathBuf, PathBuf)>,
}

/// Where the kube-apiserver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamServer {
    /// `--upstream-server`, `--upstream-cafile`.
    Url { server: String, ca_file: Option<PathBuf> },
    /// `--upstream-kubeconfig`.
    Kubeconfig(PathBuf),
}

/// Checks the flags; none when this is no replica.
pub(super) fn replica(args: &ReplicaArgs, allow_writes: bool) -> Result<Option<Replica>, String> {
    let pair = (args.proxy_client_cert_file.clone(), args.proxy_client_key_file.clone());
    let proxy = both("--proxy-client-cert-file", pair.0, "--proxy-client-key-file", pair.1)?;
    let upstream = match (&args.upstream_server, &args.upstream_kubeconfig) {
        (Some(server), _) => UpstreamServer::Url { server: server.clone(), ca_file: args.upstream_cafile.clone() },
        (None, Some(file)) => UpstreamServer::Kubeconfig(file.clone()),
        (None, None) if proxy.is_some() => {
            return Err("--proxy-client-cert-file is for --upstream-server or --upstream-kubeconfig: give one of them".to_owned());
        }
        (None, None) => return Ok(None),
    };
    if allow_writes {
        return Err("--allow-writes: with --upstream-server or --upstream-kubeconfig all writes are handed on".to_owned());
    }
    Ok(Some(Replica { upstream, proxy }))
}
