//! What is wrong with an object of a built-in kind, cause by cause, as kube-apiserver judges it (`pkg/apis/*/validation` of the served minor): paths, kinds of
//! errors and texts are the same, and so is their order where theirs has one.
//!
//! A rule takes the object (as it is stored: decoded, with its defaults), its path and the list of causes, and knows nothing else. What many kinds share has
//! a file of its own; each kind has one with its `create`, `update` and the parts that have rules of their own.

mod addresses;
mod at;
mod autoscaler_metrics;
mod capacity;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod cases_of_workloads;
mod causes;
mod claim_spec;
mod conditions;
mod cron;
mod devices;
mod equal;
mod expressions;
mod internal;
mod job_indexes;
mod job_policies;
mod job_status;
mod job_update;
mod labels;
mod lines;
mod match_rules;
mod meta;
mod names;
mod node_selector;
mod numbers;
mod quantities;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recorded_policies;
mod selectors;
mod signers;
mod template;
mod volume_sources;
mod webhook;
mod zones;

pub mod api_service;
pub mod attachment;
pub mod autoscaler;
pub mod claim;
pub mod claim_status;
pub mod claims;
pub mod cluster;
pub mod cron_job;
pub mod csi;
pub mod daemon_set;
pub mod data;
pub mod disruption_budget;
pub mod endpoints;
pub mod event;
pub mod flow;
pub mod ingress;
pub mod ip_range;
pub mod job;
pub mod limit_range;
pub mod network_policy;
pub mod node;
pub mod pod;
pub mod policies;
pub mod replicas;
pub mod resource_quota;
pub mod resource_slice;
pub mod runtime_class;
pub mod stateful_set;
pub mod storage_class;
pub mod volume;
pub mod webhooks;

pub use model::invalid::FieldError;
