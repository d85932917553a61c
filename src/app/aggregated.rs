//! What an aggregated API server follows of its host cluster.

use std::sync::Arc;

use super::StartError;
use crate::config::Aggregated;
use client::Logins;
use upstream::host::Namespaces;

const FLAG: &str = "--kubeconfig";

/// The namespaces of the cluster that the flags name, followed from now on.
pub(super) fn namespaces(config: &Aggregated, logins: &Logins) -> Result<Arc<Namespaces>, StartError> {
    let login = logins.open(FLAG, &config.kubeconfig).map_err(|error| StartError::Host(error.to_string()))?;
    let namespaces = Namespaces::new(login).map_err(|why| StartError::Host(format!("{FLAG} {}: {why}", config.kubeconfig.display())))?;
    let namespaces = Arc::new(namespaces);
    tokio::spawn({
        let namespaces = namespaces.clone();
        async move { namespaces.follow().await }
    });
    Ok(namespaces)
}
