//! The ConfigMap `kube-system/extension-apiserver-authentication`, by which kube-scheduler, kube-controller-manager and aggregated API servers know whom this
//! server believes.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use super::Controllers;
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef, write_gate::Permission};

/// Where it is, and what it is called.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// How often we look whether it is as it should be: a file of authorities may have changed.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Wait before another try when a look has failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(controllers: &Controllers) {
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        let wait = match keep(controllers).await {
            Ok(()) => POLL_EVERY,
            Err(error) => {
                tracing::debug!(%error, "cannot update ConfigMap {NAMESPACE}/{NAME} yet; trying again");
                RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Adds what this server believes to what is there. Without any authority the ConfigMap is empty, but those who ask for it find it; kube-apiserver makes none.
async fn keep(controllers: &Controllers) -> Result<(), WriteError> {
    let Some(resource) = controllers.resources.load().find("", "v1", "configmaps").cloned() else { return Ok(()) };
    let known = resource.handle.published.known();
    if !known.is_ready() {
        return Err(WriteError::NotYet("configmaps are not loaded yet".to_owned()));
    }
    let place = |name: &str| ObjectRef { resource: resource.clone(), namespace: Some(NAMESPACE.to_owned()), name: name.to_owned() };
    let ask = |name: &str| WriteRequest::by_server(place(name));
    let found = known.snapshot.store.find(&place(NAME).key(&controllers.prefix)).map(|found| [b"{", &*found.tail()].concat());
    let found: Option<Value> = found.and_then(|found| serde_json::from_slice(&found).ok());
    let data: BTreeMap<String, String> =
        found.as_ref().and_then(|found| serde_json::from_value(found["data"].clone()).ok()).unwrap_or_default();
    let desired = match controllers.authenticator.published(&data, SystemTime::now()) {
        Ok(desired) => desired,
        Err(why) => return Err(WriteError::NotYet(why)),
    };
    let written = match found {
        None => {
            let body = json!({"metadata": {"name": NAME}, "data": desired}).to_string();
            controllers.writer.create(&ask(""), Syntax::Json, body.as_bytes(), &mut Vec::new()).await
        }
        Some(_) if desired == data => return Ok(()),
        Some(mut found) => {
            found["data"] = json!(desired);
            controllers.writer.replace(&ask(NAME), Syntax::Json, found.to_string().as_bytes(), &mut Vec::new()).await
        }
    };
    match written {
        Ok(_) => tracing::info!("updated ConfigMap {NAMESPACE}/{NAME}"),
        // The cache is behind.
        Err(WriteError::AlreadyExists { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
