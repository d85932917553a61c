//! Creates the default namespaces.

use std::time::Duration;

use serde_json::json;

use super::Controllers;
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef};

/// `start-system-namespaces-controller` of kube-apiserver makes these.
const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How often we look whether they are there, as kube-apiserver does.
const POLL_EVERY: Duration = Duration::from_secs(60);

/// Wait before another try when a look has failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(controllers: &Controllers) {
    loop {
        let wait = match make(controllers).await {
            Ok(()) => POLL_EVERY,
            Err(error) => {
                tracing::debug!(%error, "cannot create all default namespaces yet; trying again");
                RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

async fn make(controllers: &Controllers) -> Result<(), WriteError> {
    let Some(resource) = controllers.resources.load().find("", "v1", "namespaces").cloned() else { return Ok(()) };
    let prefix = format!("{}namespaces/", controllers.prefix);
    let known = resource.handle.published.known();
    for name in NAMES {
        if known.is_ready() && known.snapshot.store.find(format!("{prefix}{name}").as_bytes()).is_some() {
            continue;
        }
        let place = ObjectRef { resource: resource.clone(), namespace: None, name: String::new() };
        let ask = WriteRequest::by_server(place);
        let body = json!({"metadata": {"name": name}}).to_string();
        match controllers.writer.create(&ask, Syntax::Json, body.as_bytes(), &mut Vec::new()).await {
            Ok(_) => tracing::info!(namespace = name, "created a default namespace"),
            Err(WriteError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
