//! Decides which watch gets which event: an event touches only the groups of watches that can match it, is encoded once per encoder, and waits in each
//! group's log for the members.
//!
//! `interest` finds the groups, `group` holds their logs, `frame` what is in them, `filters` what they ask for, `subscription` is one watcher's way through
//! snapshot, ring and log, `wake` wakes them all at once, `left` has those that nobody is in any more, `gather` those a little later who were just woken.

mod coalesce;
pub mod dispatcher;
pub mod filters;
mod frame;
pub mod group;
mod left;
pub mod match_index;
#[cfg(all(test, feature = "shuttle"))]
mod schedule;
pub mod subscription;

pub use coalesce::{GATHER_EACH_US, Pause};
pub use dispatcher::Dispatcher;
pub use filters::{Filters, SharedFilter};
pub use frame::{EncodedEvent, Frame, Later};
pub use group::{Group, GroupKey, GroupLimits, untaken::Untaken};
pub use subscription::{Phase, Start, Step, Subscription};
#[cfg(any(test, feature = "testing"))]
pub use subscription::{test_subscription, test_subscription_of, test_unencodable};
pub use wake::Wake;
