//! Child processes that end with their owner, and what the kernel says they cost. Knows nothing of what they run.

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{process::Command, time::timeout};

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: tokio::process::Child,
    pid: u32,
    name: String,
    log: PathBuf,
}

/// What a process cost until now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Resident memory, MiB.
    pub(crate) rss_mib: u64,
    /// The most of it since [`Process::forget_peak`], MiB.
    pub(crate) peak_mib: u64,
    /// User and system time, seconds.
    pub(crate) cpu_seconds: f64,
}

impl Process {
    /// Starts a program; its output is appended to `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = S>, log: &Path) -> Result<Self> {
        Self::start_telling(program, args, log, None)
    }

    /// The same; standard error goes elsewhere if there is an elsewhere.
    pub(crate) fn start_telling<S: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = S>,
        log: &Path,
        elsewhere: Option<Stdio>,
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let out = File::options().create(true).append(true).open(log).with_context(|| format!("open {}", log.display()))?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(elsewhere.unwrap_or_else(|| Stdio::from(out)))
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let pid = child.id().context("a process that just started has a pid")?;
        Ok(Self { child, pid, name, log: log.to_owned() })
    }

    /// SIGKILL, and wait until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("kill {}", self.name))
    }

    /// SIGTERM, and wait; SIGKILL and an error when it has not gone within `patience`.
    pub(crate) async fn terminate(mut self, patience: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        if timeout(patience, self.child.wait()).await.is_err() {
            self.child.kill().await?;
            anyhow::bail!("{} did not end within {patience:?} of SIGTERM", self.name);
        }
        Ok(())
    }

    /// SIGSTOP: it does nothing, and its connections stay as they are.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT, after a pause.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Fails with the end of its log when it has ended by itself.
    pub(crate) fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("{} ended with {status}: {}", self.name, self.last_words()),
        }
    }

    /// Memory and processor time, from `/proc`.
    pub(crate) fn cost(&self) -> Result<Cost> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let mib = |name: &str| {
            let kib = status.lines().find_map(|l| l.strip_prefix(name)).and_then(|l| l.split_whitespace().next());
            kib.and_then(|r| r.parse::<u64>().ok()).unwrap_or(0) / 1024
        };
        Ok(Cost { rss_mib: mib("VmRSS:"), peak_mib: mib("VmHWM:"), cpu_seconds: cpu_seconds(&self.pid.to_string())? })
    }

    /// Lets the peak of its memory begin anew (proc(5), `clear_refs`).
    pub(crate) fn forget_peak(&self) -> Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.pid), "5").context("reset the peak of resident memory")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("pids are positive")?;
        kill_process(pid, signal).with_context(|| format!("{signal:?} to {}", self.name))
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// User and system time of a process, seconds; `self` is this one.
pub(crate) fn cpu_seconds(pid: &str) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the command's closing bracket: state is field 3, utime 14, stime 15 (proc(5)); a tick is 10 ms on Linux.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u32>().ok()).unwrap_or(0);
    Ok(f64::from(ticks(11) + ticks(12)) / 100.0)
}

/// Raises the soft limit of open files to the hard one, and says what it is. Children inherit it.
pub(crate) fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _refused_means_unchanged = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
