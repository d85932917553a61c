//! Decodes a body into a tree of its type; unknown and duplicate fields are warned of, refused or dropped (spec api-surface §3.8, §5.6).

use serde_json::Value;

use super::{
    JSON_BYTES_MAX, WriteRequest,
    body::{self, BodyError, Expected, Floats, IdentifyError, Syntax, Tree},
    custom::{self, Unfit},
    failure::{StatusSubject, WriteError},
    kinds, managed,
    options::{FieldValidation, WriteOptions},
    patch_request::{PatchKind, PatchRequest},
    tree, typed,
};
use catalogue::{defaults, definition, types::TypeRef};
use codec::{
    normalize,
    versions::{TooLong, Version},
};
use go::quote::quoted;
use model::invalid::FieldError;
use schema::Schema;

/// A decoded body.
#[derive(Debug)]
pub(super) struct DecodedBody {
    /// The object.
    pub(super) tree: Value,
    /// Texts of `Warning` headers.
    pub(super) warnings: Vec<String>,
    /// Where a custom resource had floats that are integers in the object.
    pub(super) floats: Floats,
}

impl DecodedBody {
    /// Returns the object, and appends the warnings to `warnings`.
    pub(super) fn into_tree(self, warnings: &mut Vec<String>) -> Value {
        self.into_judged(warnings).0
    }

    /// Returns the object, and what is to be known of it when it is judged; appends the warnings to `warnings`.
    pub(super) fn into_judged(self, warnings: &mut Vec<String>) -> (Value, Floats) {
        warnings.extend(self.warnings);
        (self.tree, self.floats)
    }

    /// The body of a POST or PUT of an object of this resource, in the version that is stored.
    pub(super) fn read(request: &WriteRequest<'_>, schema: Option<&Schema>, syntax: Syntax, bytes: &[u8]) -> Result<Self, WriteError> {
        let expected = Expected::of(request.target.served()).with_schema(schema);
        Self::read_audited(&expected, request, syntax, bytes)?.in_stored_version(&expected)
    }

    /// The body of a POST or PUT that holds this kind; the audit hook is called with it.
    pub(super) fn read_audited(
        expected: &Expected<'_>,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        bytes: &[u8],
    ) -> Result<Self, WriteError> {
        let sent = Self::read_as(expected, &request.options, syntax, bytes)?;
        request.audit(&sent.tree);
        Ok(sent)
    }

    /// The same object in the version that is stored.
    fn in_stored_version(mut self, expected: &Expected<'_>) -> Result<Self, WriteError> {
        if !expected.custom && (expected.group, expected.kind) == ("", "Secret") {
            kinds::encode_string_data(&mut self.tree);
        }
        let version = Version::of(&expected.api_version(), expected.kind).filter(|_| !expected.custom);
        let (Some(version), Value::Object(sent)) = (version, &self.tree) else { return Ok(self) };
        let mut tree =
            version.stored(sent, JSON_BYTES_MAX).map_err(|TooLong { bytes, limit }| WriteError::BadRequest(too_long(bytes, limit)))?;
        let api_version = tree["apiVersion"].as_str().unwrap_or_default().to_owned();
        defaults::fill(&mut tree, &api_version, expected.kind);
        Ok(Self { tree, ..self })
    }

    /// The body of a POST or PUT that holds this kind.
    pub(super) fn read_as(expected: &Expected<'_>, options: &WriteOptions, syntax: Syntax, bytes: &[u8]) -> Result<Self, WriteError> {
        let Tree { value: mut tree, duplicates, overflow } = body::parse(syntax, bytes, expected)?;
        body::identify(&mut tree, expected, syntax, bytes).map_err(|error| misidentified(error, &tree))?;
        let kind = expected.kind;
        let refused = |why: &str| {
            WriteError::BadRequest(format!("{kind} in version {} cannot be handled as a {kind}: {why}", quoted(expected.version)))
        };
        let unfit = |unfit: Unfit| unfit.told(|why| refused(&body::as_sent(syntax, bytes, why.to_owned())));
        let (unknown, floats) = conform(&mut tree, expected, typed::conform).map_err(unfit)?;
        if let Some(error) = overflow {
            return Err(error.into());
        }
        let warnings = match options.validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn => body::warnings(syntax, bytes, expected.custom, &duplicates, &unknown),
            FieldValidation::Strict => match body::strict_error(syntax, bytes, expected.custom, &duplicates, &unknown) {
                Some(why) => return Err(refused(&why)),
                None => Vec::new(),
            },
        };
        Ok(Self { tree, warnings, floats })
    }

    /// What an apply makes of an object, in the version that is stored. It was compared with the schema of a custom resource before, and nothing of it is
    /// dropped any more: a null that may not be null is told.
    pub(super) fn applied(expected: &Expected<'_>, mut tree: Value) -> Result<Self, WriteError> {
        conform(&mut tree, &expected.with_schema(None), typed::conform).map_err(|unfit| {
            let text = |name: &str| tree::text(&tree, &["metadata", name]);
            let (kind, version) = (expected.kind, expected.api_version());
            let printed = managed::printed_kind(&version, kind);
            let named = format!("{}/{}; {printed}", text("namespace"), text("name"));
            unfit.told(|why| {
                let of_json = if why.starts_with("illegal base64") { "error decoding from json: " } else { "" };
                let why = format!("unable to convert unstructured object to {printed}: {of_json}{why}");
                WriteError::Raw(format!("failed to convert new object ({named}) to proper version: {why}"))
            })
        })?;
        if let Some(schema) = expected.schema {
            custom::complete(schema, &mut tree)?;
        }
        Self { tree, warnings: Vec::new(), floats: Floats::default() }.in_stored_version(expected)
    }

    /// What a webhook or a policy has made of an object that was shown to it as this kind, in the version that is stored. What is unknown in it goes, or is
    /// refused where that is strict.
    pub(super) fn mutated(expected: &Expected<'_>, mut tree: Value, validation: FieldValidation) -> Result<Self, WriteError> {
        let (unknown, floats) =
            conform(&mut tree, expected, typed::conform).map_err(|unfit| unfit.told(|why| WriteError::Raw(why.to_owned())))?;
        if validation == FieldValidation::Strict
            && !expected.custom
            && let Some(why) = body::strict_error(Syntax::Json, b"", false, &[], &unknown)
        {
            return Err(WriteError::Raw(why));
        }
        Self { tree, warnings: Vec::new(), floats }.in_stored_version(expected)
    }

    /// What a patch makes of an object, with what was too much in the patch, in the version that is stored. Its errors speak of the patch (spec
    /// api-surface §7.2).
    pub(super) fn patched(
        expected: &Expected<'_>,
        options: &WriteOptions,
        patch: &PatchRequest<'_>,
        object: &Value,
    ) -> Result<Self, WriteError> {
        let type_ref = TypeRef::of(expected.group, expected.version, expected.kind).filter(|_| !expected.custom);
        let (mut tree, warnings) = patch.apply(object, type_ref)?;
        // A patch may make it another version of the same object.
        let sibling = tree.get("apiVersion").and_then(Value::as_str);
        let sibling = sibling.and_then(|found| Version::sibling(&expected.api_version(), expected.kind, found));
        let sibling = sibling.filter(|_| !expected.custom && patch.kind != PatchKind::Strategic).map(|found| expected.sibling(found));
        let expected = sibling.as_ref().unwrap_or(expected);
        // A strategic merge patch is shown itself, as Go prints it; the others by what they made.
        let refused = |why: &str| {
            let made = || patch.apply(object, type_ref).map(|(tree, _)| tree.to_string()).unwrap_or_default();
            let text = if patch.kind == PatchKind::Strategic { patch.printed() } else { made() };
            WriteError::Invalid { of: StatusSubject::default(), errors: vec![FieldError::invalid("patch", &text.into(), why)] }
        };
        if expected.custom {
            if tree.get("kind").and_then(Value::as_str).unwrap_or("").is_empty() {
                return Err(refused(&format!("Object 'Kind' is missing in '{tree}'")));
            }
            same_version(&tree, expected)?;
        } else if patch.kind == PatchKind::Strategic {
            body::identified(&mut tree, expected);
        } else if tree.get("apiVersion").and_then(Value::as_str).unwrap_or("").is_empty() {
            // Its decoder then knows no field at all (measured).
            let unknown =
                tree.as_object().into_iter().flat_map(serde_json::Map::keys).filter(|name| !matches!(name.as_str(), "kind" | "apiVersion"));
            let warnings = unknown.map(|name| format!("unknown field {}", quoted(name))).collect();
            return Ok(Self { tree: serde_json::json!({}), warnings, floats: Floats::default() });
        } else {
            body::converts(&tree, expected).map_err(|why| refused(&why))?;
            body::identified(&mut tree, expected);
        }
        let conform_as = if patch.kind == PatchKind::Strategic { typed::conform_merged } else { typed::conform };
        let (unknown, floats) = conform(&mut tree, expected, conform_as).map_err(|unfit| unfit.told(refused))?;
        // What is wrong with the patch itself comes first.
        let warnings: Vec<String> =
            warnings.into_iter().chain(unknown.iter().map(|path| format!("unknown field {}", quoted(path)))).collect();
        match options.validation {
            FieldValidation::Ignore => Self { tree, warnings: Vec::new(), floats },
            FieldValidation::Strict if !warnings.is_empty() => {
                return Err(refused(&format!("strict decoding error: {}", warnings.join(", "))));
            }
            FieldValidation::Warn | FieldValidation::Strict => Self { tree, warnings, floats },
        }
        .in_stored_version(expected)
    }
}

/// No patch makes another kind or version of a custom resource; the error is about what it would have been (measured).
fn same_version(tree: &Value, expected: &Expected<'_>) -> Result<(), WriteError> {
    let text = |pointer: &str| tree.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let api_version = expected.api_version();
    for (member, wanted) in [("apiVersion", api_version.as_str()), ("kind", expected.kind)] {
        let found = tree.get(member).unwrap_or(&Value::Null);
        if found != wanted {
            let group = text("/apiVersion").split_once('/').map_or_else(String::new, |(group, _)| group.to_owned());
            let of = StatusSubject { group, kind: text("/kind"), name: text("/metadata/name") };
            return Err(WriteError::Invalid { of, errors: vec![FieldError::invalid(member, found, &format!("must be {wanted}"))] });
        }
    }
    Ok(())
}

/// Reads a tree as this group, version and kind: one of those of `typed`.
type Conform = fn(&mut Value, &str, &str, &str) -> Result<typed::Unknown, typed::WrongType>;

/// Drops what the type does not have, tells the paths, and fills in what was left out; of custom resources it tells too which integers were floats. Of custom
/// resources the metadata is known, and what their definition says.
fn conform(value: &mut Value, expected: &Expected<'_>, conform_as: Conform) -> Result<(Vec<String>, Floats), Unfit> {
    body::paths_fit(value).map_err(Unfit::Wrong)?;
    if !expected.custom {
        managed::keep_reset(value);
    }
    let mut floats = Floats::default();
    let unknown = if expected.custom {
        floats = body::whole_floats(value);
        let mut unknown = typed::conform_metadata(value).map_err(Unfit::from)?;
        if let Some(schema) = expected.schema {
            custom::coerce(schema, value, &mut unknown)?;
        }
        unknown
    } else {
        let unknown = conform_as(value, expected.group, expected.version, expected.kind);
        normalize(value, JSON_BYTES_MAX).map_err(|bytes| Unfit::Wrong(too_long(bytes, JSON_BYTES_MAX)))?;
        defaults::fill(value, &expected.api_version(), expected.kind);
        if expected.kind == "CustomResourceDefinition" {
            definition::defaulted(value);
        }
        if !tree::fits(value, JSON_BYTES_MAX) {
            return Err(Unfit::Wrong(format!("it stands for more than {JSON_BYTES_MAX} bytes of JSON with its defaults")));
        }
        unknown.map_err(Unfit::from)?
    };
    Ok((unknown, floats))
}

fn too_long(bytes: usize, limit: usize) -> String {
    format!("it stands for {bytes} bytes of JSON, limit is {limit}")
}

impl From<BodyError> for WriteError {
    fn from(error: BodyError) -> Self {
        Self::BadRequest(error.0)
    }
}

fn misidentified(error: IdentifyError, tree: &Value) -> WriteError {
    match error {
        IdentifyError::BadRequest(text) => WriteError::BadRequest(text),
        IdentifyError::Invalid { kind, group, error } => {
            let name = tree.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned();
            WriteError::Invalid { of: StatusSubject { group, kind, name }, errors: vec![error] }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_patch_is_told_before_what_it_made() {
        let expected = Expected { group: "", version: "v1", kind: "ConfigMap", custom: false, schema: None };
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
        let told = |kind, bytes: &[u8]| {
            let patch = PatchRequest { kind, bytes, validation: FieldValidation::Warn };
            DecodedBody::patched(&expected, &WriteOptions::default(), &patch, &object).expect("a patch").warnings
        };
        let twice = br#"{"aaa":1,"data":{"a":"1","a":"2"}}"#;
        for kind in [PatchKind::Merge, PatchKind::Strategic] {
            assert_eq!(told(kind, twice), [r#"duplicate field "data.a""#, r#"unknown field "aaa""#]);
        }
        let operations = br#"[{"op":"add","path":"/aaa","value":1,"x":2}]"#;
        assert_eq!(told(PatchKind::Json, operations), [r#"json patch unknown field "[0].x""#, r#"unknown field "aaa""#]);
    }
}
