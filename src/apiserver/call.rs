//! A request on a resource whose form of answer is known: GET, LIST and WATCH, and how objects and lists are sent. What is read is decided by
//! `storage/read/plan`.

use std::{ops::Deref, pin::pin, sync::Arc, time::Duration};

use ::audit::{Accounted, OBJECT_BYTES_MAX};
use axum::{body::Body, response::Response};
use http::StatusCode;
use rand::Rng;
use serde_json::Value;
use server::{Alone, budget::Reservation};

use super::{
    accept::{Form, Shape},
    authorize::Rights,
    body::{FRAME_BYTES, WatchBody, WatchTimes, is_small},
    extras,
    gzip::LARGE_BYTES,
    gzip_body::GzipBody,
    open_watches::{Program, Question, WatchClient, Watcher, shown},
    partial,
    piece_body::{PieceBody, Pieces},
    resource_request::ResourceRequest,
    respond::{Reply, held, sent},
    status::Status,
    websocket::Upgrade,
};
use codec::{self, Document, GzipList, Include, Listing, Media, stored};
use go::url::Query;
use model::Object;
use offload::{run_blocking, run_on_thread};
use registry::representation::{self, Representation};
use storage::read::{
    failure::ReadError,
    options::ListOptions,
    plan::Refusal,
    serve::{List, Watching},
    target::{RequestScope, Target},
};
use storage::write::{failure::WriteError, scale};
use telemetry::{RequestTimer, Scope, Verb};

/// What an old client is told that asks for an object without what the server has put into it.
const NO_EXPORT: &str = "the export parameter, deprecated since v1.14, is no longer supported";

/// What is made for an answer without asking for room first, bytes.
const SMALL_BYTES: usize = 64 << 10;

/// A stream that ends at once may still take this long to say so.
const MIN_WATCH_WAIT: Duration = Duration::from_secs(1);

/// `timeoutSeconds` has no upper limit in the API; tokio's clock has one, and thirty years are enough.
const LONGEST_WATCH_SECONDS: u64 = 30 * 365 * 86_400;

/// A request on a resource, and how it is answered.
pub(super) struct Call<'a> {
    request: ResourceRequest<'a>,
    /// Makes its answers in the form that was negotiated.
    pub(super) reply: Reply,
    pub(super) form: Form,
    /// What rows of a Table include; the word when it is none.
    include: Result<Include, String>,
}

impl<'a> Deref for Call<'a> {
    type Target = ResourceRequest<'a>;

    fn deref(&self) -> &ResourceRequest<'a> {
        &self.request
    }
}

impl<'a> Call<'a> {
    /// Returns the request with the form of its answer.
    pub(super) fn new(request: ResourceRequest<'a>, (reply, form): (Reply, Form)) -> Self {
        let word = request.context.line.query.first("includeObject").unwrap_or("");
        let include = Include::parse(word).ok_or_else(|| word.to_owned());
        Self { request, reply, form, include }
    }
}

impl Call<'_> {
    /// A GET has one option; list options that are none of its are not looked at.
    pub(super) async fn get(&self, name: &str, query: &Query) -> Response {
        let mut timer = self.resource.requests.request(Verb::Get, Scope::Resource);
        if query.is_true("export") {
            return self.failed(&Status::bad_request(NO_EXPORT), &mut timer);
        }
        let resource_version = query.first("resourceVersion").unwrap_or("");
        let target = Target::object(self.resource.clone(), self.api.reader.prefix(), self.path.namespace.as_deref(), name);
        let is_scale = self.is_scale();
        // A Scale is made of the whole object.
        let target = if is_scale { target } else { target.represented_as(self.representation()) };
        // Room first, for what etcd answers is a copy that this request alone has.
        let mut hold = match self.room(target.cached_bytes(), &mut timer).await {
            Ok(hold) => hold,
            Err(response) => return response,
        };
        let read = pin!(async { self.api.reader.get(&target, resource_version).await.map_err(|error| self.status(error)) });
        match self.in_time(read, &mut timer).await {
            Ok(object) => {
                if let Some(status) = self.unfit(false) {
                    return self.failed(&status, &mut timer);
                }
                match &mut hold {
                    Some(hold) => hold.resize(object.tail_len()),
                    None if object.tail_len() > SMALL_BYTES => hold = Some(self.context.conn.unread.add(object.tail_len())),
                    None => {}
                }
                if !is_scale {
                    return self.object(StatusCode::OK, &object, target.encoder(), hold, timer);
                }
                let mut parent = Vec::with_capacity(object.tail_len() + 64);
                target.encoder().object_into(&object, &mut parent);
                match self.scale(&parent) {
                    Ok(scale) => self.document(StatusCode::OK, scale, hold, timer),
                    Err(error) => self.failed(&error.into(), &mut timer),
                }
            }
            Err(response) => response,
        }
    }

    /// The `/scale` of this object.
    fn scale(&self, object: &[u8]) -> Result<Vec<u8>, WriteError> {
        let object = serde_json::from_slice(object).map_err(|error| WriteError::Undecodable(error.to_string()))?;
        Ok(self.shaped(true, &scale::of(&self.resource.served, &object)?))
    }

    /// An object that is no stored one, or not yet read back, as JSON in the shape that is asked for.
    pub(super) fn shaped(&self, is_scale: bool, object: &Value) -> Vec<u8> {
        let (encoders, custom) = (&self.resource.encoders, self.resource.served.is_custom());
        match self.form.shape {
            Shape::Partial(partial) => stored::render(false, &stored::only_metadata(partial.version, object)),
            Shape::Whole | Shape::Table(_) if is_scale => encoders.scale(self.representation()).render(false, object),
            Shape::Whole | Shape::Table(_) => {
                let encoder = encoders.get(self.representation()).encoder;
                if encoder.is_defined() { run_blocking(|| encoder.render(custom, object)) } else { encoder.render(custom, object) }
            }
        }
    }

    pub(super) async fn list(&self, options: &ListOptions) -> Response {
        let scope = self.scope(options);
        let mut timer = self.resource.requests.request(Verb::List, scope);
        let target = match self.target(options) {
            Ok(target) => target,
            Err(status) => return self.failed(&status, &mut timer),
        };
        let mut hold = match self.room(self.api.reader.list_bytes(&target, options) + self.told_bytes(), &mut timer).await {
            Ok(hold) => hold,
            Err(response) => return response,
        };
        let kept = (target.encoder().is_deterministic() && self.reply.needs_only_blocks()).then_some(&*self.api.blocks);
        let read = pin!(async { self.api.reader.list(&target, options, kept).await.map_err(|error| self.status(error)) });
        let list = match self.in_time(read, &mut timer).await {
            Ok(list) => list,
            Err(response) => return response,
        };
        if let Some(status) = self.unfit(true) {
            return self.failed(&status, &mut timer);
        }
        if list.epoch.is_none() {
            let bytes: usize = list.objects.iter().map(|object| object.tail_len()).sum();
            hold.get_or_insert_with(|| self.context.conn.unread.add(0)).resize(bytes + self.told_bytes());
        }
        self.listed(list, target.encoder().clone(), hold, timer).await
    }

    pub(super) async fn watch(
        &self,
        mut options: ListOptions,
        upgrade: Option<Upgrade>,
        rights: Option<Rights>,
        program: Program,
    ) -> Response {
        let scope = self.scope(&options);
        let mut timer = self.resource.requests.request(Verb::Watch, scope);
        if options.watch {
            options.default_watch();
        }
        let target = match self.target(&options) {
            Ok(target) => target,
            Err(status) => return self.failed(&status, &mut timer),
        };
        let times = WatchTimes {
            began: self.context.at,
            length: self.watch_length(options.timeout_seconds),
            bookmarks: options.allow_bookmarks,
            annotated: options.allow_bookmarks && options.send_initial_events == Some(true),
            scope,
            form: target.encoder().clone(),
            mute: matches!(self.form.shape, Shape::Partial(partial) if partial.list),
        };
        // A watch may wait for etcd as long as a stream may last: its own deadline bounds it; for memory as long as other requests.
        let user = rights.as_ref().map_or("", |rights| &rights.user.name);
        let limits = (times.length.max(MIN_WATCH_WAIT), self.context.until.saturating_duration_since(self.context.at));
        let watching = self.api.reader.watch(&target, &options, limits, user).await;
        if let (Ok(_), Shape::Table(_), Err(word)) = (&watching, self.form.shape, &self.include) {
            return self.failed(&partial::no_such_include(word), &mut timer);
        }
        let body = match watching {
            Ok(Watching::Stream(subscription)) => {
                let listed = self.api.watches.open(self.watcher(&options, program), &self.resource, &subscription);
                WatchBody::stream(subscription, self.resource.clone(), &times, timer).listed(listed)
            }
            Ok(Watching::Failed(error)) => {
                if let ReadError::WatchExpired { asked, floor } = error {
                    self.api.watches.came_too_late(self.watcher(&options, program), &self.resource, (asked, floor));
                }
                WatchBody::failed(error, self.resource.clone(), &times, timer)
            }
            Err(error) => return self.failed(&self.status(error), &mut timer),
        };
        let body = match rights {
            Some(rights) => body.with_rights(rights),
            None => body,
        };
        let media_type = target.encoder().media().stream_type();
        match upgrade {
            Some(upgrade) => upgrade.answer(body, media_type),
            None => {
                let long = body.long_running();
                let mut response = self.reply.stream(media_type, Body::new(body));
                extras::of(&mut response).long_running = Some(long);
                response
            }
        }
    }

    /// Whose the watch is that this request begins.
    fn watcher(&self, options: &ListOptions, Program { agent, has_connection }: Program) -> Watcher {
        let (context, path) = (self.context, self.path);
        let of = |text: &Option<String>| shown(text.as_deref().unwrap_or(""));
        let form = match (self.form.shape, self.form.media) {
            (Shape::Whole, Media::Protobuf) => "objects in protobuf",
            (Shape::Whole, _) => "objects in JSON",
            (Shape::Partial(_), Media::Protobuf) => "metadata in protobuf",
            (Shape::Partial(_), _) => "metadata in JSON",
            (Shape::Table(_), Media::Protobuf) => "Tables in protobuf",
            (Shape::Table(_), _) => "Tables in JSON",
        };
        let question = Question {
            agent,
            namespace: of(&path.namespace),
            name: of(&path.name),
            label_selector: shown(&options.label_selector),
            field_selector: shown(&options.field_selector),
            form,
        };
        let client = WatchClient {
            user: context.user.clone(),
            impersonator: context.impersonator.as_ref().map(|impersonator| impersonator.user.clone()),
            conn: context.conn.clone(),
        };
        Watcher { client, has_connection, question }
    }

    /// Spec list-watch §4.6: absent or 0 is random between the least and twice the least; a negative one ends at once.
    fn watch_length(&self, seconds: Option<i64>) -> Duration {
        let least = self.api.settings.times.min_watch;
        match seconds {
            None | Some(0) => least + least.mul_f64(rand::rng().random()),
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LONGEST_WATCH_SECONDS)),
        }
    }

    pub(super) fn target(&self, options: &ListOptions) -> Result<Target, Status> {
        let wanted = RequestScope {
            namespace: self.path.namespace.as_deref(),
            name: self.path.name.as_deref(),
            labels: &options.label_selector,
            fields: &options.field_selector,
            shard: options.shard_selector.as_deref().filter(|_| self.api.settings.gates.sharded_list_and_watch),
        };
        let target = Target::collection(self.resource.clone(), self.api.reader.prefix(), &wanted, || {
            let wrong = options.validate();
            if wrong.is_empty() { Ok(()) } else { Err(Refusal::Invalid(wrong)) }
        })?;
        // It is held while the request waits.
        self.context.head.grow(target.filter.weight())?;
        Ok(target.represented_as(self.representation()).read_by(self.reader()))
    }

    /// What was negotiated, in the words of `read`.
    pub(super) fn representation(&self) -> Representation {
        let shape = match self.form.shape {
            Shape::Whole => representation::Shape::Whole,
            Shape::Partial(partial) => representation::Shape::Metadata(partial.version),
            Shape::Table(version) => representation::Shape::Table(version, self.include.as_ref().copied().unwrap_or_default()),
        };
        Representation { shape, protobuf: self.form.media == Media::Protobuf }
    }

    /// Why an answer that is there is not what was asked for.
    pub(super) fn unfit(&self, is_list: bool) -> Option<Status> {
        match (self.form.shape, &self.include) {
            (Shape::Table(_), Err(word)) => Some(partial::no_such_include(word)),
            (shape, _) => partial::mismatch(shape, &self.resource.served, self.is_scale(), is_list),
        }
    }

    /// A list, made while it is sent unless it is small; `hold` counts what it is made of. What must be looked at whole before its first byte does not keep
    /// others waiting when it is large.
    pub(super) async fn listed(
        &self,
        mut list: List,
        form: Arc<codec::Encoder>,
        mut hold: Option<Reservation>,
        timer: RequestTimer,
    ) -> Response {
        form.sort(&mut list.objects);
        if let Some(run) = list.cached {
            return self.compressed(GzipList::of_cached(&form, &list.meta, run), form.media(), hold, timer);
        }
        let timer = match self.tell_list(&list, &form, hold.as_mut(), timer).await {
            Ok(timer) => timer,
            Err(response) => return response,
        };
        if self.reply.is_compact() { self.compact(list, form, hold, timer).await } else { self.printed(list, form, hold, timer).await }
    }

    /// A list as its form encodes it.
    async fn compact(&self, list: List, form: Arc<codec::Encoder>, hold: Option<Reservation>, mut timer: RequestTimer) -> Response {
        let shares = list.epoch.filter(|_| self.reply.takes_gzip() && form.is_deterministic());
        let (small, media, name) = (is_small(&list), form.media(), list.list_key);
        let at_once = small || !form.needs_length();
        let make = move || Listing::new(form, &list.meta, list.objects);
        let made = if at_once { Ok(make()) } else { self.offload(make, &mut timer).await };
        let list = match made {
            Ok(Ok(list)) => list,
            Ok(Err(why)) => return self.failed(&why.into(), &mut timer),
            Err(response) => return response,
        };
        let Some(epoch) = shares.filter(|_| !small) else { return self.begun(StatusCode::OK, list, media, hold, timer) };
        match list.within(LARGE_BYTES) {
            Ok(Some(whole)) => sent(self.reply.encoded(StatusCode::OK, media, whole), timer),
            Ok(None) => self.compressed(GzipList::new(list, epoch, name, self.api.blocks.clone()), media, hold, timer),
            Err(why) => self.failed(&why.into(), &mut timer),
        }
    }

    /// A list as people read it.
    async fn printed(&self, list: List, form: Arc<codec::Encoder>, hold: Option<Reservation>, mut timer: RequestTimer) -> Response {
        let (small, media) = (is_small(&list), self.form.media);
        let document = Document::list(list.meta, list.objects, form);
        let document = match media {
            Media::Yaml if small => document.yaml(),
            Media::Yaml => match self.offload(move || document.yaml(), &mut timer).await {
                Ok(document) => document,
                Err(response) => return response,
            },
            Media::Json | Media::Protobuf => Ok(document),
        };
        match document {
            Ok(document) => self.begun(StatusCode::OK, document, media, hold, timer),
            Err(why) => self.failed(&why.into(), &mut timer),
        }
    }

    /// A stored object in this form: what a GET answers with, and a write with what it has stored. `hold` counts it when it is large.
    pub(super) fn object(
        &self,
        code: StatusCode,
        object: &Object,
        form: &codec::Encoder,
        hold: Option<Reservation>,
        timer: RequestTimer,
    ) -> Response {
        let make = || self.object_at_once(code, object, form, hold, timer);
        if form.is_defined() { run_blocking(make) } else { make() }
    }

    fn object_at_once(
        &self,
        code: StatusCode,
        object: &Object,
        form: &codec::Encoder,
        hold: Option<Reservation>,
        mut timer: RequestTimer,
    ) -> Response {
        if let Some(record) = self.reply.told().filter(|_| self.reply.is_compact()) {
            let mut compact = Vec::with_capacity(object.tail_len() + 64);
            form.object_into(object, &mut compact);
            record.answered(&compact);
        }
        if self.reply.is_compact() {
            return match form.body(object) {
                Ok(body) => held(sent(self.reply.encoded(code, form.media(), body), timer), hold),
                Err(why) => self.failed(&why.into(), &mut timer),
            };
        }
        let mut compact = Vec::with_capacity(object.tail_len() + 64);
        form.object_into(object, &mut compact);
        self.document(code, compact, hold, timer)
    }

    /// One object as compact JSON, in the form that was negotiated; `hold` counts it when it is large.
    pub(super) fn document(&self, code: StatusCode, compact: Vec<u8>, hold: Option<Reservation>, mut timer: RequestTimer) -> Response {
        if self.reply.is_compact() {
            return held(sent(self.reply.object(code, compact), timer), hold);
        }
        if let Some(record) = self.reply.record() {
            record.answered(&compact);
        }
        let document = Document::one(compact);
        let document = if self.form.media == Media::Yaml { document.yaml() } else { Ok(document) };
        match document {
            Ok(document) => self.begun(code, document, self.form.media, hold, timer),
            Err(why) => self.failed(&why.into(), &mut timer),
        }
    }

    /// An answer of pieces: whole when its first frame is all of it.
    fn begun(
        &self,
        code: StatusCode,
        mut pieces: impl Pieces + Send + Unpin + 'static,
        media: Media,
        hold: Option<Reservation>,
        mut timer: RequestTimer,
    ) -> Response {
        let mut begun = Vec::new();
        if let Err(why) = pieces.fill(&mut begun, FRAME_BYTES) {
            return self.failed(&why.into(), &mut timer);
        }
        if pieces.is_done() {
            return sent(self.reply.encoded(code, media, begun), timer);
        }
        let hold = hold.unwrap_or_else(|| self.context.conn.unread.add(0));
        let alone = hold.alone_since();
        let body = PieceBody::new(begun, pieces, hold, timer, code.as_u16());
        let mut response = self.reply.stream(media.content_type(), Body::new(body));
        *response.status_mut() = code;
        extras::of(&mut response).alone = alone.map(Alone);
        response
    }

    fn compressed(&self, list: GzipList, media: Media, hold: Option<Reservation>, timer: RequestTimer) -> Response {
        let hold = hold.unwrap_or_else(|| self.context.conn.unread.add(0));
        let alone = hold.alone_since();
        let mut response = self.reply.compressed(media, Body::new(GzipBody::new(list, hold, timer, self.api.metrics.clone())));
        extras::of(&mut response).alone = alone.map(Alone);
        response
    }

    /// Room among what its connection has not read, for an answer that is made of so many bytes; a small one needs none.
    async fn room(&self, bytes: usize, timer: &mut RequestTimer) -> Result<Option<Reservation>, Response> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        self.in_time(pin!(async { Ok(self.context.conn.unread.take(bytes).await) }), timer).await.map(Some)
    }

    /// Runs long work on another thread, within the request's time.
    pub(super) async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        timer: &mut RequestTimer,
    ) -> Result<T, Response> {
        self.in_time(pin!(async { Ok(run_on_thread(work).await) }), timer).await
    }

    fn scope(&self, options: &ListOptions) -> Scope {
        match (&self.path.name, &self.path.namespace) {
            _ if options.field_selector.split(',').any(|term| term.starts_with("metadata.name=")) => Scope::Resource,
            (Some(_), _) => Scope::Resource,
            (None, Some(_)) => Scope::Namespace,
            (None, None) => Scope::Cluster,
        }
    }

    /// Bytes of a list that the audit log may be told of, beside what its answer is made of: there is room for them before anything is made.
    pub(super) fn told_bytes(&self) -> usize {
        self.reply.told().map_or(0, |_| OBJECT_BYTES_MAX)
    }

    /// Tells the audit log of a list, if it wants that. `hold` counts what is told, too.
    pub(super) async fn tell_list(
        &self,
        list: &List,
        form: &Arc<codec::Encoder>,
        hold: Option<&mut Reservation>,
        mut timer: RequestTimer,
    ) -> Result<RequestTimer, Response> {
        let Some(record) = self.reply.told() else { return Ok(timer) };
        let hold = hold.map(|hold| hold.split(OBJECT_BYTES_MAX));
        if list.objects.iter().map(|object| object.tail_len()).sum::<usize>() > OBJECT_BYTES_MAX {
            record.answered_too_much();
            return Ok(timer);
        }
        let (meta, objects, form) = (list.meta.clone(), list.objects.clone(), form.clone());
        let json = move || form.list_json(&meta, &objects);
        let json = if is_small(list) { json() } else { self.offload(json, &mut timer).await? };
        let counted = hold.map(|mut hold| {
            hold.resize(json.len());
            Box::new(hold) as Accounted
        });
        record.answered_counted(json, counted);
        Ok(timer)
    }
}
