//! Runs long computations of answers on threads of their own, so that other requests and watches do not wait for them.

use std::{panic::resume_unwind, sync::LazyLock};

use tokio::task::spawn_blocking;

use fair::Turns;
use telemetry::contain;

/// How many run at the same time; others wait their turn, as long as their requests may. Each may hold several copies of a list.
const AT_ONCE: usize = 4;

static TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::new(AT_ONCE));

/// Runs `work` where it may take its time. Once begun it is not given up, whoever waits for it.
pub(super) async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let turn = TURNS.take().await;
    let done = spawn_blocking(move || {
        let _turn = turn;
        contain(work)
    });
    done.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// On a runtime of one thread, which the work would keep from everything else.
    #[tokio::test]
    async fn others_run_meanwhile() {
        let (done, wait) = mpsc::channel();
        let work = tokio::spawn(offload(move || wait.recv_timeout(Duration::from_secs(10))));
        tokio::task::yield_now().await;
        done.send(7).expect("it waits");
        assert_eq!(work.await.expect("no panic"), Ok(7));
    }
}
