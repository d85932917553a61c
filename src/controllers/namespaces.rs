//! Creates the default namespaces.

use std::time::Duration;

use serde_json::json;

use super::Controllers;
use storage::write::failure::WriteError;

/// `start-system-namespaces-controller` of kube-apiserver makes these.
const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How often we look whether they are there, as kube-apiserver does.
const POLL_EVERY: Duration = Duration::from_secs(60);

pub(super) async fn run(controllers: &Controllers) {
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        if let Err(error) = make(controllers).await {
            tracing::debug!(%error, "cannot create all default namespaces; trying again");
        }
    }
}

/// Creates those that are missing, all at once.
pub(super) async fn make(controllers: &Controllers) -> Result<(), WriteError> {
    let Some(resource) = controllers.built_in("", "namespaces") else { return Ok(()) };
    controllers.create_missing("", &resource, NAMES.map(|name| json!({"metadata": {"name": name}})).to_vec()).await
}
