//! The router: guard, identity, then the route. Everything that is not a resource is answered here; resources go to `resource`.

use std::{
    future::poll_fn,
    net::IpAddr,
    sync::{Arc, LazyLock, OnceLock, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::from_fn_with_state,
    response::Response,
};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header::AUTHORIZATION};
use http_body_util::Full;
use server::{
    ListenerKind,
    budget::{Account, Wait},
    heads,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    accept::Asked,
    answerer, audit,
    authorize::authorize,
    caught::caught,
    content_type::{self, OBJECTS},
    cors,
    discovery::{discovery, document},
    guard,
    hand_on::{self, Replica, hand_on},
    health::{Host, Pulse},
    inflight::{self, Inflight},
    kept::Kept,
    last_use::{self, LastUses},
    line::RequestLine,
    looked_at::is_looked_at,
    mutate::warn,
    openapi,
    path::{PathError, Route},
    request_log::Told,
    respond::Reply,
    service::ConnInfo,
    settings::{Callers, Gates, Times},
    staleness,
    status::Status,
    strict_transport::keep_to_tls,
    websocket,
};
use ::audit::Audit;
use auth::access::{Access, Asker, Impersonator, about, directory::Cached};
use auth::authn::{
    Authenticated, Authenticator, AuthnOutcome, Context, Credential, Discovery, Identity, Impersonated, Impersonation, Issuer, Kind, Mode,
};
use auth::providers::{Providers, TooMany};
use auth::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
use cache::state::snapshot::Fed;
use catalogue::{Catalogue, discovery::version};
use codec::ChunkCache;
use go::duration;
use registry::ServedResources;
use storage::read::serve::Reader;
use storage::write::Writer;
use telemetry::{CONTENT_TYPE, Metrics, SLIS_CONTENT_TYPE};

/// What every request may use.
pub struct Api {
    /// What is served now.
    pub resources: Arc<ArcSwap<ServedResources>>,
    /// Reads.
    pub reader: Reader,
    /// Pieces of lists in gzip.
    pub blocks: Arc<ChunkCache>,
    /// Writes.
    pub writer: Arc<Writer>,
    /// Finds out who clients are.
    pub authenticator: Arc<Authenticator>,
    /// Whom to ask who somebody is.
    pub providers: Arc<Providers>,
    /// Decides what clients may do.
    pub access: Arc<Access>,
    /// Who writes down what they did; nobody without a policy.
    pub audit: Option<Arc<Audit>>,
    /// Who answers what this server does not; nobody when it is no replica.
    pub replica: Option<Arc<Replica>>,
    /// What is known of the cluster that this server extends; nothing when it extends none.
    pub host: Option<Host>,
    /// How many requests there may be.
    pub inflight: Inflight,
    /// How many last uses of tokens are being written.
    pub last_uses: LastUses,
    /// Who issues tokens of service accounts; nobody without a key.
    pub issuer: Option<Issuer>,
    /// Where the keys of those tokens are told.
    pub discovery: ArcSwapOption<Discovery>,
    /// Metric families.
    pub metrics: Arc<Metrics>,
    /// Whom the plain listener lets in, and whose pages may use the API.
    pub callers: Callers,
    /// What browsers are told at the TLS listener.
    pub strict_transport: Option<HeaderValue>,
    /// Time limits.
    pub times: Times,
    /// What is served only when asked for.
    pub gates: Gates,
    /// How new memory is, of each etcd; at least one.
    pub feeds: Vec<Arc<Fed>>,
    /// How old memory may be that answers; any age without it.
    pub max_staleness: Option<Duration>,
    /// Whether every built-in resource has been loaded once.
    pub loaded: AtomicBool,
    /// Whether the default roles and bindings are there.
    pub has_roles: Arc<AtomicBool>,
    /// Whether SIGTERM has come.
    pub stopping: AtomicBool,
    /// Whether the objects are in this process's own store.
    pub embedded: bool,
    /// Asks how long that store has been at a commit.
    pub store_pulse: Option<Pulse>,
    /// Why that store takes no more writes.
    pub store_failed: OnceLock<Arc<str>>,
}

/// What is known about a request before its route is looked at; layers put it in.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) line: Arc<RequestLine>,
    pub(super) reply: Reply,
    pub(super) at: Instant,
    /// How long an answer may take: the smaller of `--request-timeout` and the `timeout` parameter. A watch has its own length.
    pub(super) limit: Duration,
    /// What its connection has not read of its answers.
    pub(super) unread: Arc<Account>,
    /// What its head takes, and what is made of it.
    pub(super) head: Arc<heads::Held>,
    /// How often somebody had lost a right before anything was decided about it.
    pub(super) losses: u64,
}

/// The service of both listeners.
pub fn router(api: Arc<Api>) -> Router {
    let strict_transport = api.strict_transport.clone();
    let router = Router::new().fallback(answer).with_state(api);
    match strict_transport {
        Some(directives) => router.layer(from_fn_with_state(directives, keep_to_tls)),
        None => router,
    }
}

/// The way of a request, from outside to inside. As a layer of axum each stage would be an allocation for every stage within it (docs/decisions/0002).
async fn answer(State(api): State<Arc<Api>>, request: Request) -> Response {
    let api = &api;
    let authorized = |request| authorize(api, request, |request| route(api, request));
    let limited = |request| inflight::limit(api, request, |request| hand_on(api, request, authorized));
    let identified = |request| identify(api, request, limited);
    let told = Told::of(&request);
    Told::tell(told, arrive(api, request, |request| protect(api, request, identified)).await)
}

/// Audit id, and the `timeout` parameter, which is judged before anything else (spec api-surface §0 stage 4).
async fn arrive<F: Future<Output = Response>>(api: &Arc<Api>, mut request: Request, next: impl FnOnce(Request) -> F) -> Response {
    let conn = connection(&request);
    let read = request.extensions_mut().remove::<heads::Read>().unwrap_or_else(|| conn.heads.read(&request));
    // Upstream may look at any header, and who brings a certificate may be a proxy with headers of its own.
    if api.replica.is_none() && !conn.certificate.was_sent() {
        read.trim(&mut request, is_looked_at);
    }
    let line = Arc::new(RequestLine::parse(request.method(), request.uri()));
    let mut reply = Reply::new(request.method(), request.headers(), line.query.first("pretty"));
    let head = match read.with(request.uri().path().len() + line.query.weight()) {
        Ok(head) => head,
        Err(full) => return whole(reply.status(&full.into())),
    };
    // Told before anybody is known.
    match &line.route {
        Err(PathError::BadEscape) => return whole(reply.bad_request_line()),
        Err(PathError::NoRequestInfo(text)) => return whole(reply.no_request_info(text.clone())),
        Ok(_) => {}
    }
    if let Some(status) = hand_on::loops(api, &request) {
        return whole(reply.status(&status));
    }
    let is_watch = line.is_watch();
    // A watch is exempt from the request's time.
    if is_watch {
        reply.never_gzip();
    }
    let mut limit = api.times.request;
    if let Some(text) = line.query.first("timeout").filter(|text| !text.is_empty())
        && !is_watch
    {
        match duration::parse(text) {
            Ok(asked) if !asked.is_zero() => limit = limit.min(asked),
            Ok(_) => {}
            Err(why) => return audit::refuse(api, &request, (&line, &reply, Instant::now()), &Status::invalid_timeout(&why)).await,
        }
    }
    // No read looks at its body: what of it would wait here is let go.
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        *request.body_mut() = Body::empty();
    }
    let unread = conn.unread.clone();
    let at = Instant::now();
    // A client that does not read what it has asked for gets no more made before it does.
    let mut wait = Wait::of(&unread);
    if !unread.has_room() && timeout(limit, poll_fn(|cx| wait.poll_room(cx.waker()))).await.is_err() {
        return whole(reply.timed_out());
    }
    let losses = api.access.losses();
    request.extensions_mut().insert(Arrived { line, reply: reply.clone(), at, limit, unread: unread.clone(), head, losses });
    caught(|| next(request), &reply, &unread).await
}

/// The plain listener's checks.
async fn protect<F: Future<Output = Response>>(api: &Arc<Api>, request: Request, next: impl FnOnce(Request) -> F) -> Response {
    let conn = connection(&request);
    if conn.listener == ListenerKind::Plain
        && let Err(status) = guard::check(&api.callers, request.uri(), request.headers(), websocket::is_asked(&request))
    {
        return whole(arrived(&request).reply.status(&status));
    }
    cors::allow(api.callers.origins.as_ref(), request, next).await
}

/// Who is it, and as whom is it carried out?
async fn identify<F: Future<Output = Response>>(api: &Arc<Api>, mut request: Request, next: impl FnOnce(Request) -> F) -> Response {
    let (proof, audited) = match known(api, &mut request).await {
        Ok(known) => known,
        Err(refused) => return refused,
    };
    let warning = proof.warning;
    let mut response = match audited {
        None => proceed(api, proof, request, next).await,
        // Boxed: few have it.
        Some(audited) => Box::pin(audit::ended(audited, proceed(api, proof, request, next))).await,
    };
    if let Some(warning) = warning {
        warn(response.headers_mut(), &[warning.to_owned()]);
    }
    response
}

/// Who asks, and what the audit log has begun to tell of it. Unknown clients get 401; health may be asked by anyone, but never with wrong credentials (spec
/// api-surface §12).
async fn known(api: &Arc<Api>, request: &mut Request) -> Result<(Authenticated, Option<audit::Audited>), Response> {
    let conn = connection(request);
    hand_on::keep_proof(api, request);
    let identity = match conn.listener {
        ListenerKind::Plain => Identity::Local,
        ListenerKind::Secure => match api.asked(request, &conn).await {
            Err(status) => return Err(whole(arrived(request).reply.status(&status))),
            Ok(AuthnOutcome::Identity(identity)) => identity,
            Ok(AuthnOutcome::NeedsRemote(elsewhere)) => {
                let Arrived { at, limit, reply, head, .. } = arrived(request);
                conn.seat.asked_about(limit + ANSWER_TIME);
                let _place = conn.heads.wait(&head).map_err(|full| whole(reply.status(&full.into())))?;
                // Boxed, as few ask.
                let asked = Box::pin(api.providers.authenticate(elsewhere, &[], conn.peer.ip(), at + limit));
                let identity = match timeout_at(at + limit, asked).await {
                    Ok(Ok(identity)) => identity,
                    Ok(Err(too_many)) => return Err(whole(reply.status(&too_many.into()))),
                    Err(_) => return Err(whole(reply.timed_out())),
                };
                if matches!(identity, Identity::User(_)) {
                    request.headers_mut().remove(AUTHORIZATION);
                }
                identity
            }
        },
    };
    let proof = match identity {
        Identity::Local => Authenticated { user: LOCAL.clone(), ..Authenticated::default() },
        Identity::User(proof) if proof.user.name == ANONYMOUS => {
            conn.seat.probed();
            proof
        }
        Identity::User(proof) if conn.seat.prove(&proof.user.name).is_err() => {
            let status = Status::too_many_requests("this user has too many connections open, please try again later", 1);
            return Err(whole(arrived(request).reply.status(&status)));
        }
        Identity::User(proof) => {
            conn.heads.owned_by(&proof.user.name);
            proof
        }
        Identity::None if matches!(arrived(request).line.route, Ok(Route::Health { .. })) => {
            conn.seat.probed();
            Authenticated { user: NOBODY.clone(), ..Authenticated::default() }
        }
        Identity::None | Identity::Invalid(_) => {
            let Arrived { line, reply, at, .. } = arrived(request);
            return Err(audit::refuse(api, request, (&line, &reply, at), &Status::unauthorized()).await);
        }
    };
    if let Some(last) = proof.last_use.clone() {
        last_use::note(api, last);
    }
    let audited = audit::begin(api, &proof.user, request).await?;
    Ok((proof, audited))
}

/// Serves a request of somebody who is known, as himself or as somebody else. Turns at what is done a few at a time are the former's.
async fn proceed<F: Future<Output = Response>>(
    api: &Api,
    proof: Authenticated,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    fair::asked_by(proof.user.name.as_str().into(), async {
        match act(api, proof, &mut request).await {
            Ok(()) => next(request).await,
            Err(refused) => refused,
        }
    })
    .await
}

/// Notes as whom the request is carried out.
async fn act(api: &Api, proof: Authenticated, request: &mut Request) -> Result<(), Response> {
    let Authenticated { user, expires, credential, annotation, .. } = proof;
    let Arrived { line, at, limit, reply, head, .. } = arrived(request);
    if let (Some(record), Some((key, value))) = (reply.record(), annotation) {
        record.annotate(key, value);
    }
    let judged_upstream = answerer::decide(api, request).await;
    let wanted = if judged_upstream { Ok(None) } else { Impersonation::wanted(request.headers_mut()) };
    let (user, impersonator) = match wanted {
        Ok(None) => (user, None),
        Ok(Some(wanted)) => {
            let info = line.info(request).clone();
            let asker = asker(request, &user);
            let acting = match timeout_at(at + limit, api.access.act_as(&asker, &info, &wanted)).await {
                Ok(Ok(Ok(Impersonated { user, mode }))) => {
                    head.grow(user.weight() + wanted.weight()).map_err(|full| whole(reply.status(&full.into())))?;
                    let user = Arc::new(user);
                    if let Some(record) = reply.record() {
                        record.impersonated(&user, (mode != Mode::Legacy).then(|| mode.verb()));
                    }
                    user
                }
                Ok(Ok(Err(no))) => {
                    let status = Status::access_denied(&about(&info, &user, &no.question), &no.reason);
                    return Err(whole(reply.status(&status)));
                }
                Ok(Err(undecided)) => return Err(whole(reply.status(&undecided.into()))),
                Err(_) => return Err(whole(reply.timed_out())),
            };
            (acting, Some(Impersonator { user, wanted: Arc::new(wanted) }))
        }
        Err(message) => return Err(whole(reply.status(&Status::bad_request(message)))),
    };
    request.extensions_mut().insert(Caller { user, impersonator, expires, credential });
    Ok(())
}

/// Who asks, as authorizers see it, and until when what proves it counts.
#[derive(Clone)]
struct Caller {
    user: Arc<User>,
    /// Who acts as him.
    impersonator: Option<Impersonator>,
    expires: Option<SystemTime>,
    credential: Credential,
}

/// How much longer a connection is kept whose client is asked about elsewhere: for the answer to reach it.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How long a token waits for memory to become as new as etcd.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Who comes through the plain listener: an administrator of this machine, under the name that kube-apiserver's plain port gave.
static LOCAL: LazyLock<Arc<User>> = LazyLock::new(|| {
    let groups = vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()];
    Arc::new(User { name: "system:unsecured".to_owned(), groups, ..User::default() })
});

/// Who shows no credentials.
static NOBODY: LazyLock<Arc<User>> =
    LazyLock::new(|| Arc::new(User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }));

async fn route(api: &Arc<Api>, mut request: Request) -> Response {
    let Arrived { line, mut reply, .. } = arrived(&request);
    if let Some(kept) = request.extensions_mut().remove::<Kept>() {
        api.metrics.kept_answers.inc();
        return kept.answer(reply, &line, &request);
    }
    let route = match &line.route {
        Ok(Route::Resource(path)) => return staleness::serve(api, path, request).await,
        Ok(Route::OpenApi(rest)) => return Box::pin(openapi::serve(api, reply, request, rest.clone())).await,
        Ok(route) => route,
        Err(PathError::BadEscape) => return whole(reply.bad_request_line()),
        Err(PathError::NoRequestInfo(text)) => return whole(reply.no_request_info(text.clone())),
    };
    let resources = api.resources.load();
    let catalogue = &resources.catalogue;
    match route {
        Route::Health { endpoint, check } => whole(api.health(&reply, *endpoint, check.as_deref(), &line.query)),
        Route::Own(page) => whole(api.own(&reply, *page)),
        Route::Metrics => whole(reply.whole(StatusCode::OK, CONTENT_TYPE, api.metrics(&resources).into())),
        Route::Slis => whole(reply.whole(StatusCode::OK, SLIS_CONTENT_TYPE, api.metrics.slis.render().into())),
        Route::Discovery(document) => match &*api.discovery.load() {
            Some(discovery) => whole(reply.discovery(discovery, *document)),
            None => whole(reply.page_not_found()),
        },
        Route::Unknown { group_version } => whole(not_found(&reply, catalogue, group_version.as_ref().map(|(group, _)| &**group))),
        Route::Root => whole(reply.whole(StatusCode::OK, "application/json", catalogue.paths(PATHS))),
        // The aggregator asks for no method here, the router of built-in groups does.
        Route::Groups => discovery(reply, Asked::Discovery, &request, || catalogue.api_group_list(), || catalogue.aggregated_groups()),
        // Where it does not know the path.
        Route::Group(group)
            if request.method() != Method::GET && request.uri().path().ends_with("//") && catalogue.is_built_in_group(group) =>
        {
            whole(reply.status(&Status::method_not_allowed()))
        }
        Route::Group(group) => match catalogue.api_group(group) {
            Some(found) => document(reply, Asked::Document, &request, &found),
            None => whole(reply.page_not_found()),
        },
        Route::Resources { group, version } => {
            let asked = if catalogue.is_built_in_group_version(group, version) { Asked::RoutedDocument } else { Asked::Document };
            match catalogue.api_resource_list(group, version) {
                Some(_) if asked == Asked::RoutedDocument && request.method() != Method::GET => {
                    whole(reply.status(&Status::method_not_allowed()))
                }
                Some(found) => document(reply, asked, &request, &found),
                None => whole(not_found(&reply, catalogue, Some(group))),
            }
        }
        _ if request.method() != Method::GET => whole(reply.status(&Status::method_not_allowed())),
        Route::Version => {
            match content_type::routed(request.headers(), &OBJECTS[..1], true).and_then(|()| reply.negotiate(Asked::JsonDocument)) {
                Ok(_) => whole(reply.whole(StatusCode::OK, "application/json", version())),
                Err(status) => whole(reply.status(&status)),
            }
        }
        Route::CoreVersions if !catalogue.has_built_ins() => whole(reply.page_not_found()),
        Route::CoreVersions => {
            let address = connection(&request).local.to_string();
            discovery(reply, Asked::RoutedDiscovery, &request, || catalogue.api_versions(&address), || catalogue.aggregated_core())
        }
        Route::Resource(_) | Route::OpenApi(_) => unreachable!("served above"),
    }
}

/// Paths besides the API groups that `/` lists.
const PATHS: &[&str] = &["/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// 404 inside a built-in group, whatever the version, is a Status, elsewhere text (spec api-surface §1.1).
pub(super) fn not_found(reply: &Reply, catalogue: &Catalogue, group: Option<&str>) -> Response<Full<Bytes>> {
    match group {
        Some(group) if catalogue.is_built_in_group(group) => reply.status(&Status::not_found_generic()),
        _ => reply.page_not_found(),
    }
}

impl Api {
    /// What memory tells of who sent a request on the TLS listener. A token that rests on an object that is not there is judged again when memory is as new as
    /// etcd, as kube-apiserver then asks etcd: another server may have made both a moment ago.
    ///
    /// # Errors
    /// Memory is not: a no would be a judgement about what is not known.
    async fn asked(&self, request: &mut Request, conn: &ConnInfo) -> Result<AuthnOutcome, Status> {
        let protocols = websocket::is_asked(request).then(|| request.headers().clone());
        let first = self.ask(request, conn);
        if !first.may_be_stale() {
            return Ok(first);
        }
        let is_new = self.catch_up().await;
        // A token among the subprotocols is taken out when it is judged.
        if let Some(protocols) = protocols {
            *request.headers_mut() = protocols;
        }
        match self.ask(request, conn) {
            judged if judged.may_be_stale() && !is_new => {
                Err(Status::unavailable("what this token is bound to cannot be looked up now, please try again later", 1))
            }
            judged => Ok(judged),
        }
    }

    /// Waits until what tokens rest on is as new as etcd is now; whether it is.
    async fn catch_up(&self) -> bool {
        let resources = self.resources.load_full();
        let follow = async {
            for kind in Kind::ALL {
                if let Some(resource) = resources.find("", "v1", kind.resource()) {
                    let Ok(newest) = self.reader.latest_revision_of(&resource.served.storage.id).await else { return false };
                    if resource.handle.published.wait_for(newest, CATCH_UP).await.is_err() {
                        return false;
                    }
                }
            }
            true
        };
        timeout(CATCH_UP, follow).await.unwrap_or(false)
    }

    /// What memory tells of who sent a request on the TLS listener.
    fn ask(&self, request: &mut Request, conn: &ConnInfo) -> AuthnOutcome {
        let (path, is_socket) = (request.uri().path().to_owned(), websocket::is_asked(request));
        let now = SystemTime::now();
        let certificate = self.authenticator.evaluated(&conn.certificate, now);
        let resources = self.resources.load();
        let directory = Cached::new(&resources, self.reader.prefix());
        let context = Context { path: &path, certificate: &certificate, is_socket, directory: &directory, now };
        self.authenticator.identify(request.headers_mut(), &context)
    }

    /// Whose bearer token it is, when it is for one of these audiences; or why it is nobody's. `client` is who asks, and how long he waits for his turn.
    ///
    /// # Errors
    /// Nobody could be asked in time.
    pub(super) async fn review_token(
        &self,
        token: &str,
        audiences: &[String],
        client: (IpAddr, Instant),
    ) -> Result<Result<Authenticated, String>, TooMany> {
        let review = || {
            let resources = self.resources.load();
            let directory = Cached::new(&resources, self.reader.prefix());
            self.authenticator.review(token, audiences, &directory, SystemTime::now())
        };
        let mut asked = review();
        if asked.may_be_stale() {
            self.catch_up().await;
            asked = review();
        }
        let identity = match asked {
            AuthnOutcome::Identity(identity) => identity,
            AuthnOutcome::NeedsRemote(elsewhere) => self.providers.authenticate(elsewhere, audiences, client.0, client.1).await?,
        };
        Ok(match identity {
            Identity::User(proof) => Ok(proof),
            Identity::Invalid(refusal) => Err(refusal.to_string()),
            Identity::None | Identity::Local => Err(String::new()),
        })
    }
}

/// What the outermost layer put in.
pub(super) fn arrived(request: &Request) -> Arrived {
    request.extensions().get::<Arrived>().cloned().expect("the layer `arrive` is outermost")
}

/// Who asks.
pub(super) fn caller(request: &Request) -> Arc<User> {
    request.extensions().get::<Caller>().map(|caller| caller.user.clone()).expect("the layer `identify` is before all that ask")
}

/// Who acts as the one who asks, if anybody.
pub(super) fn impersonator(request: &Request) -> Option<Impersonator> {
    request.extensions().get::<Caller>().and_then(|caller| caller.impersonator.clone())
}

/// Who is charged for what `user` asks authorizers with this request.
pub(super) fn asker<'a>(request: &Request, user: &'a User) -> Asker<'a> {
    let arrived = request.extensions().get::<Arrived>().expect("the layer `arrive` is outermost");
    let conn = request.extensions().get::<Arc<ConnInfo>>().expect("the listeners say where a request came from");
    Asker { user, address: Some(conn.peer.ip()), until: arrived.at + arrived.limit }
}

/// Until when what proves who asks counts.
pub(super) fn expiry(request: &Request) -> Option<SystemTime> {
    request.extensions().get::<Caller>().and_then(|caller| caller.expires)
}

/// What proves who asks.
pub(super) fn credential(request: &Request) -> Credential {
    request.extensions().get::<Caller>().map(|caller| caller.credential.clone()).unwrap_or_default()
}

pub(super) fn connection(request: &Request) -> Arc<ConnInfo> {
    request.extensions().get::<Arc<ConnInfo>>().cloned().expect("the listeners say where a request came from")
}

/// A finished body as axum's.
pub(super) fn whole(response: Response<Full<Bytes>>) -> Response {
    response.map(Body::new)
}

pub(super) fn without_newline(document: &[u8]) -> Vec<u8> {
    document.strip_suffix(b"\n").unwrap_or(document).to_vec()
}
