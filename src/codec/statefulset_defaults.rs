//! A default of `defaults`: the claim templates of a StatefulSet are shown with kind and apiVersion, which protobuf does not carry.
//!
//! kube-apiserver puts them there whenever it makes an apps/v1 StatefulSet (`Convert_apps_StatefulSetSpec_To_v1_StatefulSetSpec` of
//! `pkg/apis/apps/v1`), so they are in what it stores as JSON too.

use serde_json::value::RawValue;

use super::members::Members;

const TYPE: &str = r#""kind":"PersistentVolumeClaim","apiVersion":"v1""#;

/// The StatefulSet with the types of its claim templates; `None` when they have them. Invalid JSON is left for ingest to complain about.
pub(super) fn typed(set: &str) -> Option<String> {
    memchr::memmem::find(set.as_bytes(), b"\"volumeClaimTemplates\"")?;
    let claims = Members::read(set).ok()?.object("spec").ok()?.array("volumeClaimTemplates").ok()??;
    let mut out = String::with_capacity(set.len() + claims.len() * (TYPE.len() + 1));
    let mut copied = 0;
    for claim in claims.into_iter().map(RawValue::get) {
        let Some(members) = Members::read(claim).ok().filter(|_| claim.starts_with('{')) else { continue };
        if members.raw("kind").is_some() || members.raw("apiVersion").is_some() {
            continue;
        }
        let at = claim.as_ptr().addr() - set.as_ptr().addr() + "{".len();
        out.push_str(&set[copied..at]);
        out.push_str(TYPE);
        if !members.is_empty() {
            out.push(',');
        }
        copied = at;
    }
    (copied > 0).then(|| out + &set[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(claims: &str, want: Option<&str>) {
        let set =
            |claims: &str| format!(r#"{{"kind":"StatefulSet","spec":{{"volumeClaimTemplates":{claims},"serviceName":""}},"status":{{}}}}"#);
        assert_eq!(typed(&set(claims)), want.map(set), "{claims}");
    }

    #[test]
    fn claims_say_what_they_are() {
        let typed = r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"a"}}"#;
        check(r#"[{"metadata":{"name":"a"}}]"#, Some(&format!("[{typed}]")));
        check(
            &format!(r#"[{typed},{{"metadata":{{"name":"a"}}}},{{}}]"#),
            Some(&format!(r#"[{typed},{typed},{{"kind":"PersistentVolumeClaim","apiVersion":"v1"}}]"#)),
        );
        check(&format!("[{typed}]"), None);
        for nothing in ["[]", "null", "[null]", "{}", "[1]"] {
            check(nothing, None);
        }
        assert_eq!(super::typed("{}"), None);
        assert_eq!(super::typed("no json"), None);
    }
}
