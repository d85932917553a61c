//! The Service `default/kubernetes` with its IPAddress, its Endpoints and its EndpointSlice, by which clients inside of a cluster find this
//! server.
//!
//! Several of ours on one etcd should advertise one address, that of what is before them: each writes its own and takes away what it finds.

use std::{net::IpAddr, time::Duration};

use serde_json::{Value, json};

use super::{
    Advertised, Controllers,
    objects::{place, text, tree},
    own::{Unready, until_done},
};
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef, write_gate::Permission};

/// How often we look whether they are as they should be, as kube-apiserver does.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Where they are, and what they are called.
const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Port of the Service.
const PORT: u16 = 443;

/// One of those whose name is that of the Service.
struct Desired {
    group: &'static str,
    resource: &'static str,
    object: Value,
    /// It is kept like this; the Service is only made, and then somebody else's to change.
    kept: bool,
}

pub(super) async fn run(controllers: &Controllers, unready: Unready) {
    let all = desired(&controllers.advertised);
    if let Some(address) = controllers.advertised.address.filter(|address| !can_be_an_endpoint(*address)) {
        tracing::info!(%address, "the Service default/kubernetes has no endpoints: they cannot have the advertised address");
    }
    until_done(controllers, "the Service default/kubernetes and its endpoints", || keep(controllers, &all)).await;
    drop(unready);
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        tokio::time::sleep(POLL_EVERY).await;
        if let Err(error) = keep(controllers, &all).await {
            tracing::debug!(%error, "cannot update the Service default/kubernetes or its endpoints; trying again");
        }
    }
}

async fn keep(controllers: &Controllers, all: &[Desired]) -> Result<(), WriteError> {
    for Desired { group, resource, object, kept } in all {
        let Some(resource) = controllers.built_in(group, resource) else { continue };
        controllers.loaded(&resource).await?;
        let target = place(&resource, NAMESPACE, NAME);
        let found = controllers.cached(&target).and_then(|found| tree(&resource, &found));
        match found {
            None => drop(controllers.create_as("", &resource, NAMESPACE, object).await?),
            Some(found) if *kept && !holds(&found, object) => {
                let ask = WriteRequest::by_server(target.clone());
                controllers.writer.replace(&ask, Syntax::Json, object.to_string().as_bytes(), &mut Vec::new()).await?;
            }
            Some(_) => continue,
        }
        tracing::info!(resource = %resource.served.resource, "updated the Service default/kubernetes or its endpoints");
        if !kept {
            give_address(controllers, &target).await?;
        }
    }
    Ok(())
}

/// Completes a Service that was just made by what belongs to its address.
async fn give_address(controllers: &Controllers, service: &ObjectRef) -> Result<(), WriteError> {
    let completed = controllers.writer.amend(service, |service| {
        let mut new = service.clone();
        let address = text(service, "/spec/clusterIP").parse::<IpAddr>().ok()?;
        let spec = new["spec"].as_object_mut()?;
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
        spec.entry("ipFamilies").or_insert_with(|| json!([family(address)]));
        (new != *service).then_some(new)
    });
    completed.await?;
    let service = controllers.writer.newest(service).await?;
    let address = service.as_ref().and_then(|service| text(service, "/spec/clusterIP").parse::<IpAddr>().ok());
    let (Some(address), Some(addresses)) = (address, controllers.built_in("networking.k8s.io", "ipaddresses")) else { return Ok(()) };
    let object = json!({
        "metadata": {"name": address, "labels": {
            "ipaddress.kubernetes.io/ip-family": family(address), "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": NAMESPACE, "name": NAME}},
    });
    controllers.create_as("", &addresses, "", &object).await.map(drop)
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// As kube-apiserver makes them. Without an address that others can reach there are no endpoints.
fn desired(advertised: &Advertised) -> Vec<Desired> {
    let (port, service) = (advertised.port, advertised.service);
    let service = json!({
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": PORT, "targetPort": port}],
            "clusterIP": service, "type": "ClusterIP", "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack",
        },
    });
    let mut all = vec![Desired { group: "", resource: "services", object: service, kept: false }];
    let Some(address) = advertised.address.filter(|address| can_be_an_endpoint(*address)) else { return all };
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    // The slice is not made from the Endpoints by a controller.
    let endpoints = json!({
        "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    });
    let slice = json!({
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family(address),
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": ports,
    });
    all.push(Desired { group: "", resource: "endpoints", object: endpoints, kept: true });
    all.push(Desired { group: "discovery.k8s.io", resource: "endpointslices", object: slice, kept: true });
    all
}

/// Whether the validation of Endpoints allows this address. A server that is tried on one machine advertises loopback, which it does not.
fn can_be_an_endpoint(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local)
}

/// Whether an object says all that is wanted: the same labels and more, the same members.
fn holds(found: &Value, desired: &Value) -> bool {
    let members = |object: &Value| object.as_object().cloned().unwrap_or_default();
    let all = |desired: &Value, found: &Value| members(desired).iter().all(|(name, value)| name == "metadata" || found[name] == *value);
    all(desired, found) && all(&desired["metadata"]["labels"], &found["metadata"]["labels"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: Option<&str>) -> Vec<Desired> {
        let parsed = |text: &str| text.parse().expect("an address");
        desired(&Advertised { address: address.map(parsed), port: 6443, service: parsed("10.0.0.1") })
    }

    #[test]
    fn what_differs_is_seen() {
        let all = of(Some("192.0.2.7"));
        for Desired { object, .. } in &all {
            let mut found = object.clone();
            found["metadata"]["uid"] = json!("u");
            found["metadata"]["labels"]["another"] = json!("label");
            assert!(holds(&found, object), "{found}");
            found["metadata"]["labels"] = json!({});
            assert!(!holds(&found, object), "{found}");
        }
        let moved = of(Some("2001:db8::7"));
        assert!(!holds(&moved[1].object, &all[1].object) && !holds(&moved[2].object, &all[2].object));
        assert_eq!(moved[2].object["addressType"], "IPv6");
        assert_eq!(of(None).len(), 1, "nobody could reach an endpoint");
    }
}
