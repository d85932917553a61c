//! The stages of a request, in their order: from its arrival to its handler, and what each adds to the answer on its way back. Each function calls the next
//! one. The order is kube-apiserver's (spec api-surface §0); what a stage takes (`context`) says what must come before it. `caught` holds panics and
//! compresses.

use std::{future::poll_fn, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::Response};
use http::{Method, StatusCode, header::CONTENT_LENGTH};
use http_body::Body as _;
use server::{ListenerKind, budget::Wait, heads};
use tokio::time::{Instant, timeout_at};

use super::{
    answerer,
    api::Api,
    audit,
    authenticate::{act_as, authenticate},
    authorize::authorize,
    caught::caught,
    conn::ConnInfo,
    context::{Arrived, Authenticated, Authorized},
    cors, extras,
    forward::{Destination, Replica, copy},
    guard,
    inflight::OpenWatch,
    kept::Kept,
    limit,
    line::RequestLine,
    looked_at::is_looked_at,
    path::PathError,
    request_log::RequestLog,
    respond::{Reply, warn},
    routes,
    status::Status,
    strict_transport, websocket,
};
use go::duration;
use upstream::Reason;

/// Answers requests.
pub struct Stages {
    api: Arc<Api>,
    /// Who answers what this server does not.
    replica: Option<Arc<Replica>>,
    routes: Router,
}

impl Stages {
    /// The stages before the routes of this API.
    pub fn new(api: Arc<Api>, replica: Option<Arc<Replica>>) -> Self {
        Self { routes: routes::routes(api.clone()), api, replica }
    }

    /// Answers a request. Each stage is given what the one before has made, and may answer in the place of those after it.
    pub(super) async fn answer(&self, conn: Arc<ConnInfo>, head: heads::Read, mut request: Request) -> Response {
        let (log, method) = (RequestLog::begin(&conn, &request), request.method().clone());
        let mut response = match self.arrive(&conn, head, &mut request).await {
            Err(refused) => refused,
            Ok(arrived) => {
                let reply = arrived.reply.clone();
                caught(|| self.check_origin(arrived, request), &reply, &conn.unread).await
            }
        };
        strict_transport::tell(self.api.settings.strict_transport.as_ref(), conn.listener, &mut response);
        finish(&mut response, &method);
        RequestLog::end(log, response)
    }

    /// Reads the head of a request: the audit id, and the `timeout` parameter, which is judged before anything else (spec api-surface §0 stage 4).
    async fn arrive(&self, conn: &Arc<ConnInfo>, head: heads::Read, request: &mut Request) -> Result<Box<Arrived>, Response> {
        let api = &self.api;
        // Upstream may look at any header, and who brings a certificate may be a proxy with headers of its own.
        if self.replica.is_none() && !conn.certificate.was_sent() {
            head.trim(request, is_looked_at);
        }
        let line = RequestLine::parse(request.method(), request.uri());
        let reply = Reply::new(request.method(), request.headers(), line.query.first("pretty"));
        let head = head.with(request.uri().path().len() + line.query.weight()).map_err(|full| reply.status(&full.into()))?;
        // Told before anybody is known.
        match &line.route {
            Err(PathError::BadEscape) => return Err(reply.bad_request_line()),
            Err(PathError::NoRequestInfo(text)) => return Err(reply.no_request_info(text.clone())),
            Ok(_) => {}
        }
        if let Some(status) = self.replica.as_ref().and_then(|replica| replica.loops(request.headers())) {
            return Err(reply.status(&status));
        }
        let at = Instant::now();
        let until = at + api.settings.times.request;
        let mut arrived = Box::new(Arrived { conn: conn.clone(), line, reply, at, until, head, losses: 0 });
        // A watch is exempt from the request's time.
        if arrived.line.is_watch() {
            arrived.reply.never_gzip();
        } else if let Some(text) = arrived.line.query.first("timeout").filter(|text| !text.is_empty()) {
            match duration::parse(text) {
                Ok(asked) if !asked.is_zero() => arrived.until = until.min(at + asked),
                Ok(_) => {}
                Err(why) => return Err(audit::refuse(api, request.headers(), &arrived, &Status::invalid_timeout(&why)).await),
            }
        }
        // No read looks at its body: what of it would wait here is let go.
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            *request.body_mut() = Body::empty();
        }
        // A client that does not read what it has asked for gets no more made before it does.
        let mut wait = Wait::of(&conn.unread);
        if !conn.unread.has_room() && timeout_at(arrived.until, poll_fn(|cx| wait.poll_room(cx.waker()))).await.is_err() {
            return Err(arrived.timed_out());
        }
        arrived.losses = api.access.losses();
        Ok(arrived)
    }

    /// Refuses what a page of another site makes a browser send, and answers who may read answers.
    async fn check_origin(&self, arrived: Box<Arrived>, request: Request) -> Response {
        let callers = &self.api.settings.callers;
        if arrived.conn.listener == ListenerKind::Plain
            && let Err(status) = guard::check(callers, request.uri(), request.headers(), websocket::is_asked(&request))
        {
            return arrived.refused(&status);
        }
        match cors::allowed(callers.origins.as_ref(), &request) {
            None => self.authenticate(arrived, request).await,
            // Boxed: few requests are of such pages.
            Some(origin) => {
                Box::pin(async {
                    let mut response = match *request.method() {
                        // Whether a page may ask at all is answered here, whoever asks.
                        Method::OPTIONS => arrived.reply.empty(StatusCode::NO_CONTENT),
                        _ => self.authenticate(arrived, request).await,
                    };
                    cors::tell(origin, &mut response);
                    response
                })
                .await
            }
        }
    }

    /// Finds out who asks, and tells the audit log of it. Turns at what is done a few at a time are this user's.
    async fn authenticate(&self, arrived: Box<Arrived>, mut request: Request) -> Response {
        let client_proof = self.replica.as_ref().and_then(|replica| replica.keep_proof(request.headers()));
        let (mut authenticated, remarks) = match authenticate(&self.api, arrived, &mut request).await {
            Ok(known) => known,
            Err(refused) => return refused,
        };
        authenticated.client_proof = client_proof;
        let audited = match audit::begin(&self.api, &mut authenticated, request.headers()).await {
            Ok(audited) => audited,
            Err(refused) => return refused,
        };
        if let (Some(record), Some((key, value))) = (authenticated.reply.record(), remarks.annotation) {
            record.annotate(key, value);
        }
        let user = authenticated.user.name.as_str().into();
        // Not by one name for both: a future that has a name is here twice.
        let mut response = match audited {
            None => fair::asked_by(user, self.admit(authenticated, request)).await,
            // Boxed: few have it.
            Some(audited) => Box::pin(audit::ended(audited, fair::asked_by(user, self.admit(authenticated, request)))).await,
        };
        if let Some(warning) = remarks.warning {
            warn(response.headers_mut(), &[warning.to_owned()]);
        }
        response
    }

    /// Finds out who answers, as whom the client acts, and whether there is a place for the request. What upstream answers goes there from here.
    async fn admit(&self, mut authenticated: Authenticated, mut request: Request) -> Response {
        let api = &self.api;
        let destination = match &self.replica {
            None => Destination::Here,
            Some(replica) => {
                let destination = answerer::decide(api, replica, &authenticated, request.headers());
                match answerer::awaited(api, replica, &destination, &authenticated, request.headers()) {
                    None => destination,
                    // Boxed, as what is rare.
                    Some(resource) => match Box::pin(answerer::loaded(api, replica, &resource, &authenticated)).await {
                        Ok(()) => answerer::decide(api, replica, &authenticated, request.headers()),
                        Err(refused) => return refused,
                    },
                }
            }
        };
        if !destination.judges_impersonation()
            && let Err(refused) = act_as(api, &mut authenticated, &mut request).await
        {
            return refused;
        }
        let Ok((place, watch)) = limit::admit(api, &authenticated, &destination).await else {
            return limit::refused(api, &authenticated);
        };
        let authenticated = Arc::new(authenticated);
        let here = |request, kept| self.authorize(authenticated.clone(), watch, kept, request);
        let mut response = match (&self.replica, destination) {
            (None, _) | (_, Destination::Here) => here(request, None).await,
            // Boxed, as what is rare.
            (Some(replica), Destination::Upstream(forwarding)) => {
                let is_remembered = replica.is_source && forwarding.reason == Reason::Document;
                let response = Box::pin(replica.answer(forwarding, &authenticated, request, here)).await;
                if response.status().is_success() {
                    replica.want(api, &authenticated.line);
                    if is_remembered {
                        remember(api.clone(), authenticated.clone());
                    }
                }
                response
            }
            (Some(replica), Destination::Either(forwarding)) => {
                let again = copy(&request);
                let response = here(request, None).await;
                match extras::get(&response).is_some_and(|extras| extras.elsewhere) {
                    true => Box::pin(replica.pass(forwarding, &authenticated, again)).await,
                    false => response,
                }
            }
        };
        // A watch has a place until it begins.
        if let Some(place) = place.filter(|_| !authenticated.line.is_watch()) {
            extras::of(&mut response).place = Some(place);
        }
        response
    }

    /// Authorizes the request, and has it answered here.
    async fn authorize(
        &self,
        authenticated: Arc<Authenticated>,
        watch: Option<OpenWatch>,
        kept: Option<Kept>,
        request: Request,
    ) -> Response {
        let allowed = match authorize(&self.api, &authenticated).await {
            Ok(allowed) => allowed,
            Err(refused) => return refused,
        };
        if let Some(replica) = &self.replica {
            replica.want(&self.api, &authenticated.line);
        }
        let authorized = Authorized::new(authenticated, allowed, watch);
        match kept {
            Some(kept) => {
                self.api.metrics.kept_answers.inc();
                kept.answer(&authorized, &request)
            }
            None => routes::answer(&self.api, &self.routes, authorized, request).await,
        }
    }
}

/// Has it known who may read a document of upstream, for when upstream is away: a decision is asked for, which is kept.
fn remember(api: Arc<Api>, asked: Arc<Authenticated>) {
    tokio::spawn(async move {
        let info = asked.line.info().clone();
        let (asker, attributes) = (asked.asker(&asked.user), info.attributes(&asked.user));
        let _ = timeout_at(asked.until, api.access.decide(&asker, &attributes)).await;
    });
}

/// Tells the length of a body that is known, and takes it out of an answer to HEAD: as axum does for its routes.
fn finish(response: &mut Response, method: &Method) {
    if *method == Method::CONNECT && response.status().is_success() {
        // RFC 9110 lets it have neither (9.3.6).
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::empty();
        return;
    }
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    if *method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request carries it (docs/decisions/0002).
    #[test]
    fn the_future_of_a_request_is_small() {
        fn size<F>(_: impl Fn(&'static Stages, Arc<ConnInfo>, heads::Read, Request) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size(Stages::answer);
        assert!(bytes <= 8 << 10, "{bytes} bytes");
    }
}
