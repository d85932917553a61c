//! Create, update, patch and delete: JSON trees in, etcd transactions out. Knows no HTTP; the event of a write comes back through the feed.

#![allow(dead_code, reason = "the writer that joins these parts comes next")]

mod body;
mod definition;
mod metadata;
mod names;
mod options;
mod patch;
mod typed;
