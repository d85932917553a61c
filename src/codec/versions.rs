//! Built-ins that are stored in one version and served in another with other members: which, and how each becomes the other.
//!
//! A row has a function for each direction. Reads go from text to text, each time an object is shown; writes are judged in the version that is stored, as
//! kube-apiserver judges its internal types, so what was sent goes there first, as a tree.

use serde_json::{Map, Value};

use super::{autoscaler_v1, encode, event_v1, normalize};

/// A version of a kind that is served but not stored.
#[derive(Debug)]
pub struct Version {
    kind: &'static str,
    served: &'static str,
    stored: &'static str,
    /// Appends the members of the served object from `metadata` on, and the closing brace. Gets the whole text of the stored one.
    tail_into: fn(&str, &mut Vec<u8>),
    /// The stored object's members; `apiVersion` and what Go would print of the rest come later.
    stored_of: fn(&Map<String, Value>) -> Stored,
}

/// Members of an object that is stored.
pub(super) type Stored = Result<Map<String, Value>, TooLong>;

/// What was sent is too much to make an object of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes of JSON.
    pub bytes: usize,
    /// How many they may be.
    pub limit: usize,
}

static VERSIONS: [Version; 2] = [
    Version { kind: "Event", served: "events.k8s.io/v1", stored: "v1", tail_into: event_v1::tail_into, stored_of: event_v1::core_of },
    Version {
        kind: "HorizontalPodAutoscaler",
        served: "autoscaling/v1",
        stored: "autoscaling/v2",
        tail_into: autoscaler_v1::tail_into,
        stored_of: autoscaler_v1::stored_of,
    },
];

impl Version {
    /// The row of this `apiVersion` and kind; `None` when its objects have the members of the stored ones.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        VERSIONS.iter().find(|version| (version.served, version.kind) == (api_version, kind))
    }

    /// The `apiVersion` that was found, when an object of this other one and the same kind is stored as the same.
    #[must_use]
    pub fn sibling(api_version: &str, kind: &str, found: &str) -> Option<&'static str> {
        let rows = VERSIONS.iter().filter(|version| version.kind == kind);
        let mut pairs = rows.flat_map(|version| [(version.served, version.stored), (version.stored, version.served)]);
        pairs.find(|pair| *pair == (api_version, found)).map(|(_, sibling)| sibling)
    }

    /// The `apiVersion` under which it is stored.
    pub(super) fn stored_as(&self) -> &'static str {
        self.stored
    }

    /// The object that is stored for one that was sent, as Go prints it.
    ///
    /// # Errors
    /// When it would be more than `bytes_max`, or carries more than its kind may.
    pub fn stored(&self, sent: &Map<String, Value>, bytes_max: usize) -> Result<Value, TooLong> {
        let mut stored = (self.stored_of)(sent)?;
        stored.insert("apiVersion".into(), self.stored.into());
        let mut stored = Value::Object(stored);
        normalize::normalize(&mut stored, bytes_max).map_err(|bytes| TooLong { bytes, limit: bytes_max })?;
        Ok(stored)
    }

    /// The served object of a stored one, whole.
    #[must_use]
    pub fn shown(&self, stored: &Map<String, Value>) -> Vec<u8> {
        let stored = normalize::built_in(stored);
        let mut out = type_head(self.served, self.kind);
        self.tail(&stored, &mut out);
        out
    }

    /// Appends the members of the served object from `metadata` on, and the closing brace. `stored` is the whole text of the stored one: what `ingest`
    /// has let in, or we have printed.
    pub(super) fn tail(&self, stored: &[u8], out: &mut Vec<u8>) {
        (self.tail_into)(std::str::from_utf8(stored).unwrap_or("{}"), out);
    }

    /// What the text of the stored object begins with.
    pub(super) fn stored_head(&self) -> Vec<u8> {
        type_head(self.stored, self.kind)
    }
}

/// `{"kind":K,"apiVersion":V,`.
pub(super) fn type_head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut head = b"{\"kind\":".to_vec();
    encode::string_into(kind, &mut head);
    head.extend_from_slice(b",\"apiVersion\":");
    encode::string_into(api_version, &mut head);
    head.push(b',');
    head
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_sent_is_stored_and_shown_again() {
        let event = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}, "regarding": {"kind": "Pod"}, "note": "n"});
        let version = Version::of("events.k8s.io/v1", "Event").expect("a row");
        let stored = version.stored(event.as_object().expect("an object"), usize::MAX).expect("no limit");
        assert_eq!(
            (&stored["apiVersion"], &stored["involvedObject"], &stored["message"]),
            (&json!("v1"), &json!({"kind": "Pod"}), &json!("n"))
        );
        assert!(version.stored(event.as_object().expect("an object"), 10).is_err());
        let shown: Value = serde_json::from_slice(&version.shown(stored.as_object().expect("an object"))).expect("JSON");
        assert_eq!(
            (&shown["apiVersion"], &shown["regarding"], &shown["note"]),
            (&event["apiVersion"], &event["regarding"], &event["note"])
        );
        assert!(Version::of("v1", "Event").is_none());
    }
}
