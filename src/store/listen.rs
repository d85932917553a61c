//! The two ways to reach the store: tonic's service in-process, and the same over TCP on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::try_join_all;
use proto::{
    Channel, cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer, maintenance_server::MaintenanceServer,
    watch_server::WatchServer,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

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

pub(super) fn routes(service: &Service) -> Routes {
    Routes::new(KvServer::new(service.clone()).max_decoding_message_size(DECODE_BYTES_MAX))
        .add_service(WatchServer::new(service.clone()))
        .add_service(LeaseServer::new(service.clone()))
        .add_service(MaintenanceServer::new(service.clone()))
        .add_service(ClusterServer::new(service.clone()))
        .prepare()
}

/// A channel that ends in this process: no port, no connection, nothing to authenticate.
pub(super) fn channel(service: &Service) -> Channel {
    Channel::new(routes(service))
}

/// Serves until `stopped` is true.
pub(super) async fn serve(service: &Service, listeners: Vec<TcpListener>, stopped: watch::Receiver<bool>) -> std::io::Result<()> {
    let serve_one = |listener: TcpListener| {
        let mut stopped = stopped.clone();
        let routes = routes(service);
        async move {
            let server = Server::builder()
                .max_concurrent_streams(STREAMS_MAX)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
                .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
                .add_routes(routes);
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let until = async move {
                // A sender that is gone wants the same.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            server.serve_with_incoming_shutdown(incoming, until).await.map_err(std::io::Error::other)
        }
    };
    try_join_all(listeners.into_iter().map(serve_one)).await.map(|_| ())
}

/// Binds every address.
pub(super) async fn bind(addresses: &[SocketAddr]) -> std::io::Result<Vec<TcpListener>> {
    try_join_all(addresses.iter().map(TcpListener::bind)).await
}
