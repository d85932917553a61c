//! What is known of a request on its way: each stage adds what it has found out, and the type says which stages it has passed.

use std::{convert::Infallible, ops::Deref, sync::Arc, time::SystemTime};

use axum::{body::Body, extract::FromRequestParts, response::Response};
use http::request::Parts;
use server::heads;
use tokio::time::Instant;

use super::{client_proof::ClientProof, conn::ConnInfo, inflight::OpenWatch, line::RequestLine, respond::Reply, status::Status};
use auth::{
    User,
    access::{Asker, Impersonator},
    authn::Credential,
    authz::RequestInfo,
};

/// A request that has arrived: what its connection and its head say.
pub(super) struct Arrived {
    /// Where it came from.
    pub(super) conn: Arc<ConnInfo>,
    pub(super) line: RequestLine,
    /// Makes its answers.
    pub(super) reply: Reply,
    pub(super) at: Instant,
    /// When it must be answered: by the smaller of `--request-timeout` and the `timeout` parameter. A watch has its own length.
    pub(super) until: Instant,
    /// Counts its head, and what is made of it.
    pub(super) head: Arc<heads::Held>,
    /// How often somebody had lost a right before anything was decided about it.
    pub(super) losses: u64,
}

impl Arrived {
    /// Returns the answer to a request that is refused.
    pub(super) fn refused(&self, status: &Status) -> Response {
        self.reply.status(status).map(Body::new)
    }

    /// Returns the answer to a request whose time is over.
    pub(super) fn timed_out(&self) -> Response {
        self.reply.timed_out().map(Body::new)
    }

    /// Returns who is charged for what `user` asks authorizers with this request.
    pub(super) fn asker<'a>(&self, user: &'a User) -> Asker<'a> {
        Asker { user, address: Some(self.conn.peer.ip()), until: self.until }
    }
}

/// A request of somebody who is known.
pub(super) struct Authenticated {
    arrived: Box<Arrived>,
    /// Who asks, as authorizers see it.
    pub(super) user: Arc<User>,
    /// Who acts as that user.
    pub(super) impersonator: Option<Impersonator>,
    /// What proves who asks, and until when it counts.
    pub(super) credential: Credential,
    pub(super) expires: Option<SystemTime>,
    /// What the client itself sent to prove it, for an upstream that judges it again.
    pub(super) client_proof: Option<ClientProof>,
}

impl Authenticated {
    /// Returns the request as one of this user.
    pub(super) fn new(arrived: Box<Arrived>, user: Arc<User>) -> Self {
        Self { arrived, user, impersonator: None, credential: Credential::default(), expires: None, client_proof: None }
    }

    /// Returns what makes its answers, to be changed.
    pub(super) fn reply_mut(&mut self) -> &mut Reply {
        &mut self.arrived.reply
    }
}

impl Deref for Authenticated {
    type Target = Arrived;

    fn deref(&self) -> &Arrived {
        &self.arrived
    }
}

/// A request that may be answered here: what handlers are given.
#[derive(Clone)]
pub(super) struct Authorized {
    authenticated: Arc<Authenticated>,
    /// What a watch was allowed, if somebody may take that right away.
    pub(super) allowed: Option<Arc<RequestInfo>>,
    /// Counts a watch until it ends.
    pub(super) open_watch: Option<OpenWatch>,
}

impl Authorized {
    /// Returns the request as one that this was allowed.
    pub(super) fn new(authenticated: Arc<Authenticated>, allowed: Option<Arc<RequestInfo>>, open_watch: Option<OpenWatch>) -> Self {
        Self { authenticated, allowed, open_watch }
    }
}

impl Deref for Authorized {
    type Target = Authenticated;

    fn deref(&self) -> &Authenticated {
        &self.authenticated
    }
}

impl<S: Sync> FromRequestParts<S> for Authorized {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("the stages put it in before the routes"))
    }
}
