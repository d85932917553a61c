//! Flags of a read replica: which kube-apiserver answers what this server does not, and as whom it is asked.

use std::path::PathBuf;

use clap::Args;

use super::{Mode, both};

/// The flags as typed.
#[derive(Args, Debug)]
pub(super) struct ReplicaArgs {
    /// URL of the kube-apiserver that uses the same etcd: it gets all that this server does not answer, so that clients see one server. This server writes
    /// nothing then
    #[arg(long, value_name = "URL", help_heading = "Read replica")]
    upstream_server: Option<String>,
    /// PEM file of the authorities that sign its certificate [default: the system's]
    #[arg(long, value_name = "FILE", requires = "upstream_server", help_heading = "Read replica")]
    upstream_cafile: Option<PathBuf>,
    /// Kubeconfig file of it, instead of the two flags above. Without --proxy-client-cert-file its user must have the right to impersonate all others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstream_server", "upstream_cafile"], help_heading = "Read replica")]
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
    /// Resources that are not kept in memory, comma separated: secrets, events, widgets.example.org. All requests for them are forwarded
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE,...", help_heading = "Read replica")]
    exclude_resources: Vec<String>,
    /// Namespaces that are kept in memory, comma separated [default: all]. Requests for objects of others, and for those of all namespaces at once, are
    /// forwarded. What is in no namespace is kept, and so is all that the authenticators and authorizers need
    #[arg(long, value_delimiter = ',', value_name = "NAMESPACE,...", help_heading = "Read replica")]
    include_namespaces: Vec<String>,
    /// Name that several replicas on one etcd share: each tells the others, under /watchcache/replicas/NAME/ in etcd, how many watches it has, and one that has
    /// more than its share ends some, so that their clients come again through the balancer. Its etcd user must be able to read and write there
    #[arg(long, value_name = "NAME", help_heading = "Read replica")]
    replica_group: Option<String>,
}

impl ReplicaArgs {
    /// Whether this is to be a replica.
    pub(super) fn is_asked(&self) -> bool {
        self.upstream_server.is_some() || self.upstream_kubeconfig.is_some()
    }

    /// `--upstream-kubeconfig`.
    pub(super) fn kubeconfig(&self) -> Option<&PathBuf> {
        self.upstream_kubeconfig.as_ref()
    }

    /// `--exclude-resources`.
    pub(super) fn excluded(&self) -> &[String] {
        &self.exclude_resources
    }

    /// Refuses what means nothing where the objects come from upstream.
    pub(super) fn check_source(&self) -> Result<(), String> {
        let unfit = [
            ("--upstream-server", self.upstream_server.is_some(), "this server must be somebody there: give --upstream-kubeconfig"),
            (
                "--proxy-client-cert-file",
                self.proxy_client_cert_file.is_some(),
                "what is forwarded goes with the client's own token, or by --upstream-impersonate",
            ),
            ("--include-namespaces", !self.include_namespaces.is_empty(), "a resource is followed in all namespaces"),
            ("--replica-group", self.replica_group.is_some(), "there is no etcd over which replicas could find each other"),
        ];
        match unfit.iter().find(|(_, is_given, _)| *is_given) {
            Some((flag, _, why)) => Err(format!("{flag} is not for --source=upstream: {why}")),
            None => Ok(()),
        }
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
    /// The objects come from upstream itself, and what is forwarded goes with the client's own token.
    pub is_source: bool,
    /// Of a source: what is forwarded goes as the client by impersonation instead.
    pub impersonates: bool,
}

impl Replica {
    /// Of a server whose objects come from there.
    pub(super) fn of_source(upstream: UpstreamServer, impersonates: bool) -> Self {
        let (check_groups, excluded) = (Vec::new(), Vec::new());
        Self { upstream, proxy: None, check_groups, excluded, included: None, group: None, is_source: true, impersonates }
    }
}

/// Where the kube-apiserver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamServer {
    /// `--upstream-server`, `--upstream-cafile`.
    Url { server: String, ca_file: Option<PathBuf> },
    /// `--upstream-kubeconfig`.
    Kubeconfig(PathBuf),
}

/// Whom a replica lets in, as far as other flags say it.
pub(super) struct Admits<'a> {
    pub(super) modes: &'a [Mode],
    /// Who checks tokens of service accounts here.
    pub(super) has_account_keys: bool,
    /// A webhook is asked whose a token is.
    pub(super) has_token_webhook: bool,
    /// Client certificates are trusted.
    pub(super) has_client_ca: bool,
    /// It listens where other hosts reach it.
    pub(super) is_secure: bool,
}

impl Admits<'_> {
    /// Says in a sentence for each flag that is missing whom the replica refuses, though the kube-apiserver lets him in.
    fn lockouts(&self, has_proxy: bool, has_kubeconfig: bool) -> Vec<String> {
        let decides_elsewhere = self.modes.iter().any(|mode| matches!(mode, Mode::AlwaysAllow | Mode::Webhook(_)));
        let has = |mode| self.modes.contains(&mode);
        let missing = [
            (!self.is_secure, "no --secure-port: nobody from another host reaches this replica"),
            (
                self.is_secure && !self.has_account_keys && !self.has_token_webhook,
                "no --service-account-key-file: service account tokens are refused (401), so no pod can use this replica; give it the files that the kube-apiserver has, and its --service-account-issuer",
            ),
            (
                self.is_secure && !self.has_client_ca,
                "no --client-ca-file: client certificates are refused (401), those of kubelets and of administrators; give it the file that the kube-apiserver has",
            ),
            (
                !has(Mode::Node) && !decides_elsewhere,
                "no Node in --authorization-mode: kubelets are refused (403) what they read; give it the modes that the kube-apiserver has, mostly Node,RBAC",
            ),
            (!has(Mode::Rbac) && !decides_elsewhere, "no RBAC in --authorization-mode: whoever has rights by roles is refused (403)"),
            (
                self.is_secure && !has_proxy && !has_kubeconfig,
                "neither --proxy-client-cert-file nor --upstream-kubeconfig: what is forwarded is asked with the client's own token, so clients with certificates are nobody there (401 or 403)",
            ),
        ];
        missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what.to_owned()).collect()
    }
}

/// Checks the flags; none when this is no replica.
pub(super) fn replica(
    args: &ReplicaArgs,
    allow_writes: bool,
    admits: &Admits<'_>,
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
    let modes = admits.modes;
    warnings.extend(admits.lockouts(proxy.is_some(), args.upstream_kubeconfig.is_some()));
    if allow_writes {
        return Err("--allow-writes: with --upstream-server or --upstream-kubeconfig all writes are forwarded".to_owned());
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
    Ok(Some(Replica { upstream, proxy, check_groups, excluded, included, group, is_source: false, impersonates: false }))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that README had locked out pods and kubelets without a word.
    #[test]
    fn each_missing_flag_says_whom_it_locks_out() {
        let lockouts = |modes: &[Mode], given: bool, webhook: bool| {
            let admits = Admits { modes, has_account_keys: given, has_token_webhook: webhook, has_client_ca: given, is_secure: true };
            admits.lockouts(given, false).iter().map(|text| text.split(':').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(lockouts(&[Mode::Node, Mode::Rbac], true, false), <[&str; 0]>::default());
        assert_eq!(
            lockouts(&[Mode::Rbac], false, false),
            [
                "no --service-account-key-file",
                "no --client-ca-file",
                "no Node in --authorization-mode",
                "neither --proxy-client-cert-file nor --upstream-kubeconfig"
            ]
        );
        assert_eq!(lockouts(&[Mode::Node], true, true), ["no RBAC in --authorization-mode"]);
        // Others decide.
        assert_eq!(lockouts(&[Mode::AlwaysAllow], true, true), <[&str; 0]>::default());
    }
}
