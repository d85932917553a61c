//! The decisions of the feed: which change of etcd goes to which cacher, what is loaded anew, which ranges of keys are watched. Knows no etcd, socket,
//! clock or task.

pub mod machine;
pub mod ranges;
