//! What an aggregated API server knows of the cluster that it extends: its namespaces, followed through its API (docs/decisions/0024). Who somebody is there
//! and what he may do, `providers` and `access` ask.

mod namespaces;

pub use namespaces::{CONNECTIONS_MAX, Namespaces, Phase, Unknown};

#[cfg(test)]
mod tests;
