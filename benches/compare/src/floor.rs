//! A floor under the servers' figures: a process that writes events to plain TLS sockets and does nothing else. Knows no Kubernetes and no HTTP but one head.
//!
//! ```text
//! driver → Job             floor → its address
//! driver → Burst           floor → when each event was written
//! driver closes stdin      floor exits
//! ```

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::{Deserialize, Serialize};

use crate::certs::Certificates;
use crate::cpu::Meter;
use crate::helper::Helper;
use crate::load::{Stamp, Target, WriteTimes, now_micros, seq_of};

/// Answers every request.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Seconds to start.
const START_SECONDS: u64 = 10;

/// What a floor process does in its life.
#[derive(Serialize, Deserialize)]
struct Job {
    certificates: PathBuf,
    connections: usize,
    /// One event in JSON; each that is sent has a stamp of its own in place of this one's.
    event: String,
}

/// Events with the stamps from `first_seq` on, each to every connection.
#[derive(Serialize, Deserialize)]
struct Burst {
    first_seq: u64,
    count: u64,
    per_second: u64,
}

/// The driver's end of a floor process.
pub(crate) struct Floor {
    helper: Helper,
    target: Target,
}

impl Floor {
    /// Starts a process that waits for so many connections and then sends them `event`.
    pub(crate) async fn start(certificates: &Path, connections: usize, event: String) -> Result<Self> {
        let mut helper = Helper::start("floor")?;
        helper.send(&Job { certificates: certificates.to_owned(), connections, event }).await?;
        let address = helper.reply(START_SECONDS).await?;
        Ok(Self { helper, target: Target { address, certificates: certificates.to_owned() } })
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    /// Its CPU clock.
    pub(crate) fn meter(&self) -> Meter {
        self.helper.meter()
    }

    /// Sends events; when it began to write each of them stands for the acknowledgement too.
    pub(crate) async fn burst(&mut self, first_seq: u64, count: u64, per_second: u64) -> Result<Vec<WriteTimes>> {
        self.helper.send(&Burst { first_seq, count, per_second }).await?;
        self.helper.reply(START_SECONDS + 10 * count / per_second).await
    }

    /// Ends the process.
    pub(crate) async fn close(self) -> Result<()> {
        self.helper.close().await
    }
}

/// Runs as the floor process. Nothing in it waits for two things at once, so it blocks.
pub(crate) fn run() -> Result<()> {
    let mut lines = io::stdin().lines();
    let Some(job) = lines.next() else { return Ok(()) };
    let job: Job = serde_json::from_str(&job?).context("a job")?;
    let stamp = seq_of(job.event.as_bytes()).ok_or_else(|| anyhow!("an event without a stamp"))?;
    let event = job.event.split_once(&Stamp(stamp).to_string()).context("an event has the text of its stamp")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let tls = tls(&Certificates::at(&job.certificates))?;
    reply::<SocketAddr>(&listener.local_addr()?)?;
    let mut sockets = (0..job.connections).map(|_| accept(&listener, &tls)).collect::<Result<Vec<_>>>()?;
    for burst in lines {
        let burst: Burst = serde_json::from_str(&burst?).context("a burst")?;
        reply(&send(&mut sockets, event, &burst)?)?;
    }
    Ok(())
}

type Socket = StreamOwned<ServerConnection, TcpStream>;

/// The cipher is the client's first choice, as with the servers.
fn tls(certificates: &Certificates) -> Result<Arc<ServerConfig>> {
    let chain = vec![CertificateDer::from_pem_file(certificates.path("srv.crt")).context("read srv.crt")?];
    let key = PrivateKeyDer::from_pem_file(certificates.path("srv.key")).context("read srv.key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?.with_no_client_auth();
    Ok(Arc::new(config.with_single_cert(chain, key)?))
}

/// Takes one connection, reads the request on it and begins the answer.
fn accept(listener: &TcpListener, tls: &Arc<ServerConfig>) -> Result<Socket> {
    let (tcp, _) = listener.accept()?;
    tcp.set_nodelay(true)?;
    let mut socket = StreamOwned::new(ServerConnection::new(Arc::clone(tls))?, tcp);
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let count = socket.read(&mut piece)?;
        ensure!(count > 0, "a connection ended before its request");
        request.extend_from_slice(&piece[..count]);
    }
    socket.write_all(HEAD)?;
    Ok(socket)
}

/// One record and one write for each event and socket. `event` is what stands before and after the stamp.
fn send(sockets: &mut [Socket], event: (&str, &str), burst: &Burst) -> Result<Vec<WriteTimes>> {
    let began = Instant::now();
    let mut times = Vec::new();
    for turn in 0..burst.count {
        let due = Duration::from_secs(1) * u32::try_from(turn)? / u32::try_from(burst.per_second)?;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let sent = now_micros();
        let chunk = chunk(event, burst.first_seq + turn);
        for socket in &mut *sockets {
            socket.conn.writer().write_all(chunk.as_bytes())?;
            while socket.conn.wants_write() {
                socket.conn.write_tls(&mut socket.sock)?;
            }
        }
        times.push(WriteTimes { sent, acknowledged: sent });
    }
    Ok(times)
}

/// An event as a line in a chunk of its own.
fn chunk((before, after): (&str, &str), seq: u64) -> String {
    let line = format!("{before}{}{after}\n", Stamp(seq));
    format!("{:x}\r\n{line}\r\n", line.len())
}

fn reply<T: Serialize>(message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut stdout = io::stdout();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_a_line_with_its_length_and_stamp() {
        assert_eq!(chunk(("{\"stamp\":\"", "\"}"), 7), "1e\r\n{\"stamp\":\"~stamp~0000000007\"}\n\r\n");
    }
}
