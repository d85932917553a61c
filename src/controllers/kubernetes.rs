//! The Service `default/kubernetes` with its Endpoints and its EndpointSlice, by which clients inside of a cluster find this server.
//!
//! Several of ours on one etcd should advertise one address, that of what is before them: each writes its own and takes away what it finds.

use std::{net::IpAddr, time::Duration};

use serde_json::{Value, json};

use super::{Advertised, Controllers};
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef, write_gate::Permission};

/// How often we look whether they are as they should be, as kube-apiserver does.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Wait before another try when a look has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Where they are, and what they are called.
const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Port of the Service.
const PORT: u16 = 443;

/// One of the three.
struct Desired {
    group: &'static str,
    resource: &'static str,
    object: Value,
    /// It is kept like this; the Service is only made, and then somebody else's to change.
    kept: bool,
}

pub(super) async fn run(controllers: &Controllers) {
    let Some(advertised) = &controllers.advertised else { return };
    let all = desired(advertised);
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        let wait = match keep(controllers, &all).await {
            Ok(()) => POLL_EVERY,
            Err(error) => {
                tracing::debug!(%error, "cannot update the Service default/kubernetes yet; trying again");
                RETRY
            }
        };
        tokio::time::sleep(wait).await;
    }
}

async fn keep(controllers: &Controllers, all: &[Desired]) -> Result<(), WriteError> {
    for Desired { group, resource, object, kept } in all {
        let Some(resource) = controllers.resources.load().find(group, "v1", resource).cloned() else { continue };
        let known = resource.handle.published.known();
        if !known.is_ready() {
            return Err(WriteError::NotYet(format!("{} are not loaded yet", resource.served.resource)));
        }
        let place = |name: &str| ObjectRef { resource: resource.clone(), namespace: Some(NAMESPACE.to_owned()), name: name.to_owned() };
        let found = known.snapshot.store.find(&place(NAME).key(&controllers.prefix)).map(|found| [b"{", &*found.tail()].concat());
        let ask = |name: &str| WriteRequest::by_server(place(name));
        let body = || object.to_string();
        let written = match found {
            None => controllers.writer.create(&ask(""), Syntax::Json, body().as_bytes(), &mut Vec::new()).await,
            Some(found) if *kept && !serde_json::from_slice(&found).is_ok_and(|found: Value| holds(&found, object)) => {
                controllers.writer.replace(&ask(NAME), Syntax::Json, body().as_bytes(), &mut Vec::new()).await
            }
            Some(_) => continue,
        };
        match written {
            Ok(_) => tracing::info!(resource = %resource.served.resource, "updated the Service default/kubernetes or its endpoints"),
            // The cache is behind.
            Err(WriteError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As kube-apiserver makes them.
fn desired(advertised: &Advertised) -> [Desired; 3] {
    let (address, port, service) = (advertised.endpoint.ip(), advertised.endpoint.port(), advertised.service);
    let family = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let service = json!({
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": PORT, "targetPort": port}],
            "clusterIP": service, "clusterIPs": [service], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": [family(service)], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
    });
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
    [
        Desired { group: "", resource: "services", object: service, kept: false },
        Desired { group: "", resource: "endpoints", object: endpoints, kept: true },
        Desired { group: "discovery.k8s.io", resource: "endpointslices", object: slice, kept: true },
    ]
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

    #[test]
    fn what_differs_is_seen() {
        let advertised =
            |address: &str| Advertised { endpoint: address.parse().expect("an address"), service: "10.0.0.1".parse().expect("an address") };
        let [service, endpoints, slice] = desired(&advertised("192.0.2.7:6443"));
        for Desired { object, .. } in [&service, &endpoints, &slice] {
            let mut found = object.clone();
            found["metadata"]["uid"] = json!("u");
            found["metadata"]["labels"]["another"] = json!("label");
            assert!(holds(&found, object), "{found}");
            found["metadata"]["labels"] = json!({});
            assert!(!holds(&found, object), "{found}");
        }
        let [_, moved, elsewhere] = desired(&advertised("[2001:db8::7]:6443"));
        assert!(!holds(&moved.object, &endpoints.object) && !holds(&elsewhere.object, &slice.object));
        assert_eq!(elsewhere.object["addressType"], "IPv6");
    }
}
