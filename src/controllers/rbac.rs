//! Creates the default roles and bindings and brings them up to date at the start; and fills in the rules of aggregated ClusterRoles, which Kubernetes
//! leaves to a controller outside of the API server (spec api-surface §13.1, §13.3).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::{Controllers, objects::tree, own::a_few_at_once};
use auth::authz::bootstrap::{Object, Step, objects, reconcile};
use auth::authz::rbac::GROUP;
use registry::Resource;
use retry::Backoff;
use storage::write::{failure::WriteError, object_ref::ObjectRef, options::DeleteOptions, write_gate::Permission};

/// Wait between looks at roles that change all the time.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits after failures: at first not all namespaces are there.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1), 0.2);

/// After this the server is ready without them. kube-apiserver gives up after 30 s, and ends.
const READY_AT_LATEST: Duration = Duration::from_secs(30);

pub(super) async fn run(controllers: &Controllers) {
    let (began, mut failures) = (Instant::now(), 0);
    while let Err(error) = begin(controllers).await {
        // A server that may not write to its etcd can still be read.
        if began.elapsed() > READY_AT_LATEST && !controllers.has_roles.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "ready without all default roles and bindings; still trying to write them");
        }
        tokio::time::sleep(BACKOFF.wait(failures)).await;
        failures += 1;
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
    let wanted = objects();
    let done = a_few_at_once(wanted.iter().map(|desired| ensure(controllers, desired))).await;
    let written: Vec<bool> = done.into_iter().collect::<Result<_, WriteError>>()?;
    let changed = written.into_iter().filter(|written| *written).count();
    if changed > 0 {
        tracing::info!(changed, "wrote the default roles and bindings");
    }
    Ok(())
}

/// Brings one to where it should be; returns whether it was written.
async fn ensure(controllers: &Controllers, desired: &Object) -> Result<bool, WriteError> {
    let Some(resource) = controllers.built_in(GROUP, desired.kind.resource()) else { return Ok(false) };
    controllers.loaded(&resource).await?;
    let place = place(&resource, desired);
    let stored = controllers.cached(&place).and_then(|found| tree(&resource, &found));
    match reconcile(desired, stored.as_ref()) {
        Step::Keep => return Ok(false),
        Step::Create => {}
        Step::Update(_) => {
            let update = |current: &Value| match reconcile(desired, Some(current)) {
                Step::Update(value) => Some(value),
                _ => None,
            };
            return Ok(controllers.writer.amend(&place, update).await?.is_some());
        }
        Step::Recreate => drop(controllers.writer.delete_by_server(&place, &DeleteOptions::default()).await?),
    }
    controllers.create_as("", &resource, &desired.namespace, &desired.value).await
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
