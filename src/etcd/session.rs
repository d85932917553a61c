//! Who we are to an etcd that has users: the token that it gave for our name and password. etcd forgets a token that is not used for a while.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::Mutex;
use proto::auth_client::AuthClient;
use proto::{AuthenticateRequest, Channel};
use tonic::Status;

/// The header that carries a token (etcd's `rpctypes.TokenFieldNameGRPC`).
const TOKEN: &str = "token";

/// See the file's header.
pub(super) struct Session {
    name: String,
    password: String,
    /// A way without a token: with one that etcd does not know it gives no other.
    auth: AuthClient<Channel>,
    token: Mutex<Option<HeaderValue>>,
    /// Held by the one call that gets a new token.
    renewal: tokio::sync::Mutex<()>,
}

impl Session {
    /// Has no token yet.
    pub(super) fn new(name: &str, password: &str, channel: Channel) -> Self {
        Self {
            name: name.to_owned(),
            password: password.to_owned(),
            auth: AuthClient::new(channel),
            token: Mutex::default(),
            renewal: tokio::sync::Mutex::default(),
        }
    }

    /// The same channel, whose requests carry the token that there is when they are sent.
    pub(super) fn signing(self: &Arc<Self>, channel: Channel) -> Channel {
        let session = self.clone();
        channel.with_headers(move |headers| {
            if let Some(token) = session.token() {
                headers.insert(TOKEN, token);
            }
        })
    }

    pub(super) fn token(&self) -> Option<HeaderValue> {
        self.token.lock().clone()
    }

    /// Gets a new token.
    pub(super) async fn log_in(&self) -> Result<(), Status> {
        let asked = AuthenticateRequest { name: self.name.clone(), password: self.password.clone() };
        let answer = self.auth.clone().authenticate(asked).await?.into_inner();
        let mut token = HeaderValue::try_from(answer.token).map_err(|_| Status::internal("etcd sent a token that no header can carry"))?;
        token.set_sensitive(true);
        *self.token.lock() = Some(token);
        Ok(())
    }

    /// Gets a new token in place of one that etcd refused, unless another call has done so meanwhile.
    pub(super) async fn replace(&self, refused: &Option<HeaderValue>) -> Result<(), Status> {
        let _one = self.renewal.lock().await;
        if self.token() == *refused { self.log_in().await } else { Ok(()) }
    }
}
