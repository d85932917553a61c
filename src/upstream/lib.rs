//! A read replica answers what its memory can answer. Everything else is forwarded to the kube-apiserver whose etcd it shares, upstream.
//!
//! [`backend_for`] decides who answers a request. [`headers`] says what of its head goes along and what comes back, [`AuthMode`] as whom it is sent, and
//! [`Upstream`] sends it; [`DocumentCache`] keeps what upstream says of the cluster, [`Agreed`] what it serves, and [`Listed`] is compared with what is here.

mod abandoned;
mod compare;
mod decide;
mod documents;
mod followed;
pub mod headers;
pub mod host;
mod identity;
mod pooled_connection;
mod replay;
mod sending;
mod served;
mod trusted;
mod upstream;
mod visit;

pub use compare::{Listed, first_uid, is_of_this_etcd, is_whole};
pub use decide::{Availability, Backend, Reason, RequestClass, backend_for};
pub use documents::{CacheOutcome, CachedBody, DocumentCache, DocumentRequest};
pub use followed::Followed;
pub use identity::{AuthMode, UnencodableUser};
pub use served::{Agreed, Named, Offered, Recent, Said};
pub use trusted::{CONFIG_MAP, Trusted};
pub use upstream::{Answer, Body, CONNECTIONS_RESERVED, Client, Settings, Upgraded, Upstream, UpstreamError};
pub use visit::{Visit, Whole};
