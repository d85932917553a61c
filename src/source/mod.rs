//! etcd's answers become a [`Feed`](model::Feed): `driver` and `load` do the I/O, `watch::feed` decides.

pub mod continuity;
pub mod driver;
pub mod load;
