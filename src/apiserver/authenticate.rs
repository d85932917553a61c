//! The stages that find out who asks, and as whom the request is carried out (spec api-surface §12).

use std::{
    net::IpAddr,
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime},
};

use axum::{extract::Request, response::Response};
use http::header::AUTHORIZATION;
use server::ListenerKind;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    api::Api,
    audit,
    conn::ConnInfo,
    context::{Arrived, Authenticated},
    path::Route,
    status::Status,
    websocket,
};
use auth::access::{Impersonator, about, directory::Cached};
use auth::authn::{AuthenticatedUser, AuthnOutcome, Context, Identity, Impersonated, Impersonation, Kind, Mode};
use auth::providers::NotSaid;
use auth::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

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

/// What is told about the credentials of a request.
#[derive(Default)]
pub(super) struct Remarks {
    /// The client.
    pub(super) warning: Option<&'static str>,
    /// The audit log.
    pub(super) annotation: Option<(&'static str, String)>,
}

/// Finds out who asks. Unknown clients get 401; health may be asked by anyone, but never with wrong credentials.
pub(super) async fn authenticate(
    api: &Arc<Api>,
    arrived: Box<Arrived>,
    request: &mut Request,
) -> Result<(Authenticated, Remarks), Response> {
    let conn = &arrived.conn;
    let identity = match conn.listener {
        ListenerKind::Plain => Identity::Local,
        ListenerKind::Secure => match api.ask_until_new(request, conn).await {
            Err(status) => return Err(arrived.refused(&status)),
            Ok(AuthnOutcome::Identity(identity)) => identity,
            Ok(AuthnOutcome::NeedsRemote(elsewhere)) => {
                conn.seat.asked_about(arrived.until.saturating_duration_since(arrived.at) + ANSWER_TIME);
                let _place = conn.heads.wait(&arrived.head).await.map_err(|full| arrived.refused(&full.into()))?;
                // Boxed, as few ask.
                let asked = Box::pin(api.identity.providers.authenticate(elsewhere, &[], conn.peer.ip(), arrived.until));
                let identity = match timeout_at(arrived.until, asked).await {
                    Ok(Ok(identity)) => identity,
                    Ok(Err(not_said)) => return Err(arrived.refused(&not_said.into())),
                    Err(_) => return Err(arrived.timed_out()),
                };
                if matches!(identity, Identity::User(_)) {
                    request.headers_mut().remove(AUTHORIZATION);
                }
                identity
            }
        },
    };
    let proof = match identity {
        Identity::Local => AuthenticatedUser { user: LOCAL.clone(), ..AuthenticatedUser::default() },
        Identity::User(proof) if proof.user.name == ANONYMOUS => {
            conn.seat.probed();
            proof
        }
        Identity::User(proof) if conn.seat.prove(&proof.user.name).is_err() => {
            let status = Status::too_many_requests("this user has too many connections open, please try again later", 1);
            return Err(arrived.refused(&status));
        }
        Identity::User(proof) => {
            conn.heads.owned_by(&proof.user.name);
            proof
        }
        Identity::None if matches!(arrived.line.route, Ok(Route::Health { .. })) => {
            conn.seat.probed();
            AuthenticatedUser { user: NOBODY.clone(), ..AuthenticatedUser::default() }
        }
        Identity::None | Identity::Invalid(_) => return Err(audit::refuse(api, request.headers(), &arrived, &Status::unauthorized()).await),
    };
    let AuthenticatedUser { user, expires, credential, annotation, last_use, warning, .. } = proof;
    if let Some(last) = last_use {
        api.identity.last_uses.note(&api.writer, &api.resources, last);
    }
    let mut authenticated = Authenticated::new(arrived, user);
    (authenticated.credential, authenticated.expires) = (credential, expires);
    Ok((authenticated, Remarks { warning, annotation }))
}

/// Finds out as whom a request is carried out, and whether that may be.
pub(super) async fn act_as(api: &Api, authenticated: &mut Authenticated, request: &mut Request) -> Result<(), Response> {
    let wanted = match Impersonation::wanted(request.headers_mut()) {
        Ok(None) => return Ok(()),
        Ok(Some(wanted)) => wanted,
        Err(message) => return Err(authenticated.refused(&Status::bad_request(message))),
    };
    let user = authenticated.user.clone();
    let info = authenticated.line.info().clone();
    let asker = authenticated.asker(&user);
    let judged = api.access.act_as(&asker, &info, &wanted);
    let acting = match timeout_at(authenticated.until, judged).await {
        Ok(Ok(Ok(Impersonated { user, mode }))) => {
            authenticated.head.grow(user.weight() + wanted.weight()).map_err(|full| authenticated.refused(&full.into()))?;
            let user = Arc::new(user);
            if let Some(record) = authenticated.reply.record() {
                record.impersonated(&user, (mode != Mode::Legacy).then(|| mode.verb()));
            }
            user
        }
        Ok(Ok(Err(no))) => {
            return Err(authenticated.refused(&Status::access_denied(&about(&info, &user, &no.question), &no.reason)));
        }
        Ok(Err(undecided)) => return Err(authenticated.refused(&undecided.into())),
        Err(_) => return Err(authenticated.timed_out()),
    };
    authenticated.user = acting;
    authenticated.impersonator = Some(Impersonator { user, wanted: Arc::new(wanted) });
    Ok(())
}

impl Api {
    /// What memory tells of who sent a request on the TLS listener. A token that rests on an object that is not there is judged again when memory is as new as
    /// etcd, as kube-apiserver then asks etcd: another server may have made both a moment ago.
    ///
    /// # Errors
    /// Memory is not: a no would be a judgement about what is not known.
    async fn ask_until_new(&self, request: &mut Request, conn: &ConnInfo) -> Result<AuthnOutcome, Status> {
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
        let certificate = self.identity.authenticator.evaluated(&conn.certificate, now);
        let resources = self.resources.load();
        let directory = Cached::new(&resources, self.reader.prefix());
        let context = Context { path: &path, certificate: &certificate, is_socket, directory: &directory, now };
        self.identity.authenticator.identify(request.headers_mut(), &context)
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
    ) -> Result<Result<AuthenticatedUser, String>, NotSaid> {
        let review = || {
            let resources = self.resources.load();
            let directory = Cached::new(&resources, self.reader.prefix());
            self.identity.authenticator.review(token, audiences, &directory, SystemTime::now())
        };
        let mut asked = review();
        if asked.may_be_stale() {
            self.catch_up().await;
            asked = review();
        }
        let identity = match asked {
            AuthnOutcome::Identity(identity) => identity,
            AuthnOutcome::NeedsRemote(elsewhere) => self.identity.providers.authenticate(elsewhere, audiences, client.0, client.1).await?,
        };
        Ok(match identity {
            Identity::User(proof) => Ok(proof),
            Identity::Invalid(refusal) => Err(refusal.to_string()),
            Identity::None | Identity::Local => Err(String::new()),
        })
    }
}
