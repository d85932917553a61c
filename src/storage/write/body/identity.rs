//! Whether a body is what its URL says: kind and version.

use serde_json::{Map, Value};

use super::{Syntax, looks_like_json, unrecognized};
use crate::write::group_version;
use model::invalid::FieldError;
use schema::Schema;

/// What the URL says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// Empty for core.
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// Whether a CustomResourceDefinition declares it: nothing may be left away then.
    pub(crate) custom: bool,
    /// That of a custom resource whose definition has one.
    pub(crate) schema: Option<&'a Schema>,
}

/// Why a body is not what was expected (spec api-surface §3.8).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IdentifyError {
    /// The message of a 400.
    BadRequest(String),
    /// A 422 of the kind and group that the body has: `Bar.ex.io "x" is invalid`.
    Invalid { kind: String, group: String, error: FieldError },
}

/// Checks kind and version, and writes them into the tree where a body may leave them away. `body` and its syntax are shown in the error for a
/// missing kind.
///
/// # Errors
/// When it is something else.
pub(crate) fn identify(value: &mut Value, expected: &Expected<'_>, syntax: Syntax, body: &[u8]) -> Result<(), IdentifyError> {
    let text = |member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let unknown = |cause: String| IdentifyError::BadRequest(unrecognized(expected.kind, &cause, body).0);
    if expected.custom && kind.is_empty() {
        return Err(unknown(format!("Object 'Kind' is missing in '{}'", shown(value, syntax, body))));
    }
    let Some((group, version)) = group_version::split(&api_version) else {
        return Err(unknown(format!("unexpected GroupVersion string: {api_version}")));
    };
    if expected.custom && value.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(IdentifyError::BadRequest(format!("{kind} in version \"\" cannot be handled as a {}: {why}", expected.kind)));
    }
    if expected.custom {
        custom(expected, (&group, &version), kind)?
    } else {
        built_in(expected, (group, version), kind).map_err(|wrong| {
            let Wrong { kind, version, why } = wrong;
            let of = expected.kind;
            IdentifyError::BadRequest(if kind.is_empty() {
                why
            } else {
                format!("{kind} in version \"{version}\" cannot be handled as a {of}: {why}")
            })
        })?
    }
    identified(value, expected);
    Ok(())
}

/// Writes kind and version into the tree.
pub(crate) fn identified(value: &mut Value, expected: &Expected<'_>) {
    if let Some(members) = value.as_object_mut() {
        set(members, "kind", expected.kind);
        set(members, "apiVersion", &expected.api_version());
    }
}

/// Whether the result of a patch of a built-in has the kind and version that are expected; a kind may be left away.
///
/// # Errors
/// Why it cannot be what is expected, in Go's words.
pub(crate) fn converts(value: &Value, expected: &Expected<'_>) -> Result<(), String> {
    for member in ["apiVersion", "kind"] {
        if let Some(other) = value.get(member).filter(|found| !found.is_string() && !found.is_null()) {
            let what = go::json::kind(other);
            return Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go struct field .{member} of type string"
            ));
        }
    }
    let text = |member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    let (group, version) = group_version::split(&api_version).ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
    built_in(expected, (group, version), text("kind")).map_err(|wrong| wrong.why)
}

impl<'a> Expected<'a> {
    /// An object of this resource.
    pub(crate) fn of(served: &'a catalogue::Served) -> Self {
        Self { group: &served.group, version: &served.version, kind: &served.kind, custom: served.is_custom(), schema: None }
    }

    /// The same, by this schema.
    pub(crate) fn with_schema(self, schema: Option<&'a Schema>) -> Self {
        Self { schema, ..self }
    }

    /// The same kind under this `apiVersion`.
    pub(crate) fn sibling(&self, api_version: &'static str) -> Expected<'a> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group, version, ..*self }
    }

    pub(crate) fn api_version(&self) -> String {
        joined(self.group, self.version)
    }

    /// Package of the group's internal types: what conversion errors name.
    fn package(&self) -> &str {
        match self.group {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or(group),
        }
    }
}

fn custom(expected: &Expected<'_>, (group, version): (&str, &str), kind: String) -> Result<(), IdentifyError> {
    if (group, version) != (expected.group, expected.version) {
        return Err(IdentifyError::BadRequest(mismatch(&joined(group, version), expected)));
    }
    if kind != expected.kind {
        let error = FieldError::invalid("kind", &kind.as_str().into(), &format!("must be {}", expected.kind));
        return Err(IdentifyError::Invalid { kind, group: group.to_owned(), error });
    }
    Ok(())
}

/// Something else than the built-in that is expected.
struct Wrong {
    /// What it is; empty when only the version differs, which needs no more words.
    kind: String,
    version: String,
    why: String,
}

fn built_in(expected: &Expected<'_>, (mut group, mut version): (String, String), mut kind: String) -> Result<(), Wrong> {
    if kind.is_empty() {
        expected.kind.clone_into(&mut kind);
    }
    if group.is_empty() && version.is_empty() {
        expected.group.clone_into(&mut group);
    }
    if version.is_empty() && group == expected.group {
        expected.version.clone_into(&mut version);
    }
    let same_kind = kind == expected.kind;
    if same_kind && group == expected.group && (version == expected.version || is_taken_too(&group, &version, &kind)) {
        return Ok(());
    }
    let known = catalogue::is_built_in_kind(&group, &version, &kind);
    // Both groups show the same internal Event.
    if known && same_kind && (group == expected.group || kind == "Event") {
        return Err(Wrong { kind: String::new(), version: String::new(), why: mismatch(&joined(&group, &version), expected) });
    }
    let why = if known {
        format!("converting ({version}.{kind}) to ({}.{}): unknown conversion", expected.package(), expected.kind)
    } else {
        format!(r#"no kind "{kind}" is registered for version "{}" in scheme "pkg/runtime/scheme.go:111""#, joined(&group, &version))
    };
    Err(Wrong { kind, version, why })
}

/// Whether a body may have this version besides the one that is served: clients still send Evictions of `policy/v1beta1`, whose fields are the same.
fn is_taken_too(group: &str, version: &str, kind: &str) -> bool {
    (group, version, kind) == ("policy", "v1beta1", "Eviction")
}

fn mismatch(found: &str, expected: &Expected<'_>) -> String {
    format!("the API version in the data ({found}) does not match the expected API version ({})", expected.api_version())
}

fn joined(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A body as JSON: as it came, or made from YAML.
fn shown(value: &Value, syntax: Syntax, body: &[u8]) -> String {
    if syntax == Syntax::Json && looks_like_json(body) { String::from_utf8_lossy(body).into_owned() } else { value.to_string() }
}

fn set(members: &mut Map<String, Value>, member: &str, text: &str) {
    if members.get(member).and_then(Value::as_str) != Some(text) {
        members.insert(member.to_owned(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG_MAP: Expected<'_> = Expected { group: "", version: "v1", kind: "ConfigMap", custom: false, schema: None };
    const WIDGET: Expected<'_> = Expected { group: "ex.io", version: "v1", kind: "Widget", custom: true, schema: None };

    fn check(body: &str, expected: &Expected<'_>) -> Result<Value, IdentifyError> {
        let mut value: Value = serde_json::from_str(body).expect("JSON");
        identify(&mut value, expected, Syntax::Json, body.as_bytes())?;
        Ok(value)
    }

    fn refused(body: &str, expected: &Expected<'_>) -> String {
        match check(body, expected) {
            Err(IdentifyError::BadRequest(message)) => message,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn built_ins_may_leave_both_away() {
        for body in ["{}", r#"{"kind":"","apiVersion":""}"#, r#"{"kind":"ConfigMap"}"#, r#"{"apiVersion":"v1","kind":null}"#] {
            let value = check(body, &CONFIG_MAP).expect("a ConfigMap");
            assert_eq!((&value["kind"], &value["apiVersion"]), (&"ConfigMap".into(), &"v1".into()), "{body}");
        }
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn other_kinds_are_refused_as_the_real_server_does() {
        let convert = "cannot be handled as a ConfigMap: converting";
        let unknown = "cannot be handled as a ConfigMap: no kind";
        let scheme = r#"in scheme "pkg/runtime/scheme.go:111""#;
        let cases = [
            (r#"{"kind":"Secret","apiVersion":"v1"}"#, format!(r#"Secret in version "v1" {convert} (v1.Secret) to (core.ConfigMap): unknown conversion"#)),
            (
                r#"{"kind":"Deployment","apiVersion":"apps/v1"}"#,
                format!(r#"Deployment in version "v1" {convert} (v1.Deployment) to (core.ConfigMap): unknown conversion"#),
            ),
            (r#"{"kind":"List","apiVersion":"v1"}"#, format!(r#"List in version "v1" {convert} (v1.List) to (core.ConfigMap): unknown conversion"#)),
            (r#"{"kind":"ConfigMapList"}"#, format!(r#"ConfigMapList in version "v1" {convert} (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"#)),
            (r#"{"kind":"Foo"}"#, format!(r#"Foo in version "v1" {unknown} "Foo" is registered for version "v1" {scheme}"#)),
            (r#"{"kind":"ConfigMap","apiVersion":"v2"}"#, format!(r#"ConfigMap in version "v2" {unknown} "ConfigMap" is registered for version "v2" {scheme}"#)),
            (r#"{"apiVersion":"apps/v1"}"#, format!(r#"ConfigMap in version "v1" {unknown} "ConfigMap" is registered for version "apps/v1" {scheme}"#)),
            (r#"{"kind":"Deployment"}"#, format!(r#"Deployment in version "v1" {unknown} "Deployment" is registered for version "v1" {scheme}"#)),
            (
                r#"{"kind":"ConfigMap","apiVersion":"a/b/c"}"#,
                r#"the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"kind":"ConfigMap","apiVersio ...)"#
                    .to_owned(),
            ),
        ];
        for (body, want) in cases {
            assert_eq!(refused(body, &CONFIG_MAP), want);
        }
    }

    #[test]
    fn another_version_of_the_same_kind() {
        let hpa = Expected { group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", custom: false, schema: None };
        assert_eq!(
            refused(r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1"}"#, &hpa),
            "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
        );
    }

    /// fabric8's client evicts so.
    #[test]
    fn an_eviction_may_be_of_the_version_before() {
        let eviction = Expected { group: "policy", version: "v1", kind: "Eviction", custom: false, schema: None };
        let taken = check(r#"{"kind":"Eviction","apiVersion":"policy/v1beta1"}"#, &eviction).expect("an Eviction");
        assert_eq!(taken["apiVersion"], "policy/v1");
        let other = r#"{"kind":"Eviction","apiVersion":"policy/v1alpha1"}"#;
        assert!(
            refused(other, &eviction)
                .ends_with(r#"no kind "Eviction" is registered for version "policy/v1alpha1" in scheme "pkg/runtime/scheme.go:111""#)
        );
    }

    #[test]
    fn custom_resources_must_say_both() {
        assert!(check(r#"{"kind":"Widget","apiVersion":"ex.io/v1"}"#, &WIDGET).is_ok());
        let expected = "does not match the expected API version (ex.io/v1)";
        let cases = [
            (
                r#"{"apiVersion":"ex.io/v1","metadata":{"name":"x"}}"#,
                r#"the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{"apiVersion":"ex.io/v1","metadata":{"name":"x"}}' ({"apiVersion":"ex.io/v1","meta ...)"#.to_owned(),
            ),
            (r#"{"kind":"Widget"}"#, format!("the API version in the data () {expected}")),
            (
                r#"{"kind":"Gadget","apiVersion":null}"#,
                r#"Gadget in version "" cannot be handled as a Widget: .apiVersion accessor error: <nil> is of the type <nil>, expected string"#
                    .to_owned(),
            ),
            (r#"{"kind":"Secret","apiVersion":"v1"}"#, format!("the API version in the data (v1) {expected}")),
            (r#"{"kind":"Widget","apiVersion":"ex.io/v2"}"#, format!("the API version in the data (ex.io/v2) {expected}")),
        ];
        for (body, want) in cases {
            assert_eq!(refused(body, &WIDGET), want);
        }
        let error = FieldError::invalid("kind", &"Bar".into(), "must be Widget");
        let invalid = IdentifyError::Invalid { kind: "Bar".to_owned(), group: "ex.io".to_owned(), error };
        assert_eq!(check(r#"{"kind":"Bar","apiVersion":"ex.io/v1"}"#, &WIDGET), Err(invalid));
    }
}
