//! Limits how many wait for something: all together, and of each client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use super::TooMany;

/// See the module. `C` is who waits.
#[derive(Debug)]
pub struct WaiterLimit<C> {
    waiting: Arc<Mutex<Waiting<C>>>,
    all_max: usize,
    each_max: usize,
}

#[derive(Debug)]
struct Waiting<C> {
    all: usize,
    of: HashMap<C, usize>,
}

/// One who waits, until this is dropped.
#[derive(Debug)]
pub struct Waiter<C: Eq + Hash> {
    waiting: Arc<Mutex<Waiting<C>>>,
    client: C,
}

impl<C: Clone + Eq + Hash> WaiterLimit<C> {
    /// At most `all_max` at once, of which `each_max` of one client.
    #[must_use]
    pub fn new(all_max: usize, each_max: usize) -> Self {
        WaiterLimit { waiting: Arc::new(Mutex::new(Waiting { all: 0, of: HashMap::new() })), all_max, each_max }
    }

    /// Counts one more of this client.
    ///
    /// # Errors
    /// The limit is reached.
    pub fn enter(&self, client: C) -> Result<Waiter<C>, TooMany> {
        let mut waiting = self.waiting.lock();
        let of_client = waiting.of.get(&client).copied().unwrap_or(0);
        if waiting.all >= self.all_max || of_client >= self.each_max {
            return Err(TooMany);
        }
        waiting.all += 1;
        waiting.of.insert(client.clone(), of_client + 1);
        Ok(Waiter { waiting: self.waiting.clone(), client })
    }
}

impl<C: Eq + Hash> Drop for Waiter<C> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.all -= 1;
        let left = waiting.of.get_mut(&self.client).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            waiting.of.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_nothing_is_kept_of_who_left() {
        let crowd = WaiterLimit::new(3, 2);
        let first = [crowd.enter(1), crowd.enter(1)];
        assert!(crowd.enter(1).is_err() && first.iter().all(Result::is_ok));
        let other = crowd.enter(2);
        assert!(other.is_ok() && crowd.enter(3).is_err());
        drop(first);
        assert!(crowd.enter(3).is_ok());
        drop(other);
        assert!(crowd.waiting.lock().of.is_empty() && crowd.waiting.lock().all == 0);
    }
}
