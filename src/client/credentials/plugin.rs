//! A credential plugin: a program that says who we are (client-go's `exec`). It is run when there are no credentials, before they
//! end, and when the server refuses
//! them; once for all who wait, and after failures less and less often.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::child::{ChildError, ChildLimits, Ended, run};
use super::issued::{Issued, PluginVersion};

/// What one run may take. Programs of cloud providers need a few seconds; client-go has no limits.
const LIMITS: ChildLimits = ChildLimits { time: Duration::from_secs(60), output_bytes: 1 << 20 };
/// How long before their end credentials are renewed, at most.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);
/// The pause between two runs that bring nothing new, which doubles up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Credentials that the server refuses after this time were of use.
const OF_USE: Duration = Duration::from_secs(60);
const INFO: &str = "KUBERNETES_EXEC_INFO";

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginSpec {
    pub(crate) version: PluginVersion,
    pub(crate) command: PluginCommand,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// What is logged when there is no such program.
    pub(crate) install_hint: String,
    /// What it is told.
    pub(crate) info: String,
}

/// Which program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PluginCommand {
    /// This one.
    File(PathBuf),
    /// The one of this name in `PATH`.
    Name(String),
}

impl fmt::Display for PluginCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PluginCommand::File(path) => path.display().fmt(out),
            PluginCommand::Name(name) => name.fmt(out),
        }
    }
}

/// What a run has brought.
type Outcome = Result<Arc<Issued>, String>;
/// Where those who wait for a run hear of it.
type Running = watch::Receiver<Option<Outcome>>;

/// See the file's header.
pub(crate) struct Plugin {
    spec: PluginSpec,
    state: Mutex<State>,
    /// How often the certificate has changed: connections that have shown another one end.
    rotations: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    issued: Option<Arc<Issued>>,
    running: Option<Running>,
    /// What came of the last run if nothing was issued, and when it ended.
    failure: Option<String>,
    ended: Option<Instant>,
    /// Runs one after the other that brought nothing of use.
    fruitless: u32,
}

/// Why a plugin is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// There are no credentials, or they end.
    Missing,
    /// The server refuses them.
    Refused,
}

impl Plugin {
    pub(crate) fn new(spec: PluginSpec) -> Arc<Plugin> {
        Arc::new(Plugin { spec, state: Mutex::default(), rotations: watch::Sender::new(0) })
    }

    pub(crate) fn spec(&self) -> &PluginSpec {
        &self.spec
    }

    /// Hears when the certificate changes.
    pub(crate) fn rotations(&self) -> watch::Receiver<u64> {
        self.rotations.subscribe()
    }

    /// Returns the credentials of now. Waits for a run if there are none, or if they are over.
    ///
    /// # Errors
    /// The plugin does not say.
    pub(crate) async fn issued(self: &Arc<Self>) -> Outcome {
        let running = {
            let mut state = self.state.lock();
            let now = SystemTime::now();
            match state.issued.clone() {
                Some(issued) if !issued.is_over(now) => {
                    if issued.is_due(now, RENEWED_BEFORE) && state.running.is_none() && state.may_run(Why::Missing) {
                        self.begin(&mut state, Why::Missing);
                    }
                    return Ok(issued);
                }
                before => match state.running.clone() {
                    Some(running) => running,
                    None if state.may_run(Why::Missing) => self.begin(&mut state, Why::Missing),
                    // It was run a moment ago, and will be in a moment.
                    None => return state.failure.clone().map_or_else(|| before.ok_or_else(String::new), Err),
                },
            }
        };
        outcome(running).await
    }

    /// Runs it because the server refuses these credentials. Returns whether there are others.
    pub(crate) async fn renew(self: &Arc<Self>, refused: &Arc<Issued>) -> bool {
        let running = {
            let mut state = self.state.lock();
            match state.running.clone() {
                _ if state.issued.as_ref().is_some_and(|now| !Arc::ptr_eq(now, refused)) => return true,
                Some(running) => running,
                None if state.may_run(Why::Refused) => self.begin(&mut state, Why::Refused),
                None => return false,
            }
        };
        outcome(running).await.is_ok()
    }

    /// Begins a run, which goes on whoever waits for it.
    fn begin(self: &Arc<Self>, state: &mut State, why: Why) -> Running {
        let (told, running) = watch::channel(None);
        state.running = Some(running.clone());
        let ending = Ending { plugin: self.clone(), why, told };
        tokio::spawn(async move {
            let outcome = ending.plugin.run().await.map(Arc::new);
            ending.end(outcome);
        });
        running
    }

    async fn run(&self) -> Result<Issued, String> {
        let Some(program) = self.program() else {
            let mut why = format!("exec: executable {} not found", self.spec.command);
            if !self.spec.install_hint.is_empty() {
                let _ = write!(why, ": {}", self.spec.install_hint.trim().escape_debug());
            }
            return Err(why);
        };
        let mut env: BTreeMap<OsString, OsString> = self.spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.insert(INFO.into(), self.spec.info.clone().into());
        let env: Vec<_> = env.into_iter().collect();
        let ended = run(&program, &self.spec.args, &env, LIMITS).await.map_err(|error| match error {
            ChildError::NotStarted(error) => format!("exec: executable {}: {error}", self.spec.command),
            error => format!("exec: executable {}: {error}", self.spec.command),
        })?;
        self.log_error(&ended);
        if !ended.status.success() {
            let code = ended.status.code().unwrap_or(-1);
            return Err(format!("exec: executable {} failed with exit code {code}", self.spec.command));
        }
        Issued::read(&ended.output, self.spec.version, SystemTime::now())
    }

    fn log_error(&self, ended: &Ended) {
        let text = String::from_utf8_lossy(&ended.error);
        let (text, command) = (text.trim(), &self.spec.command);
        if !text.is_empty() && ended.status.success() {
            tracing::info!(%command, stderr = %text.escape_debug(), "a credential plugin has written to standard error");
        } else if !text.is_empty() {
            tracing::warn!(%command, stderr = %text.escape_debug(), "a credential plugin has failed");
        }
    }

    /// Where the program is. Our own `PATH` counts, as in client-go.
    fn program(&self) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        match &self.spec.command {
            PluginCommand::File(path) => Some(path.clone()).filter(|path| path.exists()),
            PluginCommand::Name(name) => {
                let path = std::env::var_os("PATH")?;
                std::env::split_paths(&path)
                    .filter(|directory| directory.is_absolute())
                    .map(|directory| directory.join(name))
                    .find(is_program)
            }
        }
    }
}

/// Waits for a run.
async fn outcome(mut running: Running) -> Outcome {
    let told = running.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
    told.unwrap_or_else(|| Err("the credential plugin was not waited for".to_owned()))
}

/// A run that ends when this is dropped, whatever becomes of its task.
struct Ending {
    plugin: Arc<Plugin>,
    why: Why,
    told: watch::Sender<Option<Outcome>>,
}

impl Ending {
    fn end(&self, outcome: Outcome) {
        let mut state = self.plugin.state.lock();
        state.end(self.why, &outcome, &self.plugin);
        drop(state);
        self.told.send_replace(Some(outcome));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.told.borrow().is_none() {
            self.end(Err("the credential plugin was not waited for".to_owned()));
        }
    }
}

impl State {
    /// Whether the pause since the last run is over.
    fn may_run(&self, why: Why) -> bool {
        let pause = match (self.fruitless, why) {
            (0, Why::Refused) => Duration::ZERO,
            (0, Why::Missing) => PAUSE,
            (runs, _) => (PAUSE * (1 << (runs - 1).min(5))).min(PAUSE_MAX),
        };
        self.ended.is_none_or(|ended| ended.elapsed() >= pause)
    }

    /// Takes what a run has brought. Credentials that are not over outlast a run that fails.
    fn end(&mut self, why: Why, outcome: &Outcome, plugin: &Plugin) {
        let was_of_use = self.ended.is_none_or(|ended| ended.elapsed() > OF_USE);
        self.running = None;
        self.ended = Some(Instant::now());
        match outcome {
            Ok(issued) => {
                self.fruitless = if why == Why::Missing || was_of_use { 0 } else { self.fruitless + 1 };
                self.failure = None;
                let before = self.issued.replace(issued.clone());
                if before.is_some_and(|before| before.certificate != issued.certificate) {
                    plugin.rotations.send_modify(|number| *number += 1);
                }
            }
            Err(why) => {
                self.fruitless += 1;
                if self.failure.as_ref() != Some(why) {
                    tracing::error!(command = %plugin.spec.command, %why, "a credential plugin issues nothing");
                }
                self.failure = Some(why.clone());
            }
        }
    }
}
