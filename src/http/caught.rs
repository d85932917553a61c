//! A request that ends in a panic is answered, and the others of its connection go on. No request should; this is for the one that nobody thought of.

use std::panic::AssertUnwindSafe;

use axum::response::Response;
use futures_util::FutureExt;
use http::StatusCode;

use super::{api::whole, respond::Reply};

/// kube-apiserver's text (`WithPanicRecovery`).
const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.\n";

/// The answer of `work`, or 500 when it panics; the panic's message and place are in the log by then.
///
/// Pictures, logs and shelves that requests share are replaced whole or changed inside of a lock that nothing else happens in, so none is left half done.
pub(super) async fn caught(work: impl Future<Output = Response>, reply: &Reply) -> Response {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request ended in a panic; it was answered with 500");
            whole(reply.text(StatusCode::INTERNAL_SERVER_ERROR, PANICKED))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{HeaderMap, Method};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let reply = Reply::new(&Method::GET, &HeaderMap::new(), None);
        assert_eq!(caught(async { Response::new(Body::empty()) }, &reply).await.status(), 200);
        let response = caught(async { std::hint::black_box(None::<Response>).expect("a test's panic") }, &reply).await;
        assert_eq!(response.status(), 500);
        assert_eq!(axum::body::to_bytes(response.into_body(), 200).await.expect("whole"), PANICKED);
    }
}
