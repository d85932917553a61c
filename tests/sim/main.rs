//! Random histories of feed → machine → cacher → group → subscription, in one thread, with the guarantees validated at every step.
//!
//! `WATCHCACHE_SIM_HISTORIES` says how many (default 2,000), `WATCHCACHE_SIM_SEED` where to begin. A failure prints its seed:
//! `WATCHCACHE_SIM_SEED=n WATCHCACHE_SIM_HISTORIES=1 cargo test --test sim` repeats it.

use std::{
    io::{Write, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
};

// The name that other rooms know it by.
extern crate watchcache_cache as cache;

mod client;
mod random;
mod truth;
mod world;

use world::{Tally, World};

/// Steps of one history.
const STEPS: usize = 250;

#[test]
fn histories_keep_every_guarantee() {
    let number = |name: &str, otherwise: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise);
    let (first, many) = (number("WATCHCACHE_SIM_SEED", 1), number("WATCHCACHE_SIM_HISTORIES", 2_000));
    let mut sum = Tally::default();
    for seed in first..first + many {
        let history = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(seed);
            (0..STEPS).for_each(|_| world.act());
            world.settle();
            world.tally
        }));
        match history {
            Ok(tally) => sum.add(&tally),
            Err(_) => panic!("history {seed} broke a guarantee; see above"),
        }
    }
    writeln!(stdout(), "{many} histories: {sum:?}").expect("stdout is open");
    // A run that tried nothing proves nothing.
    if many >= 500 {
        let tried = [sum.events, sum.bookmarks, sum.ended, sum.expired, sum.resumed, sum.restores, sum.compactions, sum.reloads, sum.exact];
        assert!(tried.iter().all(|n| *n > 0), "something was never tried: {sum:?}");
    }
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.bookmarks += other.bookmarks;
        self.ended += other.ended;
        self.expired += other.expired;
        self.resumed += other.resumed;
        self.restores += other.restores;
        self.compactions += other.compactions;
        self.reloads += other.reloads;
        self.exact += other.exact;
    }
}
