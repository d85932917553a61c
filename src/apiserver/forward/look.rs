//! Whether upstream answers, and believes what this server says of clients: looked at again and again.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Request};
use http::{
    HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, timeout};
use upstream::{Answer, AuthMode, Trusted, headers};

use super::super::check::Behind;
use super::{FIRST_LOOKS, KEPT_AFTER, LOOK_INTERVAL, LOOKER, Replica, looker};
use auth::{AUTHENTICATED, User};

/// Between two looks of a read that waits for upstream whether that is known not to answer.
const AWAY_LOOK: Duration = Duration::from_millis(500);
/// Bytes of the answer to such a look.
const LOOK_BYTES_MAX: usize = 64 << 10;

impl Replica {
    /// Looks again and again whether upstream answers and believes us, until the process ends.
    pub async fn look(self: Arc<Self>) {
        let mut server = String::new();
        loop {
            let found = timeout(LOOK_INTERVAL, self.look_once()).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
            match found {
                Ok(()) => {
                    if self.trouble.swap(None).is_some() {
                        tracing::info!(upstream = %self.upstream.now().url(), "upstream answers");
                    }
                }
                Err(why) => {
                    self.failed(&why);
                    let told = self.trouble.swap(Some(Arc::new(why.clone())));
                    if told.is_none_or(|told| *told != why) {
                        tracing::warn!(upstream = %self.upstream.now().url(), %why, "upstream does not answer as it should");
                    }
                }
            }
            let now = self.upstream.now().url().to_string();
            if now != server {
                // Of a server that is no longer upstream nothing is known; at first there is none.
                let _ = self.metrics.upstream_up.remove_label_values(&[&server]);
                server = now;
            }
            self.metrics.upstream_up.with_label_values(&[&server]).set(i64::from(self.trouble.load().is_none()));
            tokio::select! {
                () = sleep(if self.upstream.now().is_verified() { LOOK_INTERVAL } else { FIRST_LOOKS }) => {}
                () = self.renewed.notified() => {}
            }
        }
    }

    /// A request of nobody in particular.
    pub(in super::super) fn look_request(&self, manner: AuthMode) -> Result<Request, String> {
        let mut request = Request::new(Body::empty());
        headers::outward(request.headers_mut(), &self.hop, "127.0.0.1", false, &Trusted::default());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let looker = User { name: LOOKER.to_owned(), groups: vec![AUTHENTICATED.to_owned()], ..User::default() };
        manner.name(&looker, None, request.headers_mut()).map_err(|error| error.to_string())?;
        Ok(request)
    }

    /// Asks upstream who we say that somebody is; where clients bring their own tokens, anything.
    async fn look_once(&self) -> Result<(), String> {
        let upstream = self.upstream.now();
        let manner = upstream.auth_mode();
        let mut request = self.look_request(manner)?;
        if manner == AuthMode::OwnToken {
            *request.uri_mut() = http::Uri::from_static("/version");
        } else {
            *request.method_mut() = Method::POST;
            *request.uri_mut() = http::Uri::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Body::from(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#);
        }
        let Answer { response, .. } = upstream.send(request, looker(manner)).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LOOK_BYTES_MAX).collect().await.map_err(|error| error.to_string())?.to_bytes();
        match (status, manner) {
            (StatusCode::LOOP_DETECTED, _) => {
                self.looped.notify_one();
                Err("it is this server itself".to_owned())
            }
            (_, AuthMode::OwnToken) if !status.is_server_error() => {
                upstream.set_verified(true);
                Ok(())
            }
            (StatusCode::CREATED, _) => {
                let review: serde_json::Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                let name = review["status"]["userInfo"]["username"].as_str();
                upstream.set_verified(name == Some(LOOKER));
                match name {
                    Some(LOOKER) => Ok(()),
                    name => Err(format!("it takes us for {name:?} when we speak for another user: {}", advice(manner))),
                }
            }
            (status, AuthMode::OwnToken) => Err(format!("it answers {}", status.as_u16())),
            (status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _) => {
                upstream.set_verified(false);
                Err(format!("it answers {} when we speak for another user: {}", status.as_u16(), advice(manner)))
            }
            (status, _) => Err(format!("it answers {}", status.as_u16())),
        }
    }

    /// Ends when upstream has been known for a while not to answer.
    pub(super) async fn away(&self) {
        let mut since = Instant::now();
        while self.answers() || since.elapsed() < KEPT_AFTER {
            sleep(AWAY_LOOK).await;
            if self.answers() {
                since = Instant::now();
            }
        }
    }
}

fn advice(manner: AuthMode) -> &'static str {
    match manner {
        AuthMode::FrontProxy => {
            "its --requestheader-client-ca-file must have signed the certificate of --proxy-client-cert-file, whose name its --requestheader-allowed-names must have"
        }
        AuthMode::Impersonation => {
            "the user of --upstream-kubeconfig must have the right to impersonate users, groups, uids and userextras"
        }
        AuthMode::OwnToken => "",
    }
}
