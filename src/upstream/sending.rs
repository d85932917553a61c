//! Requests whose client has left before upstream has ended them. They keep their place among the streams of their connection until upstream is done with them,
//! so that a client that begins and leaves requests has no more under way there than one that waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::abandoned::Abandoned;
use super::pooled_connection::StreamPermit;

/// How long the head of an answer is waited for that nobody wants any more; a kube-apiserver's own time for a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// What of such an answer is read, and how long: the rest of a short one comes at once, and its stream need not be reset.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
const REST_BYTES_MAX: usize = 256 << 10;
/// Who waits this long has not given up in haste, and is not charged for it: nobody's own time is shorter when upstream is slow.
const HASTE: Duration = Duration::from_millis(1_900);
/// How long the place of a stream that was reset is kept: upstream may be at work on it still.
const RESET_HOLD: Duration = Duration::from_secs(1);

/// Whose request it is.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// Who is charged for what is given up.
    pub(crate) client: Arc<str>,
    /// Where that is noted.
    pub(crate) given_up: Arc<Abandoned>,
}

/// A request that is being sent. When it is dropped, its answer is waited for without anybody.
pub(crate) struct Sending<E: 'static> {
    sent: Option<BoxFuture<'static, Result<Response<Incoming>, E>>>,
    permit: Option<StreamPermit>,
    owner: Owner,
    began: Instant,
}

impl<E: 'static> Sending<E> {
    pub(crate) fn new(
        sent: impl Future<Output = Result<Response<Incoming>, E>> + Send + 'static,
        permit: StreamPermit,
        owner: &Owner,
    ) -> Sending<E> {
        Sending { sent: Some(Box::pin(sent)), permit: Some(permit), owner: owner.clone(), began: Instant::now() }
    }
}

impl<E: Send + 'static> Future for Sending<E> {
    type Output = Result<(Response<Incoming>, StreamPermit), E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(sent) = self.sent.as_mut() else { return Poll::Pending };
        let answer = std::task::ready!(sent.as_mut().poll(cx));
        self.sent = None;
        let permit = self.permit.take().expect("it is kept until there is an answer");
        Poll::Ready(answer.map(|answer| (answer, permit)))
    }
}

impl<E: 'static> Drop for Sending<E> {
    fn drop(&mut self) {
        let (Some(sent), Some(permit)) = (self.sent.take(), self.permit.take()) else { return };
        if self.began.elapsed() < HASTE {
            self.owner.given_up.count(&self.owner.client, Instant::now());
        }
        // Without a runtime the process is at its end.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let head = timeout(HEAD_TIMEOUT, sent).await.map(Result::ok);
            match head {
                Ok(Some(response)) => read_rest(response.into_body(), permit).await,
                // Nothing more comes of it.
                Ok(None) => {}
                Err(_) => reset(permit).await,
            }
        });
    }
}

/// The body of an answer that nobody reads any longer.
pub(crate) fn leave(body: Incoming, permit: StreamPermit, owner: &Owner) {
    owner.given_up.count(&owner.client, Instant::now());
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(read_rest(body, permit));
    }
}

/// Reads a short rest. What is longer is reset.
async fn read_rest(mut body: Incoming, permit: StreamPermit) {
    let rest = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return true };
            bytes += frame.data_ref().map_or(0, bytes::Bytes::len);
            if bytes > REST_BYTES_MAX {
                return false;
            }
        }
        true
    };
    let is_over = timeout(REST_TIMEOUT, rest).await.unwrap_or(false);
    drop(body);
    if !is_over {
        reset(permit).await;
    }
}

async fn reset(permit: StreamPermit) {
    permit.was_reset();
    sleep(RESET_HOLD).await;
    drop(permit);
}
