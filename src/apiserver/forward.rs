//! Forwards requests to upstream that this server does not answer itself: passes head and body on, and asks upstream again where etcd did not answer. Decides
//! nothing that `upstream` decides.

mod follow;
mod look;
mod proof;
mod reach;
mod standing;

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_LENGTH, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use server::{Handshake, LongRunning};
use tokio::{
    sync::{Notify, watch::Receiver},
    time::{Instant, sleep_until},
};
use upstream::{
    Answer, AuthMode, Availability, Backend, CONFIG_MAP, CacheOutcome, Client, DocumentCache, DocumentRequest, Followed, Reason,
    RequestClass, Trusted, Upstream, UpstreamError, backend_for, headers,
};

use super::{
    check::{Behind, Check, Wrong},
    client_proof::ClientProof,
    context::{Arrived, Authenticated},
    extras,
    kept::{Essentials, Kept},
    passing::Passing,
    respond::AUDIT_ID,
    status::Status,
    tunnel::Tunnel,
};
use follow::Follow;
use proof::Proof;
use standing::not_followed;
pub(super) use standing::{asked, asks_table, read};

use ::reload::Reload;
use auth::ANONYMOUS;
use cache::state::snapshot::Fault;
use registry::{Resource, ServedResources};
use telemetry::Metrics;

/// Grace added to the time of a request, so that upstream's own 504 comes before ours.
const UPSTREAM_FIRST: Duration = Duration::from_secs(2);
/// How long an answer may last that has no end of its own: logs that are followed, watches of other API servers.
pub(super) const LONG: Duration = Duration::from_secs(30 * 86_400);
/// How long upstream may take to answer with a document that is kept, and with any read while it is known not to answer.
const KEPT_AFTER: Duration = Duration::from_secs(3);
/// Between two looks whether upstream answers; one that takes longer says that it does not.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The same while it has not said yet that it believes us: until then nothing is forwarded.
const FIRST_LOOKS: Duration = Duration::from_millis(500);
/// The time of a look at what it serves, which is many questions.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers of different names that are forwarded.
const HEADERS_MAX: usize = 1_024;
/// As whom it looks: somebody without any rights.
const LOOKER: &str = "watchcache:replica";

/// The kube-apiserver whose etcd this server shares.
pub struct Replica {
    pub(super) upstream: FollowedUpstream,
    pub(super) hop: headers::LoopMarker,
    metrics: Arc<Metrics>,
    pub(super) documents: Arc<DocumentCache>,
    /// What clients need to start, fetched before they ask.
    pub(super) essentials: Essentials,
    /// What the ages of documents count from.
    pub(super) born: Instant,
    /// Groups of whom we are when we look at what upstream has.
    check_groups: Vec<String>,
    follow: Follow,
    proof: Proof,
    /// What is in memory comes from upstream itself, a resource from when it is first asked for.
    pub(super) is_source: bool,
    /// Resources that upstream answers, and how often their watches were ended since.
    ended: Mutex<HashMap<Arc<str>, u8>>,
    /// Of watches from before what memory reaches back to.
    places: reach::Places,
    /// Why it does not answer now.
    trouble: ArcSwapOption<String>,
    /// How it has failed last: when it was looked at, or a request was forwarded.
    fault: ArcSwapOption<Fault>,
    /// What is wrong with what it says of what it serves.
    discovery: ArcSwapOption<String>,
    /// In which headers it believes front proxies, once that is known.
    trusted: ArcSwapOption<Trusted>,
    looped: Notify,
    /// The files have changed.
    renewed: Notify,
}

/// Upstream as the files say, which is sent the bodies of clients' requests.
pub type FollowedUpstream = Followed<Body>;

/// Who answers a request.
pub(super) enum Destination {
    /// This server.
    Here,
    /// This server, or upstream if etcd does not answer.
    Either(Forwarding),
    /// Upstream.
    Upstream(Forwarding),
}

impl Destination {
    /// Returns whether upstream answers, and judges as whom the client may act.
    pub(super) fn judges_impersonation(&self) -> bool {
        matches!(self, Self::Upstream(forwarding) if forwarding.upstream.auth_mode().keeps_impersonation())
    }

    /// Returns whether upstream answers, without an end of its own.
    pub(super) fn has_no_end(&self) -> bool {
        matches!(self, Self::Upstream(Forwarding { is_long: true, .. }))
    }
}

/// How a request is forwarded.
#[derive(Clone)]
pub(super) struct Forwarding {
    pub(super) reason: Reason,
    /// As who judges impersonation was chosen for it.
    pub(super) upstream: Arc<Upstream<Body>>,
    pub(super) is_long: bool,
    /// How long the head of the answer is waited for at most.
    pub(super) limit: Duration,
    /// Of a watch from before what memory reaches back to.
    pub(super) place: Option<reach::Place>,
}

impl Forwarding {
    /// Whether it may be answered as it was kept when upstream is away: who asks is then judged here.
    fn is_document(&self, request: &Request) -> bool {
        self.reason == Reason::Document
            && request.method() == Method::GET
            && self.upstream.is_verified()
            && !is_impersonated(request.headers())
    }
}

impl Replica {
    /// Returns the replica of this upstream.
    #[must_use]
    pub fn new(upstream: FollowedUpstream, check_groups: Vec<String>, metrics: Arc<Metrics>) -> Self {
        let hop = headers::LoopMarker::named(&uuid::Uuid::new_v4().simple().to_string());
        Self {
            upstream,
            hop,
            metrics,
            documents: Arc::default(),
            check_groups,
            follow: Follow::default(),
            proof: Proof::default(),
            is_source: false,
            ended: Mutex::default(),
            places: reach::Places::default(),
            essentials: Essentials::default(),
            born: Instant::now(),
            trouble: ArcSwapOption::empty(),
            fault: ArcSwapOption::empty(),
            discovery: ArcSwapOption::empty(),
            trusted: ArcSwapOption::empty(),
            looped: Notify::new(),
            renewed: Notify::new(),
        }
    }

    /// In front of the API server that its objects come from: there is no etcd that has to be upstream's.
    #[must_use]
    pub fn of_its_source(self) -> Self {
        Self { is_source: true, ..self }
    }

    /// Returns the files that say where it is and who we are there, unless others look at them.
    #[must_use]
    pub fn files(&self) -> Option<&dyn Reload> {
        self.upstream.files()
    }

    /// Has upstream looked at at once, for it may be another one, or believe us now.
    pub fn renewed(&self) {
        self.renewed.notify_one();
    }

    /// What `/readyz` says of upstream. Reads go on without it, once it is known that it was there and believed us.
    pub(super) fn wrong(&self) -> Option<Wrong> {
        let trouble = self.trouble.load_full();
        if let Some(missing) = self.missing() {
            return Some(Wrong::fails(trouble.map_or_else(|| missing.clone(), |why| format!("{missing}; {why}"))));
        }
        if self.upstream.now().is_verified() {
            return trouble.map(|why| (*why).clone()).or_else(|| self.besides()).map(Wrong::noted);
        }
        Some(Wrong::fails(trouble.map_or_else(|| "it has not been asked yet".to_owned(), |why| (*why).clone())))
    }

    /// What of what we tell it of clients it would not believe.
    fn missing(&self) -> Option<String> {
        let missing = self.trusted.load().as_ref()?.missing().filter(|_| self.upstream.now().auth_mode() == AuthMode::FrontProxy)?;
        Some(format!("it does not believe what is told of {missing}: see its --requestheader-… flags"))
    }

    /// What else is not as it should be with what it believes of a front proxy.
    fn besides(&self) -> Option<String> {
        let trusted = self.trusted.load_full().filter(|_| self.upstream.now().auth_mode() == AuthMode::FrontProxy)?;
        let unheard = trusted.unheard().map(|unheard| format!("it does not believe what is told of {unheard}"));
        let besides =
            trusted.besides().map(|besides| format!("it also believes the headers {besides}, which are taken out of what clients send"));
        let all: Vec<String> = unheard.into_iter().chain(besides).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Follows in which headers upstream believes front proxies, as it tells in a ConfigMap, until the process ends.
    pub async fn follow_trusted(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>, prefix: Arc<str>) {
        let (namespace, name) = CONFIG_MAP;
        let config_maps = resources.load().find("", "v1", "configmaps").cloned();
        let is_known = |resource: &Arc<Resource>| resource.handle.included.as_ref().is_none_or(|included| included.has(namespace));
        let Some(config_maps) = config_maps.filter(is_known) else {
            tracing::warn!("it is not known which headers upstream believes; only X-Remote-… is taken out of what clients send");
            return self.trusted.store(Some(Arc::default()));
        };
        let (key, mut seen) = (Bytes::from(format!("{prefix}{}/{namespace}/{name}", config_maps.served.storage.id)), None);
        loop {
            let (snapshot, keys) = config_maps.handle.published.next(&mut seen).await;
            if keys.is_some_and(|keys| !keys.contains(&key)) {
                continue;
            }
            let read = snapshot.known_part(&key).map(|object| {
                let mut json = Vec::new();
                config_maps.encoders.whole().encoder.object_into(object, &mut json);
                Trusted::read(&json)
            });
            match read {
                Some(Ok(trusted)) => self.trusted.store(Some(Arc::new(trusted))),
                // Not there yet, or not any more: what was known counts on.
                None => drop(self.trusted.compare_and_swap(&None::<Arc<Trusted>>, Some(Arc::default()))),
                Some(Err(why)) => {
                    tracing::warn!(namespace, name, %why, "which headers upstream believes cannot be read");
                    self.trusted.compare_and_swap(&None::<Arc<Trusted>>, Some(Arc::default()));
                }
            }
            for why in self.missing().into_iter().chain(self.besides()) {
                tracing::warn!(upstream = %self.upstream.now().url(), %why, "upstream believes other headers than this server sends");
            }
        }
    }

    /// What is kept of the answer to this request.
    fn kept(&self, forwarding: &Forwarding, context: &Authenticated, request: &Request) -> Option<Kept> {
        if forwarding.is_document(request) { Kept::find(self, &context.line, request) } else { None }
    }

    /// Answers what is upstream's: by asking it, or `here` with what is kept of its answer when it is away.
    pub(super) async fn answer<F: Future<Output = Response>>(
        &self,
        forwarding: Forwarding,
        context: &Authenticated,
        request: Request,
        here: impl FnOnce(Request, Option<Kept>) -> F,
    ) -> Response {
        let Some(kept) = self.kept(&forwarding, context, &request) else { return self.pass(forwarding, context, request).await };
        let again = copy(&request);
        if self.answers() {
            let response = self.pass(Forwarding { limit: KEPT_AFTER, ..forwarding }, context, request).await;
            if !matches!(response.status(), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) {
                return response;
            }
        }
        here(again, Some(kept)).await
    }

    /// Notes how upstream has failed just now.
    fn failed(&self, why: &str) {
        self.fault.store(Some(Arc::new(Fault { at: SystemTime::now(), why: why.into() })));
    }

    /// Milliseconds since this server began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Ends when upstream turns out to be this server itself.
    pub async fn looped(&self) {
        self.looped.notified().await;
    }

    /// 508 for a request that this server has sent itself.
    pub(super) fn loops(&self, headers: &HeaderMap) -> Option<Status> {
        self.hop.was_here(headers).then(|| Status::loop_detected("this server is its own --upstream-server"))
    }

    /// Keeps what a client proves by who it is, when upstream is to see it.
    pub(super) fn keep_proof(&self, headers: &HeaderMap) -> Option<ClientProof> {
        (self.upstream.now().auth_mode() == AuthMode::OwnToken).then(|| ClientProof::of(headers))
    }

    /// Passes a request on and its answer back.
    pub(super) async fn pass(
        &self,
        Forwarding { reason, upstream, is_long, limit: most, place }: Forwarding,
        context: &Authenticated,
        mut request: Request,
    ) -> Response {
        let (Arrived { conn, reply, at, until, .. }, began) = (&**context, Instant::now());
        let user = &context.user;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let until = (*until + UPSTREAM_FIRST).min(*at + most);
        // A write is not given up: it may have been carried out.
        let may_give_up = matches!(method, Method::GET | Method::HEAD);
        if let Some(shortened) = place.as_ref().and_then(|_| reach::shortened(request.uri())) {
            *request.uri_mut() = shortened;
        }
        if let Some(record) = reply.record() {
            record.annotate("watchcache.io/forwarded", reason.name());
        }
        let answer = async {
            let (request, client) = self.outward(&upstream, context, request)?;
            let (mut head, body) = request.into_parts();
            let look = self.documents.request(&mut head);
            let request = Request::from_parts(head, body);
            let is_nobody =
                user.name == ANONYMOUS || upstream.auth_mode() == AuthMode::OwnToken && !request.headers().contains_key(AUTHORIZATION);
            let address = conn.peer.ip().to_canonical().to_string();
            let name = if user.name == ANONYMOUS { &address } else { &user.name };
            let answer = upstream.send(request, Client { name, is_nobody, is_long }).await.map_err(|error| {
                if matches!(error, UpstreamError::Unreachable(_) | UpstreamError::Broken(_)) {
                    self.failed(&error.to_string());
                }
                failure(&error, &method)
            })?;
            Ok::<_, Status>((answer, client, look))
        };
        let answer = tokio::select! {
            answer = answer => Some(answer),
            () = sleep_until(until), if !is_long => None,
            () = self.away(), if may_give_up => None,
        };
        let response = match answer {
            Some(Ok((answer, client, look))) => {
                back(answer, client, is_long.then(|| conn.stop.clone()), look.map(|look| (look, &self.documents)), self.now_ms())
            }
            Some(Err(status)) => reply.status(&status),
            None => {
                tracing::warn!(%method, path, "the API server behind this one has not answered in time");
                self.failed("a request that was forwarded was not answered in time");
                reply.timed_out()
            }
        };
        self.metrics.was_forwarded(reason.name(), response.status().as_str(), began.elapsed());
        reach::holding(response, place)
    }

    /// The request as upstream gets it, and whether the protocol of the client's connection may change.
    fn outward(&self, upstream: &Upstream<Body>, context: &Authenticated, request: Request) -> Result<(Request, bool), Status> {
        let manner = upstream.auth_mode();
        let (mut head, body) = request.into_parts();
        // Whoever comes with credentials of his own names nobody who must be believed; and two servers that forward to each other find out only by what is
        // forwarded.
        if manner != AuthMode::OwnToken && !upstream.is_verified() {
            return Err(Status::unavailable(
                "the API server behind this one has not said yet that it believes what this one says of clients",
                1,
            ));
        }
        let trusted = self.trusted.load_full();
        if trusted.is_none() && manner == AuthMode::FrontProxy {
            return Err(Status::unavailable(
                "it is not known yet in which headers the API server behind this one believes front proxies",
                1,
            ));
        }
        if head.headers.keys_len() > HEADERS_MAX {
            return Err(Status::bad_request(format!("more than {HEADERS_MAX} headers")));
        }
        let may_change = head.extensions.remove::<OnUpgrade>().is_some();
        if !may_change {
            head.headers.remove(UPGRADE);
        }
        headers::outward(
            &mut head.headers,
            &self.hop,
            &context.conn.peer.ip().to_canonical().to_string(),
            manner.keeps_impersonation(),
            &trusted.unwrap_or_default(),
        );
        let proof = context.client_proof.as_ref();
        let token = proof.and_then(|proof| proof.authorization.as_ref());
        manner.name(&context.user, token, &mut head.headers).map_err(|error| Status::bad_request(error.to_string()))?;
        if let Some(proof) = proof {
            replace(&mut head.headers, &SEC_WEBSOCKET_PROTOCOL, &proof.protocols);
        }
        if let Ok(id) = HeaderValue::try_from(context.reply.audit_id()) {
            head.headers.insert(AUDIT_ID, id);
        }
        if body.is_end_stream() {
            head.headers.remove(CONTENT_LENGTH);
        }
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (head.method, head.uri, head.headers);
        Ok((request, may_change))
    }
}

impl Behind for Replica {
    fn checks(&self, resources: &ServedResources) -> Vec<Check> {
        let wrong = |(why, goes_on): (String, bool)| if goes_on { Wrong::noted(why) } else { Wrong::fails(why) };
        let mut checks = vec![("upstream", self.wrong()), ("upstream-discovery", self.discovery_wrong(resources).map(wrong))];
        if !self.is_source {
            checks.push(("upstream-etcd", self.proof.etcd_wrong().map(wrong)));
            checks.push(("upstream-resources", self.proof.resources_wrong().map(wrong)));
        }
        checks
    }

    fn is_source(&self) -> bool {
        self.is_source
    }

    fn not_followed(&self, resources: &ServedResources) -> Option<String> {
        not_followed(resources)
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({
            "server": self.upstream.now().url().to_string(),
            "answers": self.answers(),
            "trouble": self.trouble.load_full().map(|why| (*why).clone()),
            "documentsAgeSeconds": self.essentials.age().map(|age| age.as_secs_f64()),
            "documentsBytes": self.documents.bytes(),
        })
    }

    fn fault(&self) -> Option<Arc<Fault>> {
        self.fault.load_full()
    }

    fn forwarded_for(&self, resource: &Resource) -> Option<Reason> {
        let published = &resource.handle.published;
        let availability = match self.availability(resource, &published.known(), false) {
            _ if !self.is_ours(resource, None) => Availability::Absent,
            // Who asks for it waits until it is there.
            Availability::Loading if self.is_source && !published.fed().is_declined() => return None,
            availability => availability,
        };
        match backend_for(&Method::GET, RequestClass::Resource { availability, foreign_part: false }) {
            Backend::Memory => None,
            Backend::Upstream(reason) => Some(reason),
        }
    }

    fn answers(&self) -> bool {
        self.trouble.load().is_none() && self.upstream.now().is_verified()
    }
}

fn failure(error: &UpstreamError, method: &Method) -> Status {
    let why = format!("the API server behind this one does not answer: {error}");
    match error {
        UpstreamError::TooMany => Status::too_many_requests(error.to_string(), 1),
        UpstreamError::GivenUp(pause) => {
            Status::too_many_requests(error.to_string(), u32::try_from(pause.as_secs() + 1).unwrap_or(u32::MAX))
        }
        UpstreamError::BadTarget(_) => Status::bad_request(error.to_string()),
        UpstreamError::Unreachable(_) => Status::unavailable(why, 1),
        // A client must not repeat by itself what may have been done.
        UpstreamError::Broken(_) if matches!(*method, Method::GET | Method::HEAD) => Status::unavailable(why, 1),
        UpstreamError::Broken(_) => Status::bad_gateway(why),
    }
}

/// Upstream's answer as the client gets it.
fn back(
    answer: Answer,
    may_change: bool,
    long: Option<Receiver<bool>>,
    look: Option<(DocumentRequest, &Arc<DocumentCache>)>,
    now_ms: u64,
) -> Response {
    let Answer { response, upgraded } = answer;
    let (mut head, body) = response.into_parts();
    headers::inward(&mut head.headers, upgraded.is_some());
    head.extensions.clear();
    let is_long = long.is_some();
    let stopped = long.map(|mut stop| {
        async move {
            // A sender that is gone means the same.
            let _ = stop.wait_for(|stopped| *stopped).await;
        }
        .boxed()
    });
    let kept = match look.map(|(look, documents)| (look.outcome(&mut head, now_ms), documents)) {
        Some((CacheOutcome::NotModified(document), _)) => return Response::from_parts(head, Body::from(document)),
        Some((CacheOutcome::Cache(keeping), documents)) => Some((keeping, documents.clone())),
        Some((CacheOutcome::Pass, _)) | None => None,
    };
    let mut response = Response::from_parts(head, Body::new(Passing { body, stopped, kept }));
    if let Some(upstream) = upgraded {
        let tunnel = may_change.then(|| Box::new(Tunnel { upstream }) as Box<dyn server::Follow>);
        *response.body_mut() = Body::empty();
        extras::of(&mut response).upgrade = Some(Handshake::followed_by(tunnel));
    } else if is_long {
        let until = Instant::now() + LONG;
        extras::of(&mut response).long_running = Some(LongRunning { until, may_rest: Arc::new(AtomicBool::new(true)) });
    }
    response
}

/// As whom it is looked whether upstream answers.
pub(super) fn looker(manner: AuthMode) -> Client<'static> {
    Client { name: LOOKER, is_nobody: manner == AuthMode::OwnToken, is_long: false }
}

fn replace(headers: &mut HeaderMap, name: &HeaderName, values: &[HeaderValue]) {
    headers.remove(name);
    for value in values {
        headers.append(name, value.clone());
    }
}

/// The same request once more; none that is read has a body.
pub(super) fn copy(request: &Request) -> Request {
    let mut copy = Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// Whether it is to be carried out as somebody else, which was judged here and must not be judged otherwise there.
pub(super) fn is_impersonated(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}
