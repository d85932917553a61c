//! Limits the rate of questions that nobody waits for: so many a second, and so many bytes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// From one question to the next, at least.
    pub(super) each: Duration,
    /// Of all questions.
    pub(super) bytes_a_second: usize,
}

/// Lets questions pass at a rate.
pub(super) struct RateLimiter {
    rate: Rate,
    next: Mutex<Instant>,
}

impl RateLimiter {
    /// The first one is now.
    pub(super) fn of(rate: Rate) -> RateLimiter {
        RateLimiter { rate, next: Mutex::new(Instant::now()) }
    }

    /// Waits until a question of so many bytes may pass.
    pub(super) async fn acquire(&self, bytes: usize) {
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate.bytes_a_second as f64).max(self.rate.each);
        let slot = {
            let mut next = self.next.lock();
            let slot = (*next).max(Instant::now());
            *next = slot + takes;
            slot
        };
        sleep_until(slot).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_and_their_bytes_take_time() {
        let (began, turns) = (Instant::now(), RateLimiter::of(Rate { each: Duration::from_millis(10), bytes_a_second: 1_000 }));
        for _ in 0..100 {
            turns.acquire(1).await;
        }
        assert_eq!(began.elapsed().as_millis(), 990);
        turns.acquire(5_000).await;
        turns.acquire(1).await;
        assert_eq!(began.elapsed().as_millis(), 6_000);
    }
}
