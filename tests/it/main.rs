//! Integration tests: what clients see of the server over HTTP, judged by validators that know nothing of its inside.

mod alone;
mod client;
mod conformance;
mod etcd_tls;
mod guarantees;
mod h2spec;
mod live;
mod manifests;
mod power;
mod protobuf;
mod transcripts;
