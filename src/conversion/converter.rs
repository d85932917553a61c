//! Converts the objects of one resource between the stored version and another one.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures_util::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use model::{Object, Storage};
use offload::{LARGE_BYTES, run_blocking};
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use ::webhook::Held;
use go::envelope::kind_of;

use super::{
    growth::may_grow,
    metadata,
    review::ReviewVersion,
    webhook::{CALLS_AT_ONCE, Caller},
};
use catalogue::{DefinedConversion, Served};
use codec::{
    Encoder,
    ingest::{self, Remade, ingest, ingest_remade},
    stored,
};
use telemetry::ConversionFailure;

/// Objects of one call.
pub(crate) const OBJECTS_PER_CALL: usize = 100;
/// Bytes of the objects of one call, unless it has but one.
pub(crate) const BYTES_PER_CALL: usize = 1 << 20;

/// Why an object is not there in another version. What is told is kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConversionError {
    /// 500.
    #[error("{0}")]
    Failed(String),
    /// 429: too many others wait for the same webhook.
    #[error("too many requests wait for the conversion webhook of {0}, please try again later")]
    Busy(String),
}

impl ConversionError {
    /// Objects are missing, or there are too many of them.
    #[must_use]
    pub fn miscounted(made: usize, wanted: usize) -> Self {
        Self::Failed(format!("the conversion has made {made} objects of {wanted}"))
    }
}

/// See the file's header.
pub struct Converter {
    conversion: Arc<DefinedConversion>,
    caller: Option<Arc<Caller>>,
    kind: String,
    /// apiVersion of new values, and of the version that is shown.
    stored_as: String,
    shown_as: String,
    /// What objects are written with, by the apiVersion under which they are stored.
    encoders: BTreeMap<String, Encoder>,
    /// Bytes of a key before the namespace or name.
    prefix_len: usize,
}

impl Converter {
    /// Returns the converter to a served version, whose definition says how it is made. `prefix` is `/registry/`.
    #[must_use]
    pub fn new(served: &Served, conversion: Arc<DefinedConversion>, caller: Option<Arc<Caller>>, prefix: &str) -> Self {
        let encoder = |version: &String| Encoder::custom(version, &served.kind, &served.list_kind);
        Self {
            encoders: conversion.versions.iter().map(|(version, _)| (version.clone(), encoder(version))).collect(),
            prefix_len: conversion.shown.key_prefix_len(prefix),
            conversion,
            caller,
            kind: served.kind.clone(),
            stored_as: served.stored_as.clone(),
            shown_as: served.api_version(),
        }
    }

    /// What the converted objects are like.
    #[must_use]
    pub fn shown(&self) -> &Arc<Storage> {
        &self.conversion.shown
    }

    /// The definition's name.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.conversion.definition
    }

    /// Returns whether an object is stored in another version than new values are.
    #[must_use]
    pub fn is_outdated(&self, object: &Object) -> bool {
        self.conversion.version_of(object, &self.stored_as) != self.stored_as
    }

    /// Returns stored objects in the version that is shown, in the same order, on behalf of a request.
    ///
    /// # Errors
    /// See [`ConversionError`].
    pub async fn objects(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ConversionError> {
        let _waits = self.wait()?;
        self.all(objects).await
    }

    /// The same on behalf of the server, which waits whoever else does.
    pub(crate) async fn all(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ConversionError> {
        let mut calls: Vec<BoxFuture<'_, Result<Vec<Arc<Object>>, ConversionError>>> = Vec::new();
        for piece in pieces(objects) {
            calls.push(Box::pin(self.piece(piece)));
        }
        let stored = objects.iter().map(|object| object.tail_len()).sum();
        let (mut made, mut bytes) = (Vec::with_capacity(objects.len()), 0_usize);
        let mut calls = stream::iter(calls).buffered(CALLS_AT_ONCE);
        while let Some(piece) = calls.try_next().await? {
            bytes += piece.iter().map(|object| object.tail_len()).sum::<usize>();
            if self.caller.is_some() && !may_grow(stored, bytes) {
                let definition = &self.conversion.definition;
                return Err(ConversionError::Failed(format!(
                    "the conversion webhook of {definition} makes objects of {stored} bytes too large"
                )));
            }
            made.extend(piece);
        }
        Ok(made)
    }

    /// Returns the tree of an object of the version that is shown, as it is to be stored.
    ///
    /// # Errors
    /// See [`ConversionError`].
    pub async fn to_stored(&self, tree: &Value) -> Result<Value, ConversionError> {
        let mut tree = tree.clone();
        if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("selfLink");
        }
        let mut converted = self.raw(&tree, &self.stored_as).await?;
        self.prune(&mut converted, &self.stored_as);
        Ok(converted)
    }

    /// Returns the tree of a stored object in the version that is shown.
    ///
    /// # Errors
    /// See [`ConversionError`].
    pub async fn from_stored(&self, tree: &Value) -> Result<Value, ConversionError> {
        let mut converted = self.raw(tree, &self.shown_as).await?;
        self.prune(&mut converted, &self.shown_as);
        Ok(converted)
    }

    /// Returns a tree in another version, as the webhook makes it: nothing is pruned.
    ///
    /// # Errors
    /// See [`ConversionError`].
    pub async fn raw(&self, tree: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let _waits = self.wait()?;
        let tree = tree.clone();
        let from = tree["apiVersion"].as_str().unwrap_or_default().to_owned();
        let (made, _held) = self.converted(&from, api_version, vec![tree]).await?;
        made.into_iter().next().ok_or_else(|| ConversionError::miscounted(0, 1))
    }

    /// Waits with others who ask the same webhook.
    fn wait(&self) -> Result<Option<tokio::sync::OwnedSemaphorePermit>, ConversionError> {
        let Some(caller) = &self.caller else { return Ok(None) };
        caller.waiting.clone().try_acquire_owned().map(Some).map_err(|_| ConversionError::Busy(self.conversion.definition.clone()))
    }

    async fn piece(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ConversionError> {
        let mut made: Vec<Option<Arc<Object>>> = vec![None; objects.len()];
        let mut by_version: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, object) in objects.iter().enumerate() {
            by_version.entry(self.conversion.version_of(object, &self.stored_as)).or_default().push(at);
        }
        for (from, places) in by_version {
            let read = || places.iter().map(|at| self.read(&objects[*at], from)).collect::<Result<Vec<_>, _>>();
            let bytes = places.iter().map(|at| objects[*at].tail_len()).sum();
            let (trees, _held) = self.converted(from, &self.shown_as, working(bytes, read)?).await?;
            working(bytes, || {
                for (at, mut tree) in places.iter().zip(trees) {
                    self.prune(&mut tree, &self.shown_as);
                    made[*at] = Some(self.object((&objects[*at], from), &tree)?);
                }
                Ok(())
            })?;
        }
        let (wanted, made): (usize, Vec<Arc<Object>>) = (made.len(), made.into_iter().flatten().collect());
        if made.len() == wanted { Ok(made) } else { Err(ConversionError::miscounted(made.len(), wanted)) }
    }

    /// The tree of a stored object, as the schema of its version has it.
    fn read(&self, object: &Object, from: &str) -> Result<Value, ConversionError> {
        let (Some(encoder), Some(schema)) = (self.encoders.get(from), self.conversion.schema(from)) else {
            return Err(ConversionError::Failed(format!("request to convert CR from an invalid group/version: {from}")));
        };
        let mut json = Vec::with_capacity(object.tail_len() + 64);
        encoder.object_into(object, &mut json);
        let failed = |why: &dyn std::fmt::Display| ConversionError::Failed(format!("{}: {why}", String::from_utf8_lossy(object.key())));
        let json = String::from_utf8(json).map_err(|error| failed(&error))?;
        // Where all values are of one version, they fit its schema since they were read.
        let schema = schema.filter(|schema| self.conversion.version_field.is_some() && !schema.fits(&json));
        let shown = schema.map_or(Ok(None), |schema| ingest::shown(&json, schema)).map_err(|why| failed(&why))?;
        let mut tree: Value = serde_json::from_str(shown.as_ref().map_or(&json, |(_, shown)| shown)).map_err(|error| failed(&error))?;
        if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        Ok(tree)
    }

    /// The object of a tree in the version that is shown.
    fn object(&self, (stored_object, from): (&Object, &str), tree: &Value) -> Result<Arc<Object>, ConversionError> {
        let members = tree.as_object().ok_or_else(|| ConversionError::Failed("the converted object is none".to_owned()))?;
        let (shown, revision) = (&self.conversion.shown, stored_object.revision);
        let value = stored::encode(shown, &self.shown_as, members);
        let key = bytes::Bytes::copy_from_slice(stored_object.key());
        let made = match self.conversion.shared_schema(from).filter(|_| self.caller.is_none() || from == self.shown_as) {
            None => ingest(shown, self.prefix_len, key, &value, revision),
            // Nothing but the schemas has made it.
            Some(schema) => {
                let mut text = format!("{{\"apiVersion\":\"{}\",", self.shown_as).into_bytes();
                stored_object.stored_tail_into(revision, &mut text);
                let pruned_by = self.conversion.shared_schema(&self.shown_as);
                let remade = Remade { stored: &String::from_utf8_lossy(&text), schema, pruned_by };
                ingest_remade((shown, self.prefix_len), key, (&value, remade), revision)
            }
        };
        made.map(Arc::new).map_err(|broken| ConversionError::Failed(format!("{}: {}", String::from_utf8_lossy(&broken.key), broken.why)))
    }

    fn prune(&self, tree: &mut Value, api_version: &str) {
        if let Some(Some(schema)) = self.conversion.schema(api_version) {
            schema.prune(tree);
        }
    }

    /// The trees in another version, and what counts them.
    async fn converted(&self, from: &str, to: &str, trees: Vec<Value>) -> Result<(Vec<Value>, Held), ConversionError> {
        let mut held = Held::default();
        if self.conversion.schema(from).is_none() {
            return Err(ConversionError::Failed(format!("request to convert CR from an invalid group/version: {from}")));
        }
        let is_head = |(name, value): (&String, &Value)| match name.as_str() {
            "apiVersion" | "kind" => true,
            "metadata" => value.as_object().is_some_and(serde_json::Map::is_empty),
            _ => false,
        };
        let is_empty = |tree: &Value| tree.as_object().is_some_and(|members| members.iter().all(is_head));
        let caller = match &self.caller {
            Some(caller) if from != to && !trees.iter().all(is_empty) => caller,
            _ => {
                let relabelled = |mut tree: Value| {
                    tree["apiVersion"] = to.into();
                    tree
                };
                return Ok((trees.into_iter().map(relabelled).collect(), held));
            }
        };
        if trees.len() > 1 {
            match self.asked(caller, from, to, &trees, &mut held).await {
                Ok(made) => return Ok((made, held)),
                // Which object is it? kube-apiserver asks about each alone, and so a webhook may have learnt to answer.
                Err(Failure::OfAnswer(..)) => {}
                Err(Failure::OfCall(why)) => return Err(ConversionError::Failed(why)),
            }
        }
        held = Held::default();
        let mut made = Vec::with_capacity(trees.len());
        for tree in &trees {
            let one = self.asked(caller, from, to, std::slice::from_ref(tree), &mut held).await;
            made.extend(one.map_err(|(Failure::OfAnswer(_, why) | Failure::OfCall(why))| ConversionError::Failed(why))?);
        }
        Ok((made, held))
    }

    /// Asks the webhook once.
    async fn asked(&self, caller: &Caller, from: &str, to: &str, trees: &[Value], held: &mut Held) -> Result<Vec<Value>, Failure> {
        let began = Instant::now();
        let answer = self.answer(caller, from, to, trees, held).await;
        let failure = answer.as_ref().err().map(|failure| match failure {
            Failure::OfCall(_) => ConversionFailure::Call,
            Failure::OfAnswer(why, _) => *why,
        });
        caller.metrics.conversion_webhook_called(failure, began.elapsed());
        answer
    }

    async fn answer(&self, caller: &Caller, from: &str, to: &str, trees: &[Value], held: &mut Held) -> Result<Vec<Value>, Failure> {
        let of = kind_of(from, &self.kind);
        let Some(review) = ReviewVersion::first_of(&caller.webhook.reviews) else {
            return Err(Failure::OfCall("no supported conversion review versions".to_owned()));
        };
        let uid = Uuid::new_v4().to_string();
        let texts: Vec<Vec<u8>> = trees.iter().map(|tree| stored::render(true, tree)).collect();
        let request = review.request(&uid, to, texts.iter().map(Vec::as_slice));
        let failed = |why: &str| format!("conversion webhook for {of} failed: {why}");
        let answer = caller.call(&self.conversion.definition, request, held).await.map_err(|why| Failure::OfCall(failed(&why)))?;
        working(answer.len(), || {
            let objects =
                review.objects(&uid, &answer).map_err(|why| Failure::OfAnswer(ConversionFailure::MalformedResponse, failed(&why)))?;
            if objects.len() != trees.len() {
                let (count, wanted) = (objects.len(), trees.len());
                return Err(Failure::OfAnswer(
                    ConversionFailure::PartialResponse,
                    format!("conversion webhook for {of} returned {count} objects, expected {wanted}"),
                ));
            }
            let confirmed = objects.iter().zip(trees).map(|(object, tree)| self.confirmed(&of, to, tree, object.get()));
            confirmed.collect::<Result<Vec<_>, _>>().map_err(|why| Failure::OfAnswer(ConversionFailure::InvalidObject, why))
        })
    }

    /// One object of an answer, if it is the one that was sent, with the metadata that it may have.
    fn confirmed(&self, of: &str, to: &str, original: &Value, json: &str) -> Result<Value, String> {
        if json == "null" {
            return Err("unexpected end of JSON input".to_owned());
        }
        let mut object: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if !object.is_object() {
            return Err(format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", go::json::kind(&object)));
        }
        let kind = match object.get("kind").and_then(Value::as_str) {
            Some(kind) if !kind.is_empty() => kind.to_owned(),
            _ => return Err(format!("Object 'Kind' is missing in '{json}'")),
        };
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = if version.matches('/').count() > 1 { "" } else { version };
        let invalid = |why: String| format!("conversion webhook for {of} returned invalid object at index 0: {why}");
        if version != to {
            return Err(invalid(format!("invalid groupVersion (expected {to}, received {version})")));
        }
        if kind != self.kind {
            return Err(invalid(format!("invalid kind (expected {}, received {kind})", self.kind)));
        }
        metadata::confirm_same(original, &object).map_err(|why| format!("conversion webhook for {of} returned invalid object: {why}"))?;
        metadata::restore(original, &mut object).map_err(|why| format!("conversion webhook for {of} returned invalid metadata: {why}"))?;
        Ok(object)
    }
}

/// Why a call came to nothing.
enum Failure {
    /// There is no answer: another call would fare no better.
    OfCall(String),
    /// The answer is not believed.
    OfAnswer(ConversionFailure, String),
}

/// Does work on so many bytes where it holds nobody up.
fn working<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE_BYTES { work() } else { run_blocking(work) }
}

/// Cuts objects into what one call takes.
fn pieces(objects: &[Arc<Object>]) -> impl Iterator<Item = &[Arc<Object>]> {
    let mut rest = objects;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |object: &&Arc<Object>| {
            bytes += object.tail_len();
            bytes <= BYTES_PER_CALL
        };
        let count = rest.iter().take(OBJECTS_PER_CALL).take_while(fits).count().max(1).min(rest.len());
        let (piece, after) = rest.split_at(count);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
