//! The watch half without its tasks: what the feed decides, the memory of one resource, and who hears what. Knows no etcd, no HTTP and no runtime.

pub mod cache;
pub mod dispatch;
pub mod feed;
