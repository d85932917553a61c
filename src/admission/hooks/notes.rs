//! What the audit log records of webhooks, under kube-apiserver's names.

use serde_json::{Value, json};

use super::{Hook, HookKind};
use crate::plugins::Notes;

/// The round in which a webhook was asked, and its place among those of its kind.
pub(super) type At = (usize, usize);

impl Notes {
    /// Notes that a webhook was asked, and whether it has changed the object.
    pub fn annotate_mutation(&mut self, hook: &Hook, (round, index): At, mutated: bool) {
        let value = written(hook, &[("mutated", mutated.into())]);
        self.annotate_as(format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}"), value, false);
    }

    /// Notes the patch of a webhook, where the objects of requests are noted.
    pub fn annotate_patch(&mut self, hook: &Hook, (round, index): At, patch: &Value) {
        let value = written(hook, &[("patch", patch.clone()), ("patchType", "JSONPatch".into())]);
        self.annotate_as(format!("patch.webhook.admission.k8s.io/round_{round}_index_{index}"), value, true);
    }

    /// Notes that a webhook could not be asked, and that the write went on.
    pub fn annotate_open(&mut self, kind: HookKind, hook: &Hook, (round, index): At) {
        let of = match kind {
            HookKind::Mutating => "mutation",
            HookKind::Validating => "validating",
        };
        self.annotate_as(format!("failed-open.{of}.webhook.admission.k8s.io/round_{round}_index_{index}"), hook.name.clone(), false);
    }
}

/// The JSON of a note, in the order of Go's struct.
fn written(hook: &Hook, more: &[(&str, Value)]) -> String {
    let first = [("configuration", json!(hook.configuration)), ("webhook", json!(hook.name))];
    let members: Vec<String> = first.iter().chain(more).map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}
