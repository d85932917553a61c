//! The ServiceCIDR `kubernetes`: the ranges of `--service-cluster-ip-range`. It is made again when it is gone, and gets a second range;
//! otherwise it is the administrator's.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Controllers, Unready, request, until_done};
use crate::objects::{place, tree};
use registry::Resource;
use storage::write::{Part, Syntax, failure::WriteError, object_ref::ObjectRef, write_gate::Permission};

const NAME: &str = "kubernetes";
/// Who manages its condition.
const MANAGER: &str = "kubernetes-service-cidr-controller";
/// How often it is looked at, as by kube-apiserver.
const LOOK_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(controllers: &Controllers, unready: Unready) {
    let Some(resource) = controllers.built_in("networking.k8s.io", "servicecidrs") else { return };
    until_done(controllers, "the ServiceCIDR kubernetes", || keep(controllers, &resource)).await;
    drop(unready);
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        sleep(LOOK_EVERY).await;
        if let Err(error) = keep(controllers, &resource).await {
            tracing::debug!(%error, "cannot update the ServiceCIDR kubernetes; trying again");
        }
    }
}

async fn keep(controllers: &Controllers, resource: &Arc<Resource>) -> Result<(), WriteError> {
    let ranges = &controllers.service_ranges;
    controllers.loaded(resource).await?;
    let target = place(resource, "", NAME);
    let found = controllers.cached(&target).and_then(|found| tree(resource, &found));
    let Some(found) = found else {
        let object = json!({"metadata": {"name": NAME}, "spec": {"cidrs": ranges}});
        controllers.create_as("", resource, "", &object).await?;
        return tell(controllers, &target, &object).await;
    };
    let theirs: Vec<&str> = found["spec"]["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match (&ranges[..], &theirs[..]) {
        ([first, _], [only]) if first == only => {
            let mut new = found.clone();
            new["spec"]["cidrs"] = json!(ranges);
            let ask = request(target, Part::Main, "");
            match controllers.writer.replace(&ask, Syntax::Json, new.to_string().as_bytes(), &mut Vec::new()).await {
                Ok(_) | Err(WriteError::Conflict { .. } | WriteError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
        (ours, theirs) if ours == theirs => tell(controllers, &target, &found).await,
        _ => Ok(()),
    }
}

/// Says that it is ready, if nobody has said anything about that.
async fn tell(controllers: &Controllers, target: &ObjectRef, found: &Value) -> Result<(), WriteError> {
    if !is_untold(found) {
        return Ok(());
    }
    let condition = json!({
        "type": "Ready", "status": "True", "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": controllers.writer.now(),
    });
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": NAME}, "status": {"conditions": [condition]},
    });
    match controllers.apply(target, Part::Status, &object, MANAGER).await {
        Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether it is not known to be ready or not, and stays.
fn is_untold(found: &Value) -> bool {
    let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let is_told = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] != "Unknown");
    !is_told && found["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_contradicted() {
        let told = |status: &str| json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(is_untold(&json!({"metadata": {}})) && is_untold(&told("Unknown")));
        assert!(!is_untold(&told("True")) && !is_untold(&told("False")));
        assert!(!is_untold(&json!({"metadata": {"deletionTimestamp": "now"}})));
    }
}
