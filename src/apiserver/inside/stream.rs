//! The overview as a stream, a line of JSON each second. Whoever looks, and however many, it is gathered once (`shared`); for who does not read nothing is
//! made.

use std::{
    convert::Infallible,
    future::poll_fn,
    sync::{Arc, atomic::AtomicBool},
    task::Poll,
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use fair::{Leaves, Share};
use futures_util::stream::unfold;
use server::LongRunning;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    super::{
        api::Api,
        authorize::{Rights, rights},
        context::Authorized,
        extras,
        status::Status,
    },
    overview,
};

/// Between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// How long a stream lasts: then its right is judged anew, with the next request.
const LENGTH_MAX: Duration = Duration::from_secs(10 * 60);

/// Kubernetes' type of a stream of objects.
const CONTENT_TYPE: &str = "application/json;stream=watch";

/// A stream of somebody who looks.
struct Viewing {
    api: Arc<Api>,
    next: Instant,
    until: Instant,
    rights: Rights,
    stop: watch::Receiver<bool>,
    _place: Share,
}

/// Answers with the stream.
pub(super) fn serve(api: &Arc<Api>, context: &Authorized) -> Result<Response, Status> {
    let place = api.inside.viewers.take(&context.user.name, 1, Leaves::Nothing);
    let place = place.ok_or_else(|| Status::too_many_requests("too many look at this server", 10))?;
    let rights = rights(api, context)?;
    let now = Instant::now();
    let until = rights.expires.map_or(now + LENGTH_MAX, |expires| expires.min(now + LENGTH_MAX));
    let viewing = Viewing { api: api.clone(), next: now, until, rights, stop: context.conn.stop.clone(), _place: place };
    let lines = unfold(viewing, |mut viewing| async {
        let line = viewing.line().await?;
        Some((Ok::<_, Infallible>(line), viewing))
    });
    let mut response = context.reply.stream(CONTENT_TYPE, Body::from_stream(lines));
    // It says something each second: whoever takes nothing of it is cut like any other who does not read.
    extras::of(&mut response).long_running = Some(LongRunning { until, may_rest: Arc::new(AtomicBool::new(false)) });
    Ok(response)
}

impl Viewing {
    /// The next line, when it is time; none at the end.
    async fn line(&mut self) -> Option<Bytes> {
        let permission = self.rights.permission.as_ref();
        let refused = poll_fn(|cx| match permission.and_then(|permission| permission.poll_refused(cx)) {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        });
        tokio::select! {
            () = sleep_until(self.next) => {}
            () = refused => return None,
            _ = self.stop.wait_for(|stops| *stops) => return None,
        }
        let now = Instant::now();
        if now >= self.until {
            return None;
        }
        self.next = now + EVERY;
        let api = &self.api;
        let made = api.inside.answers.get("overview", self.until, || overview::gather(api.clone())).await.ok()?;
        Some([&made[..], b"\n"].concat().into())
    }
}
