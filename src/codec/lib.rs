//! Stored bytes in, answer bytes out: values made servable once, list envelopes, watch frames. Knows no clock, no socket and no request.
//!
//! ```text
//! etcd value → ingest → Object { tail, labels, fields }        once per write; a protobuf value is read by `proto` first
//! Object     → Form   → list item, watch frame, GET body       JSON: head + tail, no parsing; metadata, Table, protobuf: made of it
//! document   → Media  → what is sent                           JSON, indented or not; YAML; protobuf
//! tree       → stored → etcd value, answer to the writer       a built-in as Go prints it (`printed`)
//! ```

mod autoscaler_v1;
pub mod blocks;
mod defaults;
pub mod definition;
mod document;
pub mod encode;
mod event_v1;
mod field;
pub mod form;
mod gzip_list;
mod hpa_defaults;
pub mod ingest;
mod job;
pub mod media;
mod members;
pub mod object_meta;
mod partial;
mod printed;
pub mod proto;
mod scan;
mod statefulset_defaults;
pub mod stored;
mod table;
pub mod versions;
mod wire;

#[cfg(test)]
mod golden;

pub use autoscaler_v1::drop_carriers;
pub use blocks::Blocks;
pub use document::Document;
pub use form::{Form, ListMeta};
pub use gzip_list::{GzipList, Wrote};
pub use ingest::ingest;
pub use media::{Media, Unencodable};
pub use partial::MetaVersion;
pub use printed::normalize;
pub use table::{Clock, Include, Table};
pub use wire::{LENGTH_PREFIX, Messages, WireList};
