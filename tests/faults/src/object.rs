//! What is written and watched: ConfigMaps as kube-apiserver stores them, and the filters that watchers ask for. Knows no socket.

use std::fmt::Write as _;

use serde_json::json;

/// Identity of an object: FNV-1a of `namespace/name`. A few thousand names make a collision a matter of one in 10^12.
pub(crate) type KeyId = u64;

/// Values of the label `tier` that selectors ask for.
pub(crate) const TIERS: [&str; 3] = ["a", "b", "c"];

/// Prefix of every namespace that belongs to this harness; what lies elsewhere is foreign and not compared.
pub(crate) const NAMESPACE_PREFIX: &str = "faults-";

/// Where etcd keeps a ConfigMap.
#[must_use]
pub(crate) fn etcd_key(namespace: &str, name: &str) -> String {
    format!("/registry/configmaps/{namespace}/{name}")
}

/// The identity of an object.
#[must_use]
pub(crate) fn key_id(namespace: &str, name: &str) -> KeyId {
    let mut hash = Fnv::default();
    hash.eat(namespace.as_bytes());
    hash.eat(b"/");
    hash.eat(name.as_bytes());
    hash.0
}

/// Digest of what a client sees of an object: label, sequence number and payload.
#[must_use]
pub(crate) fn digest(tier: &str, seq: &str, payload: &str) -> u64 {
    let mut hash = Fnv::default();
    for part in [tier, "\0", seq, "\0", payload] {
        hash.eat(part.as_bytes());
    }
    hash.0
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// One ConfigMap as it is about to be written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Index into [`TIERS`].
    pub(crate) tier: u8,
    /// Sequence number: no two writes of a run share one.
    pub(crate) seq: u64,
    /// Bytes of payload beside the sequence number.
    pub(crate) payload_bytes: usize,
}

impl Draft {
    /// Its identity.
    #[must_use]
    pub(crate) fn id(&self) -> KeyId {
        key_id(&self.namespace, &self.name)
    }

    /// What a client that sees it will compute.
    #[must_use]
    pub(crate) fn digest(&self) -> u64 {
        digest(TIERS[usize::from(self.tier)], &self.seq.to_string(), &self.payload())
    }

    /// The stored form: Go's member order, one newline at the end.
    #[must_use]
    pub(crate) fn stored(&self) -> Vec<u8> {
        let uid = format!("{:08x}-0000-4000-8000-{:012x}", self.id() >> 32, self.id() & 0xffff_ffff_ffff);
        let head = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":{},"namespace":{},"uid":"{uid}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"tier":"{}"}}}},"data":{{"payload":"{}","seq":"{}"}}}}"#,
            json!(self.name),
            json!(self.namespace),
            TIERS[usize::from(self.tier)],
            self.payload(),
            self.seq
        );
        let mut bytes = head.into_bytes();
        bytes.push(b'\n');
        bytes
    }

    fn payload(&self) -> String {
        let mut text = String::with_capacity(self.payload_bytes + 16);
        let mut state = self.seq | 1;
        while text.len() < self.payload_bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _infallible = write!(text, "{:x}", state >> 16);
        }
        text.truncate(self.payload_bytes);
        text
    }
}

/// What a watcher asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    /// Only this namespace; `None` asks for all.
    pub(crate) namespace: Option<String>,
    /// Which objects of it.
    pub(crate) select: Select,
}

/// The selector of a watcher.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Select {
    /// No selector.
    All,
    /// `labelSelector=tier=X`
    Tier(u8),
    /// `labelSelector=tier!=X`
    NotTier(u8),
    /// `fieldSelector=metadata.name=X`
    Name(String),
}

impl Filter {
    /// Whether an object with this name and label is in it.
    #[must_use]
    pub(crate) fn matches(&self, namespace: &str, name: &str, tier: u8) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == namespace)
            && match &self.select {
                Select::All => true,
                Select::Tier(t) => *t == tier,
                Select::NotTier(t) => *t != tier,
                Select::Name(n) => n == name,
            }
    }

    /// Path and query of the collection, ending so that `&more` can follow.
    #[must_use]
    pub(crate) fn target(&self) -> String {
        let path =
            self.namespace.as_ref().map_or_else(|| "/api/v1/configmaps".to_owned(), |n| format!("/api/v1/namespaces/{n}/configmaps"));
        match &self.select {
            Select::All => format!("{path}?labelSelector="),
            Select::Tier(t) => format!("{path}?labelSelector=tier%3D{}", TIERS[usize::from(*t)]),
            Select::NotTier(t) => format!("{path}?labelSelector=tier%21%3D{}", TIERS[usize::from(*t)]),
            Select::Name(n) => format!("{path}?fieldSelector=metadata.name%3D{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_json_with_the_digest_a_client_will_compute() {
        let draft = Draft { namespace: "faults-0".into(), name: "cm-1".into(), tier: 1, seq: 77, payload_bytes: 200 };
        let stored = draft.stored();
        assert!(stored.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-1","#));
        let value: serde_json::Value = serde_json::from_slice(&stored).expect("the stored form is JSON");
        let text = |path: &str| value.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default();
        assert_eq!(text("/data/payload").len(), 200);
        assert_eq!(digest(text("/metadata/labels/tier"), text("/data/seq"), text("/data/payload")), draft.digest());
    }

    #[test]
    fn two_sequence_numbers_have_two_digests() {
        let draft = |seq| Draft { namespace: "n".into(), name: "m".into(), tier: 0, seq, payload_bytes: 0 }.digest();
        assert_ne!(draft(1), draft(2));
    }
}
