//! Creates the default roles and bindings and brings them up to date at the start; and fills in the rules of aggregated ClusterRoles, which Kubernetes
//! leaves to a controller outside of the API server (spec api-surface §13.1, §13.3).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::Controllers;
use auth::authz::bootstrap::{Object, Step, objects, reconcile};
use auth::authz::rbac::GROUP;
use cache::state::snapshot::Known;
use registry::Resource;
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef, options::DeleteOptions, write_gate::Permission};

/// Wait before another try when one has failed, and between looks at roles that change all the time.
const PAUSE: Duration = Duration::from_secs(1);

/// After this the server is ready without them. kube-apiserver gives up after 30 s, and ends.
const READY_AT_LATEST: Duration = Duration::from_secs(30);

pub(super) async fn run(controllers: &Controllers) {
    let began = Instant::now();
    while let Err(error) = begin(controllers).await {
        // A server that may not write to its etcd can still be read.
        if began.elapsed() > READY_AT_LATEST && !controllers.has_roles.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "ready without all default roles and bindings; still trying to write them");
        }
        tokio::time::sleep(PAUSE).await;
    }
    controllers.has_roles.store(true, Ordering::Relaxed);
    let Some(roles) = controllers.resources.load().find(GROUP, "v1", "clusterroles").cloned() else { return };
    // A kube-apiserver that comes later has a controller manager.
    while controllers.write_gate.now() == Permission::Granted {
        let changed = roles.handle.published.changed();
        if let Err(error) = aggregate(controllers, &roles).await {
            tracing::warn!(%error, "cannot update the rules of aggregated ClusterRoles");
        }
        tokio::time::sleep(PAUSE).await;
        changed.await;
    }
}

/// Makes what is not there, and adds what is missing.
async fn begin(controllers: &Controllers) -> Result<(), WriteError> {
    let (mut made, mut changed) = (0, 0);
    for desired in objects() {
        let Some(resource) = controllers.resources.load().find(GROUP, "v1", desired.kind.resource()).cloned() else { continue };
        if resource.handle.published.wait_until(Known::is_ready, PAUSE).await.is_err() {
            return Err(WriteError::NotYet(format!("{} are not loaded yet", resource.served.resource)));
        }
        let known = resource.handle.published.known();
        let place = place(&resource, &desired);
        let stored = known.snapshot.store.find(&place.key(&controllers.prefix)).and_then(|found| {
            let mut json = Vec::new();
            resource.encoders.whole().encoder.object_into(found, &mut json);
            serde_json::from_slice::<Value>(&json).ok()
        });
        match reconcile(&desired, stored.as_ref()) {
            Step::Keep => continue,
            Step::Create => made += 1,
            Step::Update(_) => {
                let update = |current: &Value| match reconcile(&desired, Some(current)) {
                    Step::Update(value) => Some(value),
                    _ => None,
                };
                controllers.writer.amend(&place, update).await?;
                changed += 1;
                continue;
            }
            Step::Recreate => {
                controllers.writer.delete(&place, &DeleteOptions::default(), None).await?;
                changed += 1;
            }
        }
        let ask = WriteRequest::by_server(ObjectRef { name: String::new(), ..place });
        match controllers.writer.create(&ask, Syntax::Json, desired.value.to_string().as_bytes(), &mut Vec::new()).await {
            // The cache is behind.
            Ok(_) | Err(WriteError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if made + changed > 0 {
        tracing::info!(made, changed, "wrote the default roles and bindings");
    }
    Ok(())
}

/// Writes the rules of the roles that are made of others'.
async fn aggregate(controllers: &Controllers, roles: &Arc<Resource>) -> Result<(), WriteError> {
    for aggregated in controllers.access.aggregated() {
        let rules = serde_json::to_value(&aggregated.rules).unwrap_or_default();
        let place = ObjectRef { resource: roles.clone(), namespace: None, name: aggregated.name.to_string() };
        let change = |current: &Value| {
            let mut new = current.clone();
            new["rules"] = rules.clone();
            (new != *current).then_some(new)
        };
        if controllers.writer.amend(&place, change).await?.is_some() {
            tracing::info!(role = %aggregated.name, "wrote the rules of an aggregated ClusterRole");
        }
    }
    Ok(())
}

fn place(resource: &Arc<Resource>, desired: &Object) -> ObjectRef {
    let namespace = Some(desired.namespace.clone()).filter(|namespace| !namespace.is_empty());
    ObjectRef { resource: resource.clone(), namespace, name: desired.name.clone() }
}
