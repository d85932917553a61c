//! The store's binary as a child process that ends with its owner. Does not know what is asked of it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::connection::{connect, head};

/// How long a store may take to answer after its start, recovery included.
const START: Duration = Duration::from_secs(120);

/// A running `watchcache store`. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts the store on a data directory and waits until it answers; its output is appended to `log`.
    pub(crate) async fn start(binary: &Path, data: &Path, url: &str, log: &Path) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
        let child = Command::new(binary)
            .arg("store")
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", url])
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut server = Self { child, log: log.to_owned() };
        server.answers(url).await?;
        Ok(server)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// SIGKILL, and wait until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill the store")
    }

    async fn answers(&mut self, url: &str) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START {
            if let Some(status) = self.child.try_wait()? {
                bail!("the store ended with {status}: {}", self.last_words());
            }
            if let Ok(mut client) = connect(url)
                && head(&mut client).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the store did not answer within {START:?}: {}", self.last_words())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}
