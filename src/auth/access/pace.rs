//! The pace of questions that nobody waits for: so many a second, and so many bytes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// How fast it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// From one question to the next, at least.
    pub(super) each: Duration,
    /// Of all questions.
    pub(super) bytes_a_second: usize,
}

/// Turns at this pace.
pub(super) struct Turns {
    pace: Pace,
    next: Mutex<Instant>,
}

impl Turns {
    /// The first one is now.
    pub(super) fn of(pace: Pace) -> Turns {
        Turns { pace, next: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of a question of so many bytes.
    pub(super) async fn take(&self, bytes: usize) {
        let takes = Duration::from_secs_f64(bytes as f64 / self.pace.bytes_a_second as f64).max(self.pace.each);
        let turn = {
            let mut next = self.next.lock();
            let turn = (*next).max(Instant::now());
            *next = turn + takes;
            turn
        };
        sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_and_their_bytes_take_time() {
        let (began, turns) = (Instant::now(), Turns::of(Pace { each: Duration::from_millis(10), bytes_a_second: 1_000 }));
        for _ in 0..100 {
            turns.take(1).await;
        }
        assert_eq!(began.elapsed().as_millis(), 990);
        turns.take(5_000).await;
        turns.take(1).await;
        assert_eq!(began.elapsed().as_millis(), 6_000);
    }
}
