//! `/scale`: an `autoscaling/v1` Scale over the replicas of its parent, and what these may be (spec api-surface §6.3, §11.3).

use serde_json::{Map, Value, json};

use super::{
    WriteRequest, Writer, Written,
    apply::Configuration,
    body::{Expected, Syntax},
    custom::Judge,
    decode::DecodedBody,
    failure::{StatusSubject, WriteError},
    hooks::Form,
    is_heavy, is_large, is_large_patch, is_of,
    managed::{FieldManager, put_entries, scale::ParentManagers},
    metadata::{self, Found},
    object_ref::{Current, ObjectRef},
    part::Part,
    patch::printed::{go_type, printed},
    patch_request::{PatchKind, PatchRequest},
    step::{Answers, Decider, Stop},
    strategy::{self, Preconditions},
    transaction::{Change, Decision},
    tree, written,
};
use catalogue::{Custom, NameRule, Origin, Rules, ScalePaths, Served};
use model::invalid::FieldError;

const SCALE: Expected<'static> = Expected { group: "autoscaling", version: "v1", kind: "Scale", custom: false, schema: None };

/// Replicas of a custom resource that has none, while a patch is applied: kube-apiserver's mark for "was not set".
const UNSET: i64 = i32::MIN as i64;

/// The scale of an object.
///
/// # Errors
/// A custom resource that has no replicas where its definition says, or something else than numbers and a text.
pub fn of(served: &Served, object: &Value) -> Result<Value, WriteError> {
    let paths = Paths::of(served);
    let read = Read::of(served, &paths, object)?;
    if read.replicas.is_none() {
        return Err(WriteError::Internal(format!("the spec replicas field \"{}\" does not exist", dotted(&paths.spec))));
    }
    Ok(read.shown(object))
}

/// What a scale has of its parent.
struct Read {
    /// None of a custom resource that has none.
    replicas: Option<i64>,
    current: i64,
    selector: String,
}

impl Read {
    /// Reads the parent. Of a custom resource each value must be of its type; a built-in has been decoded.
    fn of(served: &Served, paths: &Paths<'_>, object: &Value) -> Result<Self, WriteError> {
        if !served.is_custom() {
            let selected = paths.selector.as_ref().and_then(|path| tree::at(object, path));
            return Ok(Self {
                replicas: Some(tree::integer(object, &paths.spec).unwrap_or(0)),
                current: tree::integer(object, &paths.status).unwrap_or(0),
                selector: selected.map(selector).unwrap_or_default(),
            });
        }
        let number = |path: &[&str]| match nested(object, path)? {
            None => Ok(None),
            // Go's scale has an int32.
            Some(value) => value.as_i64().map(wrapped).map(Some).ok_or_else(|| unfit(value, path, "int64")),
        };
        let text = |path: &[&str]| match nested(object, path)? {
            None => Ok(String::new()),
            Some(value) => value.as_str().map(str::to_owned).ok_or_else(|| unfit(value, path, "string")),
        };
        Ok(Self {
            replicas: number(&paths.spec).map_err(WriteError::Raw)?,
            current: number(&paths.status).map_err(WriteError::Raw)?.unwrap_or(0),
            selector: paths.selector.as_deref().map_or(Ok(String::new()), text).map_err(WriteError::Raw)?,
        })
    }

    fn shown(&self, object: &Value) -> Value {
        let metadata = tree::metadata(object);
        let names = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let shown: Map<String, Value> = names.iter().filter_map(|n| Some(((*n).to_owned(), metadata.get(*n)?.clone()))).collect();
        let mut status = json!({"replicas": self.current});
        if !self.selector.is_empty() {
            tree::set(&mut status, &["selector"], self.selector.as_str().into());
        }
        // Go leaves out what is zero.
        let spec = match self.replicas.unwrap_or(UNSET) {
            0 => json!({}),
            replicas => json!({"replicas": replicas}),
        };
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
    }
}

/// A number as Go converts it to an int32.
fn wrapped(number: i64) -> i64 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i64::from(i32::from_le_bytes([a, b, c, d]))
}

impl Writer {
    /// PUT of `/scale`.
    ///
    /// # Errors
    /// See [`WriteError`]; conflicts are named after the parent.
    pub async fn replace_scale(
        &self,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let target = &request.target;
        let decider = Decider::new(&self.offload, self.admit(target, false, body.len()).await, request.answers());
        let sent = self.offload.run(is_large(body), || DecodedBody::read_audited(&SCALE, request, syntax, body)).await;
        let mut scale = sent.map_err(|error| unread(target.served(), error))?.into_tree(warnings);
        is_of(target, &mut scale, Found::Sent, warnings)?;
        let uid = tree::text(&scale, &["metadata", "uid"]);
        let preconditions = Preconditions { uid, revision: "" };
        self.scale(request, decider, false, preconditions, warnings, |managers, answers, shown, _| {
            let mut scale = scale.clone();
            managers.updated(answers, shown, &mut scale)?;
            Ok(scale)
        })
        .await
    }

    /// PATCH of `/scale`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_scale(
        &self,
        request: &WriteRequest<'_>,
        kind: PatchKind,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let patch = PatchRequest { kind, bytes: body, validation: request.options.validation };
        let is_large = is_large_patch(kind, body);
        let decider = Decider::new(&self.offload, self.admit(&request.target, is_large, body.len()).await, request.answers());
        let applies = kind == PatchKind::Apply;
        let configuration = if applies { Some(self.offload.run(is_large, || Configuration::read(body)).await?) } else { None };
        self.scale(request, decider, is_large, Preconditions::default(), warnings, |managers, answers, shown, warnings| {
            warnings.clear();
            if let Some(configuration) = &configuration {
                let applied = managers.applied(answers, Some(shown), &configuration.object, request.options.force)?;
                configuration.check(request.options.validation, warnings)?;
                let mut scale = DecodedBody::applied(&SCALE, applied)?.into_tree(warnings);
                is_of(&request.target, &mut scale, Found::Patched, warnings)?;
                return Ok(scale);
            }
            let mut scale = DecodedBody::patched(&SCALE, &request.options, &patch, shown)?.into_tree(warnings);
            is_of(&request.target, &mut scale, Found::Patched, warnings)?;
            managers.updated(answers, shown, &mut scale)?;
            Ok(scale)
        })
        .await
    }

    async fn scale(
        &self,
        request: &WriteRequest<'_>,
        decider: Decider<'_>,
        is_large: bool,
        preconditions: Preconditions<'_>,
        warnings: &mut Vec<String>,
        mut wanted: impl FnMut(&FieldManager<'_>, &Answers<'_>, &Value, &mut Vec<String>) -> Result<Value, Stop>,
    ) -> Result<Written, WriteError> {
        let target = &request.target;
        let managers = FieldManager::of_scale(self, target, request.manager("scale"));
        let compiled = self.schema(target.served()).await?;
        let judge = Judge::by(compiled.as_deref());
        let told = warnings.len();
        let is_large = is_large || is_heavy(target, judge.schema);
        let plugins = self.admission_of(request, (Form::Other(SCALE.group, SCALE.version, SCALE.kind), "scale")).await?;
        let plugins = plugins.as_ref();
        let how = Change { dry_run: request.options.dry_run, is_large, plugins, ..Change::of(target) };
        let done = self
            .change(how, decider, |current, answers| {
                let Some(current) = current else { return Err(WriteError::NotFound(target.subject()).into()) };
                // Only what the last try had to say counts.
                warnings.truncate(told);
                preconditions.check(target, current, request.options.dry_run)?;
                let read = Read::of(target.served(), &Paths::of(target.served()), &current.tree)?;
                let of_parent = ParentManagers::of(&self.resources.load(), target.served(), &current.tree)?;
                let mut shown = read.shown(&current.tree);
                put_entries(&mut shown, of_parent.of_scale());
                let mut scale = wanted(&managers, answers, &shown, warnings)?;
                answers.approve(Some(&scale), Some(&shown))?;
                if let Some(plugins) = plugins {
                    plugins.admit_scale(target, &shown, &mut scale, warnings)?;
                }
                let entries = of_parent.of_parent(tree::metadata(&scale).get("managedFields"))?;
                Ok(scaled(target, current, scale, judge, entries, warnings)?)
            })
            .await?;
        let parent = written(done);
        Ok(Written { object: of(target.served(), &parent.object)?, created: parent.created, stored: None })
    }
}

/// Tells of a body that is no scale. kube-apiserver looks for the type of a custom resource's scale among custom resources, and tells of that alone.
fn unread(served: &Served, error: WriteError) -> WriteError {
    match error {
        WriteError::BadRequest(_) if served.is_custom() => {
            WriteError::BadRequest(r#"no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111""#.to_owned())
        }
        error => error,
    }
}

/// The parent with the replicas of a scale.
fn scaled(
    target: &ObjectRef,
    current: &Current,
    mut scale: Value,
    by: Judge<'_>,
    managers: Vec<Value>,
    warnings: &mut Vec<String>,
) -> Result<Decision, WriteError> {
    let served = target.served();
    let paths = Paths::of(served);
    let replicas = tree::integer(&scale, &["spec", "replicas"]).unwrap_or(0);
    // Of a custom resource the whole is judged, and nothing of the scale's metadata but the revision.
    if served.is_custom() {
        if replicas == UNSET {
            return Err(WriteError::BadRequest(format!("the spec replicas field \"{}\" cannot be empty", dotted(&paths.spec))));
        }
    } else {
        judge(target, &mut scale, replicas)?;
        let (sent, uid) = (tree::text(&scale, &["metadata", "uid"]), tree::text(&current.tree, &["metadata", "uid"]));
        if !sent.is_empty() && sent != uid {
            let of = StatusSubject { kind: format!("{}/scale", served.resource), ..target.subject() };
            let why = format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {uid}");
            return Err(WriteError::Conflict { of, why });
        }
    }
    let mut object = current.tree.clone();
    put(&mut object, &paths.spec, replicas)?;
    put_entries(&mut object, managers);
    let sent = tree::text(&scale, &["metadata", "resourceVersion"]);
    if !sent.is_empty() || !served.is_custom() {
        strategy::check_revision(target, sent, current)?;
    }
    strategy::update(target, by, Part::Main, current, object, warnings)
}

/// Judges a scale of a built-in as an object of its own.
fn judge(target: &ObjectRef, scale: &mut Value, replicas: i64) -> Result<(), WriteError> {
    let metadata = tree::member(scale, "metadata");
    if let Some(namespace) = &target.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let rules = Rules { name: NameRule::Subdomain, any_finalizer: false, ..target.served().rules };
    let mut errors = metadata::validate_create(metadata, true, &rules);
    if replicas < 0 {
        errors.push(FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0"));
    }
    let of = StatusSubject { group: SCALE.group.to_owned(), kind: SCALE.kind.to_owned(), name: target.name.clone() };
    WriteError::unless_valid(of, errors)
}

/// Sets the replicas at their path, whose objects are made where they are missing.
fn put(object: &mut Value, path: &[&str], replicas: i64) -> Result<(), WriteError> {
    for end in 1..path.len() {
        let found = path[..end].iter().try_fold(&*object, |value, name| value.get(name));
        if found.is_some_and(|value| !value.is_object()) {
            let at = dotted(&path[..end]);
            return Err(WriteError::Raw(format!("value cannot be set because {at} is not a map[string]interface{{}}")));
        }
    }
    tree::set(object, path, replicas.into());
    Ok(())
}

/// What is wrong with the numbers and the selector of a custom resource whose definition says where they are. `/status` is not judged by the spec.
pub(super) fn validate(paths: Option<&ScalePaths>, part: Part, object: &Value) -> Vec<FieldError> {
    let Some(paths) = paths else { return Vec::new() };
    let spec = (part != Part::Status).then(|| wrong_replicas(object, &paths.spec)).flatten();
    let selector = paths.selector.as_ref().and_then(|path| wrong_selector(object, path));
    spec.into_iter().chain(wrong_replicas(object, &paths.status)).chain(selector).collect()
}

fn wrong_replicas(object: &Value, path: &[String]) -> Option<FieldError> {
    let (replicas, why) = match nested(object, path) {
        Err(why) => (0, why),
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            None => (0, unfit(value, path, "int64")),
            Some(replicas) if replicas < 0 => (replicas, "should be a non-negative integer".to_owned()),
            Some(replicas) if replicas > i64::from(i32::MAX) => (replicas, format!("should be less than or equal to {}", i32::MAX)),
            Some(_) => return None,
        },
    };
    Some(FieldError::invalid(dotted(path), &replicas.into(), &why))
}

fn wrong_selector(object: &Value, path: &[String]) -> Option<FieldError> {
    let why = match nested(object, path) {
        Err(why) => why,
        Ok(value) => value.filter(|value| !value.is_string()).map(|value| unfit(value, path, "string"))?,
    };
    Some(FieldError::invalid(dotted(path), &"".into(), &why))
}

/// What is at a path, as Go's unstructured helpers look for it: a null at its end is something.
fn nested<'a, S: AsRef<str>>(object: &'a Value, path: &[S]) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for (i, name) in path.iter().enumerate() {
        match value {
            Value::Object(members) => match members.get(name.as_ref()) {
                Some(member) => value = member,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(unfit(other, &path[..=i], "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn unfit<S: AsRef<str>>(value: &Value, path: &[S], expected: &str) -> String {
    let found = if value.is_null() { "<nil>" } else { go_type(value) };
    format!("{} accessor error: {} is of the type {found}, expected {expected}", dotted(path), printed(value))
}

fn dotted<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().fold(String::new(), |text, name| text + "." + name.as_ref())
}

/// Where the numbers are.
struct Paths<'a> {
    spec: Vec<&'a str>,
    status: Vec<&'a str>,
    selector: Option<Vec<&'a str>>,
}

impl<'a> Paths<'a> {
    fn of(served: &'a Served) -> Self {
        fn path(path: &[String]) -> Vec<&str> {
            path.iter().map(String::as_str).collect()
        }
        match &served.origin {
            Origin::Custom(Custom { scale: Some(paths), .. }) => {
                Self { spec: path(&paths.spec), status: path(&paths.status), selector: paths.selector.as_deref().map(path) }
            }
            _ => Self { spec: vec!["spec", "replicas"], status: vec!["status", "replicas"], selector: Some(vec!["spec", "selector"]) },
        }
    }
}

/// A selector as one string, as `metav1.FormatLabelSelector` writes it; a ReplicationController's is a plain map.
fn selector(selector: &Value) -> String {
    let pairs =
        |map: &Map<String, Value>| -> Vec<String> { map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect() };
    let Value::Object(members) = selector else { return String::new() };
    let is_map = !members.contains_key("matchLabels") && !members.contains_key("matchExpressions");
    let mut terms =
        pairs(if is_map { members } else { members.get("matchLabels").and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS) });
    for expression in members.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, values) = (tree::text(expression, &["key"]), tree::texts(expression, &["values"]).join(","));
        terms.push(match tree::text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort_by(|a, b| a.trim_start_matches('!').cmp(b.trim_start_matches('!')));
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(part: Part, object: &Value) -> Vec<String> {
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        let paths = ScalePaths { spec: path("spec.replicas"), status: path("status.replicas"), selector: Some(path("status.selector")) };
        validate(Some(&paths), part, object).into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn replicas_are_judged_in_the_words_of_their_paths() {
        let above = "should be less than or equal to 2147483647";
        for (replicas, why) in [
            (json!(i64::MAX), format!("9223372036854775807: {above}")),
            (json!(i64::from(i32::MAX) + 1), format!("2147483648: {above}")),
            (json!(-1), "-1: should be a non-negative integer".to_owned()),
            (json!("x"), "0: .spec.replicas accessor error: x is of the type string, expected int64".to_owned()),
            (json!(1.5), "0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64".to_owned()),
            (json!(null), "0: .spec.replicas accessor error: <nil> is of the type <nil>, expected int64".to_owned()),
            (
                json!({"a": 1}),
                "0: .spec.replicas accessor error: map[a:1] is of the type map[string]interface {}, expected int64".to_owned(),
            ),
        ] {
            let object = json!({"spec": {"replicas": replicas}});
            assert_eq!(wrong(Part::Main, &object), [format!(".spec.replicas: Invalid value: {why}")]);
            assert_eq!(wrong(Part::Status, &object), [""; 0], "the spec is not looked at");
        }
        let text = "0: .spec.replicas accessor error: text is of the type string, expected map[string]interface{}";
        assert_eq!(wrong(Part::Main, &json!({"spec": "text"})), [format!(".spec.replicas: Invalid value: {text}")]);
        for fine in
            [json!({}), json!({"spec": null}), json!({"spec": {"replicas": i32::MAX}, "status": {"replicas": 0, "selector": "a=b"}})]
        {
            assert_eq!(wrong(Part::Main, &fine), [""; 0]);
        }
    }

    #[test]
    fn the_status_is_judged_with_its_selector() {
        let object = json!({"status": {"replicas": -1, "selector": 5}});
        let want = [
            ".status.replicas: Invalid value: -1: should be a non-negative integer",
            ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 is of the type int64, expected string",
        ];
        for part in [Part::Status, Part::Main] {
            assert_eq!(wrong(part, &object), want);
        }
    }
}
