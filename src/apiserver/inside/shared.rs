//! Answers that all who ask within a second share: whoever looks, and however many, something is gathered at most once a second.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use super::super::status::Status;

/// How long an answer is shared.
pub(super) const SHARED_FOR: Duration = Duration::from_millis(950);

/// Different answers that are shared at once; of more, each is made for one request.
const ANSWERS_MAX: usize = 16;

/// The answers. While one is made the lock is held: one is made at a time, and who asks for it meanwhile gets it, too.
#[derive(Default)]
pub(super) struct SharedAnswers(Mutex<Vec<Answer>>);

struct Answer {
    /// What was asked.
    question: String,
    at: Instant,
    bytes: Bytes,
}

impl SharedAnswers {
    /// Returns the answer to a question, made if there is none of the last second.
    ///
    /// # Errors
    /// The time is over before it was its turn.
    pub(super) async fn get<F: Future<Output = Bytes>>(
        &self,
        question: &str,
        until: Instant,
        make: impl FnOnce() -> F,
    ) -> Result<Bytes, Status> {
        let turn = timeout_at(until, self.0.lock()).await;
        let mut answers = turn.map_err(|_| Status::too_many_requests("too many ask at once what this server is doing", 1))?;
        answers.retain(|answer| answer.at.elapsed() < SHARED_FOR);
        if let Some(answer) = answers.iter().find(|answer| answer.question == question) {
            return Ok(answer.bytes.clone());
        }
        let at = Instant::now();
        let bytes = make().await;
        if answers.len() < ANSWERS_MAX {
            answers.push(Answer { question: question.to_owned(), at, bytes: bytes.clone() });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hundred_who_ask_at_once_share_one() {
        let (answers, made) = (SharedAnswers::default(), AtomicUsize::new(0));
        let until = Instant::now() + Duration::from_secs(60);
        let ask = |question: String| {
            let (answers, made) = (&answers, &made);
            async move {
                let make = || async {
                    made.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    Bytes::from_static(b"{}")
                };
                answers.get(&question, until, make).await.map(|bytes| bytes.len()).ok()
            }
        };
        assert!(join_all((0..100).map(|_| ask("a".to_owned()))).await.iter().all(|length| *length == Some(2)));
        assert_eq!(made.load(Ordering::Relaxed), 1);
        tokio::time::sleep(SHARED_FOR).await;
        ask("a".to_owned()).await;
        assert_eq!(made.load(Ordering::Relaxed), 2, "a second later it is made anew");
        for n in 0..2 * ANSWERS_MAX {
            ask(format!("{n}")).await;
        }
        assert!(answers.0.lock().await.len() <= ANSWERS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_his_request() {
        let answers = SharedAnswers::default();
        let _held = answers.0.lock().await;
        let until = Instant::now() + Duration::from_secs(1);
        let refused = answers.get("a", until, || async { Bytes::new() }).await;
        assert_eq!(refused.expect_err("no turn").code, 429);
    }
}
