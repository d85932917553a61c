//! Stored bytes in, answer bytes out: values made servable once, list envelopes, watch frames.
//!
//! ```text
//! etcd value → ingest → Object { tail, labels, fields }        once per write; a protobuf value is read by `proto` first
//! Object     → Form   → list item, watch frame, GET body       its Content in its Encoding
//!              Content: whole (head + tail, no parsing), metadata, Table        always JSON
//!              Encoding: that JSON, or protobuf made of it
//! document   → Media  → what is sent                           JSON, indented or not; YAML; protobuf
//! tree       → stored → etcd value, answer to the writer       a built-in as Go prints it (`printed`)
//! ```

mod ahead;
mod autoscaler_v1;
pub mod blocks;
mod content;
mod defaults;
pub mod definition;
mod document;
pub mod encode;
mod encoding;
mod event_v1;
mod field;
pub mod form;
mod gzip_list;
mod hpa_defaults;
pub mod ingest;
mod job;
mod listing;
pub mod media;
mod members;
pub mod object_meta;
mod partial;
mod printed;
pub mod proto;
pub mod run;
mod scan;
mod skim;
mod statefulset_defaults;
pub mod stored;
mod table;
mod unencodable;
pub mod versions;
mod wire;

#[cfg(test)]
mod golden;

pub use append::append;
pub use autoscaler_v1::drop_carriers;
pub use blocks::Blocks;
pub use content::ListMeta;
pub use document::Document;
pub use form::Form;
pub use gzip_list::{GzipList, Wrote};
pub use ingest::ingest;
pub use listing::Listing;
pub use media::Media;
pub use partial::MetaVersion;
pub use printed::normalize;
pub use run::{Run, RunName};
pub use table::{Clock, Include, Table};
pub use unencodable::Unencodable;
pub use wire::LENGTH_PREFIX;
