//! Asks one webhook about one object.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{ConfiguredHook, named::Named, rights::Recorder, session::HookSession};
use crate::write::{
    body::Expected,
    decode::DecodedBody,
    failure::{StatusSubject, WriteError},
    object_ref::ObjectRef,
    options::FieldValidation,
    patch,
    plugins::PluginSession,
    tree,
};
use admission::{
    Operation,
    criteria::{Criteria, Resource},
    hooks::{Authorizer, Conditional, Conditions, Denial, HookKind, Match, Question, ResourceCheck},
    plugins::Notes,
};
use catalogue::Served;
use codec::stored;
use go::quote::quoted;
use registry::ServedResources;
use telemetry::{WebhookCall, WebhookResult};
use webhook::Held;

/// How often the conditions of a webhook are judged, each time with more answers about rights.
const RIGHTS_ROUNDS_MAX: usize = 64;

/// What is asked about.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) session: &'a HookSession<'a>,
    pub(super) plugins: &'a PluginSession<'a>,
    pub(super) target: &'a ObjectRef,
    pub(super) operation: Operation,
    /// The object; none of a deletion.
    pub(super) object: Option<&'a Value>,
    /// The object that is there.
    pub(super) old: Option<&'a Value>,
    /// The options of a deletion, as they are for this object.
    pub(super) deletion: Option<&'a Value>,
}

/// The objects as a webhook is shown them.
#[derive(Clone)]
pub(super) struct Shown {
    /// Group, version and plural name of the resource as which they are shown, and their kind.
    pub(super) group: String,
    pub(super) version: String,
    resource: String,
    pub(super) kind: String,
    pub(super) object: Option<Vec<u8>>,
    pub(super) old: Option<Vec<u8>>,
}

/// What a webhook wants.
pub(super) enum Reply {
    /// The object should be this.
    Changed {
        /// It.
        object: Box<Value>,
        /// Its JSON was another one.
        differs: bool,
    },
    /// It may stay as it is.
    Unchanged,
    /// Nobody knows: it could not be asked, and the write goes on.
    FailedOpen,
}

/// Why a webhook has not said what becomes of an object.
enum Failure {
    /// It could not be asked, or its answer cannot be used: its policy decides.
    Call(String),
    /// The write ends.
    Refused(WriteError),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::Refused(error)
    }
}

impl Asking<'_> {
    /// What the request names.
    pub(super) fn named(&self) -> Named<'_> {
        Named { target: self.target, form: self.session.form, subresource: self.session.subresource }
    }

    /// Returns what a webhook is to be shown; none if it is not asked about this object.
    ///
    /// # Errors
    /// Nobody knows whether it is.
    pub(super) async fn question(&self, hook: &ConfiguredHook) -> Result<Option<Shown>, WriteError> {
        let hook = &hook.hook;
        let Some(shown) = self.matched(&hook.criteria).await? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(shown));
        }
        match self.judged(&hook.conditions, &shown).await {
            Match::Asked => Ok(Some(shown)),
            Match::Skipped => Ok(None),
            Match::Failed(why) => {
                tracing::warn!(webhook = hook.name, %why, "match conditions of a webhook cannot be evaluated: the write is refused");
                let name = if self.session.is_of_many { "" } else { self.name() };
                Err(excluded(&self.named().resource(), name, why))
            }
        }
    }

    /// Returns whether the write matters by these criteria.
    ///
    /// # Errors
    /// Nobody knows whether it does.
    pub(super) async fn matters(&self, criteria: &Criteria) -> Result<bool, WriteError> {
        let resources = self.plugins.writer.resources.load_full();
        Ok(self.matching(criteria, &resources).await?.is_some())
    }

    /// Returns the resource as which the write matters by these criteria; none if it does not.
    async fn matching<'r>(&'r self, criteria: &Criteria, resources: &'r ServedResources) -> Result<Option<Resource<'r>>, WriteError> {
        let named = self.named();
        let equivalents = named.equivalents(resources);
        let asked = named.asked(self.operation, self.name());
        let Some(matched) = criteria.matched(&asked, &equivalents) else { return Ok(None) };
        let has_namespace = !asked.namespace.is_empty() || named.is_namespaces();
        if has_namespace
            && criteria.selects_namespaces()
            && !criteria.selects_namespace(&self.namespace_labels(asked.namespace).await?).map_err(WriteError::Internal)?
        {
            return Ok(None);
        }
        let is_selected = criteria.selects_object(self.object, self.old).map_err(WriteError::Internal)?;
        Ok(is_selected.then_some(matched))
    }

    /// Returns the objects as those see them to whom they matter by these criteria; none if they do not.
    ///
    /// # Errors
    /// Nobody knows whether they do.
    pub(super) async fn matched(&self, criteria: &Criteria) -> Result<Option<Shown>, WriteError> {
        let resources = self.plugins.writer.resources.load_full();
        let Some(matched) = self.matching(criteria, &resources).await? else { return Ok(None) };
        let of_resource = || resources.find(matched.group, matched.version, matched.resource).map(|found| found.served.kind.clone());
        let (.., own) = self.named().kind();
        let kind = Some(self.named()).filter(|named| named.is_stored()).and_then(|_| of_resource()).unwrap_or_else(|| own.to_owned());
        let Resource { group, version, resource } = matched;
        Ok(Some(Shown {
            object: self.shown(&matched, self.object).await?,
            old: self.shown(&matched, self.old).await?,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            kind,
        }))
    }

    /// Returns the same objects as they are now.
    pub(super) async fn shown_again(&self, shown: &Shown) -> Result<Shown, WriteError> {
        let Shown { group, version, resource, kind, old, .. } = shown.clone();
        let object = self.shown(&Resource { group: &group, version: &version, resource: &resource }, self.object).await?;
        Ok(Shown { group, version, resource, kind, object, old })
    }

    /// The name of the object; empty while it has none.
    pub(super) fn name(&self) -> &str {
        match self.target.name.as_str() {
            "" => self.object.map_or("", |object| tree::text(object, &["metadata", "name"])),
            name => name,
        }
    }

    /// The labels of the namespace, or of the object if that is one.
    async fn namespace_labels(&self, namespace: &str) -> Result<Value, WriteError> {
        let labels = |object: &Value| tree::at(object, &["metadata", "labels"]).cloned().unwrap_or_default();
        if let Some(object) = self.object.filter(|_| self.named().is_namespaces() && self.session.subresource.is_empty()) {
            return Ok(labels(object));
        }
        let missing = || StatusSubject { group: String::new(), kind: "namespaces".to_owned(), name: namespace.to_owned() };
        let found = self.plugins.writer.namespace(namespace).await?;
        found.map(|found| labels(&found.tree)).ok_or_else(|| WriteError::NotFound(missing()))
    }

    /// The JSON of an object as one of this resource.
    async fn shown(&self, of: &Resource<'_>, object: Option<&Value>) -> Result<Option<Vec<u8>>, WriteError> {
        let Some(object) = object else { return Ok(None) };
        let own = &self.target.resource;
        let placed;
        let object = match &self.target.namespace {
            Some(namespace) if tree::text(object, &["metadata", "namespace"]).is_empty() => {
                placed = placed_in(namespace, object);
                &placed
            }
            _ => object,
        };
        if !self.named().is_stored() {
            return Ok(Some(stored::render(false, object)));
        }
        let resources = self.plugins.writer.resources.load_full();
        let other = resources.find(of.group, of.version, of.resource).filter(|other| is_other(&other.served, &own.served));
        Ok(Some(match other {
            Some(other) if own.served.is_custom() => stored::render(true, &self.converted(object, &other.served.api_version()).await?),
            Some(other) => other.encoders.whole().encoder.render(false, object),
            None => own.encoders.whole().encoder.render(own.served.is_custom(), object),
        }))
    }

    /// A custom resource in another version.
    async fn converted(&self, object: &Value, api_version: &str) -> Result<Value, WriteError> {
        match &self.target.resource.webhook {
            Some(converter) => Ok(converter.raw(object, api_version).await?),
            None => {
                let mut object = object.clone();
                object["apiVersion"] = api_version.into();
                Ok(object)
            }
        }
    }

    async fn judged(&self, conditions: &Conditions, shown: &Shown) -> Match {
        let read = |json: &Option<Vec<u8>>| json.as_ref().and_then(|json| serde_json::from_slice::<Value>(json).ok());
        let (object, old, options) = (read(&shown.object), read(&shown.old), self.options());
        let (request, check) = (self.reviewed(shown, &options).request(), self.check());
        let judge = |authorizer: Arc<dyn Authorizer>| {
            let about = Conditional { request: &request, object: object.as_ref(), old: old.as_ref(), authorizer, check: check.clone() };
            conditions.judge(&about)
        };
        self.with_rights(judge).await.unwrap_or_else(|| Match::Failed("its match conditions ask for too many rights".to_owned()))
    }

    /// Evaluates expressions, again each time when more of what they ask the authorizer is known; none when they ask too much.
    pub(super) async fn with_rights<T>(&self, evaluate: impl Fn(Arc<dyn Authorizer>) -> T) -> Option<T> {
        let recorder = Recorder::default();
        for _ in 0..RIGHTS_ROUNDS_MAX {
            let evaluated = self.plugins.writer.offload.run(true, || evaluate(recorder.authorizer())).await;
            let wanted = recorder.take_wanted();
            if wanted.is_empty() {
                return Some(evaluated);
            }
            for question in wanted {
                let decision = self.session.client.rights.decide(&question).await;
                recorder.note(question, decision);
            }
        }
        None
    }

    /// The resource of the request, as expressions ask the authorizer about it.
    pub(super) fn check(&self) -> ResourceCheck {
        let asked = self.named().asked(self.operation, self.name());
        ResourceCheck {
            group: asked.resource.group.to_owned(),
            resource: asked.resource.resource.to_owned(),
            subresource: self.session.subresource.to_owned(),
            namespace: asked.namespace.to_owned(),
            name: if self.session.is_of_many { String::new() } else { self.name().to_owned() },
            ..ResourceCheck::default()
        }
    }

    /// The options of the write, with their kind.
    pub(super) fn options(&self) -> Value {
        let mut options = self.deletion.unwrap_or(&self.session.options).clone();
        options["kind"] = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        }
        .into();
        options["apiVersion"] = "meta.k8s.io/v1".into();
        options
    }

    pub(super) fn reviewed<'q>(&'q self, shown: &'q Shown, options: &'q Value) -> Question<'q> {
        let (named, asked) = (self.named(), self.named().asked(self.operation, self.name()));
        let matched = Resource { group: &shown.group, version: &shown.version, resource: &shown.resource };
        let request_kind = named.kind();
        let matched_kind = if named.is_stored() { (matched.group, matched.version, shown.kind.as_str()) } else { request_kind };
        Question {
            operation: self.operation,
            request: asked.resource,
            request_kind,
            matched,
            matched_kind,
            subresource: self.session.subresource,
            namespace: asked.namespace,
            name: if self.session.is_of_many { "" } else { self.name() },
            user: self.session.client.user,
            dry_run: self.session.dry_run,
            options,
        }
    }

    /// Asks a webhook.
    ///
    /// # Errors
    /// It refuses the write, or it could not be asked and its policy refuses that.
    pub(super) async fn ask(
        &self,
        kind: HookKind,
        at: (usize, usize),
        hook: &ConfiguredHook,
        shown: &Shown,
        notes: &mut Notes,
    ) -> Result<Reply, WriteError> {
        let began = Instant::now();
        let replied = self.replied(kind, at, hook, shown, notes).await;
        let result = match &replied {
            Ok(_) => WebhookResult::Admitted,
            Err(Failure::Call(_)) if hook.hook.ignores_failure => WebhookResult::FailedOpen,
            Err(Failure::Call(_)) => WebhookResult::Unavailable,
            Err(Failure::Refused(WriteError::Denied(denial))) => WebhookResult::Rejected(denial.code),
            Err(Failure::Refused(_)) => WebhookResult::Failed,
        };
        let (is_mutating, operation) = (matches!(kind, HookKind::Mutating), self.operation.name());
        let call = WebhookCall { name: &hook.hook.name, is_mutating, operation, time: began.elapsed() };
        self.target.resource.metrics.webhook_called(call, result);
        match replied {
            Ok(reply) => Ok(reply),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Call(why)) => {
                let why = format!("failed calling webhook {}: {why}", quoted(&hook.hook.name));
                if !hook.hook.ignores_failure {
                    return Err(WriteError::Internal(why));
                }
                tracing::warn!(configuration = hook.hook.configuration, %why, "a webhook cannot be asked, and is ignored as it wants");
                notes.annotate_open(kind, &hook.hook, at);
                Ok(Reply::FailedOpen)
            }
        }
    }

    async fn replied(
        &self,
        kind: HookKind,
        at: (usize, usize),
        hook: &ConfiguredHook,
        shown: &Shown,
        notes: &mut Notes,
    ) -> Result<Reply, Failure> {
        let ConfiguredHook { hook, caller } = hook;
        if self.session.dry_run && !hook.takes_dry_run {
            let why = format!("admission webhook {} does not support dry run", quoted(&hook.name));
            return Err(WriteError::BadRequest(why).into());
        }
        let unspoken = || "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        let version = hook.review.ok_or_else(|| Failure::Call(unspoken().to_owned()))?;
        caller.prepare().map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?;
        let (uid, options, owner) = (Uuid::new_v4().to_string(), self.options(), self.session.client.user.name);
        let review = version.review(&uid, &self.reviewed(shown, &options), shown.object.as_deref(), shown.old.as_deref());
        let review: Bytes = review.map_err(WriteError::Internal)?.into();
        let mut held = Held::default();
        if !held.take_question(owner, review.len()) {
            return Err(WriteError::TooMany("too many questions wait for admission webhooks, please try again later".to_owned()).into());
        }
        let seconds = self.seconds(hook.timeout);
        let calls = &self.plugins.writer.admitting.hooks.calls;
        let turn = timeout(Duration::from_secs(seconds), calls.acquire()).await;
        let _turn = turn.map_err(|_| Failure::Call("failed to call webhook: context deadline exceeded".to_owned()))?;
        let posted = caller.post(seconds, review, &mut |bytes| held.take(owner, bytes)).await;
        let body = posted.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        let answer = version.answer(kind, &uid, &hook.name, &body).map_err(Failure::Call)?;
        notes.warnings.extend(answer.warnings);
        for (name, value) in answer.annotations {
            notes.annotate_as(format!("{}/{name}", hook.name), value, false);
        }
        if let Some(denial) = answer.denied {
            return Err(WriteError::Denied(Box::new(denial)).into());
        }
        if answer.patch.is_empty() {
            return Ok(Reply::Unchanged);
        }
        // What is no patch is a failure of the call, also where there is nothing to be patched.
        let object = shown.object.as_deref().map_or(Ok(Value::Null), serde_json::from_slice::<Value>);
        let object = object.map_err(|error| WriteError::Internal(error.to_string()))?;
        let patched = patch::json::apply(&object, &answer.patch, FieldValidation::Ignore);
        if let Err(patch::PatchError::BadRequest(why)) = patched {
            return Err(Failure::Call(format!("received undecodable patch in webhook response: {why}")));
        }
        let operations: Value = serde_json::from_slice(&answer.patch).unwrap_or_default();
        if operations.as_array().is_none_or(Vec::is_empty) {
            return Ok(Reply::Unchanged);
        }
        if shown.object.is_none() {
            let why = "attempted to modify the object, which is not supported for this operation";
            return Err(WriteError::Internal(format!("admission webhook {} {why}", quoted(&hook.name))).into());
        }
        let (made, _) = patched.map_err(|error| WriteError::Internal(WriteError::from(error).to_string()))?;
        notes.annotate_patch(hook, at, &operations);
        let differs = made != object;
        Ok(Reply::Changed { object: Box::new(self.taken(shown, made, FieldValidation::Ignore).await?), differs })
    }

    /// How many seconds a webhook has, of its own and of the request's.
    fn seconds(&self, timeout: Duration) -> u64 {
        let left = self.session.client.until.saturating_duration_since(Instant::now());
        let least = timeout.min(left);
        (least.as_secs() + u64::from(least.subsec_nanos() > 0)).max(1)
    }

    /// What a webhook has made of an object, in the version that is stored.
    pub(super) async fn taken(&self, shown: &Shown, mut made: Value, validation: FieldValidation) -> Result<Value, WriteError> {
        let writer = self.plugins.writer;
        let internal = |error: WriteError| WriteError::Internal(error.to_string());
        identified(&mut made, &self.reviewed(shown, &Value::Null).matched_kind, self.named().is_custom()).map_err(WriteError::Internal)?;
        let sent = tree::text(&made, &["metadata", "namespace"]);
        if self.target.namespace.as_deref().is_some_and(|namespace| !sent.is_empty() && sent != namespace) {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(WriteError::BadRequest(why.to_owned()));
        }
        if !self.named().is_stored() {
            let (group, version, kind) = self.named().kind();
            return DecodedBody::mutated(&Expected { group, version, kind, custom: false, schema: None }, made, validation)
                .map(|decoded| decoded.tree)
                .map_err(internal);
        }
        let own = &self.target.resource.served;
        let resources = writer.resources.load_full();
        let other = resources.find(&shown.group, &shown.version, &shown.resource).filter(|other| is_other(&other.served, own));
        let (made, of) = match other {
            Some(_) if own.is_custom() => (self.converted(&made, &own.api_version()).await?, own),
            Some(other) => (made, &other.served),
            None => (made, own),
        };
        let compiled = writer.schema(own).await?;
        let expected = Expected::of(of).with_schema(compiled.as_deref().map(|compiled| &compiled.schema));
        writer.offload.run(true, || DecodedBody::mutated(&expected, made, validation)).await.map(|decoded| decoded.tree).map_err(internal)
    }
}

/// Whether one resource shows objects in another way than the other: in another version, or in another group as Events do.
fn is_other(one: &Served, other: &Served) -> bool {
    (&one.group, &one.version) != (&other.group, &other.version)
}

/// An object with its namespace.
fn placed_in(namespace: &str, object: &Value) -> Value {
    let mut object = object.clone();
    tree::member(&mut object, "metadata").insert("namespace".to_owned(), namespace.into());
    object
}

/// Takes an object that a webhook has made for one of this group, version and kind. What a built-in does not say is as it was.
///
/// # Errors
/// It is something else, in the words of Kubernetes' decoder.
fn identified(made: &mut Value, (group, version, kind): &(&str, &str, &str), custom: bool) -> Result<(), String> {
    let api_version = if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
    let text = |member: &str| made.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (said_version, said_kind) = (text("apiVersion"), text("kind"));
    if custom && said_kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{made}'"));
    }
    let is = |said: &str, wanted: &str| said == wanted || said.is_empty() && !custom;
    if !is(&said_version, &api_version) || !is(&said_kind, kind) {
        let version = if said_version.is_empty() { &api_version } else { &said_version };
        let kind = if said_kind.is_empty() { kind } else { said_kind.as_str() };
        return Err(format!(
            r#"no kind {} is registered for version {} in scheme "pkg/runtime/scheme.go:111""#,
            quoted(kind),
            quoted(version)
        ));
    }
    if let Some(members) = made.as_object_mut() {
        members.insert("apiVersion".to_owned(), api_version.into());
        members.insert("kind".to_owned(), (*kind).into());
    }
    Ok(())
}

/// The refusal of an object of which nobody knows whether a webhook is asked about it. Without a name only its resource is named.
fn excluded(resource: &Resource<'_>, name: &str, why: String) -> WriteError {
    let of = StatusSubject { group: resource.group.to_owned(), kind: resource.resource.to_owned(), name: name.to_owned() };
    if !name.is_empty() {
        return WriteError::Forbidden { of, why, cause: None };
    }
    let resource = if of.group.is_empty() { of.kind.clone() } else { format!("{}.{}", of.kind, of.group) };
    let (message, details) = (format!("{resource} is forbidden: {why}"), Some(json!({"group": of.group, "kind": of.kind})));
    WriteError::Denied(Box::new(Denial { code: 403, message, reason: "Forbidden".to_owned(), details }))
}
