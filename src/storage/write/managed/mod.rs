//! Field management: who has set which field of an object (`metadata.managedFields`), kept up by every write, and server-side apply.
//!
//! ```text
//! live object, new object ─▶ merge (sets of fields) ─▶ entries, sorted, at most ten of those who update ─▶ metadata.managedFields
//! ```

mod cap;
mod conflict;
mod entries;
mod identifier;
mod last_applied;
mod reset;
pub(super) mod scale;
mod schema;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use merge::{ConvertError, Converter, Duplicates, Filter, ParseableType, PathElement, Set, TypedValue, UpdateError, Updater, VersionedSet};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use self::{entries::Managed, identifier::Identifier};
use super::{
    JSON_BYTES_MAX, Writer,
    conversions::{Conversions, Missing},
    failure::WriteError,
    kinds,
    object_ref::ObjectRef,
    part::Part,
    step::{Answers, Need, Stop},
    tree,
};
use catalogue::Served;
use codec::{normalize, versions::Version};
use etcd::EtcdError;
use registry::Resource;

pub(super) use schema::FieldTypes;

/// The manager of an entry under which a write is counted until it is known whose it is.
const SELF: &str = "current-operation";
/// Manager of what nobody managed before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager of those who name none, not even by their user agent.
const UNKNOWN: &str = "unknown";
const MANAGED_FIELDS: &str = "managedFields";

/// Members that nobody manages.
const UNMANAGED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Who writes, and through what.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    /// `fieldManager`, or what the user agent begins with; may be empty.
    pub(super) name: String,
    /// The subresource on the URL; empty for the object itself.
    pub(super) subresource: &'static str,
    /// What the write may change.
    pub(super) part: Part,
}

/// Keeps up the managed fields of one object. Fields are those of the version of the request; objects that are handed in are in the stored version, which has
/// the same metadata.
pub(super) struct FieldManager<'a> {
    writer: &'a Writer,
    target: &'a ObjectRef,
    manager: Manager,
    filters: BTreeMap<String, Filter>,
    /// Of its scale, instead of the object itself.
    of_scale: bool,
    /// When the write began: whatever is decided again is decided at the same time.
    now: OffsetDateTime,
}

impl<'a> FieldManager<'a> {
    pub(super) fn new(writer: &'a Writer, target: &'a ObjectRef, manager: Manager) -> Self {
        let filters = reset::filters(&writer.resources.load().catalogue, target.served(), manager.part);
        Self { filters, of_scale: false, ..Self::of_scale(writer, target, manager) }
    }

    /// Makes that of an object's scale.
    pub(super) fn of_scale(writer: &'a Writer, target: &'a ObjectRef, manager: Manager) -> Self {
        Self { writer, target, manager, filters: BTreeMap::new(), of_scale: true, now: tree::now() }
    }

    fn types<'t>(&'t self, answers: &'t Answers<'_>) -> Types<'t> {
        let conversions = &answers.conversions;
        Types { writer: self.writer, target: self.target, of_scale: self.of_scale, conversions, missing: RefCell::default() }
    }

    fn api_version(&self) -> String {
        if self.of_scale { scale::API_VERSION.to_owned() } else { self.target.served().api_version() }
    }

    fn kind(&self) -> &str {
        if self.of_scale { "Scale" } else { &self.target.served().kind }
    }

    /// Returns which object it is, for people.
    fn named(&self, object: &Value) -> String {
        let of = |name| tree::text(object, &["metadata", name]);
        format!("({}/{}; {})", of("namespace"), of("name"), printed_kind(&self.api_version(), self.kind()))
    }

    /// Returns an object in the version of the request.
    fn shown<'v>(&self, object: &'v Value) -> Cow<'v, Value> {
        if self.of_scale { Cow::Borrowed(object) } else { self.target.resource.encoders.whole().encoder.tree(object) }
    }

    /// Notes in a new object who has made it.
    ///
    /// # Errors
    /// The object is needed in another version first.
    pub(super) fn created(&self, answers: &Answers<'_>, object: &mut Value) -> Result<(), Stop> {
        self.note(answers, None, object)
    }

    /// Notes in what an object becomes who has changed it.
    ///
    /// # Errors
    /// The object is needed in another version first.
    pub(super) fn updated(&self, answers: &Answers<'_>, live: &Value, new: &mut Value) -> Result<(), Stop> {
        self.note(answers, Some(live), new)
    }

    fn note(&self, answers: &Answers<'_>, live: Option<&Value>, new: &mut Value) -> Result<(), Stop> {
        let managed = self.managed_before(live, new);
        take_managed(new);
        if answers.without_managed {
            return Ok(());
        }
        // What nobody manages stays so until somebody applies.
        if managed.is_empty() && live.is_some() {
            return Ok(());
        }
        let live = live.map_or_else(|| Cow::Owned(self.empty()), |live| self.shown(live));
        let decoded = if self.of_scale { Cow::Borrowed(&*new) } else { (kinds::of(self.target.served()).decoded)(new) };
        match self.update(answers, &live, &self.shown(&decoded), managed, &self.manager.name) {
            Ok(managed) => put_managed(new, &managed),
            Err(Unmanaged::Needs(need)) => return Err(Stop::Needs(need)),
            Err(Unmanaged::Failed(why)) => {
                let (name, kind) = (&self.target.name, self.kind());
                tracing::error!(%name, %kind, %why, "managed fields cannot be kept up: they are dropped");
            }
        }
        Ok(())
    }

    /// Returns the managers that count before a write: those that the client sent, if they say something. What is sent of a subresource has no say.
    fn managed_before(&self, live: Option<&Value>, new: &Value) -> Managed {
        let of = |object: &Value| Managed::read(tree::metadata(object).get(MANAGED_FIELDS));
        let of_live = || live.and_then(|live| of(live).ok()).unwrap_or_default();
        if !self.manager.subresource.is_empty() {
            return of_live();
        }
        if tree::metadata(new).get(MANAGED_FIELDS).is_some_and(is_reset) {
            return Managed::default();
        }
        of(new).ok().filter(|sent| !sent.is_empty()).unwrap_or_else(of_live)
    }

    /// Returns who manages what after an update of an object by this manager.
    fn update(&self, answers: &Answers<'_>, live: &Value, new: &Value, mut managed: Managed, manager: &str) -> Result<Managed, Unmanaged> {
        let types = self.types(answers);
        let typed = types.own();
        let of = |what: &str, object: &Value, error| {
            Unmanaged::Failed(format!("failed to convert {what} object {} to smd typed: {error}", self.named(object)))
        };
        let new = TypedValue::new(Cow::Borrowed(new), &typed, Duplicates::Allowed).map_err(|error| of("new", new, error))?;
        let live = TypedValue::new(without_managed(live), &typed, Duplicates::Allowed).map_err(|error| of("live", live, error))?;
        let api_version = self.api_version();
        let managers = std::mem::take(&mut managed.managers);
        let updated = self.updater(&types).update(&live, &new, &api_version, managers, SELF);
        types.confirm_complete().map_err(Unmanaged::Needs)?;
        managed.managers = updated.map_err(|error| Unmanaged::Failed(format!("failed to update ManagedFields: {error}")))?;
        strip(&mut managed, SELF);
        let identifier = self.identifier(manager, "Update");
        if let Some(fields) = managed.managers.remove(SELF) {
            let fields = match managed.managers.get(&identifier) {
                Some(before) => VersionedSet { set: fields.set.union(&before.set), ..fields },
                None => fields,
            };
            managed.managers.insert(identifier.clone(), fields);
            managed.times.insert(identifier, tree::rfc3339(self.now));
        }
        cap::updaters(&mut managed);
        Ok(managed)
    }

    /// Applies a configuration to an object in the version of the request, or makes one of it when there is none yet; the result has no defaults.
    ///
    /// # Errors
    /// The configuration is not of this version, has fields that the kind has not, or others manage what it would change; or the object is needed in another
    /// version first.
    pub(super) fn applied(&self, answers: &Answers<'_>, live: Option<&Value>, config: &Value, force: bool) -> Result<Value, Stop> {
        self.is_of_this_version(config)?;
        let of_live = live.map_or(Ok(Managed::default()), |live| Managed::read(tree::metadata(live).get(MANAGED_FIELDS)));
        let mut managed = of_live.map_err(|why| WriteError::Raw(format!("failed to decode managed fields: {why}")))?;
        if tree::metadata(config).get(MANAGED_FIELDS).is_some_and(|sent| !sent.is_null()) {
            return Err(WriteError::BadRequest("metadata.managedFields must be nil".to_owned()).into());
        }
        let empty = self.empty();
        let live = live.map_or(Cow::Borrowed(&empty), without_managed);
        if managed.is_empty() {
            let (before, now) = (&empty, &live);
            managed = match self.update(answers, before, now, managed, BEFORE_FIRST_APPLY) {
                Ok(managed) => managed,
                Err(Unmanaged::Needs(need)) => return Err(Stop::Needs(need)),
                Err(Unmanaged::Failed(why)) => {
                    return Err(WriteError::Raw(format!("failed to create manager for existing fields: {why}")).into());
                }
            };
        }
        let outcome = match self.apply(answers, &live, config, managed.clone(), force) {
            Err(ApplyError::Conflicts(conflicts)) if self.manager.name == last_applied::KUBECTL => {
                match last_applied::conflicts_left(conflicts, &live, &self.types(answers).own(), &self.api_version()) {
                    conflicts if conflicts.0.is_empty() => self.apply(answers, &live, config, managed, true),
                    conflicts => Err(ApplyError::Conflicts(conflicts)),
                }
            }
            outcome => outcome,
        };
        let (object, managed) = match outcome {
            Ok(applied) => applied,
            Err(ApplyError::Needs(need)) => return Err(Stop::Needs(need)),
            Err(ApplyError::Conflicts(conflicts)) => return Err(conflict::refused(&conflicts).into()),
            Err(ApplyError::Other(why)) => return Err(WriteError::Raw(why).into()),
        };
        let mut object = object.unwrap_or_else(|| live.into_owned());
        if self.manager.name == last_applied::KUBECTL {
            last_applied::keep_up(&mut object, config);
        }
        put_managed(&mut object, &managed);
        Ok(object)
    }

    fn apply(
        &self,
        answers: &Answers<'_>,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        force: bool,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
        let types = self.types(answers);
        let (typed, api_version) = (types.own(), self.api_version());
        let config_typed = TypedValue::new(Cow::Borrowed(config), &typed, Duplicates::Refused)
            .map_err(|error| ApplyError::Other(format!("failed to create typed patch object {}: {error}", self.named(config))))?;
        let live_typed = TypedValue::new(Cow::Borrowed(live), &typed, Duplicates::Allowed)
            .map_err(|error| ApplyError::Other(format!("failed to create typed live object {}: {error}", self.named(live))))?;
        let identifier = self.identifier(&self.manager.name, "Apply");
        let managers = std::mem::take(&mut managed.managers);
        let applied = self.updater(&types).apply(&live_typed, &config_typed, &api_version, managers, &identifier, force);
        types.confirm_complete().map_err(ApplyError::Needs)?;
        let applied = applied?;
        managed.managers = applied.managers;
        strip(&mut managed, &identifier);
        if applied.object.is_some() {
            managed.times.insert(identifier, tree::rfc3339(self.now));
        }
        Ok((applied.object, managed))
    }

    fn updater<'u>(&'u self, types: &'u Types<'u>) -> Updater<'u, Types<'u>> {
        Updater::with_filters(types, &self.filters)
    }

    fn identifier(&self, name: &str, operation: &str) -> String {
        let name = if name.is_empty() { UNKNOWN } else { name };
        let api_version = if operation == "Apply" { String::new() } else { self.api_version() };
        let identifier = Identifier {
            manager: name.to_owned(),
            operation: operation.to_owned(),
            api_version,
            subresource: self.manager.subresource.to_owned(),
        };
        identifier.text()
    }

    /// Returns an object without anything, as Go prints one of this kind.
    fn empty(&self) -> Value {
        let mut empty = json!({"kind": self.kind(), "apiVersion": self.api_version(), "metadata": {}});
        if self.of_scale || !self.target.served().is_custom() {
            // It is far from any limit.
            let _ = normalize(&mut empty, JSON_BYTES_MAX);
        }
        empty
    }

    fn is_of_this_version(&self, config: &Value) -> Result<(), WriteError> {
        let (api_version, kind) = (tree::text(config, &["apiVersion"]), tree::text(config, &["kind"]));
        if api_version == self.api_version() && kind == self.kind() {
            return Ok(());
        }
        Err(WriteError::BadRequest(format!("invalid object type: {}", printed_kind(api_version, kind))))
    }
}

/// Whether etcd does not take an object because of its size.
pub(super) fn is_too_large(error: &WriteError) -> bool {
    match error {
        WriteError::Etcd(EtcdError::TooLarge(_)) => true,
        WriteError::Etcd(EtcdError::Other(text)) => text.contains("request is too large"),
        _ => false,
    }
}

/// Why it is not known who manages what.
enum Unmanaged {
    Needs(Need),
    Failed(String),
}

enum ApplyError {
    Needs(Need),
    Conflicts(merge::Conflicts),
    Other(String),
}

impl From<UpdateError> for ApplyError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            other => Self::Other(other.to_string()),
        }
    }
}

/// A group, version and kind as Go prints them.
pub(super) fn printed_kind(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

/// Puts managers back that admission has made unreadable; returns the warning about it.
pub(super) fn mended(before: &Value, object: &mut Value) -> Option<String> {
    let (was, now) = (tree::metadata(before).get(MANAGED_FIELDS), tree::metadata(object).get(MANAGED_FIELDS));
    let why = (was != now).then(|| Managed::read(now).err()).flatten()?;
    let metadata = tree::member(object, "metadata");
    match was {
        Some(was) => drop(metadata.insert(MANAGED_FIELDS.to_owned(), was.clone())),
        None => drop(metadata.remove(MANAGED_FIELDS)),
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please \
         fix your requests: {why}"
    ))
}

/// Whether a list of managers says that there shall be none.
fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Makes of an empty list of managers what means the same and is not dropped as empty lists are. Of a custom resource an empty list says nothing (measured).
pub(super) fn keep_reset(object: &mut Value) {
    if let Some(Value::Array(entries)) = object.get_mut("metadata").and_then(|metadata| metadata.get_mut(MANAGED_FIELDS))
        && entries.is_empty()
    {
        entries.push(json!({}));
    }
}

/// Takes away who manages what.
pub(super) fn take_managed(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(MANAGED_FIELDS);
    }
}

/// An object without its managers, which are not compared as fields.
fn without_managed(object: &Value) -> Cow<'_, Value> {
    if !tree::metadata(object).contains_key(MANAGED_FIELDS) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    take_managed(&mut object);
    Cow::Owned(object)
}

fn put_managed(object: &mut Value, managed: &Managed) {
    put_entries(object, managed.entries());
}

/// Puts entries into an object, in the place of those that it has.
pub(super) fn put_entries(object: &mut Value, entries: Vec<Value>) {
    let metadata = tree::member(object, "metadata");
    if entries.is_empty() {
        metadata.remove(MANAGED_FIELDS);
    } else {
        metadata.insert(MANAGED_FIELDS.to_owned(), entries.into());
    }
}

/// Takes from a manager what nobody manages.
fn strip(managed: &mut Managed, manager: &str) {
    let Some(fields) = managed.managers.get_mut(manager) else { return };
    static SET: LazyLock<Set> = LazyLock::new(|| {
        let mut set = Set::new();
        UNMANAGED.iter().for_each(|path| set.insert(&path.iter().map(|name| PathElement::field(name)).collect::<Vec<_>>()));
        set
    });
    fields.set = fields.set.difference(&SET);
    if fields.set.is_empty() {
        managed.managers.remove(manager);
    }
}

/// Keeps the times of entries that say what they said before, if nothing else has changed either: such a write is none.
pub(super) fn keep_times(old: &Value, new: &mut Value) {
    let Some(before) = tree::metadata(old).get(MANAGED_FIELDS).and_then(Value::as_array) else { return };
    let Some(after) = tree::metadata(new).get(MANAGED_FIELDS).and_then(Value::as_array) else { return };
    let same = |(before, after): (&Value, &Value)| without_time(before).eq(without_time(after));
    if before.is_empty() || before.len() != after.len() || before == after || !before.iter().zip(after).all(same) {
        return;
    }
    let changed = tree::member(new, "metadata").insert(MANAGED_FIELDS.to_owned(), before.clone().into());
    if let Some(changed) = changed.filter(|_| new != old) {
        tree::member(new, "metadata").insert(MANAGED_FIELDS.to_owned(), changed);
    }
}

fn without_time(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entry.as_object().into_iter().flatten().filter(|(name, _)| *name != "time")
}

/// The types of an object's kind in all its versions, and the ways between these.
impl Writer {
    /// Returns the type by which the fields of a kind are merged, in a version.
    pub(super) fn field_type(&self, served: &Served, version: &str) -> ParseableType {
        self.field_types.of(&self.resources.load(), (served, version), &self.prefix)
    }

    /// Returns that of a built-in kind.
    pub(super) fn field_type_of(&self, group: &str, version: &str, kind: &str) -> ParseableType {
        self.field_types.of_built_in(group, version, kind)
    }
}

struct Types<'a> {
    writer: &'a Writer,
    target: &'a ObjectRef,
    of_scale: bool,
    conversions: &'a Conversions,
    /// What was not known when something was converted: nothing that came of it counts.
    missing: RefCell<Option<Missing>>,
}

impl Types<'_> {
    /// Returns what was missing, as an error.
    fn confirm_complete(&self) -> Result<(), Need> {
        self.missing.take().map_or(Ok(()), |missing| Err(Need::Conversion(missing)))
    }

    /// A custom resource in another version, by way of the one that is stored, as kube-apiserver converts it.
    fn custom(&self, value: &Value, version: &str) -> Result<Value, ConvertError> {
        let served = self.target.served();
        let in_another = |value: Cow<'_, Value>, version: &str| {
            if tree::text(&value, &["apiVersion"]) == version {
                return Ok(value.into_owned());
            }
            if self.target.resource.webhook.is_none() {
                let mut object = value.into_owned();
                object["apiVersion"] = version.into();
                return Ok(object);
            }
            match self.conversions.find(&value, version) {
                Ok(made) => made.map_err(ConvertError::Failed),
                Err(missing) => {
                    self.missing.borrow_mut().get_or_insert(missing);
                    Err(ConvertError::Failed(String::new()))
                }
            }
        };
        let stored = in_another(Cow::Borrowed(value), &served.stored_as)?;
        in_another(Cow::Owned(stored), version)
    }

    /// The type of what is written.
    fn own(&self) -> ParseableType {
        if self.of_scale { self.writer.field_types.of_scale() } else { self.of(self.target.served()) }
    }

    fn of(&self, served: &Served) -> ParseableType {
        self.of_version(served, &served.version)
    }

    fn of_version(&self, served: &Served, version: &str) -> ParseableType {
        self.writer.field_type(served, version)
    }

    /// Returns the name of a version of a custom resource, served or not.
    fn defined_version<'v>(&self, version: &'v str) -> Result<&'v str, ConvertError> {
        let served = self.target.served();
        if !served.defined_versions().iter().any(|defined| defined.api_version == version) {
            return Err(ConvertError::Failed(format!("request to convert CR to an invalid group/version: {version}")));
        }
        Ok(version.rsplit_once('/').map_or(version, |(_, name)| name))
    }

    /// The same resource in another version: a kind of several groups (Event) has its versions in them, a scale has one.
    fn sibling(&self, version: &str) -> Result<Arc<Resource>, ConvertError> {
        let (group, name) = version.rsplit_once('/').unwrap_or(("", version));
        let (served, resources) = (self.target.served(), self.writer.resources.load());
        let sibling = resources.find(group, name, &served.resource).filter(|sibling| sibling.served.storage.id == served.storage.id);
        sibling.filter(|_| !self.of_scale).cloned().ok_or_else(|| ConvertError::MissingVersion(version.to_owned()))
    }
}

impl Converter for Types<'_> {
    fn convert<'v>(&self, object: &'v TypedValue<'_>, version: &str) -> Result<TypedValue<'v>, ConvertError> {
        let value = object.value();
        if tree::text(value, &["apiVersion"]) == version {
            return Ok(object.borrow());
        }
        let served = self.target.served();
        let (converted, typed) = if served.is_custom() && !self.of_scale {
            let name = self.defined_version(version)?;
            (self.custom(value, version)?, self.of_version(served, name))
        } else {
            let sibling = self.sibling(version)?;
            let stored = match (Version::of(tree::text(value, &["apiVersion"]), &served.kind), value) {
                (Some(from), Value::Object(members)) => from
                    .stored(members, JSON_BYTES_MAX)
                    .map_err(|_| ConvertError::Failed("the object is too large in its stored version".to_owned()))?,
                _ => value.clone(),
            };
            (sibling.encoders.whole().encoder.tree(&stored).into_owned(), self.of(&sibling.served))
        };
        TypedValue::new(Cow::Owned(converted), &typed, Duplicates::Allowed).map_err(|error| ConvertError::Failed(error.to_string()))
    }

    fn type_of(&self, object: &TypedValue<'_>, version: &str) -> Result<ParseableType, ConvertError> {
        if tree::text(object.value(), &["apiVersion"]) == version {
            return Ok(object.parseable_type().clone());
        }
        // Of a custom resource an object that does not convert is an error, even where only its type is asked for.
        if self.target.served().is_custom() && !self.of_scale {
            return Ok(self.convert(object, version)?.parseable_type().clone());
        }
        self.sibling(version).map(|sibling| self.of(&sibling.served))
    }
}
