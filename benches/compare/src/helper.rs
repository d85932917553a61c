//! Another process of this program, in another role: starts it, exchanges JSON lines with it, and reads its CPU clock. Knows no message.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::cpu::Meter;

/// Seconds for a helper to end by itself.
const END_SECONDS: u64 = 10;

/// A running helper. It is killed when dropped.
pub(crate) struct Helper {
    role: &'static str,
    process: Child,
    stdin: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    meter: Meter,
}

impl Helper {
    /// Starts this program again with the subcommand `role`.
    pub(crate) fn start(role: &'static str) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut process = Command::new(program)
            .arg(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start the {role} process"))?;
        let stdin = process.stdin.take().expect("stdin was piped above");
        let replies = BufReader::new(process.stdout.take().expect("stdout was piped above")).lines();
        let meter = Meter::of(process.id().ok_or_else(|| anyhow!("the {role} process ended at once"))?)?;
        Ok(Self { role, process, stdin, replies, meter })
    }

    /// Its CPU clock.
    pub(crate) fn meter(&self) -> Meter {
        self.meter
    }

    /// Sends one message.
    pub(crate) async fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stdin.write_all(&line).await.with_context(|| format!("write to the {} process", self.role))
    }

    /// Waits for one reply.
    pub(crate) async fn reply<T: DeserializeOwned>(&mut self, seconds: u64) -> Result<T> {
        let role = self.role;
        let line = timeout(Duration::from_secs(seconds), self.replies.next_line()).await;
        let line = line.with_context(|| format!("the {role} process did not answer within {seconds} s"))??;
        let line = line.ok_or_else(|| anyhow!("the {role} process ended"))?;
        serde_json::from_str(&line).with_context(|| format!("a reply of the {role} process"))
    }

    /// Ends the process and everything it has open.
    pub(crate) async fn close(self) -> Result<()> {
        let Self { role, mut process, stdin, .. } = self;
        drop(stdin);
        if timeout(Duration::from_secs(END_SECONDS), process.wait()).await.is_err() {
            process.kill().await.with_context(|| format!("end the {role} process"))?;
        }
        Ok(())
    }
}
