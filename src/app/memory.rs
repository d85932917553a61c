//! Keeps the process within its `--memory-budget`: what only saves time gives way, one thing after the other, and comes back when there is room. Compressed
//! lists that nobody asks for go without a budget, too.
//!
//! Knows how much memory the process has, not who has it.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use codec::{ChunkCache, chunk_cache::UNUSED_FOR};
use model::GivenUp;
use telemetry::{Metrics, resident_bytes};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the allocator looks for free pages: as long as it keeps them.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// So many bytes have pages of their own, which nobody touches here.
const PAGE_BYTES: usize = 8 << 20;

/// After something was given up, before the next thing is: what is freed comes back to the system within a second or two (decision 0018).
const MORE_AFTER: Duration = Duration::from_secs(3);

/// Below this share of the budget, in percent, and for this long, what gave way last comes back.
const ROOM_PERCENT: u64 = 80;
const LESS_AFTER: Duration = Duration::from_secs(5 * 60);

/// Decides what to do without.
struct Budget {
    bytes: u64,
    given_up: GivenUp,
    /// When that last changed.
    changed: Option<Instant>,
    room_since: Option<Instant>,
}

impl Budget {
    fn new(bytes: u64) -> Self {
        Self { bytes, given_up: GivenUp::Nothing, changed: None, room_since: None }
    }

    /// What it does without from now on, if that changes.
    fn look(&mut self, resident: u64, now: Instant) -> Option<GivenUp> {
        let has_room = resident < self.bytes / 100 * ROOM_PERCENT;
        self.room_since = has_room.then(|| self.room_since.unwrap_or(now));
        let is_past = |began: Option<Instant>, wait| began.is_none_or(|began| now.saturating_duration_since(began) >= wait);
        let next = if resident > self.bytes {
            self.given_up.more().filter(|_| is_past(self.changed, MORE_AFTER))?
        } else {
            self.given_up.less().filter(|_| has_room && is_past(self.room_since.max(self.changed), LESS_AFTER))?
        };
        (self.given_up, self.changed) = (next, Some(now));
        Some(next)
    }
}

/// Looks until the process ends. Without `/proc` it cannot.
pub(super) async fn keep(budget: u64, given_up: watch::Sender<GivenUp>, chunks: Arc<ChunkCache>, metrics: Arc<Metrics>) {
    let (mut within, mut was_over) = (Budget::new(budget), false);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(resident) = resident_bytes() else {
            tracing::error!("this system does not tell how much memory a process has: --memory-budget is without effect");
            return;
        };
        if let Some(next) = within.look(resident, Instant::now()) {
            tracing::info!(
                resident,
                budget,
                without = next.as_str(),
                "what only saves time gives way to --memory-budget, up to this, or comes back"
            );
            chunks.set_enabled(next < GivenUp::Blocks);
            given_up.send_replace(next);
            for what in GivenUp::ALL {
                metrics.memory_given_up.with_label_values(&[what.as_str()]).set((what <= next).into());
            }
        }
        let is_over = resident > budget && within.given_up == GivenUp::History;
        if is_over && !was_over {
            tracing::warn!(resident, budget, "--memory-budget is less than what must be kept: objects, watches, answers under way");
        }
        was_over = is_over;
    }
}

/// Makes the allocator look for pages to give back to the system, until the process ends. It looks when a page becomes free, and gives back what has been free
/// for a second: after a burst nothing else may be freed for hours.
pub(super) async fn give_back() {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        drop(black_box(Vec::<u8>::with_capacity(PAGE_BYTES)));
    }
}

/// Drops the compressed pieces of lists that nobody asks for, until the process ends.
pub(super) async fn forget(chunks: Arc<ChunkCache>) {
    loop {
        tokio::time::sleep(UNUSED_FOR).await;
        chunks.evict_unused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_up_one_thing_after_the_other_and_takes_it_back() {
        let began = Instant::now();
        let mut budget = Budget::new(1_000);
        let mut at = |second: u64, resident| budget.look(resident, began + Duration::from_secs(second));
        assert_eq!(at(1, 900), None);
        assert_eq!(at(2, 1_001), Some(GivenUp::Messages));
        assert_eq!((at(3, 1_001), at(4, 700), at(5, 1_001)), (None, None, Some(GivenUp::Blocks)), "what was given up takes effect first");
        assert_eq!((at(8, 850), at(9, 799), at(308, 799)), (None, None, None));
        assert_eq!((at(309, 799), at(310, 799)), (Some(GivenUp::Messages), None));
        assert_eq!((at(400, 900), at(401, 799), at(700, 799)), (None, None, None), "there was no room for a while");
        assert_eq!((at(701, 799), at(2_000, 799)), (Some(GivenUp::Nothing), None));
        let all: Vec<_> = (0..9).filter_map(|n| at(3_000 + 3 * n, 2_000)).collect();
        assert_eq!(all, GivenUp::ALL);
    }
}
