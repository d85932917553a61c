//! LIST, GET and WATCH: `options` parses, `plan` decides, `serve` carries out, `reach` says what needs no etcd, `token` pages.

mod etcd_list;
pub mod failure;
mod newest;
pub mod options;
mod pace;
pub mod plan;
mod reach;
pub mod serve;
pub mod target;
pub mod token;
