//! Tries again, as Kubernetes' webhooks do (`k8s.io/apiserver/pkg/util/webhook`): which failures are worth it, and how long to wait.

use std::future::Future;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Answer, CallError};
use retry::Backoff;

/// Waits between tries, kube-apiserver's for its webhooks.
pub const WEBHOOK_BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), max: Duration::MAX, factor: 1.5, jitter: 0.2 };
/// Tries altogether.
pub const WEBHOOK_TRIES: u32 = 5;

/// Calls until the outcome is final, the tries are used up, or the next wait would end after `until`. The last outcome counts.
///
/// # Errors
/// That of the last call; [`CallError::TimedOut`] when `until` came during it.
pub async fn retried<F>(backoff: &Backoff, until: Instant, mut call: impl FnMut() -> F) -> Result<Answer, CallError>
where
    F: Future<Output = Result<Answer, CallError>>,
{
    for failures in 0..WEBHOOK_TRIES - 1 {
        let outcome = one(until, &mut call).await;
        let Some(least) = worth_another_try(&outcome) else { return outcome };
        let pause = backoff.wait(failures).max(least);
        if Instant::now() + pause >= until {
            return outcome;
        }
        sleep(pause).await;
    }
    one(until, &mut call).await
}

async fn one<F: Future<Output = Result<Answer, CallError>>>(until: Instant, call: &mut impl FnMut() -> F) -> Result<Answer, CallError> {
    timeout_at(until, call()).await.unwrap_or(Err(CallError::TimedOut))
}

/// The least wait before another try, if one may help: the connection was lost, the status is 429, 500 or 504, or the server says when.
fn worth_another_try(outcome: &Result<Answer, CallError>) -> Option<Duration> {
    match outcome {
        Err(CallError::Lost(_)) => Some(Duration::ZERO),
        Err(_) => None,
        Ok(answer) if answer.is_success() => None,
        Ok(answer) => {
            let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::GATEWAY_TIMEOUT];
            answer.retry_after().or_else(|| asks.contains(&answer.status).then_some(Duration::ZERO))
        }
    }
}
