//! Flags of a read replica: which kube-apiserver answers what this server does not, and as whom it is asked.

use std::path::PathBuf;

use clap::Args;

use super::{Mode, both};

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
    /// Groups of the user watchcache:replica, as whom this server asks upstream what it serves, and whether its own etcd has the same objects (of each
    /// resource a LIST of one object's metadata); comma separated. Without system:masters that user needs the right to list them
    #[arg(long, value_delimiter = ',', value_name = "GROUP,...", default_value = "system:masters", help_heading = "Read replica")]
    upstream_check_groups: Vec<String>,
    /// Resources that are not kept in memory, comma separated: secrets, events, widgets.example.org. All requests for them are handed on
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE,...", help_heading = "Read replica")]
    exclude_resources: Vec<String>,
    /// Namespaces that are kept in memory, comma separated [default: all]. Requests for objects of others, and for those of all namespaces at once, are handed on. What is in no
    /// namespace is kept, and so is all that the authenticators and authorizers need
    #[arg(long, value_delimiter = ',', value_name = "NAMESPACE,...", help_heading = "Read replica")]
    include_namespaces: Vec<String>,
    /// Name that several replicas on one etcd share: each tells the others, under /watchcache/replicas/NAME/ in etcd, how many watches it has, and one that has more than its
    /// share ends some, so that their clients come again through the balancer. Its etcd user must be able to read and write there
    #[arg(long, value_name = "NAME", help_heading = "Read replica")]
    replica_group: Option<String>,
}

impl ReplicaArgs {
    /// Whether this is to be a replica.
    pub(super) fn is_asked(&self) -> bool {
        self.upstream_server.is_some() || self.upstream_kubeconfig.is_some()
    }
}

/// Who answers what this server does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Where it is.
    pub upstream: UpstreamServer,
    /// PEM files of the certificate and key of a front proxy.
    pub proxy: Option<(PathBuf, PathBuf)>,
    /// `--upstream-check-groups`: groups of whom this server is when it compares itself with upstream.
    pub check_groups: Vec<String>,
    /// `--exclude-resources`, as they are stored: `secrets`, `example.org/widgets`.
    pub excluded: Vec<String>,
    /// `--include-namespaces`, and what is kept of all namespaces even so; none: all.
    pub included: Option<(Vec<String>, Vec<String>)>,
    /// `--replica-group`: with whom watches are shared out.
    pub group: Option<String>,
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
pub(super) fn replica(
    args: &ReplicaArgs,
    allow_writes: bool,
    modes: &[Mode],
    warnings: &mut Vec<String>,
) -> Result<Option<Replica>, String> {
    let pair = (args.proxy_client_cert_file.clone(), args.proxy_client_key_file.clone());
    let proxy = both("--proxy-client-cert-file", pair.0, "--proxy-client-key-file", pair.1)?;
    let upstream = match (&args.upstream_server, &args.upstream_kubeconfig) {
        (Some(server), _) => UpstreamServer::Url { server: server.clone(), ca_file: args.upstream_cafile.clone() },
        (None, Some(file)) => UpstreamServer::Kubeconfig(file.clone()),
        (None, None) => {
            let lost = [
                ("--proxy-client-cert-file", proxy.is_some()),
                ("--exclude-resources", !args.exclude_resources.is_empty()),
                ("--include-namespaces", !args.include_namespaces.is_empty()),
                ("--replica-group", args.replica_group.is_some()),
            ];
            return match lost.iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(format!("{flag} is for --upstream-server or --upstream-kubeconfig: give one of them")),
                None => Ok(None),
            };
        }
    };
    if allow_writes {
        return Err("--allow-writes: with --upstream-server or --upstream-kubeconfig all writes are handed on".to_owned());
    }
    if proxy.is_none() && args.upstream_kubeconfig.is_some() && modes.contains(&Mode::AlwaysAllow) {
        return Err("--authorization-mode=AlwaysAllow: with --upstream-kubeconfig every client might act as anybody".to_owned());
    }
    let excluded: Vec<String> = args.exclude_resources.iter().map(|name| stored(name.trim())).collect();
    for name in &excluded {
        let needs = |names: &[&str]| names.contains(&name.as_str());
        let who = match () {
            () if needs(&ALWAYS) => "this server needs them",
            () if needs(&OF_RBAC) && modes.contains(&Mode::Rbac) => "--authorization-mode=RBAC needs them",
            () if needs(&OF_NODE) && modes.contains(&Mode::Node) => "--authorization-mode=Node needs them",
            () => continue,
        };
        return Err(format!("--exclude-resources: {name} cannot be left out, {who}"));
    }
    let included = (!args.include_namespaces.is_empty()).then(|| {
        let of_modes = [(Mode::Rbac, &OF_RBAC[..]), (Mode::Node, &OF_NODE)].into_iter().filter(|(mode, _)| modes.contains(mode));
        let whole = ALWAYS.iter().chain(of_modes.flat_map(|(_, names)| names)).map(|name| (*name).to_owned()).collect();
        (args.include_namespaces.iter().map(|name| name.trim().to_owned()).collect(), whole)
    });
    if excluded.iter().any(|name| name == "secrets") {
        warnings.push(
            "--exclude-resources=secrets: tokens that rest on Secrets (legacy service accounts, bootstrap) are not accepted".to_owned(),
        );
    }
    if included.is_some() {
        warnings.push(
            "--include-namespaces: tokens that rest on Secrets of other namespaces (legacy service accounts, bootstrap) are not accepted"
                .to_owned(),
        );
    }
    let group = args.replica_group.clone();
    let is_name =
        |name: &String| (1..=63).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if let Some(name) = group.as_ref().filter(|name| !is_name(name)) {
        return Err(format!("--replica-group {name:?}: must have 1 to 63 letters, digits, -, _ and ."));
    }
    let check_groups = args.upstream_check_groups.iter().filter(|group| !group.is_empty()).cloned().collect();
    Ok(Some(Replica { upstream, proxy, check_groups, excluded, included, group }))
}

/// What tokens of service accounts and definitions of custom resources rest on.
const ALWAYS: [&str; 4] = ["apiextensions.k8s.io/customresourcedefinitions", "serviceaccounts", "pods", "nodes"];
const OF_RBAC: [&str; 4] = [
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/rolebindings",
];
const OF_NODE: [&str; 3] = ["persistentvolumes", "storage.k8s.io/volumeattachments", "resource.k8s.io/resourceslices"];

/// `widgets.example.org` as `example.org/widgets`.
fn stored(name: &str) -> String {
    match name.split_once('.') {
        Some((resource, group)) => format!("{group}/{resource}"),
        None => name.to_owned(),
    }
}
