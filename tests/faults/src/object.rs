//! What is written and watched: ConfigMaps as kube-apiserver stores them, custom resources that have what these have, or objects that kube-apiservers write
//! themselves, and the filters that watchers ask for. Knows no socket.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Identity of an object: FNV-1a of `namespace/name`. A few thousand names make a collision a matter of one in 10^12.
pub(crate) type KeyId = u64;

/// Values of the label `tier` that selectors ask for.
pub(crate) const TIERS: [&str; 3] = ["a", "b", "c"];

/// Prefix of every namespace that belongs to this harness; what lies elsewhere is foreign and not compared.
pub(crate) const NAMESPACE_PREFIX: &str = "faults-";

/// Annotations with what ConfigMaps have in their `data`, of objects that have none.
pub(crate) const SEQ: &str = "faults.example/seq";
pub(crate) const PAYLOAD: &str = "faults.example/payload";

/// Of which resource the objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resource {
    /// ConfigMaps.
    #[default]
    ConfigMaps,
    /// Custom resources: `records.faults.example`.
    Records,
    /// HorizontalPodAutoscalers of `autoscaling/v2`: 1.37 has `observedGeneration` in their conditions, 1.36 does not.
    Autoscalers,
    /// StatefulSets: 1.37 shows `maxUnavailable` of each, 1.36 only where it is stored.
    StatefulSets,
}

impl Resource {
    /// What the keys of all objects of the harness begin with.
    #[must_use]
    pub(crate) fn etcd_prefix(self) -> String {
        self.etcd_key_of(NAMESPACE_PREFIX)
    }

    /// Where etcd keeps an object.
    #[must_use]
    pub(crate) fn etcd_key(self, namespace: &str, name: &str) -> String {
        self.etcd_key_of(&format!("{namespace}/{name}"))
    }

    fn etcd_key_of(self, rest: &str) -> String {
        match self {
            Self::ConfigMaps => format!("/registry/configmaps/{rest}"),
            Self::Records => format!("/registry/faults.example/records/{rest}"),
            Self::Autoscalers => format!("/registry/horizontalpodautoscalers/{rest}"),
            Self::StatefulSets => format!("/registry/statefulsets/{rest}"),
        }
    }

    /// Path of the collection in a namespace, or in all.
    #[must_use]
    pub(crate) fn path(self, namespace: Option<&str>) -> String {
        let (root, plural) = match self {
            Self::ConfigMaps => ("/api/v1", "configmaps"),
            Self::Records => ("/apis/faults.example/v1", "records"),
            Self::Autoscalers => ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
            Self::StatefulSets => ("/apis/apps/v1", "statefulsets"),
        };
        namespace.map_or_else(|| format!("{root}/{plural}"), |n| format!("{root}/namespaces/{n}/{plural}"))
    }
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

/// One object as it is about to be written.
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

    /// The labels and annotations of an object that has no `data` for them.
    #[must_use]
    pub(crate) fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": {"tier": TIERS[usize::from(self.tier)]},
            "annotations": {SEQ: self.seq.to_string(), PAYLOAD: self.payload()}})
    }

    /// The stored form: the members of a ConfigMap in Go's order, those of a custom resource by the alphabet; one newline at the end. Of others the form in
    /// which they are created.
    #[must_use]
    pub(crate) fn stored(&self, resource: Resource) -> Vec<u8> {
        let uid = format!("{:08x}-0000-4000-8000-{:012x}", self.id() >> 32, self.id() & 0xffff_ffff_ffff);
        let (name, namespace, tier) = (json!(self.name), json!(self.namespace), TIERS[usize::from(self.tier)]);
        let data = format!(r#"{{"payload":"{}","seq":"{}"}}"#, self.payload(), self.seq);
        let text = match resource {
            Resource::ConfigMaps => format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":{name},"namespace":{namespace},"uid":"{uid}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"tier":"{tier}"}}}},"data":{data}}}"#,
            ),
            Resource::Records => format!(
                r#"{{"apiVersion":"faults.example/v1","data":{data},"kind":"Record","metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"labels":{{"tier":"{tier}"}},"name":{name},"namespace":{namespace},"uid":"{uid}"}}}}"#,
            ),
            Resource::Autoscalers => json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": self.metadata(),
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}})
            .to_string(),
            Resource::StatefulSets => {
                let labels = json!({"app": self.name});
                json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": self.metadata(), "spec": {"serviceName": "s", "replicas": 0,
                    "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
                .to_string()
            }
        };
        (text + "\n").into_bytes()
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
    pub(crate) fn target(&self, resource: Resource) -> String {
        let path = resource.path(self.namespace.as_deref());
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
        assert!(draft.stored(Resource::ConfigMaps).starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-1","#));
        let (data, annotations) =
            (["/data/seq", "/data/payload"], ["seq", "payload"].map(|name| format!("/metadata/annotations/faults.example~1{name}")));
        for (resource, [seq, payload]) in [
            (Resource::ConfigMaps, data.map(str::to_owned)),
            (Resource::Records, data.map(str::to_owned)),
            (Resource::Autoscalers, annotations.clone()),
            (Resource::StatefulSets, annotations),
        ] {
            let value: Value = serde_json::from_slice(&draft.stored(resource)).expect("the stored form is JSON");
            let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(text(&payload).len(), 200);
            assert_eq!(digest(text("/metadata/labels/tier"), text(&seq), text(&payload)), draft.digest());
        }
    }

    #[test]
    fn two_sequence_numbers_have_two_digests() {
        let draft = |seq| Draft { namespace: "n".into(), name: "m".into(), tier: 0, seq, payload_bytes: 0 }.digest();
        assert_ne!(draft(1), draft(2));
    }
}
