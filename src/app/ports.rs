//! The ports that were chosen: they go where the flags left them open, and into `--port-file` when the server is ready.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::owner_file;
use crate::config::Listeners;
use apiserver::api::Api;
use server::Sockets;

/// Between two looks at whether the server is ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Notes the ports of these sockets, and removes a file that tells those of an earlier start.
///
/// # Errors
/// One line with the file.
pub(super) fn settle(listeners: &mut Listeners, sockets: &Sockets) -> Result<(), String> {
    listeners.insecure_port = sockets.insecure_port();
    if let (Some(listener), Some(port)) = (&mut listeners.secure, sockets.secure_port()) {
        listener.address.set_port(port);
        if let Some(admin) = &mut listener.admin {
            admin.server.set_port(port);
        }
    }
    match listeners.port_file.as_ref().map(|file| (file, fs::remove_file(file))) {
        Some((file, Err(error))) if error.kind() != io::ErrorKind::NotFound => Err(format!("--port-file {}: {error}", file.display())),
        _ => Ok(()),
    }
}

/// Writes `--port-file` when the server is ready.
pub(super) async fn tell(listeners: Listeners, api: Arc<Api>) {
    let Some(file) = &listeners.port_file else { return };
    while !api.is_ready() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let secure = listeners.secure.as_ref().map(|listener| listener.address.port());
    let lines = [("INSECURE_PORT", listeners.insecure_port), ("SECURE_PORT", secure)];
    let text: String = lines.iter().filter_map(|(name, port)| Some(format!("{name}={}\n", (*port)?))).collect();
    if let Err(error) = owner_file::write(file, &text) {
        tracing::error!(%error, file = %file.display(), "--port-file cannot be written");
    }
}
