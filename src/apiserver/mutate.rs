//! Requests that change something: POST, PUT, PATCH and DELETE from path, query and body to an answer. What is done is decided in `write`.

use std::pin::pin;

use axum::{extract::Request, response::Response};
use http::{HeaderMap, Method, StatusCode, header::USER_AGENT};
use server::budget::Reservation;

use super::{
    accept::Asked,
    approval::{Manner, RequestApproval},
    call::Call,
    content_type,
    incoming::whole_body,
    parts::NO_NAMESPACE,
    resource_request::ResourceRequest,
    respond::{sent, warn},
    rights::{RequestRights, annotation_hook, client},
    status::Status,
};
use auth::access::Asker;
use codec::stored;
use go::url::Query;
use serde_json::Value;
use storage::read::{options::ListOptions, serve::List, target::Target as Listed};
use storage::write::{
    Approver, AuditHook, By, Deletion, Evicted, Part, PatchKind, Syntax, WriteRequest, Written,
    failure::{StatusSubject, WriteError},
    object_ref::ObjectRef,
    options::{self, DeleteOptions, DeleteOptionsError, Verb as Options, WriteOptions},
};
use telemetry::{RequestTimer, Scope, ServedMetrics, Verb};

/// Objects that a DELETECOLLECTION without a limit lists at once, as kube-apiserver does: so a revision in its query means that very revision.
const DELETED_AT_ONCE: i64 = 10_000;

/// What the path and the method ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Create,
    Bind,
    Evict,
    Replace(Part),
    ReplaceScale,
    Patch(Part),
    PatchScale,
    Delete,
    DeleteCollection,
}

impl Write {
    fn verb(self) -> Verb {
        match self {
            Self::Create | Self::Bind | Self::Evict => Verb::Create,
            Self::Replace(_) | Self::ReplaceScale => Verb::Update,
            Self::Patch(_) | Self::PatchScale => Verb::Patch,
            Self::Delete => Verb::Delete,
            Self::DeleteCollection => Verb::DeleteCollection,
        }
    }

    fn is_patch(self) -> bool {
        matches!(self, Self::Patch(_) | Self::PatchScale)
    }

    fn manner(self) -> Manner {
        match self {
            Self::Replace(_) => Manner::Replace,
            Self::Patch(_) => Manner::Patch,
            Self::ReplaceScale | Self::PatchScale => Manner::Scale { is_patch: self == Self::PatchScale },
            Self::Create | Self::Bind | Self::Evict | Self::Delete | Self::DeleteCollection => Manner::Create,
        }
    }
}

/// How the body is written.
#[derive(Clone, Copy)]
enum Media {
    Object(Syntax),
    Patch(PatchKind),
}

/// What a request brings besides its line.
struct Sent<'a> {
    media: Result<Media, Status>,
    body: &'a [u8],
    user_agent: &'a str,
}

impl ResourceRequest<'_> {
    /// Answers a request whose method is no read. The order of the checks is that of spec api-surface §3.3.
    pub(super) async fn write(self, request: Request) -> Response {
        let context = self.context;
        let write = match self.wanted(request.method()) {
            Ok(write) => write,
            Err(status) => return context.refused(&status),
        };
        let requests = self.resource.requests.clone();
        self.write_as(write, &requests, request).await
    }

    /// Answers a POST of `bindings`, of Pods as the resource.
    pub(super) async fn bind(self, request: Request) -> Response {
        if let Err(status) = self.has_names(request.method()) {
            return self.context.refused(&status);
        }
        let requests = self.api.metrics.served(&self.path.group, &self.path.version, &self.path.resource);
        self.write_as(Write::Bind, &requests, request).await
    }

    async fn write_as(self, write: Write, requests: &ServedMetrics, request: Request) -> Response {
        let context = self.context;
        if let Err(message) = self.path.check_name() {
            return context.refused(&Status::bad_request(message));
        }
        let scope = if self.path.name.is_some() { Scope::Resource } else { Scope::Namespace };
        let mut timer = requests.request(write.verb(), scope);
        let media = self.media(write, request.headers());
        let accepted = self.negotiate(if self.resource.served.is_custom() { Asked::Custom } else { Asked::BuiltIn });
        // PATCH looks at the type of the body first, PUT only after everything else.
        let negotiated = match (accepted, &media) {
            (_, Err(status)) if write.is_patch() => return self.failed(status, &mut timer),
            (Err(status), _) => return self.failed(&status, &mut timer),
            (_, Err(status)) if write == Write::Create => return self.failed(status, &mut timer),
            (Ok(negotiated), _) => negotiated,
        };
        if let Err(error) = self.api.writer.may_write() {
            return self.failed(&error.into(), &mut timer);
        }
        let call = Call::new(self, negotiated);
        let agent =
            request.headers().get(USER_AGENT).map_or_else(String::new, |agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        let body = match whole_body(request.into_body(), &context.conn, context.until).await {
            Ok(Some(body)) => body,
            Ok(None) => return call.out_of_time(&mut timer),
            Err(status) => return call.failed(&status, &mut timer),
        };
        let mut told = Vec::new();
        let answered = {
            let asker = context.asker(&context.user);
            let sent = Sent { media, body: &body, user_agent: &agent };
            let done = pin!(call.done(write, &asker, &context.line.query, sent, &mut told));
            call.in_time(done, &mut timer).await
        };
        let mut response = match answered {
            Ok(answer) => {
                call.log_unapplied(&answer, &told);
                call.answered(write, answer, timer).await
            }
            Err(response) => response,
        };
        // Also beside an error.
        warn(response.headers_mut(), &told);
        response
    }

    /// What is asked for, if the resource has it.
    fn wanted(&self, method: &Method) -> Result<Write, Status> {
        let served = &self.resource.served;
        let has = |verb: &str| served.has_verb(verb) || served.is_custom();
        let sub = |verb: &str| self.path.subresource.as_deref().filter(|name| served.subresource_with(name, verb).is_some());
        let in_one_place = !served.namespaced || self.path.namespace.is_some() || self.path.odd.no_namespace;
        let write = match (method, self.path.name.is_some(), self.path.subresource.is_some()) {
            (&Method::POST, false, _) if in_one_place && has("create") => Some(Write::Create),
            // The body alone says what is created.
            (&Method::POST, true, false) if served.is_custom() && has("create") => Some(Write::Create),
            (&Method::POST, true, true) => match sub("create") {
                Some("binding") => Some(Write::Bind),
                Some("eviction") => Some(Write::Evict),
                _ => None,
            },
            (&Method::PUT, true, false) if has("update") => Some(Write::Replace(Part::Main)),
            (&Method::PATCH, true, false) if has("patch") => Some(Write::Patch(Part::Main)),
            (&Method::PUT, true, true) => match sub("update") {
                Some("scale") => Some(Write::ReplaceScale),
                other => other.and_then(part).map(Write::Replace),
            },
            (&Method::PATCH, true, true) => match sub("patch") {
                Some("scale") => Some(Write::PatchScale),
                other => other.and_then(part).map(Write::Patch),
            },
            (&Method::DELETE, true, false) if has("delete") => Some(Write::Delete),
            (&Method::DELETE, false, _) if in_one_place && has("deletecollection") => Some(Write::DeleteCollection),
            (&Method::PUT, false, _) if served.is_custom() => return Err(Status::bad_request("name must be provided")),
            _ => None,
        };
        write.ok_or_else(|| self.unsupported(method))
    }

    fn media(&self, write: Write, headers: &HeaderMap) -> Result<Media, Status> {
        let custom = self.resource.served.is_custom();
        if write.is_patch() {
            return content_type::patch(headers, custom).map(Media::Patch);
        }
        // A custom resource has no message; kube-apiserver breaks off the connection (spec api-surface §3.1).
        content_type::syntax(headers, !custom || is_deletion(write)).map(Media::Object)
    }
}

impl Call<'_> {
    async fn done(&self, write: Write, asker: &Asker<'_>, query: &Query, sent: Sent<'_>, told: &mut Vec<String>) -> Result<Answer, Status> {
        let Sent { media, body, user_agent } = sent;
        if is_deletion(write) {
            return self.deleted(write, asker, query, media, body, told).await;
        }
        let verb = match write.verb() {
            Verb::Create => Options::Create,
            Verb::Patch if matches!(media, Ok(Media::Patch(PatchKind::Apply))) => Options::Apply,
            Verb::Patch => Options::Patch,
            _ => Options::Update,
        };
        let options = WriteOptions::parse(query, verb)
            .map_err(|errors| Status::from(WriteError::Invalid { of: StatusSubject::options(verb.options_kind()), errors }))?;
        let part = match write {
            Write::Replace(part) | Write::Patch(part) => part,
            _ => Part::Main,
        };
        let record = self.reply.record();
        let custom = self.resource.served.is_custom() && write != Write::ReplaceScale;
        let tell = |object: &Value| {
            if let Some(record) = record {
                record.requested(object, |object| stored::render(custom, object));
            }
        };
        let seen = record.map(|_| &tell as &AuditHook<'_>);
        let annotation_hook = annotation_hook(&self.reply);
        let writer = &self.api.writer;
        let media = media?;
        if let (Some(record), Media::Patch(_)) = (record, media) {
            record.requested_text(body);
        }
        let authorizers = self.api.access.authorizers();
        let approval = RequestApproval::of((self.api, &authorizers), asker, self.path, write.manner());
        let approver = approval.as_ref().map(|approval| approval as &dyn Approver);
        let rights = RequestRights { api: self.api, asker };
        let by = By { approver, client: Some(client(asker, &rights)), annotation_hook: annotation_hook.as_deref(), ..By::default() };
        let request = WriteRequest { target: self.place(), part, options, by, user_agent, audit_hook: seen };
        let written = match (write, media) {
            (Write::Bind, Media::Object(syntax)) => {
                writer.bind(&request, syntax, body, told).await?;
                return Ok(Answer::Status { code: StatusCode::CREATED, body: Status::success_json(201) });
            }
            (Write::Evict, Media::Object(syntax)) => {
                return Ok(match writer.evict(&request, syntax, body, told).await? {
                    Evicted::Deleted => Answer::Status { code: StatusCode::CREATED, body: Status::success_json(201) },
                    Evicted::Ambiguous => {
                        Answer::Status { code: StatusCode::INTERNAL_SERVER_ERROR, body: Status::ambiguous_eviction_json() }
                    }
                });
            }
            (Write::Create, Media::Object(syntax)) => writer.create(&request, syntax, body, told).await,
            (Write::Replace(_), Media::Object(syntax)) => writer.replace(&request, syntax, body, told).await,
            (Write::ReplaceScale, Media::Object(syntax)) => writer.replace_scale(&request, syntax, body, told).await,
            (Write::Patch(_), Media::Patch(kind)) => writer.patch(&request, kind, body, told).await,
            (Write::PatchScale, Media::Patch(kind)) => writer.patch_scale(&request, kind, body, told).await,
            _ => unreachable!("`media` reads a patch's type for patches and an object's for the others"),
        };
        Ok(Answer::Object(written?))
    }

    async fn deleted(
        &self,
        write: Write,
        asker: &Asker<'_>,
        query: &Query,
        media: Result<Media, Status>,
        body: &[u8],
        told: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        // What is listed comes before the body and before how it is deleted.
        let listed = if write == Write::DeleteCollection { Some(self.to_list(query)?) } else { None };
        let syntax = match media {
            _ if body.is_empty() => Syntax::Json,
            Ok(Media::Object(syntax)) => syntax,
            Ok(Media::Patch(_)) => unreachable!("a DELETE has no patch"),
            Err(status) => return Err(status),
        };
        let served = &self.resource.served;
        if let Some(record) = self.reply.record().filter(|record| record.wants_request() && !body.is_empty())
            && let Some(options) = options::printed(syntax, body)
        {
            record.requested_text(options.as_bytes());
        }
        let options =
            self.api.writer.delete_options(self.api.settings.gates.malformed_deletion, query, syntax, body).await.map_err(|error| {
                match error {
                    DeleteOptionsError::BadRequest(message) => Status::bad_request(message),
                    DeleteOptionsError::Invalid(errors) => {
                        WriteError::Invalid { of: StatusSubject::options("DeleteOptions"), errors }.into()
                    }
                }
            })?;
        told.extend(options.warning(served).map(str::to_owned));
        let authorizers = self.api.access.authorizers();
        let approval = RequestApproval::of_deletion((self.api, &authorizers), asker, self.path);
        let approver = approval.as_ref().map(|approval| approval as &dyn Approver);
        let (annotation_hook, rights) = (annotation_hook(&self.reply), RequestRights { api: self.api, asker });
        let by = By { approver, client: Some(client(asker, &rights)), annotation_hook: annotation_hook.as_deref(), ..By::default() };
        if let Some(listed) = &listed {
            options
                .may_be_of_many()
                .map_err(|errors| Status::from(WriteError::Invalid { of: StatusSubject::options("DeleteOptions"), errors }))?;
            return self.collection_deleted(listed, &options, &by, told).await;
        }
        let deletion = self.api.writer.delete(&self.place(), &options, &by, told).await.map_err(Status::from)?;
        Ok(match deletion {
            Deletion::Unread => {
                let body = Status::unread_deleted_json(&served.kind, &self.place().name);
                Answer::Status { code: StatusCode::OK, body }
            }
            Deletion::Gone(object) if !served.rules.delete_returns_object => {
                let (name, uid) = (&self.place().name, uid(&object));
                let body = Status::deleted_json(&served.group, &served.resource, name, uid);
                Answer::Status { code: StatusCode::OK, body }
            }
            Deletion::Pending(object) if options.orphan_dependents == Some(false) => {
                let body = self.resource.encoders.whole().encoder.render(served.is_custom(), &object);
                Answer::Status { code: StatusCode::ACCEPTED, body }
            }
            Deletion::Gone(object) | Deletion::Pending(object) => Answer::Object(Written { object, created: false, stored: None }),
        })
    }

    /// What the query of a DELETECOLLECTION lists. It is judged as that of a LIST, or of a WATCH if it says so, and lists in any case.
    fn to_list(&self, query: &Query) -> Result<(Listed, ListOptions), Status> {
        let mut listed = ListOptions::of(query).map_err(Status::bad_request)?;
        listed.default_watch();
        let target = self.target(&listed)?;
        listed.watch = false;
        listed.send_initial_events = None;
        listed.resource_version_match = listed.resource_version_match.filter(|_| !listed.resource_version.is_empty());
        Ok((target, listed))
    }

    /// Lists, then deletes what was listed one by one; the list is the answer (spec api-surface §8.5).
    async fn collection_deleted(
        &self,
        (target, listed): &(Listed, ListOptions),
        options: &DeleteOptions,
        by: &By<'_>,
        told: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let mut hold = self.context.conn.unread.take(self.api.reader.list_bytes(target, listed) + self.told_bytes()).await;
        let is_limited = listed.limit > 0;
        let mut asked = listed.clone();
        if asked.limit == 0 {
            asked.limit = DELETED_AT_ONCE;
        }
        // What follows the first page is deleted too, and listed behind it, under what the first one said.
        let (mut answer, mut bytes) = (None::<List>, self.told_bytes());
        loop {
            let page = self.api.reader.list(target, &asked, None).await.map_err(|error| self.status(error))?;
            if self.path.odd.no_namespace && !page.objects.is_empty() {
                return Err(Status::bad_request(NO_NAMESPACE));
            }
            self.api.writer.delete_each(&self.resource, page.objects.iter(), options, by, told).await.map_err(Status::from)?;
            let more = page.meta.continue_token.clone();
            // No cache has them any more.
            bytes += page.objects.iter().map(|object| object.tail_len()).sum::<usize>();
            hold.resize(bytes);
            match &mut answer {
                None => answer = Some(page),
                Some(first) => first.objects.extend(page.objects),
            }
            match more.filter(|_| !is_limited) {
                Some(token) => {
                    asked.continue_token = Some(token);
                    asked.resource_version = String::new();
                    asked.resource_version_match = None;
                }
                None => return Ok(Answer::List(answer.expect("there was a first page"), hold)),
            }
        }
    }

    /// Logs that what was written is stored and not applied; a dry run stores nothing.
    fn log_unapplied(&self, answer: &Answer, told: &[String]) {
        let served = &self.resource.served;
        if let Answer::Object(Written { object, stored: Some(_), .. }) = answer
            && !told.is_empty()
        {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
            self.api.writer.log_warned((&served.group, &served.resource), name, told);
        }
    }

    fn place(&self) -> ObjectRef {
        let namespace = self.path.namespace.clone().filter(|_| self.resource.served.namespaced);
        ObjectRef { resource: self.resource.clone(), namespace, name: self.path.name.clone().unwrap_or_default() }
    }

    async fn answered(&self, write: Write, answer: Answer, mut timer: RequestTimer) -> Response {
        let (code, body) = match answer {
            // They are deleted all the same.
            Answer::List(..) if let Some(status) = self.unfit(true) => return self.failed(&status, &mut timer),
            Answer::List(list, hold) => {
                return self.listed(list, self.resource.encoders.get(self.representation()).encoder, Some(hold), timer).await;
            }
            Answer::Status { code, body } => (code, body),
            Answer::Object(written) => {
                // It is written all the same: so does kube-apiserver, which finds out when it converts the answer.
                if let Some(status) = self.unfit(false) {
                    return self.failed(&status, &mut timer);
                }
                let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
                let is_scale = matches!(write, Write::PatchScale | Write::ReplaceScale);
                let Written { object, stored, .. } = written;
                let writer = &self.api.writer;
                let read = match stored {
                    Some(stored) => writer.read_back(&self.resource, stored).await,
                    None => Ok(None),
                };
                let read = match read {
                    Ok(read) => read,
                    Err(error) => return self.failed(&error.into(), &mut timer),
                };
                let answer = || {
                    if let Some(object) = read {
                        let hold = self.context.conn.unread.add(object.tail_len());
                        return self.object(code, &object, &self.resource.encoders.get(self.representation()).encoder, Some(hold), timer);
                    }
                    let shaped = self.shaped(is_scale, &object);
                    let hold = self.context.conn.unread.add(shaped.capacity());
                    self.document(code, shaped, Some(hold), timer)
                };
                return writer.offload(&object, answer);
            }
        };
        sent(self.reply.object(code, body), timer)
    }
}

/// The part of an object that this subresource replaces.
fn part(subresource: &str) -> Option<Part> {
    Some(match subresource {
        "status" => Part::Status,
        "finalize" => Part::Finalizers,
        "approval" => Part::Approval,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "resize" => Part::Resize,
        _ => return None,
    })
}

/// What a write answers with.
enum Answer {
    Object(Written),
    Status { code: StatusCode, body: Vec<u8> },
    List(List, Reservation),
}

fn is_deletion(write: Write) -> bool {
    matches!(write, Write::Delete | Write::DeleteCollection)
}

fn uid(object: &serde_json::Value) -> &str {
    object.pointer("/metadata/uid").and_then(serde_json::Value::as_str).unwrap_or("")
}
