//! Flags of an aggregated API server: the cluster that it extends, and the resources that it adds to it.

use std::path::PathBuf;

use clap::Args;

use super::args::bytes;

/// The flags as typed.
#[derive(Args, Debug)]
pub(super) struct AggregatedArgs {
    /// Kubeconfig file of a cluster that this server extends, as its APIServices say: it serves custom resources only, in that cluster's namespaces, and that
    /// cluster says who somebody is and what he may do
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstream_server", "upstream_kubeconfig", "authorization_mode", "authorization_config", "write_admin_kubeconfig"], help_heading = "Aggregated API server")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Directory with files (.yaml, .yml, .json) of the CustomResourceDefinitions that are served; read again when they change. Objects of definitions that are
    /// no longer there are kept, but not served [default: the definitions that are stored]
    #[arg(long, value_name = "DIR", requires = "kubeconfig", help_heading = "Aggregated API server")]
    pub(super) definitions: Option<PathBuf>,
    /// Delete objects whose namespaces the cluster of --kubeconfig does not have, such as those of a restored backup. Without the flag, the log and
    /// the page report them
    #[arg(long, requires = "kubeconfig", help_heading = "Aggregated API server")]
    pub(super) delete_orphaned_objects: bool,
}

/// A server that extends a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregated {
    /// Where the cluster's API is, and who we are there.
    pub kubeconfig: PathBuf,
    /// Where the definitions of its resources are; none when they are only stored.
    pub definitions: Option<PathBuf>,
    /// Whether objects of namespaces that the cluster does not have are deleted.
    pub deletes_orphaned: bool,
}

/// Flags of `watchcache aggregate`.
#[derive(Args, Debug)]
pub(super) struct ManifestsArgs {
    /// Print manifests for the cluster that is extended: APIServices, the certificate that they trust, rights, and a StatefulSet with the embedded store
    #[arg(long, required = true)]
    print_manifests: bool,
    /// Directory with files (.yaml, .yml, .json) of the CustomResourceDefinitions that are served
    #[arg(long, value_name = "DIR")]
    definitions: PathBuf,
    /// Name of the Service and of all that belongs to it
    #[arg(long, default_value = "watchcache", value_name = "NAME")]
    name: String,
    /// Namespace of it
    #[arg(long, default_value = "watchcache", value_name = "NAMESPACE")]
    namespace: String,
    /// Image of the container
    #[arg(long, default_value = concat!("watchcache:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    image: String,
    /// Size of the store's volume
    #[arg(long, default_value = "4Gi", value_name = "QUANTITY")]
    storage: String,
    /// StorageClass of the store's volume [default: that of the cluster]
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// Memory limit of the container, in bytes, or with Ki, Mi, Gi; --memory-budget of the server is two thirds of it
    #[arg(long, default_value = "1Gi", value_parser = bytes, value_name = "BYTES")]
    memory_limit: u64,
}

/// Smallest memory limit that manifests may have, bytes: an empty server and a burst.
const MEMORY_LIMIT_MIN: u64 = 128 << 20;

/// What the manifests of an aggregated API server say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifests {
    /// Directory of the definitions.
    pub definitions: PathBuf,
    /// The Service.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// What its container runs.
    pub image: String,
    /// How large its volume is, a quantity.
    pub storage: String,
    /// StorageClass of the volume; none for the cluster's default.
    pub storage_class: Option<String>,
    /// Memory limit of the container, bytes.
    pub memory_limit: u64,
}

/// Checks the flags: the names must be names.
pub(super) fn manifests(args: ManifestsArgs) -> Result<Manifests, String> {
    let ManifestsArgs { definitions, name, namespace, image, storage, storage_class, memory_limit, .. } = args;
    let is_label = |text: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=40).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
    };
    for (flag, text) in [("--name", &name), ("--namespace", &namespace)] {
        if !is_label(text) {
            return Err(format!("{flag} {text:?}: must have 1 to 40 lower case letters, digits and -, which is neither first nor last"));
        }
    }
    if memory_limit < MEMORY_LIMIT_MIN {
        return Err(format!("--memory-limit {memory_limit}: must be at least {}Mi", MEMORY_LIMIT_MIN >> 20));
    }
    Ok(Manifests { definitions, name, namespace, image, storage, storage_class, memory_limit })
}

impl AggregatedArgs {
    /// What they ask for; none when this server extends nothing.
    pub(super) fn aggregated(&self) -> Option<Aggregated> {
        let Self { kubeconfig, definitions, delete_orphaned_objects: deletes_orphaned } = self;
        let kubeconfig = kubeconfig.clone()?;
        Some(Aggregated { kubeconfig, definitions: definitions.clone(), deletes_orphaned: *deletes_orphaned })
    }
}
