//! Asks webhooks, of conversion and of admission: a review is posted over TLS, and its answer is judged as client-go judges it. Every text is kube-apiserver's.
//!
//! ```text
//! review ─▶ Caller (URL, or a ready address of a Service) ─▶ bytes of the answer, counted in Held
//! ```

mod caller;
mod held;

pub use caller::{Backend, Caller, Endpoint, Resolver};
pub use client::{Identities, Limits};
pub use held::Held;
