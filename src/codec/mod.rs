//! Stored bytes in, answer bytes out: values made servable once, list envelopes, watch frames. Knows no clock, no socket and no request.
//!
//! ```text
//! etcd value → ingest → Object { tail, labels, fields }        once per write
//! Object     → Form   → GET body, list item, watch frame       head + tail, no parsing (but for events.k8s.io/v1, metadata alone, tables)
//! ```

mod defaults;
pub mod definition;
pub mod encode;
mod event_v1;
mod field;
pub mod form;
pub mod ingest;
mod job;
pub mod media;
mod members;
mod partial;
pub mod pretty;
mod printed;
pub mod proto;
mod scan;
pub mod stored;
mod table;
mod wire;
pub mod yaml;

#[cfg(test)]
mod golden;

pub use form::{Form, ListMeta};
pub use ingest::ingest;
pub use media::{Media, Unencodable};
pub use partial::MetaVersion;
pub use printed::normalize;
pub use table::{Clock, Include, Table};
pub use wire::WireList;
