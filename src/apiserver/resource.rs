//! Requests on resources: GET, LIST and WATCH from path and query to a body. Decides nothing that `read/plan` decides.

use std::{
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
};

use axum::{extract::Request, response::Response};
use http::{
    HeaderValue, Method, StatusCode, Version,
    header::{USER_AGENT, WARNING},
};
use tokio::time::{Instant, timeout_at};

use super::{
    accept::{Asked, Form},
    api::Api,
    authorize::rights,
    call::Call,
    context::Authorized,
    extras,
    open_watches::{Program, shown},
    other_server::not_served,
    parts::is_in_scope,
    path::ResourcePath,
    request_info::verb,
    resource_request::{ResourceRequest, is_get},
    respond::Reply,
    status::Status,
    token_request, unstored,
    websocket::Upgrade,
};
use auth::ANONYMOUS;
use cache::state::learner::Reader;
use storage::read::{failure::ReadError, options::ListOptions};
use telemetry::RequestTimer;

/// Answers a request whose path names a resource.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, request: Request) -> Response {
    let resources = api.resources.load_full();
    if (&*path.group, &*path.resource, path.subresource.as_deref()) == ("", "serviceaccounts", Some("token"))
        && api.identity.issuer.is_some()
    {
        return Box::pin(token_request::serve(api, context, path, request)).await;
    }
    if let Some(unstored) = resources.catalogue.unstored(&path.group, &path.version, &path.resource) {
        return Box::pin(unstored::serve(api, context, path, unstored, request)).await;
    }
    let resource = resources.find(&path.group, &path.version, &path.resource);
    let Some(resource) = resource.filter(|resource| is_in_scope(resource, path, request.method())).cloned() else {
        return not_served(&context.reply, &resources, api.reader.prefix(), (&path.group, &path.version));
    };
    // Who may watch there may do nothing else: whatever the method, authorizers and the audit log have seen the verb watch.
    if path.legacy_watch && !matches!(*request.method(), Method::GET | Method::HEAD) {
        return context.refused(&Status::method_not_allowed());
    }
    let warning = HeaderValue::from_str(&resource.served.warning).ok().filter(|w| !w.is_empty());
    let custom = resource.served.is_custom();
    let mut response = ResourceRequest { api, context, path, resource }.answer(request).await;
    if extras::get(&response).is_some_and(|extras| extras.upgrade.is_some()) {
        return response;
    }
    // The router of built-ins turns other methods away before anything is known of the resource.
    if let Some(warning) = warning.filter(|_| custom || response.status() != StatusCode::METHOD_NOT_ALLOWED) {
        if let Some(record) = context.reply.record() {
            record.annotate_end("k8s.io/deprecated", "true");
        }
        let headers = response.headers_mut();
        let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
        headers.insert(WARNING, warning);
        for other in others {
            headers.append(WARNING, other);
        }
    }
    response
}

impl<'a> ResourceRequest<'a> {
    /// Answers the request. What is wrong with it is told in kube-apiserver's order.
    async fn answer(self, mut request: Request) -> Response {
        let (context, path, line) = (self.context, self.path, &self.context.line);
        if let Err(status) = self.has_path().and_then(|()| self.has_names(request.method())) {
            return context.refused(&status);
        }
        if !is_get(&self.resource, request.method()) {
            // Boxed apart, as the reads below.
            return Box::pin(self.write(request)).await;
        }
        if !self.is_scale() && path.subresource.as_deref().is_some_and(|sub| !self.resource.served.reads_subresource(sub)) {
            return context.refused(&self.unsupported(request.method()));
        }
        if let Err(message) = path.check_name() {
            return context.refused(&Status::bad_request(message));
        }
        let is_watch = line.is_watch();
        let rights = match is_watch.then(|| rights(self.api, context)).transpose() {
            Ok(rights) => rights,
            Err(status) => return context.refused(&status),
        };
        let program = is_watch.then(|| Program {
            agent: shown(&String::from_utf8_lossy(request.headers().get(USER_AGENT).map_or(b"", HeaderValue::as_bytes))),
            has_connection: request.version() == Version::HTTP_11,
        });
        let upgrade = Upgrade::asked(&mut request);
        let asked = match (self.resource.served.is_custom(), is_watch) {
            (false, false) if path.name.is_some() => Asked::BuiltIn,
            (false, false) => Asked::BuiltInList,
            (false, true) => Asked::BuiltInWatch,
            (true, false) => Asked::Custom,
            (true, true) => Asked::CustomWatch,
        };
        let call = match self.negotiate(asked) {
            Ok(negotiated) => Call::new(self, negotiated),
            Err(status) => return context.refused(&status),
        };
        if let (Some(name), false) = (&path.name, is_watch) {
            return Box::pin(call.get(name, &line.query)).await;
        }
        let options = match ListOptions::of(&line.query) {
            Ok(options) => options,
            Err(message) => return context.refused(&Status::bad_request(message)),
        };
        // Boxed apart: as one future they would be 19 KB that every request of any kind carries about.
        if let Some(program) = program {
            Box::pin(call.watch(options, upgrade, rights, program)).await
        } else {
            Box::pin(call.list(&options)).await
        }
    }

    /// Finds the form of the answer among what the client accepts.
    pub(super) fn negotiate(&self, asked: Asked) -> Result<(Reply, Form), Status> {
        let mut reply = self.context.reply.clone();
        let form = reply.negotiate(asked)?;
        Ok((reply, form))
    }

    /// Returns who reads, for the share of learned indexes that is theirs; who is nobody is told apart by the address.
    pub(super) fn reader(&self) -> Reader {
        let mut hasher = DefaultHasher::new();
        self.context.user.name.hash(&mut hasher);
        if self.context.user.name == ANONYMOUS {
            self.context.conn.peer.ip().hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn is_scale(&self) -> bool {
        self.path.subresource.as_deref() == Some("scale")
    }

    /// 405: the resource has no such verb.
    pub(super) fn unsupported(&self, method: &Method) -> Status {
        let served = &self.resource.served;
        if served.is_custom() {
            // Of a method without a verb the text begins with a space.
            return Status::verb_not_supported(verb(method), &served.group, &served.resource);
        }
        Status::method_not_allowed()
    }

    /// Runs a request within the request's time (spec list-watch §2.14). Pinned by who calls: given as itself, a future would be here three times.
    pub(super) async fn in_time<T>(
        &self,
        work: Pin<&mut impl Future<Output = Result<T, Status>>>,
        timer: &mut RequestTimer,
    ) -> Result<T, Response> {
        // A time that is over already allows no look at all, however quick.
        let is_over = Instant::now() >= self.context.until;
        let work = async { if is_over { std::future::pending().await } else { work.await } };
        match timeout_at(self.context.until, work).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(status)) => Err(self.failed(&status, timer)),
            Err(_) => Err(self.out_of_time(timer)),
        }
    }

    pub(super) fn out_of_time(&self, timer: &mut RequestTimer) -> Response {
        timer.terminated(504);
        self.context.timed_out()
    }

    pub(super) fn failed(&self, status: &Status, timer: &mut RequestTimer) -> Response {
        timer.set_code(status.code);
        self.context.refused(status)
    }

    pub(super) fn status(&self, error: ReadError) -> Status {
        let served = &self.resource.served;
        match error {
            ReadError::NotFound { name } => Status::not_found(&served.group, &served.resource, &name),
            // It came while this was read: asked again, upstream answers.
            ReadError::Undecodable { .. } if self.api.upstream.is_some() => Status::too_many_requests(error.to_string(), 1),
            error => error.into(),
        }
    }
}
