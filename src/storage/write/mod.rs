//! Create, update, patch and delete: JSON trees in, etcd transactions out.
//!
//! ```text
//! body, patch → tree → typed → strategy (server's own fields) → kinds → validation → transaction → tree of the answer
//! ```

mod admin_access;
mod amend;
mod apply;
mod asked;
mod body;
mod by;
mod conversions;
#[cfg(test)]
mod corpus;
mod custom;
mod decode;
mod delete;
mod embedded;
mod eviction;
pub mod failure;
#[cfg(test)]
mod golden;
mod group_version;
#[cfg(test)]
mod growth;
mod hooks;
mod kinds;
mod lease;
mod managed;
mod manager_name;
mod metadata;
mod names;
mod namespace;
pub mod object_ref;
mod on_url;
pub mod options;
mod part;
mod patch;
mod patch_request;
mod plugins;
mod quotas;
pub mod scale;
mod schemas;
mod security_counts;
pub mod services;
mod step;
mod strategy;
mod subresource;
mod transaction;
mod tree;
mod typed;
pub mod unapplied;
pub mod unstored;
pub mod write_gate;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

pub use body::Syntax;
pub use by::{AnnotationHook, By, Client, Decided, Rights};
pub use delete::Deletion;
pub use eviction::Evicted;
pub use hooks::{CONNECTIONS_RESERVED, Unstored, WebhookIdentities};
pub use part::Part;
pub use patch_request::PatchKind;
pub use step::{Approver, Asked, Missing, Need, Stop};

use body::Expected;
use catalogue::Served;
use custom::Judge;
use decode::DecodedBody;
use etcd::Etcd;
use failure::WriteError;
use go::url::Query;
use managed::{FieldManager, Manager};
use metadata::{Found, dedup_owners};
use model::ByResource;
use object_ref::{Current, ObjectRef, StoredValue};
use on_url::{created_by_update, in_namespace, is_of, may_create};
pub use options::MalformedDeletion;
use options::{DeleteOptions, DeleteOptionsError, WriteOptions};
use registry::ServedResources;
use schema::Schema;
use step::{Answers, Decider};
use strategy::{Birth, Preconditions};
use transaction::{Change, Decision, WriteOutcome, at_revision};
use upstream::host::Namespaces;

/// The manager of what the server itself writes, as of what kube-apiserver does.
const SERVER: &str = "kube-apiserver";

/// Longest body of a write, in bytes (spec api-surface §5.7).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// JSON that a body may stand for, bytes. An empty message of protobuf is two bytes, as is `{}`, and prints what its struct always has: a body of nothing
/// else would become a tree of gigabytes. etcd takes half of a body's limit, so nothing that can be stored is near.
const JSON_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// Writes for every resource.
pub struct Writer {
    etcds: ByResource<Etcd>,
    /// `/registry/`.
    prefix: Arc<str>,
    resources: Arc<ArcSwap<ServedResources>>,
    leases: lease::Leases,
    /// Namespaces that were deleted a moment ago: the cache may not know it yet.
    terminating: namespace::TerminatingNamespaces,
    /// Whose the namespaces are when they are not ours.
    host: Option<Arc<Namespaces>>,
    gate: Arc<write_gate::WriteGate>,
    offload: offload::Offload,
    loses_unknown_fields: bool,
    field_types: managed::FieldTypes,
    schemas: schemas::Schemas,
    unapplied: unapplied::Logged,
    /// What changes and judges built-in objects.
    admitting: plugins::Admitting,
    /// What Services get their addresses and ports from; none when they get none.
    ranges: Option<services::ServiceRanges>,
}

/// One write: of which object, which part of it, and how.
pub struct WriteRequest<'a> {
    /// The object; its name is empty when the body names it.
    pub target: ObjectRef,
    /// The part that may be changed.
    pub part: Part,
    /// Query parameters.
    pub options: WriteOptions,
    /// On whose behalf.
    pub by: By<'a>,
    /// The `User-Agent`, by which who names no `fieldManager` is one.
    pub user_agent: &'a str,
    /// Is called with the object that was sent, as it was decoded and before anything is decided about it; never with a patch.
    pub audit_hook: Option<&'a AuditHook<'a>>,
}

/// Notes an object that was sent for the audit log.
pub type AuditHook<'a> = dyn Fn(&Value) + Send + Sync + 'a;

impl WriteRequest<'_> {
    /// A write of the server itself, of all but the status.
    #[must_use]
    pub fn by_server(target: ObjectRef) -> Self {
        let (options, user_agent) = (WriteOptions::default(), SERVER);
        Self { target, part: Part::Main, options, by: By::default(), user_agent, audit_hook: None }
    }

    fn answers(&self) -> Answers<'_> {
        self.target.answers(self.by.approver)
    }

    fn audit(&self, object: &Value) {
        if let Some(audit_hook) = self.audit_hook {
            audit_hook(object);
        }
    }

    /// The manager of the fields that it writes, through this subresource.
    fn manager(&self, subresource: &'static str) -> Manager {
        let named = Some(&self.options.field_manager).filter(|name| !name.is_empty());
        let name = named.cloned().unwrap_or_else(|| manager_name::manager_of(self.user_agent));
        Manager { name, subresource, part: self.part }
    }
}

/// The result of a write.
#[derive(Debug, PartialEq)]
pub struct Written {
    /// The object as it is now, in the version that is stored: `codec::Encoder` renders it in that of the request.
    pub object: Value,
    /// It did not exist before.
    pub created: bool,
    /// What etcd has of it, for [`Writer::read_back`]: none when nothing was written, or something else than `object`.
    pub stored: Option<StoredValue>,
}

impl Writer {
    /// Writes to these etcds, under this prefix (`/registry/`), of what is served, into the namespaces of `host` if this server extends a cluster.
    #[must_use]
    pub fn new(
        etcds: ByResource<Etcd>,
        prefix: &str,
        resources: Arc<ArcSwap<ServedResources>>,
        gate: Arc<write_gate::WriteGate>,
        host: Option<Arc<Namespaces>>,
    ) -> Self {
        let (leases, terminating, offload, field_types, schemas, unapplied, admitting) = Default::default();
        Self {
            etcds,
            prefix: prefix.into(),
            resources,
            leases,
            terminating,
            host,
            gate,
            offload,
            loses_unknown_fields: false,
            field_types,
            schemas,
            unapplied,
            admitting,
            ranges: None,
        }
    }

    /// Whether objects with fields that are not known may be changed, and lose them.
    #[must_use]
    pub fn losing_unknown_fields(self, yes: bool) -> Self {
        Self { loses_unknown_fields: yes, ..self }
    }

    /// The etcd that has the objects of this resource.
    fn etcd(&self, served: &Served) -> &Etcd {
        self.etcds.of(&served.storage.id)
    }

    /// Does work on an object that is already written; when it is large, so that nobody else waits for it. It waits for no permit: the client should get its
    /// answer.
    pub fn offload<T>(&self, object: &Value, work: impl FnOnce() -> T) -> T {
        if tree::fits(object, offload::LARGE_BYTES) { work() } else { offload::run_blocking(work) }
    }

    /// The body of a request that is answered and never stored: an object of this group, version and kind.
    ///
    /// # Errors
    /// See [`WriteError`]: it is no such object.
    pub async fn decode(
        &self,
        (group, version, kind): (&str, &str, &str),
        options: &WriteOptions,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Value, WriteError> {
        let expected = Expected { group, version, kind, custom: false, schema: None };
        let _admitted = self.offload.admit(false, body.len()).await;
        Ok(self.offload.run(is_large(body), || DecodedBody::read_as(&expected, options, syntax, body)).await?.into_tree(warnings))
    }

    /// Takes away what a client cannot say of an object that is answered and never stored, and the owners that stand twice; returns the warning about them.
    pub fn without_system_metadata(&self, object: &mut Value) -> Option<String> {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, _| !strategy::SERVER_SET.contains(&name.as_str()));
        }
        self.without_duplicate_owners(object)
    }

    /// Takes away the owners that stand twice in an object that was sent; returns the warning about them.
    pub fn without_duplicate_owners(&self, object: &mut Value) -> Option<String> {
        dedup_owners(object, Found::Sent)
    }

    /// The options that a DELETE has in its query or its body.
    ///
    /// # Errors
    /// What is wrong with them.
    pub async fn delete_options(
        &self,
        gate: MalformedDeletion,
        query: &Query,
        syntax: Syntax,
        body: &[u8],
    ) -> Result<DeleteOptions, DeleteOptionsError> {
        self.offload.run(is_large(body), || DeleteOptions::parse(gate, query, syntax, body)).await
    }

    /// POST of a collection (spec api-surface §5). `warnings` gets the texts of `Warning` headers, as in the methods below.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create(
        &self,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let mut decider = Decider::new(&self.offload, self.offload.admit(false, body.len()).await, request.answers());
        let compiled = self.schema(request.target.served()).await?;
        let judge = Judge::by(compiled.as_deref());
        let schema = judge.schema;
        let (mut object, floats) = self.decoded_body(request, schema, syntax, body).await?.into_judged(warnings);
        let (session, plugins) = (self.session(request), self.plugins_for(request).await?);
        let denies_admin = self.denies_admin(&request.target).await?;
        let judge = Judge { floats: Some(&floats), services: session.as_ref(), plugins: plugins.as_ref(), denies_admin, ..judge };
        let mut target = request.target.clone();
        in_namespace(&target, &object)?;
        warnings.extend(dedup_owners(&mut object, Found::Sent));
        let (name, base) = (tree::text(&object, &["metadata", "name"]), tree::text(&object, &["metadata", "generateName"]));
        may_create(&target, name)?;
        // Admission looks at it before there is a generated name.
        [name, base].into_iter().find(|text| !text.is_empty()).unwrap_or("Unknown").clone_into(&mut target.name);
        self.check_namespace(&target).await?;
        name.clone_into(&mut target.name);
        decider.decide(false, |answers| answers.approve(Some(&object), None)).await??;
        let object = self.note_created(request, &target, &mut decider, object).await?;
        let object = Box::pin(self.mutated(&target, &mut decider, judge.plugins, object, warnings)).await?;
        // A webhook may have given it another name.
        let text = |member: &str| tree::text(&object, &["metadata", member]).to_owned();
        let (name, base) = (text("name"), text("generateName"));
        if !name.is_empty() || base.is_empty() {
            target.name = name;
            return self.create_named(request, (&target, &mut decider), judge, object, false, warnings).await;
        }
        for attempt in 1.. {
            target.name = names::generate(&base, &mut rand::rng());
            match self.create_named(request, (&target, &mut decider), judge, object.clone(), attempt == names::ATTEMPTS_MAX, warnings).await
            {
                Err(WriteError::AlreadyExists { generated: false, .. }) => {}
                outcome => return outcome,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Notes in a new object who has made it, with what only the server sets taken away before.
    async fn note_created(
        &self,
        request: &WriteRequest<'_>,
        target: &ObjectRef,
        decider: &mut Decider<'_>,
        mut object: Value,
    ) -> Result<Value, WriteError> {
        let metadata = tree::member(&mut object, "metadata");
        strategy::SERVER_SET.iter().for_each(|name| drop(metadata.remove(*name)));
        let managers = FieldManager::new(self, target, request.manager(request.part.subresource()));
        let is_large = !tree::fits(&object, offload::LARGE_BYTES);
        let noted = decider.decide(is_large, |answers| {
            let mut new = object.clone();
            managers.created(answers, &mut new)?;
            Ok(new)
        });
        noted.await?
    }

    /// `last_try`: the name was generated, and there will be no other.
    async fn create_named(
        &self,
        request: &WriteRequest<'_>,
        (target, decider): (&ObjectRef, &mut Decider<'_>),
        judge: Judge<'_>,
        object: Value,
        last_try: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let is_large = !tree::fits(&object, offload::LARGE_BYTES) || is_heavy(target, judge.schema);
        let (requester, birth) = (request.by.user(), Birth::now());
        let sent_revision = tree::text(&object, &["metadata", "resourceVersion"]).to_owned();
        let told = warnings.len();
        let exists = |current: &Current| WriteError::AlreadyExists {
            of: target.subject(),
            deleting: tree::at(&current.tree, &["metadata", "deletionTimestamp"]).is_some(),
            generated: last_try,
        };
        loop {
            warnings.truncate(told);
            let made = || strategy::create(target, judge, object.clone(), requester, &birth, warnings);
            let made = self.offload.run(is_large, made).await;
            if decider.loaded(target, (judge.services, judge.plugins)).await? {
                continue;
            }
            let mut object = made?;
            if request.options.dry_run {
                let current = self.fresh(target).await?;
                return match &current {
                    Some(current) => Err(exists(current)),
                    None => {
                        let object = self.as_if_written(target, transaction::without_revision(object)).await?;
                        let mut object = (kinds::of(target.served()).decoded)(&object).into_owned();
                        if !sent_revision.is_empty() {
                            tree::set(&mut object, &["metadata", "resourceVersion"], sent_revision.into());
                        }
                        Ok(Written { object, created: true, stored: None })
                    }
                };
            }
            strategy::no_revision(&sent_revision)?;
            let put = match self.put_new(target, &object, is_large, (judge.services, judge.plugins)).await {
                Err(error) if managed::is_too_large(&error) => {
                    managed::take_managed(&mut object);
                    self.put_new(target, &object, is_large, (judge.services, judge.plugins)).await
                }
                put => put,
            };
            match put? {
                Ok(stored) => return Ok(Written { object: at_revision(object, stored.revision), created: true, stored: Some(stored) }),
                Err(Some(current)) => return Err(exists(&current)),
                // Somebody else has what it would have got.
                Err(None) => {}
            }
        }
    }

    /// PUT (spec api-surface §6).
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn replace(
        &self,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let decider = Decider::new(&self.offload, self.admit(&request.target, false, body.len()).await, request.answers());
        let compiled = self.schema(request.target.served()).await?;
        let judge = Judge::by(compiled.as_deref());
        let schema = judge.schema;
        let (mut object, floats) = self.decoded_body(request, schema, syntax, body).await?.into_judged(warnings);
        let (session, plugins) = (self.session(request), self.plugins_for(request).await?);
        let (services, plugins) = (session.as_ref(), plugins.as_ref());
        let target = &request.target;
        let judge = Judge { floats: Some(&floats), services, plugins, denies_admin: self.denies_admin(target).await?, ..judge };
        is_of(target, &mut object, Found::Sent, warnings)?;
        let creates = target.served().rules.create_on_update && request.part == Part::Main;
        let managers = FieldManager::new(self, target, request.manager(request.part.subresource()));
        if creates && self.known(target).is_none() {
            self.check_namespace(target).await?;
        }
        let (told, birth) = (warnings.len(), Birth::now());
        let (dry_run, is_large) = (request.options.dry_run, is_large(body) || is_heavy(target, schema));
        let how = Change { dry_run, is_large, services, plugins, keeps_managed: true, ..Change::of(target) };
        let done = self
            .change(how, decider, |current, answers| {
                // Only what the last try had to say counts.
                warnings.truncate(told);
                Ok(match current {
                    Some(current) => {
                        let uid = tree::text(&object, &["metadata", "uid"]);
                        Preconditions { uid, revision: "" }.check(target, current, dry_run)?;
                        answers.approve(Some(&object), Some(&current.tree))?;
                        let mut object = object.clone();
                        managers.updated(answers, &current.tree, &mut object)?;
                        updated(target, judge, request.part, current, object, warnings)?
                    }
                    None if creates => {
                        created_by_update(target, &object, dry_run)?;
                        answers.approve(Some(&object), None)?;
                        let mut object = object.clone();
                        managers.created(answers, &mut object)?;
                        new_by_update(request, judge, &birth, object, warnings)?
                    }
                    None => return Err(WriteError::NotFound(target.subject()).into()),
                })
            })
            .await?;
        Ok(written(done))
    }

    /// PATCH (spec api-surface §7).
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch(
        &self,
        request: &WriteRequest<'_>,
        kind: PatchKind,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        if kind == PatchKind::Apply {
            return self.apply(request, body, warnings).await;
        }
        let target = &request.target;
        let patch = patch_request::PatchRequest { kind, bytes: body, validation: request.options.validation };
        let compiled = self.schema(target.served()).await?;
        let judge = Judge::by(compiled.as_deref());
        let schema = judge.schema;
        let expected = Expected::of(target.served()).with_schema(schema);
        let is_large = is_large_patch(kind, body) || is_heavy(target, schema);
        let decider = Decider::new(&self.offload, self.admit(target, is_large, body.len()).await, request.answers());
        let managers = FieldManager::new(self, target, request.manager(request.part.subresource()));
        let (session, plugins) = (self.session(request), self.plugins_for(request).await?);
        let (services, plugins) = (session.as_ref(), plugins.as_ref());
        let judge = Judge { services, plugins, denies_admin: self.denies_admin(target).await?, ..judge };
        let how = Change { dry_run: request.options.dry_run, is_large, services, plugins, keeps_managed: true, ..Change::of(target) };
        let done = self
            .change(how, decider, |current, answers| {
                let Some(current) = current else { return Err(WriteError::NotFound(target.subject()).into()) };
                // Only what the last try had to say counts.
                warnings.clear();
                let shown = target.resource.encoders.whole().encoder.tree(&current.tree);
                let (mut patched, floats) = DecodedBody::patched(&expected, &request.options, &patch, &shown)?.into_judged(warnings);
                is_of(target, &mut patched, Found::Patched, warnings)?;
                answers.approve(Some(&patched), Some(&shown))?;
                managers.updated(answers, &current.tree, &mut patched)?;
                Ok(updated(target, Judge { floats: Some(&floats), ..judge }, request.part, current, patched, warnings)?)
            })
            .await?;
        Ok(written(done))
    }
}

impl Writer {
    /// Decodes the body of a create or of an update, off the runtime's thread when that may take long.
    async fn decoded_body(
        &self,
        request: &WriteRequest<'_>,
        schema: Option<&Schema>,
        syntax: Syntax,
        body: &[u8],
    ) -> Result<DecodedBody, WriteError> {
        self.offload.run(is_large(body) || is_heavy(&request.target, schema), || DecodedBody::read(request, schema, syntax, body)).await
    }

    /// Does work on so many bytes, on behalf of the server itself; when it is large, with a permit.
    pub async fn run_offloaded<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.offload.run(bytes >= offload::LARGE_BYTES, work).await
    }

    /// Now, as `creationTimestamp` and conditions have it.
    #[must_use]
    pub fn now(&self) -> String {
        tree::rfc3339(tree::now())
    }
}

/// The new object of a PUT or an apply.
fn new_by_update(
    request: &WriteRequest<'_>,
    judge: Judge<'_>,
    birth: &Birth,
    mut object: Value,
    warnings: &mut Vec<String>,
) -> Result<Decision, WriteError> {
    let metadata = tree::member(&mut object, "metadata");
    metadata.remove("resourceVersion");
    // Only a POST takes these away (measured).
    let sent = ["deletionTimestamp", "deletionGracePeriodSeconds"].map(|name| Some((name, metadata.get(name)?.clone())));
    if let Some(plugins) = judge.plugins {
        plugins.mutate(&request.target, Part::Main, None, &mut object, warnings)?;
    }
    let mut new = strategy::create(&request.target, judge, object, request.by.user(), birth, warnings)?;
    sent.into_iter().flatten().for_each(|(name, value)| drop(tree::member(&mut new, "metadata").insert(name.into(), value)));
    Ok(Decision::Put(new))
}

/// The update that PUT and PATCH share: judged against the object that is there, and the end of one that nothing holds (spec api-surface §8.4).
fn updated(
    target: &ObjectRef,
    judge: Judge<'_>,
    part: Part,
    current: &Current,
    object: Value,
    warnings: &mut Vec<String>,
) -> Result<Decision, WriteError> {
    let sent = tree::text(&object, &["metadata", "resourceVersion"]);
    // `/finalize` needs none (spec api-surface §8.3).
    if part != Part::Finalizers || !sent.is_empty() {
        strategy::check_revision(target, sent, current)?;
    }
    Ok(match strategy::update(target, judge, part, current, object, warnings)? {
        Decision::Put(new) if strategy::is_finished(target.served(), &new) => Decision::Remove(Some(at_revision(new, current.revision))),
        decision => decision,
    })
}

fn is_large(body: &[u8]) -> bool {
    body.len() >= offload::LARGE_BYTES
}

/// Whether whatever is written there may take long: it is compared with a large schema, or is a definition, of which a small one may say much.
fn is_heavy(target: &ObjectRef, schema: Option<&Schema>) -> bool {
    let served = target.served();
    schema.is_some_and(Schema::is_heavy) || (&*served.group, &*served.resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Whether to apply a patch takes long, whatever the object.
fn is_large_patch(kind: PatchKind, body: &[u8]) -> bool {
    kind == PatchKind::Json || body.len() >= offload::LARGE_PATCH_BYTES
}

fn written(done: WriteOutcome) -> Written {
    let (object, created, stored) = match done {
        WriteOutcome::Kept(tree) => (tree, false, None),
        WriteOutcome::Put { tree, created, stored } => (tree, created, stored),
        WriteOutcome::Removed { was, shown, .. } => (shown.unwrap_or(was), false, None),
    };
    Written { object, created, stored }
}
