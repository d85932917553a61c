//! PATCH that applies: what a client says of the object becomes so, and what it does not say any more goes (spec api-surface §7.4).

use serde_json::{Map, Value};

use super::{
    WriteRequest, Writer, Written, body::Expected, created_by_update, custom::Judge, decode::DecodedBody, failure::WriteError, is_heavy,
    is_large_patch, is_of, managed::FieldManager, may_create, metadata::Found, new_by_update, options::FieldValidation, part::Part,
    patch_request::PatchKind, step::Decider, strategy::Birth, transaction::Change, tree, updated, written,
};
use go::yaml::reader;

/// A configuration as it was sent.
pub(super) struct Configuration {
    pub(super) object: Value,
    /// Keys that stand twice, with their lines.
    duplicates: Vec<String>,
}

impl Configuration {
    /// Reads a configuration, which is YAML or JSON.
    ///
    /// # Errors
    /// It is neither, or no object.
    pub(super) fn read(body: &[u8]) -> Result<Self, WriteError> {
        let wrong = |why: String| WriteError::BadRequest(format!("error decoding YAML: {why}"));
        let document = reader::parse(body).map_err(|error| wrong(format!("error converting YAML to JSON: {error}")))?;
        let object = match document.value {
            Value::Null => Value::Object(Map::new()),
            object @ Value::Object(_) => object,
            other => {
                let kind = go::json::kind(&other);
                let into = "Go value of type map[string]interface {}";
                return Err(wrong(format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into {into}")));
            }
        };
        Ok(Self { object, duplicates: document.duplicates })
    }

    /// Judges keys that stand twice.
    pub(super) fn check(&self, validation: FieldValidation, warnings: &mut Vec<String>) -> Result<(), WriteError> {
        match validation {
            FieldValidation::Strict if !self.duplicates.is_empty() => {
                let lines: String = self.duplicates.iter().flat_map(|line| ["\n  ", line]).collect();
                let why = format!("error converting YAML to JSON: yaml: unmarshal errors:{lines}");
                return Err(WriteError::BadRequest(format!("error strict decoding YAML: {why}")));
            }
            FieldValidation::Warn => warnings.extend(self.duplicates.iter().cloned()),
            FieldValidation::Strict | FieldValidation::Ignore => {}
        }
        Ok(())
    }
}

impl Writer {
    /// Applies a configuration: makes the object if there is none.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(super) async fn apply(&self, request: &WriteRequest<'_>, body: &[u8], warnings: &mut Vec<String>) -> Result<Written, WriteError> {
        let target = &request.target;
        let compiled = self.schema(target.served()).await?;
        let judge = Judge::by(compiled.as_deref());
        let schema = judge.schema;
        let is_large = is_large_patch(PatchKind::Apply, body) || is_heavy(target, schema);
        let decider = Decider::new(&self.offload, self.admit(target, is_large, body.len()).await, request.answers());
        let configuration = self.offload.run(is_large, || Configuration::read(body)).await?;
        let creates = request.part == Part::Main;
        if creates && self.known(target).is_none() {
            self.check_namespace(target).await?;
        }
        let managers = FieldManager::new(self, target, request.manager(request.part.subresource()));
        let (expected, birth) = (Expected::of(target.served()).with_schema(schema), Birth::now());
        let (session, plugins) = (self.session(request), self.plugins_for(request).await?);
        let (services, plugins) = (session.as_ref(), plugins.as_ref());
        let judge = Judge { services, plugins, denies_admin: self.denies_admin(target).await?, ..judge };
        let how = Change { dry_run: request.options.dry_run, is_large, services, plugins, keeps_managed: true, ..Change::of(target) };
        let done = self
            .change(how, decider, |current, answers| {
                if current.is_none() && !creates {
                    return Err(WriteError::NotFound(target.subject()).into());
                }
                warnings.clear();
                let shown = current.map(|current| target.resource.encoders.whole().encoder.tree(&current.tree));
                let applied = managers.applied(answers, shown.as_deref(), &configuration.object, request.options.force)?;
                configuration.check(request.options.validation, warnings)?;
                let mut object = DecodedBody::applied(&expected, applied)?.into_tree(warnings);
                let uid = tree::text(&object, &["metadata", "uid"]);
                if current.is_none() && !uid.is_empty() {
                    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                    return Err(WriteError::Conflict { of: target.subject(), why }.into());
                }
                is_of(target, &mut object, Found::Patched, warnings)?;
                if current.is_none() {
                    may_create(target, &target.name)?;
                }
                answers.approve(Some(&object), shown.as_deref())?;
                Ok(match current {
                    Some(current) => updated(target, judge, request.part, current, object, warnings)?,
                    None => {
                        created_by_update(target, &object, request.options.dry_run)?;
                        new_by_update(request, judge, &birth, object, warnings)?
                    }
                })
            })
            .await?;
        Ok(written(done))
    }
}
