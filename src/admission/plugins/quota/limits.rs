//! What nobody may use in a namespace without a quota for it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Counter, scopes};
use crate::{
    plugins::{Denial, LimitedResource, Write, resources::Resources},
    tree,
};
use go::amount::Amount;

/// Confirms that quotas cover what is limited of a write. `quotas`: all of the namespace; `covered`: what those limit that count the object.
///
/// # Errors
/// No quota covers something, in kube-apiserver's words.
pub(super) fn confirm(
    limited: &[LimitedResource],
    counter: &Counter,
    write: &Write<'_>,
    (object, usage): (&Value, &Resources),
    (quotas, covered): (&[&Value], &BTreeSet<&str>),
) -> Result<(), Denial> {
    let of_resource: Vec<_> = limited.iter().filter(|of| (&*of.group, &*of.resource) == (write.group, write.resource)).collect();
    let is_limited = |name: &str| of_resource.iter().any(|of| of.contains.iter().any(|part| name.contains(part.as_str())));
    let used = usage.iter().filter(|(name, amount)| **amount > Amount::ZERO && is_limited(name)).map(|(name, _)| name.as_str());
    let missing: Vec<&str> = used.filter(|name| !covered.contains(name)).collect();
    if !missing.is_empty() {
        return Err(format!("insufficient quota to consume: {}", missing.join(",")).into());
    }
    // Scopes are those of any resource, as there.
    let wanted = limited.iter().flat_map(|of| &of.scopes).filter(|scope| scopes::matches(counter, scope, object));
    let is_covered = |scope: &&Value| {
        let mut all = quotas.iter().flat_map(|quota| scopes::all(quota));
        all.any(|of| of["scopeName"] == scope["scopeName"] && scopes::matches(counter, &of, object))
    };
    let missing: Vec<String> = wanted.filter(|scope| !is_covered(scope)).map(shown).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Denial::Failed(format!("insufficient quota to match these scopes: [{}]", missing.join(" "))))
    }
}

/// A scope as Go prints it.
fn shown(scope: &Value) -> String {
    let values: Vec<&str> = tree::items(scope, &["values"]).filter_map(Value::as_str).collect();
    format!("{{{} {} [{}]}}", tree::text(scope, &["scopeName"]), tree::text(scope, &["operator"]), values.join(" "))
}
