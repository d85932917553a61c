//! The memory of one resource: `replica` owns it, `view` is what readers hold. Only `view` may wait (guarantee Fresh lives there).

mod counts;
pub mod index;
pub mod learner;
mod lent;
pub mod replica;
pub mod ring;
#[cfg(all(test, feature = "shuttle"))]
mod schedule;
pub mod store;
mod sync;
pub mod view;

pub use counts::Place;
pub use lent::Lent;
