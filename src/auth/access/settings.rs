//! Which authorizers are asked, in which order, and what the file of `--authorization-config` says of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::authz::config::{AuthorizationConfiguration, Configured};
use crate::authz::webhook::Settings;
use crate::presence::Presence;
use go::yaml::reader;
use reload::Named;

const CONFIG: &str = "--authorization-config";

/// Decides what clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// Whom to ask, in this order.
    pub modes: Vec<Mode>,
    /// The file that they come from: then they change with it.
    pub file: Option<PathBuf>,
    /// Whether clients without credentials are let through, as `system:anonymous`; else they get 401.
    pub anonymous: bool,
    /// Whether watches end when the right to them is taken away.
    pub ends_watches: bool,
    /// Whether the constrained verbs of impersonation count beside `impersonate`.
    pub constrained_impersonation: bool,
}

/// One authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Roles and bindings.
    Rbac,
    /// What a kubelet may, by the pods of its node.
    Node,
    /// Everyone may do everything.
    AlwaysAllow,
    /// Nobody may do anything.
    AlwaysDeny,
    /// Everyone may get these paths.
    Paths(Vec<String>),
    /// A server elsewhere decides.
    Webhook(WebhookCall),
}

/// How a webhook is asked, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCall {
    /// How.
    pub settings: Settings,
    /// The flag that named the file.
    pub flag: &'static str,
    /// The kubeconfig file that says where.
    pub kubeconfig: PathBuf,
    /// The path below the URL of that file.
    pub path: &'static str,
    /// How long one answer may take.
    pub timeout: Duration,
    /// Whether it answers at all, and how long its answers count while it does not.
    pub presence: Arc<Presence>,
}

impl Authorization {
    /// The file that decides who is asked. Where a webhook is says its login, which follows its own file.
    #[must_use]
    pub fn files(&self) -> Vec<Named> {
        self.file.iter().map(|file| Named { flag: CONFIG, path: file.clone() }).collect()
    }

    /// Whom to ask when [`Authorization::files`] have these contents. What decides from memory must still be there, in any order.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn modes_of(&self, contents: &[Vec<u8>]) -> Result<Vec<Mode>, String> {
        let (Some(_), [text, ..]) = (&self.file, contents) else { return Ok(self.modes.clone()) };
        let modes = read(text)?;
        let is_kept = |mode: &Mode| matches!(mode, Mode::Webhook(_)) || modes.contains(mode);
        if self.modes.iter().all(is_kept) {
            Ok(modes)
        } else {
            Err("authorizers other than webhooks cannot be removed without a restart".to_owned())
        }
    }
}

impl Mode {
    /// Returns the authorizer of this name that decides from memory.
    #[must_use]
    pub fn in_memory(name: &str) -> Option<Mode> {
        match name {
            "RBAC" => Some(Mode::Rbac),
            "Node" => Some(Mode::Node),
            "AlwaysAllow" => Some(Mode::AlwaysAllow),
            "AlwaysDeny" => Some(Mode::AlwaysDeny),
            _ => None,
        }
    }

    /// Reads `--authorization-config`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn from_file(file: &Path) -> Result<Vec<Mode>, String> {
        let wrong = |what: String| format!("{CONFIG} {}: {what}", file.display());
        read(&std::fs::read(file).map_err(|error| wrong(error.to_string()))?).map_err(wrong)
    }
}

fn read(text: &[u8]) -> Result<Vec<Mode>, String> {
    let tree = reader::parse(text).map_err(|error| error.to_string())?.value;
    let configuration = AuthorizationConfiguration::from_tree(&tree).map_err(|error| error.to_string())?;
    let mode = |configured: Configured| match configured {
        Configured::Memory(name) => Mode::in_memory(&name).unwrap_or(Mode::AlwaysDeny),
        Configured::Webhook { settings, kubeconfig, timeout } => Mode::Webhook(WebhookCall {
            settings,
            flag: CONFIG,
            kubeconfig: kubeconfig.into(),
            path: "",
            timeout,
            presence: Arc::default(),
        }),
    };
    Ok(configuration.authorizers()?.into_iter().map(mode).collect())
}
