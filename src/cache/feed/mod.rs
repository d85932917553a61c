//! The decisions of the feed: which change of etcd goes to which cacher, what is loaded anew, which ranges of keys are watched.

pub mod machine;
pub mod ranges;
