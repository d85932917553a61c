//! Makes a stored value servable once: splices `resourceVersion`, extracts labels and declared fields.

use std::{borrow::Cow, ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    defaults, definition, encode, field,
    members::Members,
    object_meta, older,
    proto::{self, ProtoError},
    scan::{self, Order, Place, Scan},
};
use go::indent;
use go::quote::quoted;
use model::{Broken, DEFAULTED_BYTES_MAX, ManagedFields, Object, Parts, Revision, Shape, Storage, Structural, Unread, shard::hash};

/// Kind and apiVersion under which a definition is kept (spec api-surface §10.2).
const DEFINITION: [&str; 2] = ["CustomResourceDefinition", "apiextensions.k8s.io/v1"];

/// How many times as large as what is stored an object may be kept, with the defaults that it gets when it is read. A larger one is kept as it is stored, and
/// gets them each time that it is shown.
const GROWTH_MAX: usize = 2;

/// Makes the value of `key`, written at `revision`, servable. `prefix_len`: bytes of the key before the namespace or name
/// (`/registry/configmaps/`).
///
/// A value written by kube-apiserver is spliced as it is, in one pass. Others (another member order, line breaks, a custom resource with metadata that is
/// none) are written anew first.
/// A `resourceVersion` in the value is replaced. Name and namespace are the key's, whatever the value's metadata says: the key is where
/// clients found it.
///
/// # Errors
/// [`Broken`] with what was found and what to do: encrypted, neither valid JSON nor valid protobuf, another kind or apiVersion than the shape has, a key
/// with too few or too many parts; a field that no minor has whose schema is here; defaults that would add more than [`DEFAULTED_BYTES_MAX`].
pub fn ingest(storage: &Storage, prefix_len: usize, key: Bytes, value: &[u8], revision: Revision) -> Result<Object, Broken> {
    let made = place(storage.namespaced, prefix_len, &key).and_then(|place| made(storage, place, value, revision));
    match made {
        Ok((object, None)) => Ok(object),
        Ok((object, Some(why))) => Err(Broken { key, revision, why, known_part: Some(Arc::new(object)) }),
        Err(why) => Err(Broken { key, revision, why, known_part: None }),
    }
}

/// How an object of another version is made of what is stored.
#[derive(Clone, Copy, Debug)]
pub struct Remade<'s> {
    /// What is stored, under the other `apiVersion`, as JSON.
    pub stored: &'s str,
    /// What sets its defaults.
    pub schema: &'s Arc<Structural>,
    /// What the other version knows.
    pub pruned_by: Option<&'s Arc<Structural>>,
}

/// Makes an object of another version servable, as `value` has it, like [`ingest`]: kept as it is stored if it would be much larger.
///
/// # Errors
/// See [`ingest`].
pub fn ingest_remade(
    (storage, prefix_len): (&Storage, usize),
    key: Bytes,
    (value, remade): (&[u8], Remade<'_>),
    revision: Revision,
) -> Result<Object, Broken> {
    if value.len() > remade.stored.len().saturating_mul(GROWTH_MAX)
        && let Shape::Custom { kind, api_versions, .. } = &storage.shape
        && let Ok(place) = place(storage.namespaced, prefix_len, &key)
        && let Ok(shown) = std::str::from_utf8(value.trim_ascii_end())
        && let Some(text) = regular(remade.stored, remade.schema)
    {
        let paths = field::paths(&storage.fields);
        let spliced = spliced((&text, Some(shown)), Head::Custom { kind, api_versions }, storage, &paths, place, revision);
        if let Ok(Some(object)) = spliced
            && let Some(object) = object.condense(remade.schema.clone(), remade.pruned_by.cloned())
        {
            return Ok(object);
        }
    }
    ingest(storage, prefix_len, key, value, revision)
}

/// A text from which a schema can make another.
fn regular<'t>(text: &'t str, schema: &Structural) -> Option<Cow<'t, str>> {
    shown(text, schema).ok().flatten().map(|(text, _)| text).filter(|text| is_one_line(text))
}

/// Where an object is.
#[derive(Clone, Copy)]
struct Key<'k> {
    key: &'k [u8],
    /// Where namespace (or name) and name start.
    scope_at: u16,
    name_at: u16,
}

fn place(namespaced: bool, prefix_len: usize, key: &[u8]) -> Result<Key<'_>, String> {
    let rest = key.get(prefix_len..).ok_or("the key is shorter than its prefix")?;
    let rest = std::str::from_utf8(rest).map_err(|_| "the key is not UTF-8")?;
    let (namespace, name) = if namespaced { rest.split_once('/').unwrap_or(("", "")) } else { ("-", rest) };
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        let wanted = if namespaced { "namespace/name" } else { "a name" };
        return Err(format!("the key ends in {} where {wanted} is expected: not an object of this resource", quoted(rest)));
    }
    let offset = |at: usize| u16::try_from(at).map_err(|_| "the key is longer than 65,535 bytes".to_owned());
    Ok(Key { key, scope_at: offset(prefix_len)?, name_at: offset(key.len() - name.len())? })
}

/// The object, and why it is not the whole one, if so.
fn made(storage: &Storage, key: Key<'_>, value: &[u8], revision: Revision) -> Result<(Object, Option<String>), String> {
    let (text, unknown_fields) = readable(value)?;
    object(storage, key, text.as_ref(), revision).map(|object| (object, unknown_fields))
}

fn object(storage: &Storage, key: Key<'_>, text: &str, revision: Revision) -> Result<Object, String> {
    let paths = field::paths(&storage.fields);
    let splice = |text: &str, head: Head<'_>, shown: Option<&str>| spliced((text, shown), head, storage, &paths, key, revision);
    let whole = |text: &str, head: Head<'_>| splice(text, head, None);
    match &storage.shape {
        Shape::BuiltIn { kind, api_version } => {
            let head = Head::BuiltIn { kind, api_version };
            shaped(&defaults::applied(kind, text), head, whole)
        }
        Shape::Custom { kind, api_versions, schema } => {
            let head = Head::Custom { kind, api_versions };
            match schema.as_ref().filter(|schema| !schema.fits(text)) {
                None => shaped(text, head, whole),
                Some(schema) => defaulted(text, schema, head, splice),
            }
        }
        Shape::Definition => {
            let [kind, api_version] = DEFINITION;
            let text = match definition::converted(text)? {
                Some(v1) => Cow::Owned(v1),
                None => Cow::Borrowed(text),
            };
            let head = Head::BuiltIn { kind, api_version };
            shaped(&text, head, whole)
        }
    }
}

/// A custom resource as the schema of its definition now has it, which is another one than is stored.
fn defaulted(
    text: &str,
    schema: &Arc<Structural>,
    head: Head<'_>,
    splice: impl Fn(&str, Head<'_>, Option<&str>) -> Result<Option<Object>, String>,
) -> Result<Object, String> {
    // What is no object is told of later.
    let Some((text, shown)) = shown(text, schema)? else { return shaped(text, head, |text, head| splice(text, head, None)) };
    if shown.len() <= text.len().saturating_mul(GROWTH_MAX) {
        return shaped(&shown, head, |text, head| splice(text, head, None));
    }
    condensed(&text, &shown, schema, head, splice)
}

/// The object as it is stored, which gets its defaults each time that it is shown.
fn condensed(
    text: &str,
    shown: &str,
    schema: &Arc<Structural>,
    head: Head<'_>,
    splice: impl Fn(&str, Head<'_>, Option<&str>) -> Result<Option<Object>, String>,
) -> Result<Object, String> {
    let spliced = |text: &str, shown: &str| {
        let object = if is_one_line(text) { splice(text, head, Some(shown))? } else { None };
        Ok::<_, String>(object.and_then(|object| object.condense(schema.clone(), None)))
    };
    if let Some(object) = spliced(text, shown)? {
        return Ok(object);
    }
    let text = rewritten(text, head)?;
    let (text, shown) = self::shown(&text, schema)?.ok_or(NO_PLACE)?;
    spliced(&text, &shown)?.ok_or_else(|| NO_PLACE.to_owned())
}

/// Returns a custom resource as a schema has it, behind the text that it was made of; `None` of what is no object.
///
/// # Errors
/// Its defaults would add more than [`DEFAULTED_BYTES_MAX`].
pub fn shown<'t>(text: &'t str, schema: &Structural) -> Result<Option<(Cow<'t, str>, String)>, String> {
    let made = |text: &str| {
        let mut shown = Vec::with_capacity(text.len() * GROWTH_MAX);
        schema.read_into(text.trim_ascii_end(), &mut shown)?;
        String::from_utf8(shown).map_err(|_| Unread::Irregular)
    };
    let too_large = || {
        format!(
            "the defaults of its definition would add more than {DEFAULTED_BYTES_MAX} bytes to it: make the defaults smaller, or delete the object"
        )
    };
    match made(text) {
        Ok(shown) => return Ok(Some((Cow::Borrowed(text), shown))),
        Err(Unread::TooLarge) => return Err(too_large()),
        Err(Unread::Irregular) => {}
    }
    let Some(sorted) = sorted(text) else { return Ok(None) };
    match made(&sorted) {
        Ok(shown) => Ok(Some((Cow::Owned(sorted), shown))),
        Err(Unread::TooLarge) => Err(too_large()),
        Err(Unread::Irregular) => Ok(None),
    }
}

fn sorted(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    String::from_utf8(encode::custom_order(value.as_object()?)).ok()
}

const NO_PLACE: &str = "not a Kubernetes object: it has no place for resourceVersion";

/// The value as JSON, unless it is of a form we do not serve; and what of it is not in the JSON.
fn readable(value: &[u8]) -> Result<(Cow<'_, str>, Option<String>), String> {
    if value.starts_with(proto::PREFIX) {
        return from_protobuf(value).map(|(text, unknown_fields)| (Cow::Owned(text), unknown_fields));
    }
    if value.starts_with(b"k8s:enc:") {
        let provider = value.split(|b| *b == b':').nth(2).map(String::from_utf8_lossy).unwrap_or_default();
        return Err(format!(
            "an encrypted value (k8s:enc:{provider}:): decrypt it by rewriting the objects with the identity provider first in kube-apiserver's \
             --encryption-provider-config; encrypted values are not served"
        ));
    }
    if value.trim_ascii().is_empty() {
        return Err("an empty value: delete the key or write the object again".to_owned());
    }
    let text = std::str::from_utf8(value.trim_ascii_end());
    text.map(|text| (Cow::Borrowed(text), None)).map_err(|e| format!("not UTF-8 (byte {}): write the object again", e.valid_up_to()))
}

/// What kube-apiserver stores of built-in types unless it is told otherwise (spec api-surface §10.2), as the JSON that it would print.
fn from_protobuf(value: &[u8]) -> Result<(String, Option<String>), String> {
    let failed = |error: ProtoError| format!("a protobuf value (k8s\\0) that cannot be read: {error}");
    let unknown = proto::open(value).map_err(failed)?;
    let message = proto::message(unknown.api_version, unknown.kind)
        .ok_or_else(|| format!("a protobuf value of a kind that is not known: {} {}", unknown.api_version, quoted(unknown.kind)))?;
    let mut json = Vec::with_capacity(value.len() * 2);
    let mut unknown_fields = message.stored_to_json(unknown.raw, &mut json).map_err(failed)?;
    if unknown.says_more {
        unknown_fields.add_envelope();
    }
    let json = String::from_utf8(json).map_err(|_| "a protobuf value whose text is not UTF-8".to_owned())?;
    let why = (!unknown_fields.is_empty()).then(|| {
        format!(
            "{} {}: {unknown_fields}: fields that this release of watchcache does not know: take a newer one, or serve the objects without these fields \
             (--serve-unknown-fields)",
            unknown.api_version, unknown.kind
        )
    });
    Ok((json, why))
}

/// The type head that a canonical value starts with.
#[derive(Clone, Copy)]
enum Head<'s> {
    BuiltIn { kind: &'s str, api_version: &'s str },
    Custom { kind: &'s str, api_versions: &'s [String] },
}

impl Head<'_> {
    fn order(self) -> Order {
        match self {
            Self::BuiltIn { .. } => Order::Struct,
            Self::Custom { .. } => Order::Sorted,
        }
    }

    /// Bytes of the head, if `text` starts with it.
    fn len_in(self, text: &str) -> Option<usize> {
        let rest = match self {
            Self::BuiltIn { kind, api_version } => text
                .strip_prefix("{\"kind\":\"")?
                .strip_prefix(kind)?
                .strip_prefix("\",\"apiVersion\":\"")?
                .strip_prefix(api_version)?
                .strip_prefix("\",")?,
            Self::Custom { api_versions, .. } => {
                let (version, rest) = text.strip_prefix("{\"apiVersion\":\"")?.split_once('"')?;
                api_versions.iter().find(|v| *v == version)?;
                rest.strip_prefix(',')?
            }
        };
        Some(text.len() - rest.len())
    }

    /// Whether a value of this kind and apiVersion is one of ours.
    fn check(self, kind: Option<&str>, api_version: Option<&str>) -> Result<(), String> {
        let (wanted, versions) = match self {
            Self::BuiltIn { kind, api_version } => (kind, api_version.to_owned()),
            Self::Custom { kind, api_versions } => (kind, api_versions.join(", ")),
        };
        let known = match self {
            Self::BuiltIn { api_version: ours, .. } => api_version == Some(ours),
            Self::Custom { api_versions, .. } => api_version.is_some_and(|v| api_versions.iter().any(|ours| ours == v)),
        };
        if kind != Some(wanted) {
            return Err(wrong_kind(kind.unwrap_or(""), wanted));
        }
        if !known {
            let advice = match self {
                Self::BuiltIn { .. } => "write the object again through a kube-apiserver that reads both",
                Self::Custom { .. } => {
                    "add that version to the definition again (it need not be served), and write each object once before it is removed"
                }
            };
            return Err(format!("apiVersion {} where {versions} is expected: {advice}", quoted(api_version.unwrap_or(""))));
        }
        Ok(())
    }
}

/// Splices the value as it is when it is canonical; else without whitespace; else re-encoded in canonical order.
fn shaped(text: &str, head: Head<'_>, splice: impl Fn(&str, Head<'_>) -> Result<Option<Object>, String>) -> Result<Object, String> {
    if is_one_line(text)
        && let Some(object) = splice(text, head)?
    {
        return Ok(object);
    }
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| invalid(&e))?;
    let dense = String::from_utf8(indent::compact(text.as_bytes())).map_err(|_| "not UTF-8".to_owned())?;
    if let Some(object) = splice(&dense, head)? {
        return Ok(object);
    }
    splice(&rewritten(&dense, head)?, head)?.ok_or_else(|| NO_PLACE.to_owned())
}

/// A line break would end a watch frame early.
fn is_one_line(text: &str) -> bool {
    memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none()
}

/// The value in canonical order, by way of a tree.
fn rewritten(text: &str, head: Head<'_>) -> Result<String, String> {
    let mut object: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(|e| invalid(&e))?;
    if let Head::BuiltIn { kind, api_version } = head {
        older::renew(kind, api_version, &mut object);
    }
    let word = |name: &str| object.get(name).and_then(Value::as_str);
    head.check(word("kind"), word("apiVersion"))?;
    if object.get("metadata").is_none_or(Value::is_null) {
        object.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    let written = match head {
        Head::BuiltIn { .. } => encode::builtin_order(&object),
        Head::Custom { .. } => {
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            object_meta::coerce(metadata.ok_or("not a Kubernetes object: its metadata is no object: write the object again")?);
            encode::custom_order(&object)
        }
    };
    String::from_utf8(written).map_err(|_| "not UTF-8".to_owned())
}

/// One pass; `None` when the value is not canonical. With the text as which it is shown, if that is another one: fields are those of that.
fn spliced(
    (text, shown): (&str, Option<&str>),
    head: Head<'_>,
    storage: &Storage,
    paths: &[&[String]],
    key: Key<'_>,
    revision: Revision,
) -> Result<Option<Object>, String> {
    let Some(head_len) = head.len_in(text) else { return Ok(None) };
    let scan = match scan::scan(text, head.order(), paths) {
        Ok(scan) if !scan.odd => scan,
        Ok(_) => return Ok(None),
        // Of its metadata goes what does not fit.
        Err(e) if e.is_data() && matches!(head, Head::Custom { .. }) => return Ok(None),
        Err(e) => return Err(invalid(&e)),
    };
    if let Head::Custom { kind, .. } = head
        && scan.kind.as_ref().is_none_or(|found| found.0 != kind)
    {
        let found = scan.kind.as_ref().map_or("", |found| &*found.0);
        return Err(wrong_kind(found, kind));
    }
    let shown_scan = match shown.filter(|_| !paths.is_empty()) {
        Some(shown) => Some(scan::scan(shown, head.order(), paths).map_err(|e| invalid(&e))?),
        None => None,
    };
    let head_at = match head {
        Head::BuiltIn { .. } => 0,
        Head::Custom { .. } => before_head(shown.unwrap_or(text), head_len)?,
    };
    let Tail { tail, rv_at, managed_end, managed_fields } = tail(text, head_len, &scan, revision)?;
    let Scan { uid, labels, found, .. } = scan;
    let uid_hash = hash(uid.as_ref().map_or("", |uid| &uid.0));
    let (Key { key, scope_at, name_at }, tail) = (key, &tail[..]);
    let found = shown_scan.map_or(found, |scan| scan.found);
    let (labels, fields) = (&labels.into(), &field::rendered(&storage.fields, &found)[..]);
    Ok(Some(Object::new(Parts {
        key,
        scope_at,
        name_at,
        revision,
        tail,
        head_at,
        rv_at,
        managed_end,
        managed_fields,
        uid_hash,
        labels,
        fields,
    })))
}

/// Returns what is said of a value of another kind.
fn wrong_kind(found: &str, wanted: &str) -> String {
    format!("kind {} where {} is expected: another resource's value under this prefix", quoted(found), quoted(wanted))
}

/// Returns how many bytes after the head belong to members that sort before `apiVersion`: a custom resource may have them, and shows them first. They come
/// right after the head only when the value was written anew, which puts `apiVersion` first.
fn before_head(text: &str, head_len: usize) -> Result<u32, String> {
    let after = text[head_len..].strip_prefix('"').unwrap_or("");
    if after >= "apiVersion" {
        return Ok(0);
    }
    let members = Members::read(text).map_err(|e| invalid(&e))?;
    let early = members.iter().filter(|(name, _)| *name < "apiVersion");
    let len = |(name, value): (&str, &str)| {
        let mut quoted = Vec::new();
        encode::string_into(name, &mut quoted);
        quoted.len() + ":".len() + value.len() + ",".len()
    };
    u32::try_from(early.map(len).sum::<usize>()).map_err(|_| "the value is larger than 4 GiB".to_owned())
}

/// See [`Parts`].
struct Tail {
    tail: Vec<u8>,
    rv_at: (u32, u32),
    managed_end: u32,
    managed_fields: Option<ManagedFields>,
}

/// What follows the head, with the revision in its place, and without managed fields that are kept apart.
fn tail(text: &str, head_len: usize, scan: &Scan<'_>, revision: Revision) -> Result<Tail, String> {
    let (start, end, before, after) = match scan.place {
        Place::Instead(start, end) => (start, end, "\"", "\""),
        Place::Before(at) => (at, at, "\"resourceVersion\":\"", "\","),
        Place::Last => {
            let (at, empty) = end_of_metadata(text)?;
            (at, at, if empty { "\"resourceVersion\":\"" } else { ",\"resourceVersion\":\"" }, "\"")
        }
    };
    // What is between its brackets, if it is a list.
    let list = scan.managed.clone().filter(|list| text[list.clone()].starts_with('[')).map(|list| list.start + 1..list.end - 1);
    let cut = list.and_then(|list| Some((ManagedFields::cut(text[list.clone()].as_bytes())?, list)));
    let (managed_fields, list) = cut.map_or((None, None), |(managed_fields, list)| (Some(managed_fields), Some(list)));
    let cut_len = list.as_ref().map_or(0, Range::len);
    let digits = encode::revision_len(revision.0);
    let mut tail = Vec::with_capacity(text.len() - head_len - (end - start) + before.len() + digits + after.len() - cut_len);
    let keep = |part: Range<usize>, tail: &mut Vec<u8>| match &list {
        Some(list) if part.contains(&list.start) => {
            tail.extend_from_slice(&text.as_bytes()[part.start..list.start]);
            tail.extend_from_slice(&text.as_bytes()[list.end..part.end]);
        }
        _ => tail.extend_from_slice(&text.as_bytes()[part]),
    };
    keep(head_len..start, &mut tail);
    tail.extend_from_slice(before.as_bytes());
    let offset = |at: usize| u32::try_from(at).map_err(|_| "the value is larger than 4 GiB".to_owned());
    let rv_at = (offset(tail.len())?, offset(tail.len() + digits)?);
    encode::revision_into(revision.0, &mut tail);
    tail.extend_from_slice(after.as_bytes());
    keep(end..text.len(), &mut tail);
    // Before or behind the revision, as in the text.
    let end_of = |at: usize| if at <= start { at - head_len - cut_len } else { tail.len() - (text.len() - at) };
    let managed_end = offset(scan.managed.as_ref().map_or(0, |list| end_of(list.end)))?;
    Ok(Tail { tail, rv_at, managed_end, managed_fields })
}

/// Where the closing brace of `metadata` stands, and whether nothing is before it. Rare: real objects have a later member.
fn end_of_metadata(text: &str) -> Result<(usize, bool), String> {
    let members = Members::read(text).map_err(|e| invalid(&e))?;
    let metadata = members.raw("metadata").ok_or("metadata is missing")?;
    let inner = metadata.get(1..metadata.len() - 1).ok_or("metadata is no object")?;
    let at = metadata.as_ptr().addr() - text.as_ptr().addr() + metadata.len() - 1;
    Ok((at, inner.trim_ascii().is_empty()))
}

pub(crate) fn invalid(e: &serde_json::Error) -> String {
    if e.is_data() {
        format!("not a Kubernetes object: {e}: write the object again")
    } else {
        format!("not valid JSON: {e}: write the object again")
    }
}

/// The ConfigMap `default/NAME` with a uid made of its name; for tests.
#[cfg(any(test, feature = "testing"))]
pub fn test_config_map(name: &str, revision: u64, data: &str) -> std::sync::Arc<Object> {
    let metadata = format!(r#"{{"name":"{name}","namespace":"default","uid":"{name}-uid"}}"#);
    let value = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"a":"{data}"}}}}"#);
    let key = format!("/registry/configmaps/default/{name}").into();
    let made = ingest(&Storage::test_config_maps(), "/registry/configmaps/".len(), key, value.as_bytes(), Revision(revision));
    std::sync::Arc::new(made.expect("a ConfigMap"))
}

#[cfg(test)]
mod tests;
