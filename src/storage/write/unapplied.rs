//! Objects that are stored and that a kube-apiserver would apply to other objects or to requests, which this server does not do yet. Their writer gets a
//! `Warning`, and the log has one line for each kind.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::{Writer, part::Part, tree};

/// A kind of object that is stored and not applied.
pub struct Unapplied {
    pub group: &'static str,
    pub resource: &'static str,
    /// The id of its storage.
    storage: &'static str,
    /// A text that the JSON of every such object has; objects without it are not decoded.
    pub mark: &'static str,
    /// The part of an object that is not applied, if it has any.
    part: fn(&Value) -> Option<Cow<'_, Value>>,
    /// What clients and the log are told.
    pub sentence: &'static str,
}

const fn row(
    (group, resource, storage): (&'static str, &'static str, &'static str),
    mark: &'static str,
    part: fn(&Value) -> Option<Cow<'_, Value>>,
    sentence: &'static str,
) -> Unapplied {
    Unapplied { group, resource, storage, mark, part, sentence }
}

/// The group that has several of them.
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

const FLOWS: &str = "priority and fairness is not applied by this server: requests are limited only by the --max-requests-inflight flags";

/// All of them.
pub static UNAPPLIED: [Unapplied; 4] = [
    row((FLOW_CONTROL, "flowschemas", "flowschemas"), "", own_flow, FLOWS),
    row((FLOW_CONTROL, "prioritylevelconfigurations", "prioritylevelconfigurations"), "", own_flow, FLOWS),
    row(
        ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
        "\"service\"",
        |service| own(service, &["spec", "service"]),
        "APIServices are not proxied by this server: requests for the API of another server are answered 404",
    ),
    row(
        ("", "services", "services/specs"),
        "\"LoadBalancer\"",
        |service| {
            let is_for_nobody = tree::text(service, &["spec", "type"]) == "LoadBalancer";
            (is_for_nobody && tree::at(service, &["spec", "loadBalancerClass"]).is_none()).then_some(Cow::Owned(Value::Bool(true)))
        },
        "load balancers are not provisioned by this server: status.loadBalancer stays empty until a controller of yours fills it",
    ),
];

/// The value at a path, unless it is empty.
fn own<'v>(object: &'v Value, path: &[&str]) -> Option<Cow<'v, Value>> {
    tree::at(object, path).filter(|value| !is_empty(value)).map(Cow::Borrowed)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text == "false",
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// The spec of a flow schema or a priority level that is no default: a server keeps its own ones, with this annotation.
fn own_flow(object: &Value) -> Option<Cow<'_, Value>> {
    let is_kept = tree::text(object, &["metadata", "annotations", "apf.kubernetes.io/autoupdate-spec"]) == "true";
    own(object, &["spec"]).filter(|_| !is_kept)
}

impl Unapplied {
    /// Whether something in this object is not applied.
    #[must_use]
    pub fn is_in(&self, object: &Value) -> bool {
        (self.part)(object).is_some()
    }
}

/// Returns what the writer of an object of the storage `id` is told: of a new part that is not applied, or a changed one.
pub(super) fn warnings(id: &str, part: Part, old: Option<&Value>, new: &Value) -> Option<String> {
    let row = UNAPPLIED.iter().find(|row| row.storage == id).filter(|_| part == Part::Main)?;
    let found = (row.part)(new)?;
    let is_known = old.and_then(|old| (row.part)(old)).is_some_and(|known| known == found);
    (!is_known).then(|| row.sentence.to_owned())
}

/// Logs a row from a place in the code of its own: of one place few lines are written at once (`telemetry/log/pace`), and each row has one line.
macro_rules! log_at_its_own_place {
    ($nth:expr, $row:expr, $name:expr; $($place:literal)*) => {
        match $nth {
            $($place => tracing::warn!(resource = $row.resource, group = $row.group, name = $name, "{}", $row.sentence),)*
            _ => {}
        }
    };
}

/// Which rows the log has already, a bit for each.
#[derive(Debug, Default)]
pub(super) struct Logged(AtomicU32);

impl Writer {
    /// Logs that objects like this one are stored and not applied, once for each kind.
    pub fn log_unapplied(&self, row: &Unapplied, name: &str) {
        let Some(nth) = UNAPPLIED.iter().position(|known| std::ptr::eq(known, row)) else { return };
        let bit = 1 << nth;
        if self.unapplied.0.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            log_at_its_own_place!(nth, row, name; 0 1 2 3 4 5);
        }
    }

    /// Logs what the writer of an object of this resource was warned of, if that is something that is not applied.
    pub fn log_warned(&self, (group, resource): (&str, &str), name: &str, warnings: &[String]) {
        let warned =
            |row: &&Unapplied| (row.group, row.resource) == (group, resource) && warnings.iter().any(|warning| warning == row.sentence);
        if let Some(row) = UNAPPLIED.iter().find(warned) {
            self.log_unapplied(row, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(id: &str, old: Option<&Value>, new: &Value) -> bool {
        warnings(id, Part::Main, old, new).is_some()
    }

    #[test]
    fn each_row_is_of_a_built_in_and_has_its_bit() {
        assert_eq!(UNAPPLIED.len(), 4, "each has its place in `log_unapplied`");
        for row in &UNAPPLIED {
            let resource = registry::test_resource(row.group, row.resource);
            assert_eq!(&*resource.served.storage.id, row.storage, "{}", row.resource);
            assert!(row.sentence.contains(" by this server"), "tests know our own warnings by these words: {}", row.sentence);
        }
    }

    #[test]
    fn what_is_not_applied_is_told_when_it_is_new_or_another() {
        const ID: &str = "prioritylevelconfigurations";
        let level = |spec: Value, label: &str| json!({"metadata": {"labels": {"l": label}}, "spec": spec});
        let one = level(json!({"type": "Exempt"}), "a");
        assert!(told(ID, None, &one));
        assert!(!told(ID, None, &level(json!({}), "a")), "it says nothing");
        assert!(!told(ID, Some(&one), &level(json!({"type": "Exempt"}), "b")), "its writer knows");
        assert!(told(ID, Some(&one), &level(json!({"type": "Limited"}), "a")));
        assert_eq!(warnings(ID, Part::Status, None, &one), None);
    }

    #[test]
    fn each_kind_has_its_condition() {
        let annotated =
            |name: &str, value: &str| json!({"metadata": {"name": "x", "annotations": {name: value}}, "spec": {"a": 1}, "value": 1});
        for (id, object, want) in [
            ("validatingwebhookconfigurations", json!({"webhooks": [{}]}), false),
            ("mutatingwebhookconfigurations", json!({"webhooks": []}), false),
            ("mutatingadmissionpolicybindings", json!({"spec": {"policyName": "p"}}), false),
            ("flowschemas", annotated("apf.kubernetes.io/autoupdate-spec", "true"), false),
            ("flowschemas", annotated("apf.kubernetes.io/autoupdate-spec", "false"), true),
            ("prioritylevelconfigurations", annotated("a", "b"), true),
            ("apiregistration.k8s.io/apiservices", json!({"spec": {"group": "g", "service": {"name": "s"}}}), true),
            ("apiregistration.k8s.io/apiservices", json!({"spec": {"group": "g"}}), false),
            ("services/specs", json!({"spec": {"type": "LoadBalancer"}}), true),
            ("services/specs", json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "x.io/y"}}), false),
            ("services/specs", json!({"spec": {"type": "ClusterIP"}}), false),
            ("configmaps", json!({"data": {}}), false),
        ] {
            assert_eq!(told(id, None, &object), want, "{id} {object}");
        }
    }
}
