//! How old memory may be: etcd is asked every second how far it is, and memory is as new as the last question whose answer the feed has reached.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::state::snapshot::Fed;
use etcd::{Etcd, EtcdError};
use model::Revision;

/// Pause between an answer and the next question.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long an answer is waited for: longer than keepalive takes to end a dead connection.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How often the age is judged.
const JUDGE_EVERY: Duration = Duration::from_millis(500);
/// Answers that the feed may have to reach; while there are so many, further ones are let go.
const MARKS_MAX: usize = 64;

/// Asks, notes and tells for ever.
pub async fn follow(etcd: Etcd, prefix: String, fed: Arc<Fed>) {
    let mut marks = Marks::default();
    let mut judged = Judged::default();
    let mut tick = interval(JUDGE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut question = pin!(ask(&etcd, &prefix, Duration::ZERO));
    loop {
        let next = marks.next();
        tokio::select! {
            (asked, answer) = &mut question => {
                match answer {
                    Ok(revision) => {
                        judged.silence = None;
                        marks.add(asked, revision);
                    }
                    Err(error) => judged.silence = Some(error),
                }
                question.set(ask(&etcd, &prefix, ASK_EVERY));
            }
            true = async { fed.reaches(next.unwrap_or(Revision::ZERO), ASK_EVERY).await }, if next.is_some() => {}
            _ = tick.tick() => {}
        }
        if let Some(asked) = marks.reached(fed.revision()) {
            fed.fresh_as_of(asked);
        }
        judged.judge(&fed, marks.next());
    }
}

/// Asks etcd after a pause for its newest revision, by a linearizable read; returns also when it was asked.
async fn ask(etcd: &Etcd, prefix: &str, pause: Duration) -> (Instant, Result<Revision, EtcdError>) {
    sleep(pause).await;
    let asked = Instant::now();
    let answer = timeout(ANSWER_MAX, etcd.current(prefix.as_bytes())).await.unwrap_or(Err(EtcdError::Deadline));
    (asked, answer.map(|header| header.revision))
}

/// Answers that the feed has not reached yet, the oldest first.
#[derive(Default)]
struct Marks(VecDeque<(Instant, Revision)>);

impl Marks {
    fn add(&mut self, asked: Instant, revision: Revision) {
        // An etcd that was restored from a backup: what it had before will not come.
        self.0.retain(|(_, before)| *before <= revision);
        if self.0.len() < MARKS_MAX {
            self.0.push_back((asked, revision));
        }
    }

    /// The revision that the feed should reach next.
    fn next(&self) -> Option<Revision> {
        self.0.front().map(|(_, revision)| *revision)
    }

    /// Takes out what the feed has reached; returns when the last of it was asked.
    fn reached(&mut self, fed: Revision) -> Option<Instant> {
        let mut last = None;
        while let Some((asked, _)) = self.0.pop_front_if(|(_, revision)| *revision <= fed) {
            last = Some(asked);
        }
        last
    }
}

/// What was told of the age last.
#[derive(Default)]
struct Judged {
    /// Why the last question had no answer.
    silence: Option<EtcdError>,
    /// Memory has been as new as etcd once.
    was_fresh: bool,
    behind_since: Option<Instant>,
}

impl Judged {
    /// Tells the log at once when memory falls behind or is no longer behind; `wanted` is what etcd has and the feed has not reached.
    fn judge(&mut self, fed: &Fed, wanted: Option<Revision>) {
        let is_behind = fed.is_behind();
        match (is_behind, self.behind_since) {
            (true, None) if self.was_fresh => {
                self.behind_since = Some(Instant::now());
                let age = fed.age().unwrap_or_default().as_secs_f64();
                match (&self.silence, wanted) {
                    (Some(error), _) => tracing::warn!(age, %error, "memory is behind etcd: etcd does not answer"),
                    (None, None) => tracing::warn!(age, "memory is behind etcd: etcd does not answer"),
                    (None, Some(etcd)) => tracing::warn!(age, fed = %fed.revision(), %etcd, "memory is behind etcd: its changes come late"),
                }
            }
            (false, Some(since)) => {
                self.behind_since = None;
                tracing::info!(seconds = since.elapsed().as_secs_f64(), "memory follows etcd again");
            }
            _ => {}
        }
        self.was_fresh |= !is_behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *BEGAN + Duration::from_secs(seconds)
    }

    #[test]
    fn the_last_question_counts_whose_answer_is_reached() {
        let mut marks = Marks::default();
        for (asked, revision) in [(1, 10), (2, 10), (3, 20)] {
            marks.add(at(asked), Revision(revision));
        }
        assert_eq!(marks.reached(Revision(9)), None);
        assert_eq!((marks.reached(Revision(19)), marks.next()), (Some(at(2)), Some(Revision(20))));
        assert_eq!((marks.reached(Revision(20)), marks.next()), (Some(at(3)), None));
    }

    /// A feed that lags is as old as the question whose answer it has reached, however many have been answered since.
    #[test]
    fn a_feed_that_lags_keeps_its_age() {
        let mut marks = Marks::default();
        for second in 0..1_000 {
            marks.add(at(second), Revision(second));
        }
        assert_eq!(marks.reached(Revision(30)), Some(at(30)));
        assert_eq!(marks.reached(Revision(999)), Some(at(MARKS_MAX as u64 - 1)), "no question is taken for a later one");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_ages_until_etcd_is_reached_again() {
        let fed = Arc::new(Fed::default());
        assert!(fed.age().is_none() && fed.is_behind(), "etcd was never heard");
        sleep(Duration::from_secs(100)).await;
        fed.fresh_as_of(Instant::now());
        assert!(!fed.is_behind());
        sleep(Duration::from_secs(7)).await;
        assert_eq!((fed.age(), fed.is_behind()), (Some(Duration::from_secs(7)), true));
        // A question that was asked before says nothing newer.
        fed.fresh_as_of(Instant::now() - Duration::from_secs(50));
        assert_eq!(fed.age(), Some(Duration::from_secs(7)));
        fed.fresh_as_of(Instant::now() - Duration::from_secs(1));
        assert_eq!((fed.age(), fed.is_behind()), (Some(Duration::from_secs(1)), false));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_revision_has_progress_asked_for() {
        let fed = Arc::new(Fed::default());
        assert!(!fed.reaches(Revision(7), Duration::from_secs(1)).await && !fed.is_awaited());
        let waits = tokio::spawn({
            let fed = fed.clone();
            async move { fed.reaches(Revision(7), Duration::from_secs(9)).await }
        });
        sleep(Duration::from_secs(1)).await;
        assert!(fed.is_awaited());
        fed.advance(Revision(6));
        fed.advance(Revision(8));
        assert!(waits.await.expect("no panic") && !fed.is_awaited());
    }

    #[test]
    fn an_etcd_that_went_backwards_is_not_waited_for() {
        let mut marks = Marks::default();
        marks.add(at(1), Revision(1_000));
        marks.add(at(2), Revision(10));
        assert_eq!(marks.reached(Revision(10)), Some(at(2)));
    }
}
