//! etcd's answers become a [`Feed`](model::Feed): `machine` decides and is pure, `driver` does the I/O.

pub mod continuity;
pub mod driver;
pub mod load;
pub mod machine;
pub mod ranges;
