//! Whether an API server lets this server ask about tokens or rights. A right that was never given, or was taken away, keeps every client
//! out, so it is found out before a
//! client is, and reported once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Answer, CallError, Client};
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// How often a right that is not there is asked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The same before anything is known of it.
const FIRST_LOOKS: Duration = Duration::from_millis(500);
/// How long a right counts as there after a question was let through.
const GRANTED_FOR: Duration = Duration::from_secs(10);

/// The right to create reviews.
#[derive(Debug)]
pub struct AskingRight {
    /// As roles name it.
    resource: &'static str,
    /// What becomes of clients without it.
    loss: &'static str,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Unknown,
    Granted(Instant),
    Refused(Arc<str>),
}

impl AskingRight {
    /// Returns the right to ask whose a token is.
    pub(crate) fn token_reviews() -> Arc<Self> {
        Self::new("tokenreviews.authentication.k8s.io", "nobody who brings a token is let in")
    }

    /// Returns the right to ask what somebody may do.
    pub(crate) fn access_reviews() -> Arc<Self> {
        Self::new("subjectaccessreviews.authorization.k8s.io", "nobody may do anything")
    }

    fn new(resource: &'static str, loss: &'static str) -> Arc<Self> {
        Arc::new(Self { resource, loss, state: Mutex::new(State::Unknown) })
    }

    /// Returns why the right is not there, if so.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        let Self { resource, loss, .. } = self;
        match &*self.state.lock() {
            State::Unknown => Some(format!("it is not known yet whether this server may create {resource}")),
            State::Granted(_) => None,
            State::Refused(why) => Some(format!("this server may not create {resource}, so {loss}: {why}")),
        }
    }

    /// Returns whether it is known that the right is not there.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&*self.state.lock(), State::Refused(_))
    }

    /// Notes what became of a question. No answer, and an answer that is no judgement, says nothing.
    pub(crate) fn heard(&self, outcome: &Result<Answer, CallError>) {
        match outcome {
            Ok(answer) if is_refusal(answer.status) => {
                let why = answer.failure().unwrap_or_else(|| "no reason is given".to_owned());
                self.refused(format!("{} {why}", answer.status.as_u16()));
            }
            Ok(answer) if answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS => {}
            Ok(_) | Err(CallError::TooLarge(_)) => self.granted(),
            Err(CallError::Credentials(why)) => self.refused(format!("there are no credentials: {why}")),
            Err(CallError::TimedOut | CallError::NoRoom | CallError::Lost(_) | CallError::Failed(_)) => {}
        }
    }

    fn granted(&self) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Granted(Instant::now()));
        if matches!(before, State::Refused(_)) {
            tracing::info!(resource = self.resource, "this server may create reviews again");
        }
    }

    fn refused(&self, why: String) {
        let mut state = self.state.lock();
        let is_told = matches!(&*state, State::Refused(before) if **before == *why);
        if !is_told {
            tracing::error!(resource = self.resource, why, "this server may not create reviews: {}", self.loss);
            *state = State::Refused(why.into());
        }
    }

    fn is_due(&self) -> bool {
        !matches!(&*self.state.lock(), State::Granted(at) if at.elapsed() < GRANTED_FOR)
    }

    /// Finds out again and again whether the right is there, unless clients' questions say so: sends a review without any question, which
    /// is refused by its form alone
    /// when it is let through.
    pub(crate) async fn follow(&self, client: &Client, url: impl Fn() -> Uri, api_version: &str, kind: &str) {
        let review = serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": {}}).to_string();
        let review = Bytes::from(review);
        loop {
            if self.is_due() {
                self.heard(&client.post(&url(), review.clone()).await);
            }
            let is_unknown = matches!(&*self.state.lock(), State::Unknown);
            sleep(if is_unknown { FIRST_LOOKS } else { LOOK_INTERVAL }).await;
        }
    }
}

/// Whether an answer says that reviews are not for us, or not there.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &'static str) -> Result<Answer, CallError> {
        let status = StatusCode::from_u16(status).expect("a status");
        Ok(Answer { status, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) })
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_judgement_gives_or_takes_the_right() {
        let right = AskingRight::token_reviews();
        let silence = || [Err(CallError::TimedOut), Err(CallError::Lost(String::new())), answer(503, ""), answer(429, "")];
        silence().iter().for_each(|outcome| right.heard(outcome));
        assert!(right.wrong().is_some_and(|why| why.starts_with("it is not known yet")) && !right.is_refused());
        let forbidden = r#"{"kind":"Status","message":"tokenreviews is forbidden"}"#;
        for (refusal, why) in [
            (answer(403, forbidden), "403 tokenreviews is forbidden"),
            (answer(401, ""), "401 the server has asked for the client to provide credentials"),
            (answer(404, ""), "404 the server could not find the requested resource"),
            (Err(CallError::Credentials("no file".to_owned())), "there are no credentials: no file"),
        ] {
            right.heard(&refusal);
            let wanted =
                format!("this server may not create tokenreviews.authentication.k8s.io, so nobody who brings a token is let in: {why}");
            silence().iter().for_each(|outcome| right.heard(outcome));
            assert_eq!((right.wrong(), right.is_refused(), right.is_due()), (Some(wanted), true, true));
        }
        for granted in [answer(201, "{}"), answer(400, ""), answer(422, ""), Err(CallError::TooLarge(1))] {
            right.heard(&answer(403, forbidden));
            right.heard(&granted);
            silence().iter().for_each(|outcome| right.heard(outcome));
            assert_eq!((right.wrong(), right.is_due()), (None, false));
        }
        sleep(GRANTED_FOR).await;
        assert!(right.wrong().is_none() && right.is_due());
    }
}
