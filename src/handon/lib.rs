//! A read replica answers what its memory can answer. Everything else is handed on to the kube-apiserver whose etcd it shares, upstream.
//!
//! [`answerer`] decides who answers a request. [`headers`] says what of its head goes along and what comes back, [`Manner`] as whom it is sent, and [`Upstream`]
//! sends it; [`Documents`] keeps what upstream says of the cluster. Knows no resource and no flag; all but `upstream`, `line`, `given_up` and `replay` is without I/O.

mod decide;
mod documents;
mod given_up;
pub mod headers;
mod identity;
mod line;
mod patience;
mod release;
mod replay;
mod trusted;
mod upstream;

pub use decide::{Answerer, Asked, Reason, Standing, answerer};
pub use documents::{Documents, Found, Keeping, Look};
pub use identity::{Manner, Unspeakable};
pub use release::Release;
pub use trusted::{CONFIG_MAP, Trusted};
pub use upstream::{Answer, Body, Client, Settings, Upgraded, Upstream, UpstreamError};
