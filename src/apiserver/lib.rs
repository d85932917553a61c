//! The Kubernetes API over HTTP: what a request asks, who may, and the answer.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod accept;
mod admit;
mod answerer;
pub mod api;
mod audit;
mod authorize;
mod body;
mod caught;
mod content_type;
mod cors;
mod discovery;
mod failure;
pub mod guard;
mod gzip;
mod gzip_body;
pub mod hand_on;
pub mod health;
mod held;
mod incoming;
pub mod inflight;
mod kept;
pub mod last_use;
#[cfg(test)]
mod laws;
mod line;
mod looked_at;
mod mutate;
mod offload;
mod openapi;
pub mod origins;
mod own;
mod partial;
mod parts;
mod passing;
pub mod path;
mod piece_body;
mod request_info;
mod request_log;
pub mod resource;
pub mod respond;
mod reviews;
pub mod service;
pub mod settings;
pub mod staleness;
pub mod status;
mod strict_transport;
mod token_request;
mod tunnel;
mod websocket;
