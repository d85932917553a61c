//! Who asks for a certificate, and who has said what about it (`pkg/registry/certificates/certificates`).

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::tree;
use crate::write::Requester;

/// Conditions that only the approval may change.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];
/// Members of the spec that say who asks. A signer believes them, so nobody may write them.
const IDENTITY: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Writes the identity of the requester over whatever the new request says of it.
pub(super) fn identify(request: &mut Value, requester: Option<&Requester<'_>>) {
    let spec = tree::member(request, "spec");
    IDENTITY.iter().for_each(|name| drop(spec.remove(*name)));
    let Some(requester) = requester else { return };
    let mut say = |name: &str, value: Value, is_empty: bool| {
        if !is_empty {
            spec.insert(name.to_owned(), value);
        }
    };
    say("username", requester.name.into(), requester.name.is_empty());
    say("uid", requester.uid.into(), requester.uid.is_empty());
    say("groups", json!(requester.groups), requester.groups.is_empty());
    let extra: Map<String, Value> = requester.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let is_empty = extra.is_empty();
    say("extra", Value::Object(extra), is_empty);
}

/// Keeps the verdicts as they are, unless one was added or taken away, and tells when each condition was updated.
pub(super) fn keep_verdicts(new: &mut Value, old: &Value, now: OffsetDateTime) {
    for verdict in VERDICTS {
        let known: Vec<Value> = conditions(old).iter().filter(|condition| tree::text(condition, &["type"]) == verdict).cloned().collect();
        let mut told: Vec<&mut Value> = conditions_mut(new).filter(|condition| tree::text(condition, &["type"]) == verdict).collect();
        if told.len() == known.len() {
            told.iter_mut().zip(known).for_each(|(told, known)| **told = known);
        }
    }
    let now = tree::rfc3339(now);
    for condition in conditions_mut(new) {
        if tree::at(condition, &["lastUpdateTime"]).is_none() {
            tree::set(condition, &["lastUpdateTime"], now.as_str().into());
        }
        if tree::at(condition, &["lastTransitionTime"]).is_none() {
            let part = |condition: &Value, name: &str| tree::text(condition, &[name]).to_owned();
            let is_same = |known: &&Value| ["type", "status"].iter().all(|name| part(known, name) == part(condition, name));
            let since =
                conditions(old).iter().filter(is_same).map(|known| part(known, "lastTransitionTime")).find(|since| !since.is_empty());
            tree::set(condition, &["lastTransitionTime"], since.unwrap_or_else(|| now.clone()).into());
        }
    }
}

fn conditions(request: &Value) -> &[Value] {
    tree::at(request, &["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    request.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_asks_in_the_name_of_another() {
        let forged =
            json!({"username": "system:admin", "uid": "0", "groups": ["system:masters"], "extra": {"k": ["v"]}, "signerName": "s"});
        let (groups, extra) = (["g".to_owned()], [("e".to_owned(), vec!["f".to_owned()])]);
        let requester = Requester { name: "u", uid: "1", groups: &groups, extra: &extra };
        let mut request = json!({"spec": forged});
        identify(&mut request, Some(&requester));
        assert_eq!(request["spec"], json!({"username": "u", "uid": "1", "groups": ["g"], "extra": {"e": ["f"]}, "signerName": "s"}));
        let mut request = json!({"spec": forged});
        identify(&mut request, None);
        assert_eq!(request["spec"], json!({"signerName": "s"}), "the server itself asks for nothing");
        let nobody = Requester { name: "u", uid: "", groups: &[], extra: &[] };
        let mut request = json!({"spec": forged});
        identify(&mut request, Some(&nobody));
        assert_eq!(request["spec"], json!({"username": "u", "signerName": "s"}));
    }

    #[test]
    fn a_verdict_stays_and_conditions_have_times() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let condition = |kind: &str, reason: &str, since: Value| json!({"type": kind, "status": "True", "reason": reason, "lastUpdateTime": since, "lastTransitionTime": since});
        let request = |conditions: Value| json!({"status": {"conditions": conditions}});
        let old = request(json!([condition("Approved", "a", "then".into()), condition("Failed", "f", "then".into())]));
        let mut new = request(json!([condition("Failed", "g", Value::Null), condition("Approved", "forged", Value::Null)]));
        keep_verdicts(&mut new, &old, now);
        let failed = json!({"type": "Failed", "status": "True", "reason": "g", "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "then"});
        assert_eq!(new, request(json!([failed, condition("Approved", "a", "then".into())])));
        let mut new = request(json!([condition("Denied", "d", Value::Null)]));
        keep_verdicts(&mut new, &old, now);
        assert_eq!(new, request(json!([condition("Denied", "d", "2026-01-02T03:04:05Z".into())])), "judged by validation, not here");
    }
}
