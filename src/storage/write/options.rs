//! The options of a write, from its query and, for DELETE, its body (spec api-surface §5.1, §7.1, §8.1).

mod fields;

use serde_json::{Map, Value, json};

use super::{
    body::{Syntax, as_sent, parse_options},
    manager_name::wrong_manager,
};
use go::{quote::json_quoted, url::Query};
use model::invalid::FieldError;

/// Options of CREATE, UPDATE and PATCH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Everything but the write.
    pub dry_run: bool,
    /// What becomes of unknown and duplicate fields.
    pub validation: FieldValidation,
    /// The client has said so.
    pub says_validation: bool,
    /// `fieldManager`; empty when there is none.
    pub field_manager: String,
    /// `force`: an apply takes fields from their managers.
    pub force: bool,
}

/// `fieldValidation` (spec api-surface §5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client is warned.
    #[default]
    Warn,
    /// The write is refused.
    Strict,
}

/// What becomes of a value that cannot be read, by `ignoreStoreReadErrorWithClusterBreakingPotential`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unread {
    /// It is not deleted.
    #[default]
    Kept,
    /// It is deleted, too.
    Deleted,
    /// Nothing else is deleted.
    Only,
}

/// The feature gate AllowUnsafeMalformedObjectDeletion, alpha in 1.36: whether `ignoreStoreReadErrorWithClusterBreakingPotential` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MalformedDeletion {
    /// Not said: it counts for what cannot be read, and is ignored otherwise.
    #[default]
    Lenient,
    /// On: it counts, and may not be used for what can be read.
    On,
    /// Off: it is ignored.
    Off,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`; a negative one was made 1.
    pub grace_seconds: Option<i64>,
    /// `preconditions.uid`
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`
    pub resource_version: Option<String>,
    /// `propagationPolicy`
    pub propagation: Option<Propagation>,
    /// `orphanDependents`, which `propagationPolicy` replaced; never both.
    pub orphan_dependents: Option<bool>,
    /// Everything but the write.
    pub dry_run: bool,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: the value cannot be read and is to be deleted all the same. Nothing else is asked with it.
    pub unread: Unread,
}

/// What becomes of the objects that a deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go first.
    Foreground,
    /// They go afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// Which kind of options a query is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH but apply.
    Patch,
    /// PATCH that applies.
    Apply,
}

impl Verb {
    /// Kind of the options in the 422; the group is `meta.k8s.io`.
    pub fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The option by which a value is deleted that cannot be read.
pub(super) const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Why options of DELETE are refused.
#[derive(Debug, PartialEq, Eq)]
pub enum DeleteOptionsError {
    /// 400 with this message.
    BadRequest(String),
    /// 422 of kind `DeleteOptions.meta.k8s.io`.
    Invalid(Vec<FieldError>),
}

impl WriteOptions {
    /// Returns the options as admission is shown them, without their kind.
    pub(super) fn shown(&self) -> Value {
        let validation = match self.validation {
            _ if !self.says_validation => "",
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        shown(self.dry_run, [("fieldManager", self.field_manager.as_str().into()), ("fieldValidation", validation.into())])
    }

    /// Reads the options from the query.
    ///
    /// # Errors
    /// What is wrong with them, for a 422 of kind `options_kind`.
    pub fn parse(query: &Query, verb: Verb) -> Result<Self, Vec<FieldError>> {
        let options = fields::from_query(query, &fields::WRITE).expect("none of them is a number");
        let text = |name| options.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut wrong = Vec::new();
        match verb {
            Verb::Patch if options.contains_key("force") => {
                wrong.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            Verb::Apply if text("fieldManager").is_empty() => {
                wrong.push(FieldError::required("fieldManager", "is required for apply patch"))
            }
            _ => {}
        }
        wrong.extend(wrong_manager("fieldManager", text("fieldManager")));
        let dry_run = options.get("dryRun").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        wrong.extend(wrong_dry_run(dry_run));
        let validation = match text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                wrong.push(FieldError::not_supported("fieldValidation", &other.into(), &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::default()
            }
        };
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let force = verb == Verb::Apply && options.get("force").and_then(Value::as_bool).unwrap_or_default();
        let says_validation = !text("fieldValidation").is_empty();
        Ok(Self { dry_run: !dry_run.is_empty(), validation, says_validation, field_manager: text("fieldManager").to_owned(), force })
    }
}

fn wrong_dry_run(asked: &[Value]) -> Option<FieldError> {
    let wrong = asked.iter().any(|word| word != "All");
    wrong.then(|| FieldError::not_supported("dryRun", &Value::from(asked), &["All"]))
}

/// Options as admission is shown them: what is empty is not said.
fn shown<const N: usize>(dry_run: bool, members: [(&str, Value); N]) -> Value {
    let mut options = Map::new();
    if dry_run {
        options.insert("dryRun".to_owned(), json!(["All"]));
    }
    let is_said = |value: &Value| !value.is_null() && value != "" && *value != json!({});
    options.extend(members.into_iter().filter(|(_, value)| is_said(value)).map(|(name, value)| (name.to_owned(), value)));
    options.into()
}

impl DeleteOptions {
    /// Returns the options as admission is shown them, without their kind.
    pub(super) fn shown(&self) -> Value {
        let conditions = shown(false, [("uid", self.uid.clone().into()), ("resourceVersion", self.resource_version.clone().into())]);
        let propagation = self.propagation.map(|propagation| format!("{propagation:?}"));
        let members = [
            ("gracePeriodSeconds", self.grace_seconds.into()),
            ("preconditions", conditions),
            ("orphanDependents", self.orphan_dependents.into()),
            ("propagationPolicy", propagation.into()),
        ];
        shown(self.dry_run, members)
    }

    /// Reads the options from the body or, when that is empty, from the query.
    ///
    /// # Errors
    /// What is wrong with them, or that the body is something else.
    pub fn parse(gate: MalformedDeletion, query: &Query, syntax: Syntax, body: &[u8]) -> Result<Self, DeleteOptionsError> {
        let options = if body.is_empty() { fields::deletion_from_query(query) } else { from_body(syntax, body) };
        let raw = options.and_then(|options| Raw::read(&options));
        let raw = raw.map_err(|why| DeleteOptionsError::BadRequest(as_sent(syntax, body, why)))?;
        raw.checked(gate).map_err(DeleteOptionsError::Invalid)
    }

    /// Whether they may be those of DELETECOLLECTION.
    ///
    /// # Errors
    /// What may not.
    pub fn may_be_of_many(&self) -> Result<(), Vec<FieldError>> {
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        if self.unread == Unread::Only { Err(vec![FieldError::invalid(UNREAD, &Value::Bool(true), why)]) } else { Ok(()) }
    }
}

/// The options in the body of a DELETE as kube-apiserver's audit log tells them: in its own version of them. None when they cannot be read.
#[must_use]
pub fn printed(syntax: Syntax, body: &[u8]) -> Option<String> {
    let raw = Raw::read(&from_body(syntax, body).ok()?).ok()?;
    let text = |value: &Option<String>| value.as_deref().map(json_quoted);
    let conditions = [("uid", text(&raw.uid)), ("resourceVersion", text(&raw.resource_version))];
    let words: Vec<String> = raw.dry_run.iter().map(|word| json_quoted(word)).collect();
    let members = [
        ("gracePeriodSeconds", raw.grace_seconds.map(|seconds| seconds.to_string())),
        ("preconditions", raw.conditional.then(|| format!("{{{}}}", joined(&conditions)))),
        ("orphanDependents", raw.orphan_dependents.map(|orphans| orphans.to_string())),
        ("propagationPolicy", text(&raw.propagation)),
        ("dryRun", (!words.is_empty()).then(|| format!("[{}]", words.join(",")))),
    ];
    let members = match joined(&members) {
        members if members.is_empty() => members,
        members => format!(",{members}"),
    };
    Some(format!(r#"{{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/__internal"{members}}}"#))
}

fn joined(members: &[(&str, Option<String>)]) -> String {
    let there = members.iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value.as_ref()?)));
    there.collect::<Vec<_>>().join(",")
}

/// Options of DELETE before they are looked at together.
#[derive(Default)]
struct Raw {
    grace_seconds: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Vec<String>,
    unread: bool,
    /// There are preconditions, perhaps empty ones.
    conditional: bool,
}

/// The options in a body, if it is of their kind.
fn from_body(syntax: Syntax, body: &[u8]) -> Result<Value, String> {
    let value = parse_options(syntax, body).map_err(|error| error.0)?;
    let (kind, api_version) = (value["kind"].as_str().unwrap_or_default(), value["apiVersion"].as_str().unwrap_or_default());
    if api_version.split('/').count() > 2 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    if !matches!(kind, "" | "DeleteOptions") {
        let version = if api_version.is_empty() { "meta.k8s.io/v1" } else { api_version };
        return Err(format!(r#"no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111""#));
    }
    Ok(value)
}

impl Raw {
    /// Reads options from a tree, which a query and a body have in common.
    fn read(value: &Value) -> Result<Self, String> {
        let conditions = &value["preconditions"];
        if !matches!(conditions, Value::Null | Value::Object(_)) {
            return Err(mistyped("DeleteOptions.preconditions", "v1.Preconditions", conditions));
        }
        Ok(Self {
            grace_seconds: member(&value["gracePeriodSeconds"], "DeleteOptions.gracePeriodSeconds", "int64", Value::as_i64)?,
            uid: text(&conditions["uid"], "Preconditions.preconditions.uid", "types.UID")?,
            resource_version: text(&conditions["resourceVersion"], "Preconditions.preconditions.resourceVersion", "string")?,
            propagation: text(&value["propagationPolicy"], "DeleteOptions.propagationPolicy", "v1.DeletionPropagation")?,
            orphan_dependents: member(&value["orphanDependents"], "DeleteOptions.orphanDependents", "bool", Value::as_bool)?,
            dry_run: texts(&value["dryRun"])?,
            unread: member(&value[UNREAD], &format!("DeleteOptions.{UNREAD}"), "bool", Value::as_bool)?.unwrap_or(false),
            conditional: !conditions.is_null(),
        })
    }

    fn checked(self, gate: MalformedDeletion) -> Result<DeleteOptions, Vec<FieldError>> {
        let mut wrong = Vec::new();
        if let (Some(policy), Some(_)) = (&self.propagation, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            wrong.push(FieldError::invalid("propagationPolicy", &policy.as_str().into(), why));
        }
        let propagation = self.propagation.as_deref().and_then(|policy| match policy {
            "Foreground" => Some(Propagation::Foreground),
            "Background" => Some(Propagation::Background),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                let supported = &["Foreground", "Background", "Orphan", "nil"];
                wrong.push(FieldError::not_supported("propagationPolicy", &other.into(), supported));
                None
            }
        });
        let asked: Vec<Value> = self.dry_run.iter().map(|word| word.as_str().into()).collect();
        wrong.extend(wrong_dry_run(&asked));
        if gate == MalformedDeletion::On {
            wrong.extend(self.beside_unread());
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(DeleteOptions {
            grace_seconds: self.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            uid: self.uid,
            resource_version: self.resource_version,
            propagation,
            orphan_dependents: self.orphan_dependents,
            dry_run: !asked.is_empty(),
            unread: match gate {
                _ if !self.unread => Unread::Kept,
                MalformedDeletion::Lenient => Unread::Deleted,
                MalformedDeletion::On => Unread::Only,
                MalformedDeletion::Off => Unread::Kept,
            },
        })
    }

    /// The options that have no meaning for a value that cannot be read.
    fn beside_unread(&self) -> Vec<FieldError> {
        let beside = [
            (".dryRun", !self.dry_run.is_empty()),
            (".propagationPolicy", self.propagation.is_some()),
            (".orphanDependents", self.orphan_dependents.is_some()),
            (".gracePeriodSeconds", self.grace_seconds.is_some()),
            (".preconditions", self.conditional),
        ];
        let set = beside.into_iter().filter(|(_, is_set)| self.unread && *is_set);
        set.map(|(name, _)| FieldError::invalid(UNREAD, &Value::Bool(true), &format!("cannot be set together with {name}"))).collect()
    }
}

fn member<'a, T>(value: &'a Value, field: &str, go_type: &str, read: fn(&'a Value) -> Option<T>) -> Result<Option<T>, String> {
    if value.is_null() {
        return Ok(None);
    }
    read(value).map(Some).ok_or_else(|| mistyped(field, go_type, value))
}

fn text(value: &Value, field: &str, go_type: &str) -> Result<Option<String>, String> {
    Ok(member(value, field, go_type, Value::as_str)?.map(str::to_owned))
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let items = member(value, "DeleteOptions.dryRun", "[]string", Value::as_array)?;
    let words = items.into_iter().flatten().map(|item| text(item, "DeleteOptions.dryRun", "string"));
    words.map(|word| word.map(Option::unwrap_or_default)).collect()
}

fn mistyped(field: &str, go_type: &str, value: &Value) -> String {
    // A number that is none of the type is shown, one that should be no number is not.
    let number = if go_type == "int64" && value.is_number() { format!(" {value}") } else { String::new() };
    format!("json: cannot unmarshal {}{number} into Go struct field {field} of type {go_type}", go::json::kind(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::manager_name::MANAGER_BYTES_MAX;
    use model::invalid::{TOLD_BYTES_MAX, joined};

    fn write(query: &str, verb: Verb) -> Result<WriteOptions, String> {
        WriteOptions::parse(&Query::parse(query), verb).map_err(|wrong| joined(&wrong))
    }

    fn delete(query: &str, body: &str) -> Result<DeleteOptions, String> {
        DeleteOptions::parse(MalformedDeletion::On, &Query::parse(query), Syntax::Json, body.as_bytes()).map_err(|error| match error {
            DeleteOptionsError::BadRequest(message) => format!("400 {message}"),
            DeleteOptionsError::Invalid(wrong) => format!("422 {}", joined(&wrong)),
        })
    }

    #[test]
    fn what_is_absent_has_its_default() {
        assert_eq!(write("", Verb::Create), Ok(WriteOptions::default()));
        assert_eq!(write("fieldValidation=&force=x", Verb::Update), Ok(WriteOptions::default()));
        assert_eq!(WriteOptions::default().validation, FieldValidation::Warn);
        let named = |manager: &str| WriteOptions { field_manager: manager.to_owned(), ..WriteOptions::default() };
        let all = WriteOptions { dry_run: true, validation: FieldValidation::Strict, says_validation: true, ..named("a b") };
        let query = "dryRun=All&dryRun=All&fieldValidation=Strict&fieldValidation=Foo&fieldManager=a%20b";
        assert_eq!(write(query, Verb::Update), Ok(all));
        assert_eq!(write(&format!("fieldManager={}", "%C3%A9".repeat(64)), Verb::Create), Ok(named(&"é".repeat(64))));
    }

    /// The first and the last were recorded from the audit log of kube-apiserver 1.36.3.
    #[test]
    fn options_are_printed_in_their_inner_version() {
        let printed = |body: &str| {
            printed(Syntax::Json, body.as_bytes())
                .map(|text| text.replace(r#""kind":"DeleteOptions","apiVersion":"meta.k8s.io/__internal""#, "K"))
        };
        assert_eq!(printed("{}").as_deref(), Some("{K}"));
        assert_eq!(
            printed(r#"{"apiVersion":"v1","gracePeriodSeconds":-1,"orphanDependents":false}"#).as_deref(),
            Some(r#"{K,"gracePeriodSeconds":-1,"orphanDependents":false}"#)
        );
        assert_eq!(
            printed(r#"{"dryRun":["All","<"],"preconditions":{}}"#).as_deref(),
            Some(r#"{K,"preconditions":{},"dryRun":["All","\u003c"]}"#)
        );
        assert_eq!(
            printed(r#"{"propagationPolicy":"Background","preconditions":{"uid":"7"}}"#).as_deref(),
            Some(r#"{K,"preconditions":{"uid":"7"},"propagationPolicy":"Background"}"#)
        );
        assert_eq!(printed("{nojson"), None);
    }

    /// Each was sent to a kube-apiserver with the feature gate AllowUnsafeMalformedObjectDeletion.
    #[test]
    fn a_value_that_cannot_be_read_is_deleted_without_more_ado() {
        let unread = DeleteOptions { unread: Unread::Only, ..DeleteOptions::default() };
        assert_eq!(delete(&format!("{UNREAD}=true"), ""), Ok(unread.clone()));
        assert_eq!(delete("", &format!(r#"{{"{UNREAD}":true}}"#)), Ok(unread));
        assert_eq!(delete("gracePeriodSeconds=0", "").map(|options| options.unread), Ok(Unread::Kept));
        let wrong = |member: &str| delete("", &format!(r#"{{"{UNREAD}":true,{member}}}"#)).expect_err("refused");
        for (member, name) in [
            (r#""dryRun":["All"]"#, ".dryRun"),
            (r#""propagationPolicy":"Orphan""#, ".propagationPolicy"),
            (r#""orphanDependents":true"#, ".orphanDependents"),
            (r#""gracePeriodSeconds":0"#, ".gracePeriodSeconds"),
            (r#""preconditions":{"uid":"a"}"#, ".preconditions"),
        ] {
            assert_eq!(wrong(member), format!("422 {UNREAD}: Invalid value: true: cannot be set together with {name}"));
        }
        let text = format!(r#"400 json: cannot unmarshal string into Go struct field DeleteOptions.{UNREAD} of type bool"#);
        assert_eq!(delete("", &format!(r#"{{"{UNREAD}":"x"}}"#)), Err(text));
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn wrong_options_have_the_texts_of_the_real_server() {
        let long = "x".repeat(129);
        let cases = [
            ("dryRun", Verb::Create, r#"dryRun: Unsupported value: [""]: supported values: "All""#.to_owned()),
            ("dryRun=All&dryRun=Foo", Verb::Create, r#"dryRun: Unsupported value: ["All","Foo"]: supported values: "All""#.to_owned()),
            ("fieldManager=a%01b", Verb::Create, r#"fieldManager: Invalid value: "a\x01b": invalid character U+0001 (at position 1)"#.to_owned()),
            (
                "fieldManager=a%01b%02",
                Verb::Create,
                r#"[fieldManager: Invalid value: "a\x01b\x02": invalid character U+0001 (at position 1), fieldManager: Invalid value: "a\x01b\x02": invalid character U+0002 (at position 3)]"#.to_owned(),
            ),
            ("fieldManager=a%E2%80%8Bb", Verb::Create, r#"fieldManager: Invalid value: "a\u200bb": invalid character U+200B (at position 1)"#.to_owned()),
            (
                "fieldValidation=strict",
                Verb::Create,
                r#"fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn""#.to_owned(),
            ),
            (
                &*format!("dryRun=Foo&fieldManager={long}%01&fieldValidation=Bar"),
                Verb::Create,
                format!(
                    r#"[fieldManager: Too long: may not be more than 128 bytes, fieldManager: Invalid value: "{long}\x01": invalid character U+0001 (at position 129), dryRun: Unsupported value: ["Foo"]: supported values: "All", fieldValidation: Unsupported value: "Bar": supported values: "", "Ignore", "Strict", "Warn"]"#
                ),
            ),
            ("force=false", Verb::Patch, "force: Forbidden: may not be specified for non-apply patch".to_owned()),
            (
                "dryRun=Foo&force",
                Verb::Patch,
                r#"[force: Forbidden: may not be specified for non-apply patch, dryRun: Unsupported value: ["Foo"]: supported values: "All"]"#.to_owned(),
            ),
        ];
        for (query, verb, want) in cases {
            assert_eq!(write(query, verb), Err(want), "{query}");
        }
    }

    /// 21,800 such characters made 1 GB of errors.
    #[test]
    fn of_a_long_manager_not_every_character_is_told() {
        let query = format!("fieldManager={}", "%07".repeat(21_800));
        let wrong = WriteOptions::parse(&Query::parse(&query), Verb::Create).expect_err("refused");
        assert_eq!(wrong[0], FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
        let bytes: usize = wrong.iter().map(FieldError::bytes).sum();
        assert!((TOLD_BYTES_MAX..2 * TOLD_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn delete_reads_the_body_or_the_query() {
        let read = |query, body| delete(query, body).expect("options");
        let query = "gracePeriodSeconds=-1&uid=u&propagationPolicy=Orphan&dryRun=All";
        let want = DeleteOptions {
            grace_seconds: Some(1),
            uid: Some("u".to_owned()),
            propagation: Some(Propagation::Orphan),
            dry_run: true,
            ..Default::default()
        };
        assert_eq!(read(query, ""), want);
        assert_eq!(read(query, "null"), DeleteOptions::default());
        assert_eq!(read("propagationPolicy=Bogus", "{}"), DeleteOptions::default());
        assert_eq!(read("orphanDependents=x", "").orphan_dependents, Some(true));
        assert_eq!(read("orphanDependents=0", "").orphan_dependents, Some(false));
        let revision = DeleteOptions { resource_version: Some("5".to_owned()), ..Default::default() };
        assert_eq!(read("resourceVersion=5&uid=", ""), revision, "an empty parameter is no precondition");
        assert_eq!(read("resourceVersion=5&uid=u", "{}"), DeleteOptions::default(), "a body speaks alone");
        assert_eq!(read("preconditions.uid=u&preconditions=x", ""), DeleteOptions::default());
        let body =
            r#"{"kind":"DeleteOptions","apiVersion":"foo/v9","preconditions":{"uid":"","resourceVersion":"5"},"dryRun":[],"unknown":1}"#;
        let want = DeleteOptions { uid: Some(String::new()), resource_version: Some("5".to_owned()), ..Default::default() };
        assert_eq!(read("dryRun=All", body), want);
        let yaml = DeleteOptions::parse(MalformedDeletion::On, &Query::default(), Syntax::Yaml, b"dryRun: [All]\n").expect("options");
        assert!(yaml.dry_run);
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn wrong_delete_options_have_the_texts_of_the_real_server() {
        let unsupported = |v: &str| {
            format!(r#"propagationPolicy: Unsupported value: "{v}": supported values: "Foreground", "Background", "Orphan", "nil""#)
        };
        let both = "orphanDependents and deletionPropagation cannot be both set";
        let unknown = |kind: &str, version: &str| {
            format!(r#"400 no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111""#)
        };
        let cases = [
            ("gracePeriodSeconds=x", "", r#"400 strconv.ParseInt: parsing "x": invalid syntax"#.to_owned()),
            ("gracePeriodSeconds=", "", r#"400 strconv.ParseInt: parsing "": invalid syntax"#.to_owned()),
            (
                "gracePeriodSeconds=99999999999999999999",
                "",
                r#"400 strconv.ParseInt: parsing "99999999999999999999": value out of range"#.to_owned(),
            ),
            ("propagationPolicy=", "", format!("422 {}", unsupported(""))),
            (
                "propagationPolicy=Bogus&orphanDependents=true&dryRun=Foo",
                "",
                format!(
                    r#"422 [propagationPolicy: Invalid value: "Bogus": {both}, {}, dryRun: Unsupported value: ["Foo"]: supported values: "All"]"#,
                    unsupported("Bogus")
                ),
            ),
            ("", r#"{"kind":"ConfigMap","apiVersion":"v1"}"#, unknown("ConfigMap", "v1")),
            ("", r#"{"kind":"Foo"}"#, unknown("Foo", "meta.k8s.io/v1")),
            (
                "",
                r#"{"gracePeriodSeconds":"x"}"#,
                "400 json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64".to_owned(),
            ),
            (
                "",
                r#"{"gracePeriodSeconds":1.5}"#,
                "400 json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64".to_owned(),
            ),
            (
                "",
                r#"{"propagationPolicy":5}"#,
                "400 json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation"
                    .to_owned(),
            ),
            (
                "",
                r#"{"dryRun":"All"}"#,
                "400 json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string".to_owned(),
            ),
            (
                "",
                r#"{"preconditions":5}"#,
                "400 json: cannot unmarshal number into Go struct field DeleteOptions.preconditions of type v1.Preconditions".to_owned(),
            ),
            ("", r#"{"apiVersion":"a/b/c","kind":"Foo"}"#, "400 unexpected GroupVersion string: a/b/c".to_owned()),
            ("", "{", "400 couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned()),
        ];
        for (query, body, want) in cases {
            assert_eq!(delete(query, body), Err(want), "{query} {body}");
        }
    }
}
