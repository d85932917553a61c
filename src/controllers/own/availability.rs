//! The condition `Available` of APIServices, by kube-aggregator's rules. What another API server would answer is not asked for: requests
//! are forwarded to none.

use std::{collections::BTreeSet, future::pending, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::Controllers;
use crate::objects::{place, text, tree};
use cache::state::snapshot::Snapshot;
use model::{Epoch, Revision};
use registry::Resource;
use storage::write::{Part, failure::WriteError, object_ref::ObjectRef};

/// How often an APIService of another API server is looked at without a change, as by kube-apiserver.
pub(super) const RECHECK_EVERY: Duration = Duration::from_secs(30);

/// Which Service a slice of endpoints belongs to.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The reason of what this server itself answers for.
const LOCAL: &str = "Local";

/// What the condition says.
#[derive(Debug, PartialEq, Eq)]
struct Availability {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// A resource, and up to where it was looked at.
type Followed = (Arc<Resource>, Option<(Epoch, Revision)>);

/// The APIServices of other API servers, which depend on Services and their endpoints.
pub(super) struct Targets {
    names: BTreeSet<String>,
    followed: Option<[Followed; 2]>,
}

impl Targets {
    pub(super) fn new(controllers: &Controllers) -> Self {
        let resources = [("", "services"), ("discovery.k8s.io", "endpointslices")].map(|(group, name)| controllers.built_in(group, name));
        let followed = match resources {
            [Some(services), Some(slices)] => Some([(services, None), (slices, None)]),
            _ => None,
        };
        Self { names: BTreeSet::new(), followed }
    }

    /// Takes in what these APIServices are now.
    pub(super) fn follow(&mut self, controllers: &Controllers, resource: &Arc<Resource>, snapshot: &Snapshot, names: &BTreeSet<String>) {
        for name in names {
            let found = snapshot.store.find(&place(resource, "", name).key(&controllers.prefix)).and_then(|found| tree(resource, found));
            match found.is_some_and(|found| !is_local(&found)) {
                true => self.names.insert(name.clone()),
                false => self.names.remove(name),
            };
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Ends when something has changed on which one of them may depend.
    pub(super) async fn changed(&mut self) {
        let (false, Some([(services, seen_services), (slices, seen_slices)])) = (self.names.is_empty(), &mut self.followed) else {
            return pending().await;
        };
        tokio::select! {
            _ = services.handle.published.next(seen_services) => {}
            _ = slices.handle.published.next(seen_slices) => {}
        }
    }
}

/// Whether this server itself answers for the APIService.
pub(super) fn is_local(service: &Value) -> bool {
    service["spec"]["service"].is_null()
}

/// Says of one that this server itself answers for that it is available.
pub(super) async fn tell_local(controllers: &Controllers, target: &ObjectRef) -> Result<(), WriteError> {
    let message = "Local APIServices are always available".to_owned();
    tell(controllers, target, &Availability { status: "True", reason: LOCAL, message }).await
}

/// Says of one that another API server is to answer for why it is not available.
pub(super) async fn tell_remote(controllers: &Controllers, target: &ObjectRef, found: &Value) -> Result<(), WriteError> {
    let (namespace, name) = (text(found, "/spec/service/namespace"), text(found, "/spec/service/name"));
    let port = found["spec"]["service"]["port"].as_i64().unwrap_or(443);
    let read = |group, resource| async move {
        match controllers.built_in(group, resource) {
            Some(resource) => controllers.loaded(&resource).await.map(|known| Some((resource, known))),
            None => Ok(None),
        }
    };
    let (Some((services, _)), Some((slices, known))) = (read("", "services").await?, read("discovery.k8s.io", "endpointslices").await?)
    else {
        return Ok(());
    };
    let service = controllers.cached(&place(&services, namespace, name)).and_then(|found| tree(&services, &found));
    let prefix = format!("{}{namespace}/", slices.served.storage.key_prefix(&controllers.prefix));
    let of_namespace = known.snapshot.store.scan(prefix.as_bytes(), b"").filter_map(|slice| tree(&slices, slice));
    let of_service: Vec<Value> = of_namespace.filter(|slice| slice["metadata"]["labels"][SERVICE_LABEL] == name).collect();
    tell(controllers, target, &availability((namespace, name, port), service.as_ref(), &of_service)).await
}

/// What stands in the way of requests to another API server.
fn availability((namespace, name, port): (&str, &str, i64), service: Option<&Value>, slices: &[Value]) -> Availability {
    let no = |reason: &'static str, message: String| Availability { status: "False", reason, message };
    let quoted = go::quote::quoted(namespace);
    let Some(service) = service else { return no("ServiceNotFound", format!("service/{name} in {quoted} is not present")) };
    if service["spec"]["type"] == "ClusterIP" {
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.find(|found| found["port"] == port) else {
            return no("ServicePortError", format!("service/{name} in {quoted} is not listening on port {port}"));
        };
        if slices.is_empty() {
            return no("EndpointsNotFound", format!("cannot find endpointslices for service/{name} in {quoted}"));
        }
        let port_name = found["name"].as_str().unwrap_or("");
        if !slices.iter().any(|slice| has_endpoint(slice, port_name)) {
            let port_name = go::quote::quoted(port_name);
            return no(
                "MissingEndpoints",
                format!("endpointslices for service/{name} in {quoted} have no addresses with port name {port_name}"),
            );
        }
    }
    no("FailedDiscoveryCheck", format!("service/{name} in {quoted} is not asked: watchcache forwards no requests to other API servers"))
}

fn has_endpoint(slice: &Value, port_name: &str) -> bool {
    let list = |name: &str| slice[name].as_array().cloned().unwrap_or_default();
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"].as_bool().unwrap_or(true);
    let has_port = |port: &Value| port["name"] == port_name && !port["port"].is_null();
    list("endpoints").iter().any(is_ready) && list("ports").iter().any(has_port)
}

async fn tell(controllers: &Controllers, target: &ObjectRef, availability: &Availability) -> Result<(), WriteError> {
    let now = controllers.writer.now();
    let cached = controllers.cached(target).and_then(|found| tree(&target.resource, &found));
    if cached.is_some_and(|cached| with_condition(&cached, availability, &now).is_none()) {
        return Ok(());
    }
    if availability.reason == LOCAL {
        // Nobody manages it: in kube-apiserver it comes with the object.
        return controllers.writer.amend(target, |current| with_condition(current, availability, &now)).await.map(drop);
    }
    controllers.writer.amend_part(target, Part::Status, |current| with_condition(current, availability, &now)).await.map(drop)
}

/// The APIService with this condition; none if it has it. The time is that of the last change of the status.
fn with_condition(service: &Value, availability: &Availability, now: &str) -> Option<Value> {
    let Availability { status, reason, message } = availability;
    let mut conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|condition| condition["type"] == "Available") {
        Some(condition) => {
            if condition["status"] != *status {
                condition["status"] = (*status).into();
                condition["lastTransitionTime"] = now.into();
            }
            condition["reason"] = (*reason).into();
            condition["message"] = message.as_str().into();
        }
        None => {
            conditions.push(json!({"type": "Available", "status": status, "lastTransitionTime": now, "reason": reason, "message": message}))
        }
    }
    let mut new = service.clone();
    new["status"]["conditions"] = conditions.into();
    (new != *service).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(service: Option<Value>, slices: &[Value]) -> &'static str {
        availability(("ns", "s", 443), service.as_ref(), slices).reason
    }

    #[test]
    fn the_first_thing_that_is_missing_is_told() {
        let service = |port: u16| Some(json!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": port}]}}));
        let slice =
            |ready: Value, name: &str| json!({"endpoints": [{"conditions": {"ready": ready}}], "ports": [{"name": name, "port": 6443}]});
        assert_eq!(reason(None, &[]), "ServiceNotFound");
        assert_eq!(reason(service(80), &[]), "ServicePortError");
        assert_eq!(reason(service(443), &[]), "EndpointsNotFound");
        assert_eq!(reason(service(443), &[slice(json!(false), "https")]), "MissingEndpoints");
        assert_eq!(reason(service(443), &[slice(json!(true), "http")]), "MissingEndpoints");
        assert_eq!(reason(service(443), &[slice(Value::Null, "https")]), "FailedDiscoveryCheck");
        assert_eq!(reason(Some(json!({"spec": {"type": "ExternalName"}})), &[]), "FailedDiscoveryCheck");
        let told = availability(("ns", "s", 443), None, &[]).message;
        assert_eq!(told, "service/s in \"ns\" is not present");
    }

    #[test]
    fn the_time_is_that_of_the_last_change() {
        let say = |status, reason| Availability { status, reason, message: "m".to_owned() };
        let first = with_condition(&json!({"spec": {}}), &say("True", "a"), "1").expect("it has none");
        assert_eq!(with_condition(&first, &say("True", "a"), "2"), None);
        let condition = |service: &Value| service["status"]["conditions"][0].clone();
        let second = with_condition(&first, &say("True", "b"), "2").expect("another reason");
        assert_eq!((&condition(&second)["reason"], &condition(&second)["lastTransitionTime"]), (&json!("b"), &json!("1")));
        let third = with_condition(&second, &say("False", "b"), "3").expect("another status");
        assert_eq!(condition(&third)["lastTransitionTime"], "3");
    }
}
