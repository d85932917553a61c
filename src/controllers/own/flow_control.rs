//! The suggested and the mandatory FlowSchemas and PriorityLevelConfigurations, which kube-apiserver makes, and brings up to date each
//! minute; and the condition `Dangling` of every FlowSchema. Requests are not scheduled by them here.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::{Controllers, Unready, a_few_at_once, recorded, request, until_done};
use crate::objects::{place, place_of, text, tree};
use model::Object;
use registry::Resource;
use storage::write::{Part, Syntax, failure::WriteError, object_ref::ObjectRef, options::DeleteOptions, write_gate::Permission};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Who manages what the objects say, and their conditions.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Whether the specification of an object is kept as it was recorded.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// Objects of these names are kept as they are, whatever their annotation says.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];
/// How often they are brought up to date, as by kube-apiserver.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Wait before conditions are written again after a failure.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(controllers: &Arc<Controllers>, unready: Unready) {
    let all = ["prioritylevelconfigurations", "flowschemas"].map(|resource| controllers.built_in(GROUP, resource));
    let [Some(levels), Some(schemas)] = all else { return };
    until_done(controllers, "FlowSchemas and PriorityLevelConfigurations", || ensure(controllers, &levels, &schemas)).await;
    let mut next = Instant::now() + LOOK_EVERY;
    let mut unready = Some(unready);
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        let (of_levels, of_schemas) = (levels.handle.published.changed(), schemas.handle.published.changed());
        let again = match keep_conditions(controllers, &levels, &schemas).await {
            Ok(()) => {
                drop(unready.take());
                next
            }
            Err(error) => {
                tracing::debug!(%error, "cannot write the condition of a FlowSchema; trying again");
                next.min(Instant::now() + RETRY)
            }
        };
        tokio::select! {
            () = of_levels => {}
            () = of_schemas => {}
            () = sleep_until(again) => {}
        }
        if next <= Instant::now() {
            next = Instant::now() + LOOK_EVERY;
            if let Err(error) = ensure(controllers, &levels, &schemas).await {
                tracing::debug!(%error, "cannot bring FlowSchemas and PriorityLevelConfigurations up to date; trying again");
            }
        }
    }
}

/// Creates what is missing, replaces what differs, and deletes what was made by another release and is no more.
async fn ensure(controllers: &Controllers, levels: &Arc<Resource>, schemas: &Arc<Resource>) -> Result<(), WriteError> {
    for (resource, kind) in [(levels, "PriorityLevelConfiguration"), (schemas, "FlowSchema")] {
        let wanted = recorded(kind);
        let known = controllers.loaded(resource).await?;
        let name = |object: &Value| text(object, "/metadata/name").to_owned();
        for found in known.snapshot.store.scan(b"", b"") {
            let target = place_of(resource, found);
            let Some(current) = tree(resource, found) else { continue };
            match wanted.iter().find(|wanted| name(wanted) == found.name()) {
                Some(wanted) => replace(controllers, target, wanted, &current).await?,
                None if annotated(&current) == Some(true) => controllers.delete(&target, &DeleteOptions::default()).await?,
                None => {}
            }
        }
        controllers.create_missing(PRODUCER, resource, wanted).await?;
    }
    Ok(())
}

async fn replace(controllers: &Controllers, target: ObjectRef, wanted: &Value, current: &Value) -> Result<(), WriteError> {
    let Some(new) = revised(wanted, current) else { return Ok(()) };
    let ask = request(target, Part::Main, PRODUCER);
    match controllers.writer.replace(&ask, Syntax::Json, new.to_string().as_bytes(), &mut Vec::new()).await {
        // What it is now is looked at the next time.
        Ok(_) | Err(WriteError::Conflict { .. } | WriteError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What an object should be; none when it is so.
fn revised(wanted: &Value, current: &Value) -> Option<Value> {
    let is_kept = MANDATORY.contains(&text(wanted, "/metadata/name"))
        // Without the annotation, what nobody has changed.
        || annotated(current).unwrap_or_else(|| current["metadata"]["generation"] == 1);
    let mut new = current.clone();
    if is_kept && !is_same(wanted, current) {
        new["spec"] = wanted["spec"].clone();
    }
    if annotated(current) != Some(is_kept) {
        new["metadata"]["annotations"][AUTO_UPDATE] = is_kept.to_string().into();
    }
    (new != *current).then_some(new)
}

/// Whether both say the same. How many seats the exempt level has is the administrator's.
fn is_same(wanted: &Value, current: &Value) -> bool {
    let mut wanted = wanted["spec"].clone();
    if let (Some(ours), Some(theirs)) = (wanted["exempt"].as_object_mut(), current["spec"]["exempt"].as_object()) {
        for name in ["nominalConcurrencyShares", "lendablePercent"] {
            match theirs.get(name) {
                Some(value) => ours.insert(name.to_owned(), value.clone()),
                None => ours.remove(name),
            };
        }
    }
    wanted == current["spec"]
}

/// What the annotation says, as Go reads a truth value.
fn annotated(object: &Value) -> Option<bool> {
    match object["metadata"]["annotations"][AUTO_UPDATE].as_str()? {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Writes of each FlowSchema whether its level is there.
async fn keep_conditions(controllers: &Controllers, levels: &Arc<Resource>, schemas: &Arc<Resource>) -> Result<(), WriteError> {
    if !controllers.keeps_flow_conditions {
        return Ok(());
    }
    let (known, there) = (controllers.loaded(schemas).await?, controllers.loaded(levels).await?);
    let has_level = |name: &str| there.snapshot.store.find(&place(levels, "", name).key(&controllers.prefix)).is_some();
    let now = controllers.writer.now();
    let write = |schema: &Arc<Object>| {
        let condition = dangling(&tree(schemas, schema)?, has_level, &now)?;
        let (target, name) = (place_of(schemas, schema), schema.name().to_owned());
        Some(async move {
            let metadata = json!({"name": name});
            let object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "FlowSchema", "metadata": metadata, "status": {"conditions": [condition]},
            });
            match controllers.apply(&target, Part::Status, &object, CONSUMER).await {
                Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    };
    a_few_at_once(known.snapshot.store.scan(b"", b"").filter_map(write)).await.into_iter().collect()
}

/// The condition that a FlowSchema should have; none when it has it.
fn dangling(schema: &Value, has_level: impl Fn(&str) -> bool, now: &str) -> Option<Value> {
    let level = text(schema, "/spec/priorityLevelConfiguration/name");
    let (status, reason, end) =
        if has_level(level) { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {} {end}", go::quote::quoted(level));
    let mut conditions = schema["status"]["conditions"].as_array().into_iter().flatten();
    let is_so =
        conditions.any(|is| is["type"] == "Dangling" && is["status"] == status && is["reason"] == reason && is["message"] == *message);
    (!is_so).then(|| json!({"type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason, "message": message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, metadata: Value, spec: Value) -> Value {
        let mut object = json!({"metadata": metadata, "spec": spec});
        object["metadata"]["name"] = name.into();
        object
    }

    #[test]
    fn only_what_nobody_has_claimed_is_brought_up_to_date() {
        let wanted = named("probes", json!({}), json!({"a": 1}));
        let found = |annotation: &str, generation: u32, spec: u32| {
            let metadata = json!({"annotations": {AUTO_UPDATE: annotation}, "generation": generation});
            revised(&wanted, &named("probes", metadata, json!({"a": spec}))).map(|new| (new["spec"]["a"].clone(), annotated(&new)))
        };
        assert_eq!(found("true", 7, 1), None);
        assert_eq!(found("T", 7, 2), Some((json!(1), Some(true))));
        assert_eq!(found("false", 1, 2), None, "an administrator's");
        assert_eq!(found("x", 1, 2), Some((json!(1), Some(true))), "nobody has changed it");
        assert_eq!(found("x", 2, 2), Some((json!(2), Some(false))));
        let mandatory = named("exempt", json!({}), json!({"a": 1}));
        let changed = named("exempt", json!({"annotations": {AUTO_UPDATE: "false"}, "generation": 3}), json!({"a": 2}));
        assert_eq!(revised(&mandatory, &changed).map(|new| (new["spec"]["a"].clone(), annotated(&new))), Some((json!(1), Some(true))));
    }

    #[test]
    fn the_seats_of_the_exempt_level_are_the_administrators() {
        let level = |shares: Value| json!({"spec": {"type": "Exempt", "exempt": shares}});
        let wanted = level(json!({"nominalConcurrencyShares": 0, "lendablePercent": 0}));
        assert!(is_same(&wanted, &level(json!({"nominalConcurrencyShares": 9, "lendablePercent": 50}))));
        assert!(!is_same(&wanted, &json!({"spec": {"type": "Exempt"}})));
        assert!(!is_same(&wanted, &json!({"spec": {"type": "Limited"}})));
    }

    #[test]
    fn a_condition_is_written_when_it_says_something_new() {
        let schema =
            |conditions: Value| json!({"spec": {"priorityLevelConfiguration": {"name": "x"}}, "status": {"conditions": conditions}});
        let condition = dangling(&schema(Value::Null), |_| false, "now").expect("it has none");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NotFound")));
        assert_eq!(
            condition["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"x\" but there is no such object"
        );
        assert_eq!(dangling(&schema(json!([condition])), |_| false, "later"), None);
        assert_eq!(dangling(&schema(json!([condition])), |name| name == "x", "later").expect("it is there")["reason"], "Found");
    }
}
