//! Reads and writes of objects: LIST, GET and WATCH from the cache or etcd, and etcd transactions.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod read;
pub mod write;
