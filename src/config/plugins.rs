//! Which of kube-apiserver's admission plugins are on.

use std::{path::PathBuf, sync::Arc};

use super::admission_file;
use admission::plugins::Plugins;
use clap::Args;
use controllers::{Controller, Selection};

const FILE: &str = "--admission-control-config-file";

/// The plugin that wants an account for each Pod.
const ACCOUNTS: &str = "ServiceAccount";

/// The flags of admission plugins, which are kube-apiserver's.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    /// Admission plugins of kube-apiserver to turn on besides those that are on by default, by its names, comma separated; the order does not matter.
    /// ServiceAccount is on by default where --controllers makes service accounts
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Admission")]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to turn off although they are on by default, comma separated
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Admission")]
    disable_admission_plugins: Vec<String>,
    /// File with settings of admission plugins, in kube-apiserver's format: an AdmissionConfiguration with those of PodSecurity (defaults, exemptions),
    /// ResourceQuota (limitedResources) and both kinds of admission webhooks (kubeConfigFile)
    #[arg(long, value_name = "FILE", help_heading = "Admission")]
    admission_control_config_file: Option<PathBuf>,
    /// Seconds for which a Pod tolerates a node that is not ready, if it does not say
    #[arg(long, default_value_t = 300, value_name = "SECONDS", help_heading = "Admission", allow_negative_numbers = true)]
    default_not_ready_toleration_seconds: i64,
    /// Seconds for which a Pod tolerates a node that is not reached, if it does not say
    #[arg(long, default_value_t = 300, value_name = "SECONDS", help_heading = "Admission", allow_negative_numbers = true)]
    default_unreachable_toleration_seconds: i64,
}

impl PluginArgs {
    /// Returns the plugins that are on. `warnings` gets a line for each that was named in vain. ServiceAccount is on by itself only where accounts are made:
    /// without the account `default` of its namespace each Pod would be refused.
    ///
    /// # Errors
    /// There is no plugin of a name.
    pub(super) fn chosen(&self, controllers: &Selection, warnings: &mut Vec<String>) -> Result<Plugins, String> {
        let named = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>();
        let (enabled, mut disabled) = (named(&self.enable_admission_plugins), named(&self.disable_admission_plugins));
        if !controllers.has(Controller::ServiceAccount) && !enabled.iter().any(|name| name == ACCOUNTS) {
            disabled.push(ACCOUNTS.to_owned());
        }
        let (mut plugins, lines) = Plugins::chosen(&enabled, &disabled)?;
        plugins.toleration_seconds = (self.default_not_ready_toleration_seconds, self.default_unreachable_toleration_seconds);
        warnings.extend(lines);
        if let Some(file) = &self.admission_control_config_file {
            plugins.settings = Arc::new(admission_file::read(file).map_err(|why| format!("{FILE}: {}: {why}", file.display()))?);
        }
        Ok(plugins)
    }
}
