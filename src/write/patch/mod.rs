//! The patch types as functions from tree to tree (spec api-surface §7). Know no object and no etcd.

mod json;
mod merge;
mod strategic;
