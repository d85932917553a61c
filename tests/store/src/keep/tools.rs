//! The ways to save and defragment a store: its own command, etcdctl, the crate `etcd-client`. Knows no store's content.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use etcd_client::Client;
use tokio::process::{Child, Command};

/// Who does it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Watchcache,
    Etcdctl,
    EtcdClient,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Watchcache, Self::Etcdctl, Self::EtcdClient];
}

/// The programs, and the store that they are asked about.
pub(super) struct Tools {
    server: PathBuf,
    etcdctl: PathBuf,
    url: String,
    data: PathBuf,
}

impl Tools {
    pub(super) fn new(server: &Path, etcdctl: &Path, url: &str, data: &Path) -> Self {
        Self { server: server.to_owned(), etcdctl: etcdctl.to_owned(), url: url.to_owned(), data: data.to_owned() }
    }

    /// The store's directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Saves the running store into a file.
    pub(super) async fn save(&self, way: Way, file: &Path) -> Result<()> {
        match way {
            Way::Watchcache => well(self.backup(file)).await.map(drop),
            Way::Etcdctl => well(self.etcdctl(&["snapshot", "save"]).arg(file)).await.map(drop),
            Way::EtcdClient => {
                let mut pieces = Client::connect([&self.url], None).await?.snapshot().await?;
                let (mut out, mut remaining) = (File::create(file)?, u64::MAX);
                while let Some(piece) = pieces.message().await? {
                    out.write_all(piece.blob())?;
                    remaining = piece.remaining_bytes();
                }
                ensure!(remaining == 0, "{remaining} bytes remain after the last piece");
                Ok(())
            }
        }
    }

    pub(super) async fn defragment(&self, way: Way) -> Result<()> {
        match way {
            Way::Watchcache => well(&mut self.defragment_command()).await.map(drop),
            Way::Etcdctl => well(self.etcdctl(&["defrag", "--command-timeout=600s"])).await.map(drop),
            Way::EtcdClient => Ok(Client::connect([&self.url], None).await?.defragment().await.map(drop)?),
        }
    }

    /// Makes a data directory from a backup; what was told.
    pub(super) async fn restore(&self, file: &Path, data: &Path, bump: i64) -> Result<String> {
        well(&mut self.restore_command(file, data, bump)).await
    }

    pub(super) async fn check_backup(&self, file: &Path) -> Result<String> {
        well(self.store("check").arg(file)).await
    }

    pub(super) async fn check(&self, data: &Path) -> Result<String> {
        well(self.store("check").arg("--data-dir").arg(data)).await
    }

    pub(super) fn backup(&self, file: &Path) -> Command {
        let mut command = self.store("backup");
        command.arg(file).arg("--data-dir").arg(&self.data);
        command
    }

    pub(super) fn restore_command(&self, file: &Path, data: &Path, bump: i64) -> Command {
        let mut command = self.store("restore");
        command.arg(file).arg("--data-dir").arg(data).arg(format!("--bump-revision={bump}"));
        command
    }

    pub(super) fn defragment_command(&self) -> Command {
        let mut command = self.store("defragment");
        command.arg("--data-dir").arg(&self.data);
        command
    }

    fn store(&self, what: &str) -> Command {
        let mut command = Command::new(&self.server);
        command.args(["store", what]);
        command
    }

    fn etcdctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.etcdctl);
        command.arg(format!("--endpoints={}", self.url)).args(arguments);
        command
    }
}

/// Runs a command that must do what it is asked; its standard output.
async fn well(mut command: impl std::borrow::BorrowMut<Command>) -> Result<String> {
    let Output { status, stdout, stderr } = command.borrow_mut().output().await.context("start a command")?;
    ensure!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Starts a command that nobody hears.
pub(super) fn unheard(command: &mut Command) -> Result<Child> {
    Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// User and system time of the commands that have ended, seconds.
pub(super) fn children_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // Of proc(5) the fields 16 and 17; the first one here is the third.
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).context("/proc/self/stat has not the fields of proc(5)");
    Ok((ticks(13)? + ticks(14)?) / 100.0)
}
