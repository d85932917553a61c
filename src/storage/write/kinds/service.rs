//! What a Service loses when it becomes one of another type (`dropTypeDependentFields` of `pkg/registry/core/service`). Addresses and ports of nodes are the
//! business of an allocator, which there is not.

use serde_json::{Value, json};

use super::tree;

const BALANCER: &str = "LoadBalancer";

/// Drops what the type does not need any more, if the client has not changed it, and the status of a load balancer that is none.
pub(super) fn drop_by_type(new: &mut Value, old: &Value) {
    let of_type = |service: &Value, types: &[&str]| types.contains(&tree::text(service, &["spec", "type"]));
    let is_outside = |service: &Value| {
        let is_reached = !tree::texts(service, &["spec", "externalIPs"]).is_empty();
        of_type(service, &[BALANCER, "NodePort"]) || of_type(service, &["ClusterIP"]) && is_reached
    };
    let balances = |service: &Value| of_type(service, &[BALANCER]);
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"] {
        let is_needed = |service: &Value| if field == "externalTrafficPolicy" { is_outside(service) } else { balances(service) };
        let is_same = tree::at(new, &["spec", field]) == tree::at(old, &["spec", field]);
        if is_needed(old) && !is_needed(new) && is_same {
            tree::member(new, "spec").remove(field);
        }
    }
    if !balances(new) {
        tree::set(new, &["status", "loadBalancer"], json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_type_does_not_need_goes() {
        let service = |kind: &str, class: &str| json!({"spec": {"type": kind, "loadBalancerClass": class, "externalTrafficPolicy": "Local"}, "status": {"loadBalancer": {"ingress": [{"ip": "1"}]}}});
        let after = |mut new: Value| {
            drop_by_type(&mut new, &service(BALANCER, "c"));
            new
        };
        let gone = json!({"loadBalancer": {}});
        assert_eq!(after(service("ClusterIP", "c")), json!({"spec": {"type": "ClusterIP"}, "status": gone}));
        assert_eq!(after(service("ClusterIP", "d"))["spec"]["loadBalancerClass"], json!("d"), "validation speaks of it");
        assert_eq!(after(service("NodePort", "c"))["spec"], json!({"type": "NodePort", "externalTrafficPolicy": "Local"}));
        assert_eq!(after(service(BALANCER, "c")), service(BALANCER, "c"));
    }
}
