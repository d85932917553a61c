//! Where a Service answers: at a ready address of its slices, or at its cluster IP.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use serde_json::Value;

use super::{Resource, ServedResources};
use codec::Encoder;
use go::quote::quoted;
use model::Object;
use webhook::{Backend, Resolver};

/// Returns what finds Services in the cache; `prefix` is what all keys begin with.
#[must_use]
pub fn resolver(resources: &Arc<ArcSwap<ServedResources>>, prefix: &str) -> Arc<Resolver> {
    let (resources, prefix) = (Arc::downgrade(resources), prefix.to_owned());
    Arc::new(move |backend: &Backend<'_>| resolve(&resources, &prefix, backend))
}

/// Finds an address of a Service in the cache. `prefix`: what all keys begin with.
///
/// # Errors
/// There is no such Service or port, or nothing that could answer; a sentence in kube-apiserver's words where it has any.
fn resolve(resources: &Weak<ArcSwap<ServedResources>>, prefix: &str, backend: &Backend<'_>) -> Result<SocketAddr, String> {
    let Some(resources) = resources.upgrade() else { return Err("the server is stopping".to_owned()) };
    let resources = resources.load();
    let Some(services) = resources.find("", "v1", "services") else {
        return Err("this server has no Services: name the webhook by a URL".to_owned());
    };
    let known = services.handle.published.known();
    let key = in_namespace(services, prefix, backend) + backend.name;
    let Some(service) = known.snapshot.store.find(key.as_bytes()) else {
        return Err(format!("service {} not found", quoted(backend.name)));
    };
    let service = tree(services, service);
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(port) = ports.iter().find(|port| port["port"] == backend.port) else {
        return Err(format!("no service port {} found for service {}", backend.port, quoted(backend.name)));
    };
    if let Some(found) = of_slices(&resources, prefix, backend, port["name"].as_str().unwrap_or_default()) {
        return Ok(found);
    }
    let cluster_ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    match cluster_ip.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, backend.port)),
        Err(_) => Err(format!("no endpoints available for service {}", quoted(backend.name))),
    }
}

/// A ready address of the Service's slices, each time another one.
fn of_slices(resources: &ServedResources, prefix: &str, backend: &Backend<'_>, port: &str) -> Option<SocketAddr> {
    let slices = resources.find("discovery.k8s.io", "v1", "endpointslices")?;
    let known = slices.handle.published.known();
    let mut found = Vec::new();
    let is_of = |object: &&Arc<Object>| object.labels().get("kubernetes.io/service-name") == Some(backend.name);
    let namespace = in_namespace(slices, prefix, backend);
    for slice in known.snapshot.store.scan(namespace.as_bytes(), b"").filter(is_of) {
        let slice = tree(slices, slice);
        let ports = slice["ports"].as_array().into_iter().flatten();
        let Some(number) = ports.filter(|one| one["name"].as_str().unwrap_or_default() == port).find_map(|one| one["port"].as_u64()) else {
            continue;
        };
        let ready = |one: &&Value| one["conditions"]["ready"].as_bool().unwrap_or(true);
        for address in
            slice["endpoints"].as_array().into_iter().flatten().filter(ready).flat_map(|one| one["addresses"].as_array()).flatten()
        {
            let ip = address.as_str().and_then(|text| text.parse::<IpAddr>().ok());
            found.extend(ip.zip(u16::try_from(number).ok()).map(|(ip, port)| SocketAddr::new(ip, port)));
        }
    }
    if found.is_empty() {
        return None;
    }
    let at = rand::random_range(0..found.len());
    Some(found[at])
}

/// Returns what the keys of a resource begin with in the namespace of a Service.
fn in_namespace(resource: &Resource, prefix: &str, backend: &Backend<'_>) -> String {
    format!("{}{}/", resource.served.storage.key_prefix(prefix), backend.namespace)
}

fn tree(resource: &Resource, object: &Object) -> Value {
    let mut json = Vec::new();
    let encoder: &Encoder = &resource.encoders.whole().encoder;
    encoder.object_into(object, &mut json);
    serde_json::from_slice(&json).unwrap_or_default()
}
