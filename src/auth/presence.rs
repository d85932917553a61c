//! Whether a server answers at all: one judgement for all that is asked of it. Only while it does not, what it said last counts on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::{Answer, CallError};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

/// How long nothing at all must have been answered until a server counts as away. So long at most waits for it whom it has named before: what it says later
/// counts when it says it.
const AWAY_AFTER: Duration = Duration::from_secs(1);
/// So often a question is asked again within that time.
const TRIES: u32 = 10;

/// What one question has told of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It answers.
    Answer,
    /// It, or who stands in front of it, has no answer.
    Silence,
    /// Nothing: it was not asked.
    Nothing,
}

/// See the file's header.
#[derive(Debug)]
pub struct Presence {
    /// How long what it said last counts while it is away; zero: never.
    counts_for: Duration,
    away_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answered: Option<Instant>,
    /// The first question since then that had no answer, when it was asked, and when that was known of the last one.
    silent: Option<(Instant, Instant)>,
    is_away: bool,
    /// No question is asked in the background before.
    probed_until: Option<Instant>,
}

impl Heard {
    pub(crate) fn of(outcome: &Result<Answer, CallError>) -> Self {
        match outcome {
            Ok(answer) if answer.status.is_server_error() => Self::Silence,
            Ok(_) | Err(CallError::TooLarge(_)) => Self::Answer,
            Err(CallError::Credentials(_)) => Self::Nothing,
            Err(CallError::TimedOut | CallError::NoRoom | CallError::Lost(_) | CallError::Failed(_)) => Self::Silence,
        }
    }
}

impl Default for Presence {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

/// Equal when the same is asked for.
impl PartialEq for Presence {
    fn eq(&self, other: &Self) -> bool {
        self.counts_for == other.counts_for
    }
}

impl Eq for Presence {}

impl Presence {
    /// Of a server of which nothing is known; what it says last counts for so long while it is away.
    #[must_use]
    pub fn new(counts_for: Duration) -> Self {
        Self { counts_for, away_after: AWAY_AFTER, state: Mutex::default() }
    }

    /// One that counts as away after so long.
    #[cfg(test)]
    pub(crate) fn away_after(self, away_after: Duration) -> Arc<Self> {
        Arc::new(Self { away_after, ..self })
    }

    /// How long what the server said last counts while it is away.
    #[must_use]
    pub fn counts_for(&self) -> Duration {
        self.counts_for
    }

    /// Whether what it said last counts now.
    pub(crate) fn is_away(&self) -> bool {
        !self.counts_for.is_zero() && self.state.lock().is_away
    }

    /// Asks it. One that `waits` asks again while it is not known yet whether the server is away. Returns also whether it is, when it has not answered.
    pub(crate) async fn ask<T, F: Future<Output = (T, Heard)>>(&self, waits: bool, mut question: impl FnMut() -> F) -> (T, bool) {
        let first = Instant::now();
        loop {
            let began = Instant::now();
            let (said, heard) = question().await;
            self.note(heard, began);
            let is_away = heard == Heard::Silence && self.is_away();
            if heard != Heard::Silence || is_away || !waits || first.elapsed() >= self.away_after {
                return (said, is_away);
            }
            sleep(self.away_after / TRIES).await;
        }
    }

    /// Ends when nothing at all was answered for as long as that takes until the server counts as away, of what was asked since `began` or before.
    pub(crate) async fn silence(&self, began: Instant) {
        if self.counts_for.is_zero() {
            std::future::pending::<()>().await;
        }
        let mut since = began;
        loop {
            sleep_until(since + self.away_after).await;
            let answered = self.state.lock().answered;
            match answered.filter(|answered| *answered > since) {
                Some(answered) => since = answered,
                None => return self.note(Heard::Silence, since),
            }
        }
    }

    /// Asks it in the background, unless that is being done or was just done.
    pub(crate) fn probe<T, F: Future<Output = (T, Heard)> + Send + 'static>(self: &Arc<Self>, question: impl FnOnce() -> F) {
        let began = Instant::now();
        {
            let mut state = self.state.lock();
            if state.probed_until.is_some_and(|until| began < until) {
                return;
            }
            // Should it never end, another one begins.
            state.probed_until = Some(began + 10 * self.away_after);
        }
        let (presence, question) = (self.clone(), question());
        tokio::spawn(async move {
            let (_, heard) = question.await;
            presence.note(heard, began);
            presence.state.lock().probed_until = Some(Instant::now() + presence.away_after / TRIES);
        });
    }

    /// Notes what a question has told that was asked then.
    fn note(&self, heard: Heard, began: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        match heard {
            Heard::Nothing => {}
            Heard::Answer => (state.answered, state.silent, state.is_away) = (Some(now), None, false),
            Heard::Silence => {
                let began = state.answered.map_or(began, |answered| began.max(answered));
                // A lone failure of long ago says nothing of now.
                let recent = state.silent.filter(|(_, last)| began.saturating_duration_since(*last) <= 2 * self.away_after);
                let since = recent.map_or(began, |(since, _)| since.min(began));
                state.silent = Some((since, now));
                state.is_away |= now.saturating_duration_since(since) >= self.away_after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a question was asked and heard of, in milliseconds, and what was heard.
    type Question = (u64, u64, Heard);

    /// One that has heard this, a question after the other.
    async fn having(heard: &[Question]) -> Arc<Presence> {
        let presence = Presence::new(Duration::from_secs(3_600)).away_after(Duration::from_secs(10));
        let zero = Instant::now();
        for (began, ended, heard) in heard {
            let (began, ended) = (zero + Duration::from_millis(*began), zero + Duration::from_millis(*ended));
            tokio::time::sleep_until(ended).await;
            presence.note(*heard, began);
        }
        presence
    }

    #[tokio::test(start_paused = true)]
    async fn away_is_who_has_answered_nothing_at_all() {
        use Heard::{Answer, Nothing, Silence};
        let cases: &[(&str, &[Question], bool)] = &[
            ("a question that hangs", &[(0, 10_000, Silence)], true),
            ("others were answered meanwhile", &[(4_000, 5_000, Answer), (0, 10_000, Silence)], false),
            ("one failure", &[(0, 10, Silence)], false),
            ("failures for a while", &[(0, 10, Silence), (5_000, 5_010, Silence), (9_995, 10_005, Silence)], true),
            ("one failure, and one long after", &[(0, 10, Silence), (60_000, 60_010, Silence)], false),
            ("no credentials", &[(0, 20_000, Nothing)], false),
            ("it answers again", &[(0, 10_000, Silence), (10_000, 10_001, Answer)], false),
            ("it was away, and nobody asked for long", &[(0, 10_000, Silence), (90_000, 90_001, Silence)], true),
        ];
        for (name, heard, is_away) in cases {
            assert_eq!(having(heard).await.is_away(), *is_away, "{name}");
        }
        assert!(!Presence::default().is_away());
    }

    #[test]
    fn what_is_no_answer_for_our_sake_is_no_silence() {
        assert_eq!(Heard::of(&Err(CallError::Credentials(String::new()))), Heard::Nothing);
        assert_eq!(Heard::of(&Err(CallError::TooLarge(1))), Heard::Answer);
        assert_eq!(Heard::of(&Err(CallError::TimedOut)), Heard::Silence);
    }

    /// A question that hangs tells of it before it ends; one that is slow while others are answered does not.
    #[tokio::test(start_paused = true)]
    async fn who_is_silent_is_away_before_the_question_ends() {
        let (presence, began) = (having(&[]).await, Instant::now());
        presence.silence(began).await;
        assert_eq!((presence.is_away(), began.elapsed().as_secs()), (true, 10));
        let (presence, began) = (having(&[]).await, Instant::now());
        let answers = async {
            for _ in 0..3 {
                sleep(Duration::from_secs(5)).await;
                presence.note(Heard::Answer, Instant::now());
            }
        };
        tokio::join!(presence.silence(began), answers);
        assert_eq!((presence.is_away(), began.elapsed().as_secs()), (true, 25));
        let never = tokio::time::timeout(Duration::from_secs(100), async { Presence::default().silence(Instant::now()).await });
        never.await.expect_err("nothing that it said counts");
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_at_a_time_is_asked_in_the_background() {
        let presence = having(&[(0, 10_000, Heard::Silence)]).await;
        let asked = Arc::new(Mutex::new(0));
        let probe = |heard| {
            let asked = asked.clone();
            presence.probe(move || async move {
                *asked.lock() += 1;
                sleep(Duration::from_secs(5)).await;
                ((), heard)
            });
        };
        (0..10).for_each(|_| probe(Heard::Silence));
        sleep(Duration::from_millis(5_500)).await;
        probe(Heard::Answer);
        assert_eq!((*asked.lock(), presence.is_away()), (1, true));
        sleep(Duration::from_secs(1)).await;
        probe(Heard::Answer);
        sleep(Duration::from_secs(6)).await;
        assert_eq!((*asked.lock(), presence.is_away()), (2, false));
    }
}
