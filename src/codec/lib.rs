//! Stored bytes in, answer bytes out: values made servable once, list envelopes, watch frames.
//!
//! ```text
//! etcd value → ingest → Object { tail, labels, fields }        once per write; a protobuf value is read by `proto` first
//! Object     → Encoder → list item, watch frame, GET body      its Representation in its Encoding
//!              Representation: whole (head + tail, no parsing), metadata, Table        always JSON
//!              Encoding: that JSON, or protobuf made of it
//! document   → Media  → what is sent                           JSON, indented or not; YAML; protobuf
//! tree       → stored → etcd value, answer to the writer       a built-in as Go prints it (`normalize`)
//! ```

mod autoscaler_v1;
pub mod chunk_cache;
mod defaults;
pub mod definition;
mod document;
pub mod encode;
pub mod encoder;
mod encoding;
mod event_v1;
mod field;
mod fields_v1;
mod gzip_list;
mod hpa_defaults;
pub mod ingest;
mod job;
pub mod list_manifest;
mod listing;
pub mod media;
mod members;
mod normalize;
pub mod object_meta;
mod older;
mod partial;
mod prefetch;
pub mod proto;
mod protobuf_encoder;
mod representation;
mod scan;
mod skip;
mod statefulset_defaults;
pub mod stored;
mod table;
mod unencodable;
pub mod versions;

#[cfg(test)]
mod golden;

pub use append::append;
pub use autoscaler_v1::drop_carriers;
pub use chunk_cache::ChunkCache;
pub use document::Document;
pub use encoder::Encoder;
pub use field::compared;
pub use gzip_list::{GzipList, Wrote};
pub use ingest::ingest;
pub use list_manifest::{CachedList, ListKey};
pub use listing::Listing;
pub use media::Media;
pub use normalize::normalize;
pub use partial::MetaVersion;
pub use protobuf_encoder::LENGTH_PREFIX;
pub use representation::ListMeta;
pub use table::{Clock, Include, Table};
pub use unencodable::Unencodable;
