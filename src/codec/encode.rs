//! The order of members in which objects are normalize; the rest of the encoding is Go's.

use serde_json::{Map, Value};

use super::fields_v1;

pub use go::json::{float_into, go_float, revision_into, revision_len, string_into, value_into};

/// Members of Go's `ObjectMeta`, in the order in which it prints them (apimachinery `meta/v1/types.go`).
pub const OBJECT_META: [&str; 16] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "clusterName",
    "managedFields",
];

/// The form of a built-in type: `kind`, `apiVersion`, `metadata` with its members in the order of `ObjectMeta`, then the rest, sorted.
///
/// Go would print the rest in the order of the type's struct, which we do not know here: byte identity with kube-apiserver is for values
/// that it wrote itself, and those never come this way.
#[must_use]
pub fn builtin_order(object: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    members_into(object, &["kind", "apiVersion", "metadata"], &mut out, |name, value, out| match value {
        Value::Object(metadata) if name == "metadata" => members_into(metadata, &OBJECT_META, out, |name, value, out| match name {
            "managedFields" => fields_v1::entries_into(value, out),
            _ => value_into(value, out),
        }),
        _ => value_into(value, out),
    });
    out
}

/// The form of a custom resource: sorted keys, but `apiVersion` before everything (the type head of `model::Object`).
#[must_use]
pub fn custom_order(object: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    members_into(object, &["apiVersion"], &mut out, |_, value, out| value_into(value, out));
    out
}

/// `first` members lead in that order, the others follow sorted.
fn members_into(members: &Map<String, Value>, first: &[&str], out: &mut Vec<u8>, value_into: impl Fn(&str, &Value, &mut Vec<u8>)) {
    let led = first.iter().filter_map(|name| members.get_key_value(*name));
    let rest = members.iter().filter(|(name, _)| !first.contains(&name.as_str()));
    out.push(b'{');
    for (i, (name, value)) in led.chain(rest).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string_into(name, out);
        out.push(b':');
        value_into(name, value, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn custom_order_leads_with_the_version() {
        let Value::Object(object) = json!({"a": 1, "apiVersion": "g/v1", "kind": "K", "metadata": {"uid": "u", "name": "n"}}) else {
            unreachable!("an object literal")
        };
        let printed = custom_order(&object);
        assert_eq!(String::from_utf8_lossy(&printed), r#"{"apiVersion":"g/v1","a":1,"kind":"K","metadata":{"name":"n","uid":"u"}}"#);
    }

    #[test]
    fn builtin_order_leads_with_type_and_object_meta() {
        let Value::Object(object) = json!({"a": {"metadata": {"uid": 1, "name": 2}}, "metadata": {"annotations": {}, "uid": "u", "name": "n", "labels": {}, "x": 1},
            "kind": "K", "apiVersion": "v1"})
        else {
            unreachable!("an object literal")
        };
        assert_eq!(
            String::from_utf8_lossy(&builtin_order(&object)),
            r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"n","uid":"u","labels":{},"annotations":{},"x":1},"a":{"metadata":{"name":2,"uid":1}}}"#
        );
    }
}
