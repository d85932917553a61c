//! Limits how often a client may abandon a request to upstream. Each time costs upstream as much as an answer, and what is reset counts against a connection
//! that others share. Pure.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Requests that a client may abandon at once, and a second from then on.
pub(crate) const ABANDONED_MAX: u32 = 256;
const ABANDONED_A_SECOND: u32 = 32;
/// Clients with an account of their own; others share one.
const CLIENTS_MAX: usize = 10_000;

/// Counts what clients have abandoned lately.
#[derive(Debug, Default)]
pub(crate) struct Abandoned(Mutex<HashMap<String, Account>>);

/// Requests that were abandoned, less what time has forgiven until then.
#[derive(Clone, Copy, Debug)]
struct Account {
    level: f64,
    at: Instant,
}

impl Account {
    fn level(&self, now: Instant) -> f64 {
        let forgiven = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(ABANDONED_A_SECOND);
        (self.level - forgiven).max(0.0)
    }
}

impl Abandoned {
    /// How long this client has to wait before its next request; none when it need not.
    pub(crate) fn pause(&self, client: &str, now: Instant) -> Option<Duration> {
        let accounts = self.0.lock();
        let account = accounts.get(client).or_else(|| accounts.get("").filter(|_| accounts.len() >= CLIENTS_MAX))?;
        let above = account.level(now) - f64::from(ABANDONED_MAX);
        (above > 0.0).then(|| Duration::from_secs_f64(above / f64::from(ABANDONED_A_SECOND)))
    }

    /// Counts a request that the client has abandoned.
    pub(crate) fn count(&self, client: &str, now: Instant) {
        let mut accounts = self.0.lock();
        if accounts.len() >= CLIENTS_MAX && !accounts.contains_key(client) {
            accounts.retain(|_, account| account.level(now) > 0.0);
        }
        let client = if accounts.len() < CLIENTS_MAX || accounts.contains_key(client) { client } else { "" };
        let account = accounts.entry(client.to_owned()).or_insert(Account { level: 0.0, at: now });
        *account = Account { level: account.level(now) + 1.0, at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_gives_up_much_pauses_and_others_do_not() {
        let (abandoned, now) = (Abandoned::default(), Instant::now());
        for _ in 0..ABANDONED_MAX {
            abandoned.count("jane", now);
        }
        assert_eq!(abandoned.pause("jane", now), None);
        (0..ABANDONED_A_SECOND * 2).for_each(|_| abandoned.count("jane", now));
        assert_eq!(abandoned.pause("jane", now), Some(Duration::from_secs(2)));
        assert_eq!(abandoned.pause("joe", now), None);
        assert_eq!(abandoned.pause("jane", now + Duration::from_secs(2)), None);
    }

    #[test]
    fn clients_are_bounded() {
        let (abandoned, now) = (Abandoned::default(), Instant::now());
        let many = |from: usize, now| (from..from + 2 * CLIENTS_MAX).for_each(|nth| abandoned.count(&nth.to_string(), now));
        many(0, now);
        let count = || abandoned.0.lock().len();
        assert_eq!(count(), CLIENTS_MAX + 1);
        assert!(abandoned.pause("somebody new", now).is_some(), "those who are not told apart share an account");
        assert_eq!(abandoned.pause("1", now), None);
        let later = now + Duration::from_secs(3_600);
        abandoned.count("new", later);
        assert_eq!(count(), 1, "what time has forgiven is forgotten");
    }
}
