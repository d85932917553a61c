//! The watch cache: what the feed brings (`source`, `feed`), the memory of one resource (`state`), its loop (`cacher`), and which watch gets which event
//! (`dispatch`).

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod cacher;
pub mod dispatch;
pub mod feed;
pub mod source;
pub mod state;
