//! A tree of a built-in object becomes what kube-apiserver prints: without the members that its Go struct omits, with those that it always has, in its
//! order.
//!
//! It goes through the message of its kind and back. An empty list comes back from there as `null`, as it does in kube-apiserver, which stores messages; of the
//! groups that it stores as JSON the empty lists are put in their places again.

use serde_json::{Map, Value};

use super::{encode, proto, skip, statefulset_defaults};
use model::Text;

/// Groups that kube-apiserver stores as JSON, whatever its storage media type.
const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io/", "apiregistration.k8s.io/"];

/// Makes a built-in what Go makes of it when it reads it into a struct. A kind that is not known, or a value that is not of its kind, stays as it is.
///
/// # Errors
/// How many bytes of JSON it would be, when they are more than `bytes_max`: what was written as `{}` may print much.
pub fn normalize(tree: &mut Value, bytes_max: usize) -> Result<(), usize> {
    let printed = tree.as_object().and_then(|members| as_go(members, &encode::builtin_order(members)));
    let Some(printed) = printed else { return Ok(()) };
    if printed.len() > bytes_max {
        return Err(printed.len());
    }
    if let Ok(normal) = serde_json::from_slice(&printed) {
        *tree = normal;
    }
    Ok(())
}

/// The bytes of a built-in, compact.
pub(super) fn built_in(object: &Map<String, Value>) -> Vec<u8> {
    let json = encode::builtin_order(object);
    as_go(object, &json).unwrap_or(json)
}

/// `json` is the same object in any order.
fn as_go(object: &Map<String, Value>, json: &[u8]) -> Option<Vec<u8>> {
    let printed = through_message(object, json)?;
    if object.get("kind").and_then(Value::as_str) != Some("StatefulSet") {
        return Some(printed);
    }
    let typed = statefulset_defaults::typed(std::str::from_utf8(&printed).ok()?);
    Some(typed.map_or(printed, String::into_bytes))
}

fn through_message(object: &Map<String, Value>, json: &[u8]) -> Option<Vec<u8>> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = proto::message(text("apiVersion"), text("kind"))?;
    let (raw, mut printed) = (message.from_json(json).ok()?, Vec::with_capacity(json.len() + 64));
    message.to_json(&raw, usize::MAX, &mut printed).ok()?;
    let is_json = STORED_AS_JSON.iter().any(|group| text("apiVersion").starts_with(group));
    if !is_json || !object.values().any(has_empty_list) {
        return Some(printed);
    }
    restored(&printed, object)
}

fn has_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
        Value::Object(members) => members.values().any(has_empty_list),
        _ => false,
    }
}

/// What was printed of an object, with the empty lists that the object has: one pass over the text.
fn restored(printed: &[u8], object: &Map<String, Value>) -> Option<Vec<u8>> {
    let mut restore = Restore { printed, at: 0, out: Vec::with_capacity(printed.len()) };
    restore.members(object)?;
    Some(restore.out)
}

struct Restore<'p> {
    /// Compact JSON that we printed.
    printed: &'p [u8],
    at: usize,
    out: Vec<u8>,
}

impl Restore<'_> {
    fn value(&mut self, value: &Value) -> Option<()> {
        match (self.printed.get(self.at)?, value) {
            (b'n', Value::Array(items)) if items.is_empty() => {
                self.at += "null".len();
                self.out.extend_from_slice(b"[]");
                Some(())
            }
            (b'[', Value::Array(items)) => self.elements(items),
            (b'{', Value::Object(members)) => self.members(members),
            _ => self.copy(),
        }
    }

    fn elements(&mut self, items: &[Value]) -> Option<()> {
        let mut items = items.iter();
        self.byte()?;
        while *self.printed.get(self.at)? != b']' {
            if self.printed[self.at] == b',' {
                self.byte()?;
            }
            self.value(items.next().unwrap_or(&Value::Null))?;
        }
        self.byte()
    }

    fn members(&mut self, members: &Map<String, Value>) -> Option<()> {
        self.byte()?;
        while *self.printed.get(self.at)? != b'}' {
            if self.printed[self.at] == b',' {
                self.byte()?;
            }
            let start = self.at;
            self.copy()?;
            let name: Text<'_> = serde_json::from_slice(&self.printed[start..self.at]).ok()?;
            self.byte()?;
            self.value(members.get(&*name.0).unwrap_or(&Value::Null))?;
        }
        self.byte()
    }

    fn byte(&mut self) -> Option<()> {
        self.out.push(*self.printed.get(self.at)?);
        self.at += 1;
        Some(())
    }

    /// One value, as it stands.
    fn copy(&mut self) -> Option<()> {
        let end = skip::end(self.printed, self.at)?;
        self.out.extend_from_slice(&self.printed[self.at..end]);
        self.at = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(tree: Value) -> String {
        String::from_utf8(built_in(tree.as_object().expect("an object"))).expect("UTF-8")
    }

    #[test]
    fn members_are_those_of_the_struct_in_its_order() {
        let event =
            json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "message": "m", "involvedObject": {}, "count": 0});
        assert_eq!(
            printed(event),
            "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"e\"},\"involvedObject\":{},\"message\":\"m\",\"source\":{},\
             \"firstTimestamp\":null,\"lastTimestamp\":null,\"eventTime\":null,\"reportingComponent\":\"\",\"reportingInstance\":\"\"}"
        );
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"labels": {}, "name": "a"}, "data": {}});
        assert_eq!(printed(map), "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}");
    }

    #[test]
    fn empty_lists_are_null_where_the_struct_has_no_omitempty() {
        let role = |rules: Value| json!({"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {}, "rules": rules});
        let text = |rules: &str| {
            format!("{{\"kind\":\"Role\",\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"metadata\":{{}},\"rules\":{rules}}}")
        };
        assert_eq!(printed(role(json!([]))), text("null"));
        assert_eq!(printed(role(Value::Null)), text("null"));
        let inner = json!([{"verbs": [], "resources": []}, {"verbs": ["get"], "apiGroups": [""]}]);
        assert_eq!(printed(role(inner)), text("[{\"verbs\":null},{\"verbs\":[\"get\"],\"apiGroups\":[\"\"]}]"));
    }

    #[test]
    fn empty_lists_stay_in_what_is_stored_as_json() {
        let definition = |versions: Value| {
            let names = json!({"plural": "as", "kind": "A"});
            let spec = json!({"group": "ex.io", "names": names, "scope": "Cluster", "versions": versions});
            let status = json!({"conditions": [], "acceptedNames": names, "storedVersions": null});
            json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {}, "spec": spec, "status": status})
        };
        let mut found = definition(json!([]));
        normalize(&mut found, 1_000).expect("small");
        assert_eq!((&found["spec"]["versions"], &found["status"]["conditions"]), (&json!([]), &json!([])));
        assert_eq!(found["status"]["storedVersions"], Value::Null);
    }

    #[test]
    fn empty_lists_are_found_behind_anything() {
        let data = json!({"a\"]": "}\\", "b": [{"c": "[\"", "d": [[]]}, -1.5, null, true, {}], "e": []});
        let revision = json!({"kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": {}, "data": data, "revision": 1});
        let text = serde_json::to_string(&data).expect("a tree");
        assert_eq!(
            printed(revision),
            format!("{{\"kind\":\"ControllerRevision\",\"apiVersion\":\"apps/v1\",\"metadata\":{{}},\"data\":{text},\"revision\":1}}")
        );
    }

    /// The message of a claim has neither kind nor apiVersion, and kube-apiserver puts both back.
    #[test]
    fn claim_templates_say_what_they_are() {
        let claim = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "c"}});
        for sent in [claim.clone(), json!({"metadata": {"name": "c"}})] {
            let mut set = json!({"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {}, "spec": {"volumeClaimTemplates": [sent]}});
            normalize(&mut set, 1_000).expect("small");
            let shown = &set["spec"]["volumeClaimTemplates"][0];
            assert_eq!((&shown["kind"], &shown["apiVersion"]), (&claim["kind"], &claim["apiVersion"]), "{shown}");
        }
    }

    #[test]
    fn what_prints_too_much_is_refused() {
        let pod = |containers: usize| json!({"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"containers": vec![json!({}); containers]}});
        assert_eq!(normalize(&mut pod(10), 1_000), Ok(()));
        assert!(normalize(&mut pod(100), 1_000).expect_err("more than it was written with") > 2_000);
    }

    #[test]
    fn what_is_not_known_stays() {
        let foo = json!({"kind": "Foo", "apiVersion": "ex.io/v1", "spec": {}, "metadata": {}});
        assert_eq!(printed(foo.clone()), "{\"kind\":\"Foo\",\"apiVersion\":\"ex.io/v1\",\"metadata\":{},\"spec\":{}}");
        let mut same = foo.clone();
        normalize(&mut same, 1_000).expect("small");
        assert_eq!(same, foo);
        let mut wrong = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": [1]});
        normalize(&mut wrong, 1_000).expect("small");
        assert_eq!(wrong["data"], json!([1]));
    }
}
