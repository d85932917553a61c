//! A read replica answers what its memory can answer. Everything else is handed on to the kube-apiserver whose etcd it shares, upstream.
//!
//! [`answerer`] decides who answers a request. [`headers`] says what of its head goes along and what comes back, [`Manner`] as whom it is sent, and [`Upstream`]
//! sends it; [`Documents`] keeps what upstream says of the cluster, [`Agreed`] what it serves, and [`Listed`] is compared with what is here.

mod compare;
mod decide;
mod documents;
mod given_up;
pub mod headers;
pub mod host;
mod identity;
mod line;
mod patience;
mod replay;
mod served;
mod trusted;
mod upstream;
mod visit;

pub use compare::{Listed, first_uid, is_of_this_etcd, is_whole};
pub use decide::{Answerer, Asked, Reason, Standing, answerer};
pub use documents::{Documents, Found, Keeping, Look};
pub use identity::{Manner, Unspeakable};
pub use served::{Agreed, Named, Offered, Recent, Said};
pub use trusted::{CONFIG_MAP, Trusted};
pub use upstream::{Answer, Body, CONNECTIONS_RESERVED, Client, Settings, Upgraded, Upstream, UpstreamError};
pub use visit::{Visit, Whole};
