//! The types that all other rooms share: revisions, keys, objects, changes, resources, selectors. No I/O, no clock, no tokio.

mod by_resource;
pub mod cel_words;
mod change;
mod filter;
mod given_up;
pub mod invalid;
mod labels;
pub mod legal;
mod managed_fields;
mod object;
mod range;
mod resource;
mod revision;
pub mod selector;
pub mod shard;
mod string_table;
mod structural;
mod text;
mod webhook_place;

pub use by_resource::ByResource;
pub use change::{Batch, Change, Feed, KeyChange, Stored};
pub use filter::{Filter, Kind, Outcome, Term};
pub use given_up::GivenUp;
pub use labels::{LabelSet, Labels};
pub use managed_fields::ManagedFields;
pub use object::{Broken, Event, Object, Parts};
#[cfg(any(test, feature = "testing"))]
pub use object::{test_object, test_object_of, test_object_with, test_object_with_tail};
pub use range::KeyRange;
pub use resource::{FieldPath, Included, PrinterColumn, ResourceId, Shape, Storage};
pub use revision::{Epoch, Revision};
pub use structural::{DEFAULTED_BYTES_MAX, Structural, Unread, tree_bytes};
pub use text::Text;
pub use webhook_place::WebhookPlace;
