//! The ways to reach the store: tonic's service in-process, over TCP on loopback, and on a socket in the data directory.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use futures_util::future::try_join_all;
use futures_util::stream::unfold;
use proto::{
    Channel, cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer, maintenance_server::MaintenanceServer,
    watch_server::WatchServer,
};
use tokio::net::{TcpListener, UnixListener, UnixSocket};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::{Router, TcpIncoming};

use super::budget::{Account, keep};
use super::connection::placed;
use super::gateway;
use super::service::Service;

/// Largest request that is read at all; what is larger than etcd allows is then refused with etcd's words.
const DECODE_BYTES_MAX: usize = 16 << 20;
/// Open streams of one connection. etcd has no limit (`--max-concurrent-streams`); kube-apiserver holds one per resource.
const STREAMS_MAX: u32 = 4_096;
/// An idle connection is pinged after this long (etcd's `--grpc-keepalive-interval` is 2 h) …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(300);
/// … and closed after so long without an answer (etcd's `--grpc-keepalive-timeout`).
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a connection, and of one stream of it, that may be on their way: a page of 10,000 keys in few round trips.
const WINDOW_BYTES: u32 = 4 << 20;

/// Only the owner, as all in the data directory.
const SOCKET_MODE: u32 = 0o600;
/// Connections that wait to be accepted on the socket.
const BACKLOG: u32 = 64;
/// Before the next attempt to accept one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn routes(service: &Service) -> Routes {
    Routes::new(KvServer::new(service.clone()).max_decoding_message_size(DECODE_BYTES_MAX))
        .add_service(WatchServer::new(service.clone()))
        .add_service(LeaseServer::new(service.clone()))
        .add_service(MaintenanceServer::new(service.clone()))
        .add_service(ClusterServer::new(service.clone()))
        .prepare()
}

/// A channel that ends in this process: no port, no connection, nothing to authenticate.
pub(super) fn channel(service: &Service) -> Channel {
    channel_of(&service.on(Account::own()))
}

/// The same on the account of a service.
pub(super) fn channel_of(service: &Service) -> Channel {
    Channel::new(routes(service))
}

/// Serves until `stopped` is true.
pub(super) async fn serve(service: &Service, listeners: Vec<TcpListener>, stopped: watch::Receiver<bool>) -> io::Result<()> {
    let service = service.on(Account::default());
    let serve_one = |listener: TcpListener| {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let served = router(&service).serve_with_incoming_shutdown(placed(incoming), ended(stopped.clone()));
        async move { served.await.map_err(io::Error::other) }
    };
    try_join_all(listeners.into_iter().map(serve_one)).await.map(|_| ())
}

/// The same on a socket of the file system, for this user alone.
pub(super) async fn serve_socket(service: &Service, path: &Path, stopped: watch::Receiver<bool>) -> io::Result<()> {
    let listener = bind_socket(path)?;
    // One that cannot be accepted, for want of files, is no reason to refuse the next ones.
    let incoming = Box::pin(unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((Ok::<_, io::Error>(stream), listener)),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }));
    router(&service.on(Account::default())).serve_with_incoming_shutdown(placed(incoming), ended(stopped)).await.map_err(io::Error::other)
}

/// Nobody can connect before it is this user's alone.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // That of a process that was killed: the directory is ours.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    socket.bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    socket.listen(BACKLOG)
}

fn router(service: &Service) -> Router {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        // Probes, metrics and the JSON gateway.
        .accept_http1(true)
        .add_routes(
            gateway::add(routes(service).into_axum_router(), service).layer(from_fn_with_state(service.account.clone(), keep)).into(),
        )
}

async fn ended(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone wants the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Binds every address.
pub(super) async fn bind(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    try_join_all(addresses.iter().map(TcpListener::bind)).await
}
