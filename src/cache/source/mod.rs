//! etcd's answers become a [`Feed`](model::Feed): `driver` and `load` do the I/O, `freshness` tells how old it is, `crate::feed` decides.

pub mod continuity;
pub mod driver;
pub mod freshness;
pub mod load;
