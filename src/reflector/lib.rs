//! A source of the watch cache beside etcd: an API server, by LIST and WATCH as any client has them.
//!
//! [`Reflectors`] follows each resource by itself, with a revision line of its own, and hands its cacher what etcd's feed would: a load, then batches, and how
//! far everything is known. `event` reads what upstream tells, `machine` decides what may be forwarded of it, `follower` loads, watches and comes back after
//! failures.

mod end;
mod event;
mod follower;
mod history;
mod ledger;
mod lines;
mod load;
mod machine;
mod place;
mod policy;
mod protobuf;
mod reflectors;
mod release;
mod source;

pub use policy::{Policy, Wanted};
pub use reflectors::Reflectors;
pub use source::{CONNECTIONS_RESERVED, Source};

#[cfg(test)]
mod tests;
