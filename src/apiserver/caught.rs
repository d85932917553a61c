//! A request that panics is answered with 500, and the other requests of its connection go on. If the answer is already being sent, the panic ends its
//! HTTP/2 stream or its HTTP/1.1 connection.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use axum::response::Response;
use futures_util::FutureExt;
use http::StatusCode;

use server::budget::Account;

use super::{gzip, respond::Reply};

/// kube-apiserver's text (`WithPanicRecovery`).
const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.\n";

/// The answer of `work`, in gzip where that is offered, or 500 when it or the beginning of its body panics; the panic's message and place are in the log
/// by then.
///
/// Snapshots, logs and served resources that requests share are replaced whole or changed inside of a lock that nothing else happens in, so none is left half
/// done.
pub(super) async fn caught<F: Future<Output = Response>>(work: impl FnOnce() -> F, reply: &Reply, unread: &Arc<Account>) -> Response {
    // Made here and pinned: given as a future, it would be here three times.
    let work = pin!(async { gzip::encode(work().await, unread).await });
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request ended in a panic; it was answered with 500");
            reply.text(StatusCode::INTERNAL_SERVER_ERROR, PANICKED)
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::stream;
    use http::{HeaderMap, Method};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let reply = Reply::new(&Method::GET, &HeaderMap::new(), None);
        let account = Account::of_a_test();
        assert_eq!(caught(async || Response::new(Body::empty()), &reply, &account).await.status(), 200);
        let fall = || std::hint::black_box(None::<Response>).expect("a test's panic");
        // gzip looks at the beginning of a body before the answer goes out.
        let body = Body::from_stream(stream::once(async move { Ok::<_, std::convert::Infallible>(fall().status().to_string()) }));
        let mut late = Response::new(body);
        crate::extras::of(&mut late).offers_gzip = true;
        for response in [caught(async || fall(), &reply, &account).await, caught(async || late, &reply, &account).await] {
            assert_eq!(response.status(), 500);
            assert_eq!(axum::body::to_bytes(response.into_body(), 200).await.expect("whole"), PANICKED);
        }
    }
}
