//! What kube-apiserver fills in when it reads a value of its own from etcd: defaults that it did not have yet, or took away again, when it stored it.
//!
//! Found by comparing every resource with the real server (live parity test); so far there are five.

use std::borrow::Cow;

use super::{hpa_defaults, job, members::Members, statefulset_defaults};

/// The value as kube-apiserver shows it. `text` is canonical JSON of this kind.
///
/// A Job is shown with the labels of its template when it has none of its own. A PersistentVolumeClaim is stored with an empty status, and read with
/// `phase: Pending` (`SetDefaults_PersistentVolumeClaim`). The claim templates of a StatefulSet say what they are. The behavior of an autoscaler has
/// rules for both directions. A Service with an external name has no policy for traffic inside, though older and newer servers store one.
pub(super) fn applied<'a>(kind: &str, text: &'a str) -> Cow<'a, str> {
    match kind {
        "HorizontalPodAutoscaler" => hpa_defaults::ruled(text).map_or(Cow::Borrowed(text), Cow::Owned),
        "Job" => job::labelled(text).map_or(Cow::Borrowed(text), Cow::Owned),
        "Service" => without_inner_policy(text).map_or(Cow::Borrowed(text), Cow::Owned),
        "PersistentVolumeClaim" => pending(text).map_or(Cow::Borrowed(text), Cow::Owned),
        "StatefulSet" => statefulset_defaults::typed(text).map_or(Cow::Borrowed(text), Cow::Owned),
        _ => Cow::Borrowed(text),
    }
}

/// The value with `status.phase` set, unless it is. Anything that is not of this form is left as it is, for `ingest` to judge.
fn pending(text: &str) -> Option<String> {
    const PHASE: &str = "\"phase\":\"Pending\"";
    let members = Members::read(text).ok()?;
    let Some(status) = members.raw("status") else {
        return Some(format!("{},\"status\":{{{PHASE}}}}}", text.trim_ascii_end().strip_suffix('}')?));
    };
    if Members::read(status).ok()?.text("phase").ok()?.is_some_and(|phase| !phase.is_empty()) {
        return None;
    }
    let at = status.as_ptr().addr() - text.as_ptr().addr() + 1;
    let comma = if text[at..].trim_ascii_start().starts_with('}') { "" } else { "," };
    Some(format!("{}{PHASE}{comma}{}", &text[..at], &text[at..]))
}

/// A Service with an external name without `spec.internalTrafficPolicy`, if it has one.
fn without_inner_policy(text: &str) -> Option<String> {
    const POLICY: &str = "\"internalTrafficPolicy\":";
    memchr::memmem::find(text.as_bytes(), b"\"ExternalName\"")?;
    let spec = Members::read(text).ok()?.raw("spec")?;
    let members = Members::read(spec).ok()?;
    let policy = members.raw("internalTrafficPolicy").filter(|_| members.text("type").ok().flatten().as_deref() == Some("ExternalName"))?;
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let (mut from, mut to) = (offset(policy) - POLICY.len(), offset(policy) + policy.len());
    if !text[from..].starts_with(POLICY) {
        return None;
    }
    if text[..from].ends_with(',') {
        from -= 1;
    } else if text[to..].starts_with(',') {
        to += 1;
    }
    Some(format!("{}{}", &text[..from], &text[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_with_an_external_name_has_no_inner_policy() {
        let read = |spec: &str| applied("Service", &format!(r#"{{"kind":"Service","spec":{spec},"status":{{}}}}"#)).into_owned();
        let whole = |spec: &str| format!(r#"{{"kind":"Service","spec":{spec},"status":{{}}}}"#);
        for (stored, shown) in [
            (r#"{"type":"ExternalName","internalTrafficPolicy":"Local"}"#, r#"{"type":"ExternalName"}"#),
            (r#"{"internalTrafficPolicy":"Local","type":"ExternalName"}"#, r#"{"type":"ExternalName"}"#),
            (r#"{"a":1,"internalTrafficPolicy":"Local","type":"ExternalName"}"#, r#"{"a":1,"type":"ExternalName"}"#),
            (r#"{"type":"ClusterIP","internalTrafficPolicy":"Local"}"#, r#"{"type":"ClusterIP","internalTrafficPolicy":"Local"}"#),
            (r#"{"type":"ExternalName"}"#, r#"{"type":"ExternalName"}"#),
        ] {
            assert_eq!(read(stored), whole(shown));
        }
        assert_eq!(applied("Service", r#"{"a":"ExternalName""#), r#"{"a":"ExternalName""#);
    }

    #[test]
    fn a_claim_is_pending_until_it_says_otherwise() {
        let read = |text| applied("PersistentVolumeClaim", text).into_owned();
        assert_eq!(read(r#"{"kind":"K","status":{}}"#), r#"{"kind":"K","status":{"phase":"Pending"}}"#);
        assert_eq!(read(r#"{"status":{"capacity":{}},"x":1}"#), r#"{"status":{"phase":"Pending","capacity":{}},"x":1}"#);
        assert_eq!(read(r#"{"kind":"K"}"#), r#"{"kind":"K","status":{"phase":"Pending"}}"#);
        assert_eq!(read(r#"{"status":{"phase":"Bound"}}"#), r#"{"status":{"phase":"Bound"}}"#);
        assert_eq!(read("no json"), "no json");
        assert_eq!(applied("Pod", r#"{"status":{}}"#), r#"{"status":{}}"#);
    }
}
