//! Group versions for which an APIService names another API server. Requests are forwarded to none, so that they are answered as by a kube-
//! apiserver whose APIService is not available.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, de::IgnoredAny};

use super::respond::{Reply, not_found};
use registry::ServedResources;

/// Answers a request for what this server does not serve: 503 of a group version that another server is to serve, else 404.
pub(super) fn not_served(reply: &Reply, resources: &ServedResources, prefix: &str, (group, version): (&str, &str)) -> Response {
    if names_another_server(resources, prefix, group, version) {
        return reply.text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n");
    }
    not_found(reply, &resources.catalogue, Some(group))
}

fn names_another_server(resources: &ServedResources, prefix: &str, group: &str, version: &str) -> bool {
    let Some(services) = resources.find("apiregistration.k8s.io", "v1", "apiservices") else { return false };
    let key = format!("{}{version}.{group}", services.served.storage.key_prefix(prefix));
    let snapshot = services.handle.published.known().snapshot;
    snapshot.store.find(key.as_bytes()).is_some_and(|service| has_service(&[b"{", &*service.tail()].concat()))
}

fn has_service(object: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Object {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        service: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Object>(object).is_ok_and(|object| object.spec.service.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_names_another_server() {
        assert!(has_service(br#"{"metadata":{},"spec":{"group":"x.io","service":{"name":"s","namespace":"n"}},"status":{}}"#));
        for local in ["{\"spec\":{\"service\":null}}", "{\"spec\":{}}", "{}", "{"] {
            assert!(!has_service(local.as_bytes()), "{local}");
        }
    }
}
