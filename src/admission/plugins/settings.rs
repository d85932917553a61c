//! The settings of plugins, as kube-apiserver reads them from the file of `--admission-control-config-file`.

use std::path::PathBuf;

use serde_json::Value;

use super::security::SecuritySettings;

/// The settings of all plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Of PodSecurity.
    pub security: SecuritySettings,
    /// Of ResourceQuota: what nobody may use in a namespace without a quota for it.
    pub limited: Vec<LimitedResource>,
    /// The kubeconfig file that says who the server is at webhooks that change objects.
    pub mutating_kubeconfig: Option<PathBuf>,
    /// The same of webhooks that judge them.
    pub validating_kubeconfig: Option<PathBuf>,
}

/// A resource that is limited where no quota is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedResource {
    /// Group.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// Parts of the names of what is limited.
    pub contains: Vec<String>,
    /// Scopes that are limited: `scopeName`, `operator` and `values`.
    pub scopes: Vec<Value>,
}
