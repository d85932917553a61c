//! The memory of one resource: `resource` owns it, `snapshot` is what readers hold. Only `snapshot` may wait (guarantee Fresh lives there).

mod counts;
pub mod index;
pub mod learner;
mod lent;
pub mod resource;
pub mod ring;
#[cfg(all(test, feature = "shuttle"))]
mod schedule;
pub mod snapshot;
pub mod store;
mod sync;

pub use counts::Place;
pub use lent::Lent;
