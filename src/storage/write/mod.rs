//! Create, update, patch and delete: JSON trees in, etcd transactions out.
//!
//! ```text
//! body, patch → tree → typed → strategy (server's own fields) → kinds → validation → transaction → tree of the answer
//! ```

mod body;
#[cfg(test)]
mod corpus;
mod decode;
mod delete;
mod eviction;
pub mod failure;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod growth;
mod kinds;
mod lease;
mod metadata;
mod names;
mod namespace;
pub mod options;
mod patch;
mod patched;
pub mod permit;
pub mod place;
pub mod scale;
mod strategy;
mod subresource;
mod transaction;
mod tree;
mod typed;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

pub use body::Syntax;
pub use delete::{Deletion, DeletionApproval};
pub use eviction::Evicted;
pub use patched::PatchKind;
pub use strategy::Part;

use body::Expected;
use catalogue::Served;
use decode::Sent;
use etcd::Etcd;
use failure::{Named, WriteError};
use go::{quote::quoted, url::Query};
use metadata::{Found, dedup_owners};
use model::{ByResource, Revision};
use options::{DeleteOptions, DeleteOptionsError, WriteOptions};
use place::{Current, Place, StoredValue};
use registry::ServedResources;
use strategy::Preconditions;
use transaction::{Decision, Done, Look, at_revision};
use upstream::host::Namespaces;

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
    /// Which namespaces the cache may not be asked about.
    leaving: namespace::Leaving,
    /// Whose the namespaces are when they are not ours.
    host: Option<Arc<Namespaces>>,
    permit: Arc<permit::Permit>,
    offload: offload::Offload,
    loses_unknown_fields: bool,
}

/// One write: where, which part of it, and how.
pub struct Ask<'a> {
    /// The object; the name is empty when the body names it.
    pub place: Place,
    /// What may be changed.
    pub part: Part,
    /// Query parameters.
    pub options: WriteOptions,
    /// Who else is asked.
    pub approval: Option<&'a Approval<'a>>,
    /// Who asks; nobody when it is the server itself.
    pub requester: Option<Requester<'a>>,
    /// Who is shown the object that was sent, as it was understood and before anything is decided about it. A patch is shown to nobody.
    pub seen: Option<&'a Seen<'a>>,
}

/// Who asks for a write, as far as an object may say so.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of `authentication.k8s.io/v1` UserInfo")]
pub struct Requester<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: &'a [(String, Vec<String>)],
}

/// Is shown an object that was sent.
pub type Seen<'a> = dyn Fn(&Value) + Send + Sync + 'a;

/// Asked about every object before it is written, with the one that it replaces; an error is the answer then.
pub type Approval<'a> = dyn Fn(&Value, Option<&Value>) -> Result<(), WriteError> + Send + Sync + 'a;

impl Ask<'_> {
    fn show(&self, object: &Value) {
        if let Some(seen) = self.seen {
            seen(object);
        }
    }

    fn approve(&self, object: &Value, stored: Option<&Value>) -> Result<(), WriteError> {
        self.approval.map_or(Ok(()), |approval| approval(object, stored))
    }
}

/// What a write came to.
#[derive(Debug, PartialEq)]
pub struct Written {
    /// The object as it is now, in the version that is stored: `codec::Form` shows it in that of the request.
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
        permit: Arc<permit::Permit>,
        host: Option<Arc<Namespaces>>,
    ) -> Self {
        let (leases, leaving, offload) = Default::default();
        Self { etcds, prefix: prefix.into(), resources, leases, leaving, host, permit, offload, loses_unknown_fields: false }
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

    /// Does work on this object, which is written; when it is large, so that nobody else waits for it. It has no turn to wait for: the client should know.
    pub fn offload<T>(&self, object: &Value, work: impl FnOnce() -> T) -> T {
        if tree::fits(object, offload::LARGE_BYTES) { work() } else { offload::apart(work) }
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
        told: &mut Vec<String>,
    ) -> Result<Value, WriteError> {
        let expected = Expected { group, version, kind, custom: false };
        let _entered = self.offload.enter(false, body.len()).await;
        Ok(self.offload.take(is_large(body), || Sent::read_as(&expected, options, syntax, body)).await?.into_tree(told))
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
    pub async fn delete_options(&self, query: &Query, syntax: Syntax, body: &[u8]) -> Result<DeleteOptions, DeleteOptionsError> {
        self.offload.take(is_large(body), || DeleteOptions::parse(query, syntax, body)).await
    }

    /// POST of a collection (spec api-surface §5). `told` gets the texts of `Warning` headers, as in the methods below.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create(&self, ask: &Ask<'_>, syntax: Syntax, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let _entered = self.offload.enter(false, body.len()).await;
        let mut object = self.offload.take(is_large(body), || Sent::read(ask, syntax, body)).await?.into_tree(told);
        let mut place = ask.place.clone();
        kinds::identify(place.served(), &mut object, ask.requester.as_ref());
        in_namespace(&place, &object)?;
        told.extend(dedup_owners(&mut object, Found::Sent));
        let (name, base) = (tree::text(&object, &["metadata", "name"]), tree::text(&object, &["metadata", "generateName"]));
        may_create(&place, name)?;
        // Admission looks at it before there is a generated name.
        [name, base].into_iter().find(|text| !text.is_empty()).unwrap_or("Unknown").clone_into(&mut place.name);
        self.namespace_takes(&place).await?;
        name.clone_into(&mut place.name);
        ask.approve(&object, None)?;
        if !name.is_empty() || base.is_empty() {
            return self.create_named(&place, object, ask.options.dry_run, false, told).await;
        }
        let base = base.to_owned();
        for attempt in 1.. {
            place.name = names::generate(&base, &mut rand::rng());
            match self.create_named(&place, object.clone(), ask.options.dry_run, attempt == names::ATTEMPTS_MAX, told).await {
                Err(WriteError::AlreadyExists { generated: false, .. }) => {}
                outcome => return outcome,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// `last_try`: the name was generated, and there will be no other.
    async fn create_named(
        &self,
        place: &Place,
        object: Value,
        dry_run: bool,
        last_try: bool,
        told: &mut Vec<String>,
    ) -> Result<Written, WriteError> {
        let is_large = !tree::fits(&object, offload::LARGE_BYTES);
        let object = self.offload.take(is_large, || strategy::create(place, object, tree::now(), told)).await?;
        let exists = |current: &Current| WriteError::AlreadyExists {
            of: place.named(),
            deleting: tree::at(&current.tree, &["metadata", "deletionTimestamp"]).is_some(),
            generated: last_try,
        };
        if dry_run {
            let current = self.fresh(place).await?;
            let created = |object| Written { object, created: true, stored: None };
            return current.as_ref().map_or_else(|| Ok(created(transaction::without_revision(object))), |current| Err(exists(current)));
        }
        match self.put_new(place, &object, is_large).await? {
            Ok(stored) => Ok(Written { object: at_revision(object, stored.revision), created: true, stored: Some(stored) }),
            Err(current) => Err(exists(&current)),
        }
    }

    /// PUT (spec api-surface §6).
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn replace(&self, ask: &Ask<'_>, syntax: Syntax, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let _entered = self.enter(&ask.place, false, body.len()).await;
        let mut object = self.offload.take(is_large(body), || Sent::read(ask, syntax, body)).await?.into_tree(told);
        let place = &ask.place;
        in_namespace(place, &object)?;
        is_named(place, &object)?;
        told.extend(dedup_owners(&mut object, Found::Sent));
        let creates = place.served().rules.create_on_update && ask.part == Part::Main;
        if creates && self.known(place).is_none() {
            self.namespace_takes(place).await?;
        }
        let done = self
            .change(place, Look::Cache, ask.options.dry_run, is_large(body), |current| match current {
                Some(current) => {
                    Preconditions { uid: tree::text(&object, &["metadata", "uid"]), revision: "" }.check(
                        place,
                        current,
                        ask.options.dry_run,
                    )?;
                    ask.approve(&object, Some(&current.tree))?;
                    updated(place, ask.part, current, object.clone(), told)
                }
                None if creates => {
                    created_by_update(place, &object, ask.options.dry_run)?;
                    ask.approve(&object, None)?;
                    let mut object = object.clone();
                    let metadata = tree::member(&mut object, "metadata");
                    metadata.remove("resourceVersion");
                    // Only a POST takes these away (measured).
                    let sent = ["deletionTimestamp", "deletionGracePeriodSeconds"].map(|name| Some((name, metadata.get(name)?.clone())));
                    let mut new = strategy::create(place, object, tree::now(), told)?;
                    sent.into_iter()
                        .flatten()
                        .for_each(|(name, value)| drop(tree::member(&mut new, "metadata").insert(name.into(), value)));
                    Ok(Decision::Put(new))
                }
                None => Err(WriteError::NotFound(place.named())),
            })
            .await?;
        Ok(written(done))
    }

    /// PATCH (spec api-surface §7).
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch(&self, ask: &Ask<'_>, kind: PatchKind, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let place = &ask.place;
        let patch = patched::Patch { kind, bytes: body, validation: ask.options.validation };
        let expected = Expected::of(place.served());
        let is_large = is_large_patch(kind, body);
        let _entered = self.enter(place, is_large, body.len()).await;
        let done = self
            .change(place, Look::Cache, ask.options.dry_run, is_large, |current| {
                let Some(current) = current else { return Err(WriteError::NotFound(place.named())) };
                // Only what the last try had to say counts.
                told.clear();
                let shown = place.resource.forms.whole().form.tree(&current.tree);
                let mut patched = Sent::patched(&expected, &ask.options, &patch, &shown)?.into_tree(told);
                in_namespace(place, &patched)?;
                is_named(place, &patched)?;
                told.extend(dedup_owners(&mut patched, Found::Patched));
                ask.approve(&patched, Some(&shown))?;
                updated(place, ask.part, current, patched, told)
            })
            .await?;
        Ok(written(done))
    }
}

impl Writer {
    /// Changes an object that is there, on behalf of the server itself, if `change` says to what: the object as it is then. One that is gone needs no
    /// change.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn amend(&self, place: &Place, change: impl Fn(&Value) -> Option<Value>) -> Result<Option<(Revision, Value)>, WriteError> {
        let _entered = self.enter(place, false, 0).await;
        let done = self.change(place, Look::Etcd, false, false, |current| {
            let Some(current) = current else { return Ok(Decision::Keep) };
            change(&current.tree).map_or(Ok(Decision::Keep), |object| updated(place, Part::Server, current, object, &mut Vec::new()))
        });
        let object = match done.await? {
            Done::Kept(tree) | Done::Put { tree, .. } => tree,
            Done::Removed { .. } => return Ok(None),
        };
        let revision = tree::text(&object, &["metadata", "resourceVersion"]).parse().ok();
        Ok(revision.map(|revision| (Revision(revision), object)))
    }

    /// Does work on so many bytes, on behalf of the server itself; when it is large, in its turn.
    pub async fn turn<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.offload.take(bytes >= offload::LARGE_BYTES, work).await
    }

    /// Now, as `creationTimestamp` and conditions have it.
    #[must_use]
    pub fn now(&self) -> String {
        tree::rfc3339(tree::now())
    }
}

/// The update that PUT and PATCH share: judged against the object that is there, and the end of one that nothing holds (spec api-surface §8.4).
fn updated(place: &Place, part: Part, current: &Current, object: Value, warnings: &mut Vec<String>) -> Result<Decision, WriteError> {
    let sent = tree::text(&object, &["metadata", "resourceVersion"]);
    // `/finalize` needs none (spec api-surface §8.3).
    if part != Part::Finalizers || !sent.is_empty() {
        strategy::check_revision(place, sent, current)?;
    }
    let Some(new) = strategy::update(place, part, current, object, warnings)? else { return Ok(Decision::Keep) };
    let shown = || at_revision(new.clone(), current.revision);
    Ok(if strategy::is_finished(place.served(), &new) { Decision::Remove(Some(shown())) } else { Decision::Put(new) })
}

fn is_large(body: &[u8]) -> bool {
    body.len() >= offload::LARGE_BYTES
}

/// Whether to apply a patch takes long, whatever the object.
fn is_large_patch(kind: PatchKind, body: &[u8]) -> bool {
    kind == PatchKind::Json || body.len() >= offload::LARGE_PATCH_BYTES
}

fn written(done: Done) -> Written {
    let (object, created, stored) = match done {
        Done::Kept(tree) => (tree, false, None),
        Done::Put { tree, created, stored } => (tree, created, stored),
        Done::Removed { was, shown, .. } => (shown.unwrap_or(was), false, None),
    };
    Written { object, created, stored }
}

/// Spec api-surface §5.1 step 4.
fn in_namespace(place: &Place, object: &Value) -> Result<(), WriteError> {
    let sent = tree::text(object, &["metadata", "namespace"]);
    match &place.namespace {
        Some(namespace) if !sent.is_empty() && sent != namespace => {
            Err(WriteError::BadRequest("the namespace of the provided object does not match the namespace sent on the request".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Spec api-surface §6.1.
fn is_named(place: &Place, object: &Value) -> Result<(), WriteError> {
    let (sent, name) = (tree::text(object, &["metadata", "name"]), &place.name);
    if sent == name {
        return Ok(());
    }
    Err(WriteError::BadRequest(if sent.is_empty() {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({sent}) does not match the name on the URL ({name})")
    }))
}

/// A definition that is being deleted lets nothing new in (spec api-surface §11.2).
fn may_create(place: &Place, name: &str) -> Result<(), WriteError> {
    if place.served().has_verb("create") {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating".to_owned();
    Err(WriteError::Forbidden { of: Named::resource(place.served(), name), why, cause: None })
}

/// A PUT that creates ignores the revision it names, but not the uid (spec api-surface §6.1).
fn created_by_update(place: &Place, object: &Value, dry_run: bool) -> Result<(), WriteError> {
    let uid = tree::text(object, &["metadata", "uid"]);
    if uid.is_empty() {
        return Ok(());
    }
    let why = strategy::unmet(place, dry_run, "UID", uid, "");
    Err(WriteError::Conflict { of: place.named(), why })
}

impl Writer {
    /// Puts what must not exist yet; or what does.
    async fn put_new(&self, place: &Place, object: &Value, is_large: bool) -> Result<Result<StoredValue, Current>, WriteError> {
        let lease = self.lease_for(place.served()).await?;
        let value = self.offload.take(is_large, || transaction::encoded(place, object)).await;
        match self.put_if(place, value.clone(), Revision::ZERO, lease).await? {
            etcd::Outcome::Written(revision) => Ok(Ok(StoredValue { key: place.key(&self.prefix), value, revision })),
            etcd::Outcome::Changed(Some(kv)) => Ok(Err(self.decoded(place, kv).await?)),
            etcd::Outcome::Changed(None) => {
                Err(WriteError::Raw(format!("etcd says that {} neither exists nor is absent", quoted(&place.name))))
            }
        }
    }
}
