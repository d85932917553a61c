//! What the conditions of a namespace that is being deleted say, in kube-controller-manager's words.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a look at the content of a namespace has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What failed.
    pub(super) errors: Vec<String>,
    /// Errors as the condition has them: without what the one who asked adds.
    pub(super) content_errors: Vec<String>,
    /// How many objects are left of each resource, `pods.` or `deployments.apps`.
    pub(super) remaining: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    pub(super) finalizers: BTreeMap<String, usize>,
}

/// A condition: its type, and reason and message when all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// The conditions after this look; none when they have not changed.
pub(super) fn updated(before: &[Value], found: &Found, now: &str) -> Option<Vec<Value>> {
    let mut conditions = before.to_vec();
    let mut has_changed = false;
    for (kind, reason, message) in CONDITIONS {
        let (status, reason, message) = match found.wrong(kind) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        let Some(known) = conditions.iter_mut().find(|condition| condition["type"] == kind) else {
            conditions.push(json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}));
            has_changed = true;
            continue;
        };
        if known["status"] == status && known["reason"] == reason && known["message"] == message.as_str() {
            continue;
        }
        if known["status"] != status {
            known["lastTransitionTime"] = now.into();
        }
        (known["status"], known["reason"], known["message"]) = (status.into(), reason.into(), message.into());
        has_changed = true;
    }
    has_changed.then_some(conditions)
}

impl Found {
    /// Reason and message of a condition that is true.
    fn wrong(&self, kind: &str) -> Option<(&'static str, String)> {
        let joined = |counts: &BTreeMap<String, usize>, verb: &str| {
            let texts: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {verb} {count} resource instances")).collect();
            texts.join(", ")
        };
        match kind {
            "NamespaceDeletionContentFailure" if !self.content_errors.is_empty() => {
                let mut errors = self.content_errors.clone();
                errors.sort();
                let (count, errors) = (errors.len(), errors.join(", "));
                Some(("ContentDeletionFailed", format!("Failed to delete all resource types, {count} remaining: {errors}")))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", joined(&self.remaining, "has"))))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => Some((
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {}", joined(&self.finalizers, "in")),
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(conditions: &[Value], kind: &str) -> (String, String, String) {
        let condition = conditions.iter().find(|condition| condition["type"] == kind).expect("the condition is there");
        let text = |name: &str| condition[name].as_str().expect("a text").to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// The texts are those that kube-controller-manager writes (measured).
    #[test]
    fn what_is_left_is_told_and_taken_back() {
        let found = Found {
            remaining: BTreeMap::from([("pods.".to_owned(), 1), ("deployments.apps".to_owned(), 2)]),
            finalizers: BTreeMap::from([("ex.io/hold".to_owned(), 3)]),
            ..Found::default()
        };
        let first = updated(&[], &found, "t1").expect("there were none");
        assert_eq!(first.len(), 5);
        let text = "Some resources are remaining: deployments.apps has 2 resource instances, pods. has 1 resource instances";
        assert_eq!(told(&first, "NamespaceContentRemaining"), ("True".into(), "SomeResourcesRemain".into(), text.into()));
        let text = "Some content in the namespace has finalizers remaining: ex.io/hold in 3 resource instances";
        assert_eq!(told(&first, "NamespaceFinalizersRemaining"), ("True".into(), "SomeFinalizersRemain".into(), text.into()));
        assert_eq!(updated(&first, &found, "t2"), None, "nothing is new");
        let then = updated(&first, &Found::default(), "t3").expect("nothing is left");
        assert_eq!(told(&then, "NamespaceContentRemaining").1, "ContentRemoved");
        let times: Vec<&str> = then.iter().filter_map(|condition| condition["lastTransitionTime"].as_str()).collect();
        assert_eq!(times, ["t1", "t1", "t1", "t3", "t3"], "only what turned has a new time");
    }

    #[test]
    fn failures_are_counted_and_sorted() {
        let found = Found { content_errors: vec!["b".to_owned(), "a".to_owned()], ..Found::default() };
        let conditions = updated(&[json!({"type": "Other"})], &found, "t").expect("there were none");
        let text = "Failed to delete all resource types, 2 remaining: a, b";
        assert_eq!(told(&conditions, "NamespaceDeletionContentFailure"), ("True".into(), "ContentDeletionFailed".into(), text.into()));
        assert_eq!(conditions[0], json!({"type": "Other"}), "what is not ours stays");
    }
}
