//! X.509 as Go reads it, because kube-apiserver, kube-controller-manager and kubelets are written in Go: what is judged here must be what they sign and trust.
//!
//! [`pem`] finds blocks as `encoding/pem` does, [`certificate`] and [`request`] read what is in them as `crypto/x509` does, with its words for what is wrong,
//! and [`verify`] judges chains. A text that Go reads otherwise, or that cannot be read as Go reads it, is refused.

pub mod alternative;
mod asn1;
pub mod certificate;
mod constraints;
mod der;
mod extensions;
pub mod handshake;
mod hostname;
pub mod key;
mod mailbox;
pub mod names;
pub mod pem;
mod policies;
pub mod request;
mod signature;
pub mod verify;

use std::borrow::Cow;

/// Why Go could not read something, in its words.
pub type Malformed = Cow<'static, str>;
