//! LIST, GET and WATCH: `options` parses, `plan` decides, `serve` carries out, `reach` says what needs no etcd, `token` pages.

mod elsewhere;
mod etcd_list;
pub mod failure;
mod latest_revision;
mod needs_etcd;
pub mod options;
pub mod plan;
pub mod serve;
pub mod target;
pub mod token;
mod yielder;
