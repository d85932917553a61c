//! The only room that knows axum and hyper: doors, requests, answers.

pub mod accept;
pub mod api;
mod aside;
mod body;
mod budget;
mod caught;
mod connection;
mod counted;
mod failure;
pub mod guard;
mod gzip;
mod gzip_body;
mod health;
pub mod listen;
mod mutate;
mod openapi;
mod partial;
pub mod path;
mod piece_body;
mod progress;
pub mod resource;
pub mod respond;
pub mod status;
mod tls;
mod websocket;
