//! The admission plugins of kube-apiserver in a write. They look other objects up in the cache, which has seen what this server wrote before; where it has
//! nothing, etcd is asked before a write is refused.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    WriteRequest, Writer,
    by::{AnnotationHook, By},
    failure::{ForbiddenCause, StatusSubject, WriteError},
    hooks::{Form, HookSession, KnownHooks, KnownPolicies, Step, WebhookIdentities},
    managed,
    metadata::{Found, dedup_owners},
    names,
    object_ref::{ObjectRef, stored_tree},
    options::DeleteOptions,
    part::Part,
    quotas::{Charging, Turns},
    security_counts,
    step::Decider,
    tree,
};
use admission::{
    Operation,
    plugins::{self, Annotation, Cluster, Denial, Lookup, Notes, Plugin, Plugins, Write, Wrong},
};
use catalogue::Served;
use model::{Epoch, Revision, invalid::FieldError};
use registry::Resource;

/// How long a write waits for the cache of what plugins look up, as in kube-apiserver.
const READY_WAIT: Duration = Duration::from_secs(10);
/// How long it waits until the cache has seen what this server wrote.
const SEEN_WAIT: Duration = Duration::from_secs(1);

/// The account that each namespace gets from a controller soon after it is made: it is looked for so often, with such pauses.
const DEFAULT_ACCOUNT: &str = "default";
const DEFAULT_ACCOUNT_LOOKS: usize = 10;
const DEFAULT_ACCOUNT_PAUSE: Duration = Duration::from_millis(150);

/// All objects of a kind, decoded, and of which snapshot they are.
type List = (Epoch, Revision, Arc<Vec<Value>>);

/// The plugins of a server, and what they keep.
pub(super) struct Admitting {
    pub(super) plugins: Plugins,
    /// When this server last wrote an object of each kind.
    written: [AtomicU64; Lookup::ALL.len()],
    /// All objects of cluster-scoped kinds, decoded, at the revision of their snapshot.
    lists: Mutex<HashMap<Lookup, List>>,
    /// The webhooks that are configured.
    pub(super) hooks: KnownHooks,
    /// Who the server is there.
    pub(super) identities: WebhookIdentities,
    /// The policies that are stored.
    pub(super) policies: KnownPolicies,
    /// Who charges the quotas of a namespace next.
    pub(super) turns: Turns,
}

impl Default for Admitting {
    fn default() -> Self {
        Self::with(Plugins::none())
    }
}

impl Admitting {
    fn with(plugins: Plugins) -> Self {
        Self {
            plugins,
            written: Default::default(),
            lists: Mutex::default(),
            hooks: KnownHooks::default(),
            identities: WebhookIdentities::default(),
            policies: KnownPolicies::default(),
            turns: Turns::default(),
        }
    }

    fn last_written(&self, kind: Lookup) -> Revision {
        let at = Lookup::ALL.iter().position(|known| *known == kind);
        Revision(at.map_or(0, |at| self.written[at].load(Ordering::Acquire)))
    }

    /// Notes that an object of this resource was written.
    pub(super) fn note_written(&self, served: &Served, revision: Revision) {
        let is_it = |kind: &Lookup| kind.resource() == (&*served.group, &*served.resource);
        // Nodes and Pods are written all the time, and nobody needs to know the last word of them.
        if let Some(at) = Lookup::ALL.iter().position(is_it).filter(|at| !matches!(Lookup::ALL[*at], Lookup::Node | Lookup::Pod)) {
            self.written[at].fetch_max(revision.0, Ordering::AcqRel);
        }
    }
}

type Key = (Lookup, String, String);

/// What one write has found out.
#[derive(Default)]
struct State {
    /// What etcd has of what the cache has not.
    found: HashMap<Key, Option<Arc<Value>>>,
    wanted: Vec<Key>,
    /// The name that a new object has in its request.
    requested_name: String,
}

/// The plugins in one write, which may take several tries.
pub(super) struct PluginSession<'a> {
    pub(super) writer: &'a Writer,
    pub(super) dry_run: bool,
    pub(super) has_quotas: bool,
    pub(super) charging: Mutex<Charging>,
    /// Which subresource is written through.
    subresource: &'a str,
    /// The user; empty of what the server itself writes.
    user: &'a str,
    /// The plugins of this server take part.
    is_in_tree: bool,
    hooks: Option<HookSession<'a>>,
    annotation_hook: Option<&'a AnnotationHook<'a>>,
    state: Mutex<State>,
}

impl Writer {
    /// Has these admission plugins change and judge what is written.
    #[must_use]
    pub fn admitting(self, plugins: Plugins) -> Self {
        Self { admitting: Admitting::with(plugins), ..self }
    }

    /// Shows admission webhooks who this server is.
    #[must_use]
    pub fn known_by_webhooks(mut self, identities: WebhookIdentities) -> Self {
        self.admitting.identities = identities;
        self
    }

    /// Returns the admission of a write of an object, if anybody takes part.
    ///
    /// # Errors
    /// What they look up is not loaded in time.
    pub(super) async fn plugins_for<'a>(&'a self, request: &'a WriteRequest<'_>) -> Result<Option<PluginSession<'a>>, WriteError> {
        self.admission_of(request, (Form::Object, request.part.subresource())).await
    }

    /// The same of an object of another kind, which a subresource takes.
    ///
    /// # Errors
    /// What they look up is not loaded in time.
    pub(super) async fn admission_of<'a>(
        &'a self,
        request: &'a WriteRequest<'_>,
        (form, subresource): (Form<'a>, &'a str),
    ) -> Result<Option<PluginSession<'a>>, WriteError> {
        let is_judged = match form {
            Form::Object => matches!(request.part, Part::Main | Part::EphemeralContainers | Part::Resize),
            Form::Other(..) => subresource == "binding",
            Form::Unstored(_) => false,
        };
        let (target, dry_run) = (&request.target, request.options.dry_run);
        let has_quotas = is_judged && self.charges(target).await?;
        let is_in_tree = is_judged && self.looks_up(target).await?;
        let hooks = Box::pin(self.hooks_for(target, &request.by, (form, subresource), (request.options.shown(), dry_run))).await?;
        if !is_in_tree && !has_quotas && hooks.is_none() {
            return Ok(None);
        }
        let (annotation_hook, charging, state) = (request.by.annotation_hook, Mutex::default(), Mutex::default());
        let user = request.by.user().map_or("", |user| user.name);
        Ok(Some(PluginSession {
            writer: self,
            dry_run,
            has_quotas,
            charging,
            subresource,
            user,
            is_in_tree,
            hooks,
            annotation_hook,
            state,
        }))
    }

    /// Returns the admission of a deletion, if anybody takes part.
    ///
    /// # Errors
    /// What they look up is not loaded in time.
    pub(super) async fn admission_of_deletion<'a>(
        &'a self,
        target: &ObjectRef,
        by: &By<'a>,
        dry_run: bool,
    ) -> Result<Option<PluginSession<'a>>, WriteError> {
        self.hooks_alone(target, by, (Form::Object, ""), (Value::Null, dry_run)).await
    }

    /// Returns the admission of what no plugin and no quota is about, if anybody takes part.
    ///
    /// # Errors
    /// The cache of configurations is not loaded in time.
    pub(super) async fn hooks_alone<'a>(
        &'a self,
        target: &ObjectRef,
        by: &By<'a>,
        (form, subresource): (Form<'a>, &'a str),
        (options, dry_run): (Value, bool),
    ) -> Result<Option<PluginSession<'a>>, WriteError> {
        let hooks = Box::pin(self.hooks_for(target, by, (form, subresource), (options, dry_run))).await?;
        let (annotation_hook, charging, state) = (by.annotation_hook, Mutex::default(), Mutex::default());
        let made = |hooks| PluginSession {
            writer: self,
            dry_run,
            has_quotas: false,
            charging,
            subresource,
            user: by.user().map_or("", |user| user.name),
            is_in_tree: false,
            hooks: Some(hooks),
            annotation_hook,
            state,
        };
        Ok(hooks.map(made))
    }

    /// Whether quotas may count an object.
    async fn charges(&self, target: &ObjectRef) -> Result<bool, WriteError> {
        if target.namespace.is_some() && self.admitting.plugins.iter().next().is_some() {
            self.await_lookup(target, Lookup::ResourceQuota).await?;
        }
        let plugins = &self.admitting.plugins;
        let is_limited = target.namespace.is_some() && plugins.has(Plugin::ResourceQuota) && !plugins.settings.limited.is_empty();
        Ok(is_limited || self.has_quotas(target))
    }

    /// Waits for what plugins look up; false if none takes part.
    async fn looks_up(&self, target: &ObjectRef) -> Result<bool, WriteError> {
        let served = target.served();
        let lookups = plugins::lookups(&served.group, &served.resource).filter(|_| !served.is_custom());
        let Some(lookups) = lookups.filter(|_| self.admitting.plugins.iter().next().is_some()) else { return Ok(false) };
        for kind in lookups {
            self.await_lookup(target, *kind).await?;
        }
        Ok(true)
    }

    /// A new object as plugins and webhooks change it.
    pub(super) async fn mutated(
        &self,
        target: &ObjectRef,
        decider: &mut Decider<'_>,
        plugins: Option<&PluginSession<'_>>,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Value, WriteError> {
        let Some(plugins) = plugins else { return Ok(object) };
        let is_large = !tree::fits(&object, offload::LARGE_BYTES);
        let told = warnings.len();
        loop {
            warnings.truncate(told);
            let made = self.offload.run(is_large, || {
                let mut new = object.clone();
                plugins.mutate(target, Part::Main, None, &mut new, warnings).map(|()| new)
            });
            let made = made.await;
            if !decider.loaded(target, (None, Some(plugins))).await? {
                return made;
            }
        }
    }

    pub(super) async fn await_lookup(&self, target: &ObjectRef, kind: Lookup) -> Result<(), WriteError> {
        let Some(resource) = self.looked_up(kind) else { return Ok(()) };
        let (published, written) = (&resource.handle.published, self.admitting.last_written(kind));
        let known = published.known();
        if !known.is_ready() && published.wait_until(cache::state::snapshot::Known::is_ready, READY_WAIT).await.is_err() {
            let why = "not yet ready to handle request".to_owned();
            return Err(WriteError::Forbidden { of: target.subject(), why, cause: None });
        }
        if known.revision < written {
            // Later than that, what the cache has counts, as it does in kube-apiserver.
            drop(published.wait_for(written, SEEN_WAIT).await);
        }
        Ok(())
    }

    pub(super) fn looked_up(&self, kind: Lookup) -> Option<Arc<Resource>> {
        let (group, resource) = kind.resource();
        self.resources.load().find(group, "v1", resource).cloned()
    }
}

impl PluginSession<'_> {
    /// Changes an object that is to be written.
    pub(super) fn mutate(
        &self,
        target: &ObjectRef,
        part: Part,
        old: Option<&Value>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        debug_assert_eq!(part.subresource(), self.subresource, "a write has one subresource");
        let Some(hooks) = self.hooks.as_ref().filter(|hooks| hooks.mutates()) else { return self.change(target, old, object) };
        // What is wanted is asked, and then the same is decided again.
        let Some((outcome, notes)) = hooks.known(Step::Mutation, old, object) else { return Ok(()) };
        self.note(notes, warnings);
        let before = std::mem::replace(object, outcome?);
        warnings.extend(managed::mended(&before, object));
        warnings.extend(dedup_owners(object, Found::Patched));
        Ok(())
    }

    /// Changes an object as the plugins of this server do.
    fn change(&self, target: &ObjectRef, old: Option<&Value>, object: &mut Value) -> Result<(), WriteError> {
        if !self.is_in_tree {
            return Ok(());
        }
        let requested = if old.is_some() { &target.name } else { tree::text(object, &["metadata", "name"]) };
        requested.clone_into(&mut self.state.lock().requested_name);
        let changed = plugins::mutate(&self.writer.admitting.plugins, &write(target, (self.subresource, self.user), old), object, self);
        changed.map_err(|denial| self.refused(target, old, object, denial))
    }

    /// The same, with all that it looks up.
    pub(super) async fn change_whole(&self, target: &ObjectRef, old: Option<&Value>, object: &mut Value) -> Result<(), WriteError> {
        loop {
            let mut tried = object.clone();
            let changed = self.change(target, old, &mut tried);
            if !self.read_wanted().await? {
                *object = tried;
                return changed;
            }
        }
    }

    /// Changes and judges an object of another kind, which a subresource takes.
    pub(super) async fn admit(&self, target: &ObjectRef, object: Value, warnings: &mut Vec<String>) -> Result<Value, WriteError> {
        let new = self.change_other(target, object, warnings).await?;
        self.judge_other(target, &new, warnings).await?;
        Ok(new)
    }

    /// Changes an object of another kind, or one that is not stored.
    pub(super) async fn change_other(&self, target: &ObjectRef, object: Value, warnings: &mut Vec<String>) -> Result<Value, WriteError> {
        loop {
            let mut new = object.clone();
            let told = warnings.len();
            let changed = self.mutate_other(target, None, &mut new, warnings).map(|()| new);
            if !self.load(target).await? {
                return changed;
            }
            warnings.truncate(told);
        }
    }

    /// Judges an object of another kind, or one that is not stored.
    pub(super) async fn judge_other(&self, target: &ObjectRef, object: &Value, warnings: &mut Vec<String>) -> Result<(), WriteError> {
        loop {
            let told = warnings.len();
            let judged = self.ask_hooks(Step::Validation, None, object, warnings).map(drop);
            if !self.load(target).await? {
                return judged;
            }
            warnings.truncate(told);
        }
    }

    /// Changes and judges a scale that is to be written.
    pub(super) fn admit_scale(
        &self,
        target: &ObjectRef,
        old: &Value,
        scale: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        self.mutate_other(target, Some(old), scale, warnings)?;
        if self.waits() || self.hooks.is_none() {
            return Ok(());
        }
        // What is judged is the scale of the object as it will be, which has no managers.
        let mut old = old.clone();
        managed::take_managed(&mut old);
        let mut new = old.clone();
        tree::set(&mut new, &["spec"], tree::at(scale, &["spec"]).cloned().unwrap_or_default());
        self.ask_hooks(Step::Validation, Some(&old), &new, warnings).map(drop)
    }

    fn mutate_other(
        &self,
        target: &ObjectRef,
        old: Option<&Value>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        let Some(hooks) = self.hooks.as_ref().filter(|hooks| hooks.mutates()) else { return self.change(target, old, object) };
        let Some((outcome, notes)) = hooks.known(Step::Mutation, old, object) else { return Ok(()) };
        self.note(notes, warnings);
        *object = outcome?;
        Ok(())
    }

    /// Judges an object that is to be written, and is valid.
    pub(super) fn validate(
        &self,
        target: &ObjectRef,
        part: Part,
        old: Option<&Value>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        let mut notes = Notes::default();
        let write = write(target, (part.subresource(), self.user), old);
        let judged =
            if self.is_in_tree { plugins::validate(&self.writer.admitting.plugins, &write, object, self, &mut notes) } else { Ok(()) };
        // What lacks something is judged again.
        if self.waits() {
            return Ok(());
        }
        let security = std::mem::take(&mut notes.security);
        self.note(notes, warnings);
        let judged = judged.map_err(|denial| self.refused(target, old, object, denial)).and_then(|()| {
            // Quotas come last.
            match self.ask_hooks(Step::Validation, old, object, warnings)? {
                true => self.charge(&write, object).map_err(|denial| self.refused(target, old, object, denial)),
                false => Ok(()),
            }
        });
        if judged.is_err() || !self.waits() && !self.lacks_quotas() {
            security_counts::count(&write, &target.resource.metrics, &security);
        }
        judged
    }

    /// Judges a deletion.
    pub(super) fn confirm_deletion(&self, old: &Value, options: &DeleteOptions, warnings: &mut Vec<String>) -> Result<(), WriteError> {
        self.ask_hooks(Step::Deletion, Some(old), &options.shown(), warnings).map(drop)
    }

    /// What webhooks say; false when they must be asked first.
    fn ask_hooks(&self, step: Step, old: Option<&Value>, object: &Value, warnings: &mut Vec<String>) -> Result<bool, WriteError> {
        let Some(hooks) = &self.hooks else { return Ok(true) };
        let Some((outcome, notes)) = hooks.known(step, old, object) else { return Ok(false) };
        self.note(notes, warnings);
        outcome.map(|_| true)
    }

    fn note(&self, notes: Notes, warnings: &mut Vec<String>) {
        warnings.extend(notes.warnings);
        if let Some(annotate) = self.annotation_hook {
            notes.annotations.into_iter().for_each(|Annotation { name, value, of_request }| annotate(&name, value, of_request));
        }
    }

    /// The answer to a refusal. A new object is named as it names itself, which it may not do yet.
    fn refused(&self, target: &ObjectRef, old: Option<&Value>, object: &Value, denial: Denial) -> WriteError {
        let requested = || self.state.lock().requested_name.clone();
        match denial {
            Denial::Forbidden { why, cause, as_requested } => {
                let own = || if old.is_some() { target.name.clone() } else { plugins::name_of(object).to_owned() };
                let of = StatusSubject::resource(target.served(), &if as_requested { requested() } else { own() });
                WriteError::Forbidden { of, why, cause: cause.map(ForbiddenCause::Reason) }
            }
            Denial::Failed(why) => WriteError::Raw(why),
            Denial::Invalid(wrong) => {
                let error = |Wrong { field, value, why }| FieldError::invalid(field, &value.into(), &why);
                let errors = wrong.into_iter().map(error).collect();
                WriteError::Invalid { of: StatusSubject::judged(target.served(), &requested()), errors }
            }
        }
    }

    /// Whether the last decision lacked something.
    pub(super) fn waits(&self) -> bool {
        !self.state.lock().wanted.is_empty() || self.hooks.as_ref().is_some_and(HookSession::is_wanted)
    }

    /// Withdraws the question for webhooks that the last decision had, and returns whether it had one.
    pub(super) fn withdraw_question(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.take_wanted().is_some())
    }

    /// Reads what the last decision lacked, and asks whom it has to ask; false when it lacked nothing.
    pub(super) async fn load(&self, target: &ObjectRef) -> Result<bool, WriteError> {
        let wanted = self.hooks.as_ref().and_then(|hooks| Some((hooks, hooks.take_wanted()?)));
        if self.read_wanted().await? {
            return Ok(true);
        }
        if let Some((hooks, wanted)) = wanted {
            // A webhook may write to this namespace before it answers.
            self.give_up_turn();
            let done = Box::pin(hooks.ask(self, target, wanted)).await;
            hooks.note(done);
            return Ok(true);
        }
        self.load_quotas(target.namespace.as_deref().unwrap_or_default()).await
    }

    async fn read_wanted(&self) -> Result<bool, WriteError> {
        let wanted = std::mem::take(&mut self.state.lock().wanted);
        let is_any = !wanted.is_empty();
        for key in wanted {
            let found = self.read(&key).await?;
            self.state.lock().found.insert(key, found);
        }
        Ok(is_any)
    }

    async fn read(&self, (kind, namespace, name): &Key) -> Result<Option<Arc<Value>>, WriteError> {
        let Some(resource) = self.writer.looked_up(*kind) else { return Ok(None) };
        let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
        let target = ObjectRef { resource, namespace, name: name.clone() };
        let looks = if (*kind, name.as_str()) == (Lookup::ServiceAccount, DEFAULT_ACCOUNT) { DEFAULT_ACCOUNT_LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                tokio::time::sleep(DEFAULT_ACCOUNT_PAUSE).await;
            }
            if let Some(found) = self.writer.fresh(&target).await? {
                return Ok(Some(Arc::new(found.tree)));
            }
        }
        Ok(None)
    }

    fn decoded(resource: &Resource, prefix: &[u8]) -> Arc<Vec<Value>> {
        let known = resource.handle.published.known();
        Arc::new(known.snapshot.store.scan(prefix, b"").filter_map(|object| stored_tree(resource, object).ok()).collect())
    }
}

impl Cluster for PluginSession<'_> {
    fn find(&self, kind: Lookup, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        if let Some(found) = self.state.lock().found.get(&key) {
            return found.clone();
        }
        let resource = self.writer.looked_up(kind)?;
        let prefix = resource.served.storage.key_prefix(&self.writer.prefix);
        let stored = if namespace.is_empty() { format!("{prefix}{name}") } else { format!("{prefix}{namespace}/{name}") };
        let known = resource.handle.published.known();
        let cached = known.snapshot.store.find(stored.as_bytes()).and_then(|object| stored_tree(&resource, object).ok());
        // A node that the cache does not have is none, as in kube-apiserver.
        if cached.is_none() && !matches!(kind, Lookup::Node) {
            self.state.lock().wanted.push(key);
        }
        cached.map(Arc::new)
    }

    fn list(&self, kind: Lookup, namespace: &str) -> Arc<Vec<Value>> {
        let Some(resource) = self.writer.looked_up(kind) else { return Arc::default() };
        let prefix = resource.served.storage.key_prefix(&self.writer.prefix);
        if !namespace.is_empty() {
            return Self::decoded(&resource, format!("{prefix}{namespace}/").as_bytes());
        }
        let known = resource.handle.published.known();
        let at = (known.snapshot.epoch, known.snapshot.applied);
        if let Some((epoch, revision, list)) = self.writer.admitting.lists.lock().get(&kind)
            && (*epoch, *revision) == at
        {
            return list.clone();
        }
        let list =
            Arc::new(known.snapshot.store.scan(b"", b"").filter_map(|object| stored_tree(&resource, object).ok()).collect::<Vec<_>>());
        self.writer.admitting.lists.lock().insert(kind, (at.0, at.1, list.clone()));
        list
    }

    fn pods(&self, namespace: &str, most: usize) -> (Vec<Value>, usize) {
        let Some(resource) = self.writer.looked_up(Lookup::Pod) else { return Default::default() };
        let prefix = format!("{}{namespace}/", resource.served.storage.key_prefix(&self.writer.prefix));
        let known = resource.handle.published.known();
        let first = known.snapshot.store.scan(prefix.as_bytes(), b"").take(most);
        let pods = first.filter_map(|object| stored_tree(&resource, object).ok()).collect();
        (pods, known.snapshot.store.scan(prefix.as_bytes(), b"").count())
    }

    fn generate(&self, base: &str) -> String {
        names::generate(base, &mut rand::rng())
    }
}

fn write<'a>(target: &'a ObjectRef, (subresource, user): (&'a str, &'a str), old: Option<&'a Value>) -> Write<'a> {
    let served = target.served();
    Write {
        operation: if old.is_some() || !matches!(subresource, "" | "binding") { Operation::Update } else { Operation::Create },
        group: &served.group,
        resource: &served.resource,
        subresource,
        namespace: target.namespace.as_deref().unwrap_or_default(),
        old,
        user,
    }
}
