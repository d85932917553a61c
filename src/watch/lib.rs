//! The pure part of watching: what the feed decides, the memory of one resource, and which watch gets which event. Knows no etcd, no HTTP and no runtime.

pub mod cache;
pub mod dispatch;
pub mod feed;
