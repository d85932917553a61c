//! The server on its embedded store and nothing else, as after one command: it is killed, started again, and written to by many.
//!
//! | variable | meaning |
//! |---|---|
//! | `WATCHCACHE_KILLS` | how often it is killed under load; 5 without it |
//! | `WATCHCACHE_RMW_SECONDS` | how long fifty clients read, change and write; 5 without it |

mod access;
mod admin;
mod aggregated;
mod apply;
mod audit;
mod backlog;
mod backups;
mod bodies;
mod controllers;
mod counters;
mod definitions;
mod forms;
mod fresh;
mod gzip;
mod hooks;
mod identity;
mod in_front;
mod indexes;
mod inflight;
mod inside;
mod kubelets;
mod large;
mod legacy;
mod memory;
mod metrics;
mod migration;
mod multiplied;
mod mutations;
mod newcomers;
mod odd;
mod plugins;
mod policies;
mod refusals;
mod reload;
mod replica;
mod restart;
mod revocation;
pub(crate) mod secure;
mod services;
mod shards;
mod signing_requests;
pub(crate) mod socket;
mod stand_in;
mod trouble;
mod unapplied;
mod unread;
mod unstored;
mod values;
mod versions;
mod wait;
mod webhook;

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::client::{Client, Request};
use crate::live::free_address;

/// What a case answers: nothing, or why it failed.
pub(crate) type Outcome = Result<(), Failure>;
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long the server may take until it can be written to; 50 ms on an idle machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// What is answered for a resource that is not loaded yet.
const NOT_LOADED: &[u8] = b"storage is (re)initializing";
/// Lines of a dead server's log that are shown.
const LOG_LINES: usize = 15;

/// `watchcache serve` over plain HTTP; killed when this is dropped.
pub(crate) struct Alone {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Alone {
    /// Starts it with its data in this folder, and waits until it is ready and has made the first namespaces.
    pub(crate) async fn start(dir: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Self::start_with(dir, &[]).await
    }

    /// The same with further flags.
    pub(crate) async fn start_with(dir: &Path, flags: &[&str]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Self::start_on(dir, flags, &[]).await
    }

    /// The same with these environment variables.
    async fn start_on(dir: &Path, flags: &[&str], environment: &[(&str, &str)]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.envs(environment.iter().copied());
        Self::start_as(dir, flags, command).await
    }

    /// The same in a process to which a shell has done this first.
    async fn start_under(dir: &Path, shell: &str, flags: &[&str]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell}; exec \"$@\"")]).arg(dir.join("shell")).arg(env!("CARGO_BIN_EXE_watchcache"));
        Self::start_as(dir, flags, command).await
    }

    async fn start_as(dir: &Path, flags: &[&str], mut command: Command) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let address = free_address()?;
        let log = dir.join("server.log");
        let out = File::options().append(true).create(true).open(&log)?;
        // What is compared or counted is what the clients of a case do.
        command
            .args(["serve", "--controllers=", "--insecure-port", &address.port().to_string(), "--data-dir"])
            .arg(dir.join("data"))
            .args(flags);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let mut server = Self { child: command.spawn()?, address, log };
        server.ready().await?;
        Ok(server)
    }

    async fn ready(&mut self) -> Outcome {
        let (client, began) = (self.client(), Instant::now());
        loop {
            let mut ready = true;
            for target in ["/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"] {
                ready &= client.fetch(target).await.is_ok_and(|answer| answer.status == 200);
            }
            if ready {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(format!("not ready after {:?}, ended: {ended:?}\n{}", began.elapsed(), self.last_words()).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A new client of it.
    pub(crate) fn client(&self) -> Client {
        Client::plain(self.address)
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks it to stop.
    fn terminate(&self) -> Outcome {
        crate::live::peers::send(self.child.id(), "TERM")?;
        Ok(())
    }

    /// `kill -9`, and waits until it is gone.
    fn kill(mut self) -> Outcome {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // It may have been killed already: that is the point of some cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request with a JSON body that must be answered with this status; the answer. A resource that is not loaded yet is asked again, as clients do.
pub(crate) async fn asked(
    client: &Client,
    (method, target): (&str, &str),
    body: Option<&Value>,
    status: u16,
) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let body = body.map(Value::to_string);
    let began = Instant::now();
    let answer = loop {
        let answer = client.ask(&Request { method, target, body: body.as_deref().map(str::as_bytes) }).await?;
        let is_loading = answer.status == 429 && answer.body.windows(NOT_LOADED.len()).any(|text| text == NOT_LOADED);
        if status == 429 || !is_loading || began.elapsed() > PATIENCE {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    if answer.status != status {
        return Err(format!("{method} {target}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// The names of a list's objects.
fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().into_iter().flatten().filter_map(|item| Some(item["metadata"]["name"].as_str()?.to_owned())).collect()
}

/// The figure of a family with this label, 0 if there is none.
async fn metric(client: &Client, family: &str, label: &str) -> Result<f64, Failure> {
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let line = text.lines().find(|line| line.starts_with(family) && line.contains(label)).unwrap_or("0 0");
    Ok(line.rsplit(' ').next().unwrap_or("0").parse()?)
}

/// The revision of an object, as a number.
fn revision(object: &Value) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).ok_or("an object without a revision")?;
    Ok(text.parse()?)
}
