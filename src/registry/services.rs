//! Where a Service answers: at a ready address of its slices, or at its cluster IP.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Weak,
};

use arc_swap::ArcSwap;
use serde_json::Value;

use super::{Resource, ServedResources};
use codec::Encoder;
use conversion::Backend;
use go::quote::quoted;
use model::Object;

/// Finds an address of a Service in the cache.
///
/// # Errors
/// There is no such Service or port, or nothing that could answer; a sentence in kube-apiserver's words where it has any.
pub(super) fn resolve(resources: &Weak<ArcSwap<ServedResources>>, backend: &Backend<'_>) -> Result<SocketAddr, String> {
    let Some(resources) = resources.upgrade() else { return Err("the server is stopping".to_owned()) };
    let resources = resources.load();
    let Some(services) = resources.find("", "v1", "services") else {
        return Err("this server has no Services: name the webhook by a URL".to_owned());
    };
    let known = services.handle.published.known();
    let key = format!("/services/specs/{}/{}", backend.namespace, backend.name);
    let service = known.snapshot.store.scan(b"", b"").find(|object| object.key().ends_with(key.as_bytes()));
    let Some(service) = service else { return Err(format!("service {} not found", quoted(backend.name))) };
    let service = tree(services, service);
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(port) = ports.iter().find(|port| port["port"] == backend.port) else {
        return Err(format!("no service port {} found for service {}", backend.port, quoted(backend.name)));
    };
    if let Some(found) = of_slices(&resources, backend, port["name"].as_str().unwrap_or_default()) {
        return Ok(found);
    }
    let cluster_ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    match cluster_ip.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, backend.port)),
        Err(_) => Err(format!("no endpoints available for service {}", quoted(backend.name))),
    }
}

/// A ready address of the Service's slices, each time another one.
fn of_slices(resources: &ServedResources, backend: &Backend<'_>, port: &str) -> Option<SocketAddr> {
    let slices = resources.find("discovery.k8s.io", "v1", "endpointslices")?;
    let known = slices.handle.published.known();
    let mut found = Vec::new();
    let is_of = |object: &&std::sync::Arc<Object>| {
        object.namespace() == backend.namespace && object.labels().get("kubernetes.io/service-name") == Some(backend.name)
    };
    for slice in known.snapshot.store.scan(b"", b"").filter(is_of) {
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

fn tree(resource: &Resource, object: &Object) -> Value {
    let mut json = Vec::new();
    let encoder: &Encoder = &resource.encoders.whole().encoder;
    encoder.object_into(object, &mut json);
    serde_json::from_slice(&json).unwrap_or_default()
}
