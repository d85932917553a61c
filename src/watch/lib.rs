//! The watch half without its tasks: the memory of one resource, and who hears what. Knows no etcd, no HTTP and no runtime.

pub mod cache;
pub mod dispatch;
