//! Flags about authorization: which authorizers are asked, in which order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::authz::config::{AuthorizationConfiguration, Configured};
use auth::authz::webhook::{Settings, Version};
use auth::reload::Named;
use go::yaml::reader;

use super::args::ServeArgs;

const CONFIG: &str = "--authorization-config";
/// How long a webhook that flags name may take for one answer; kube-apiserver's number.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the API server of the host cluster may take, and how long its answers count when no flag says it; the numbers of Kubernetes' aggregated servers.
const HOST_TIMEOUT: Duration = Duration::from_secs(10);
const HOST_TTL: Duration = Duration::from_secs(10);
/// How long answers of a webhook count when no flag says it; kube-apiserver's numbers.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const REFUSED_TTL: Duration = Duration::from_secs(30);

/// Who may do what.
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
}

impl Authorization {
    /// What the flags ask for, in kube-apiserver's rules and words.
    pub(super) fn check(args: &ServeArgs) -> Result<Authorization, String> {
        let host_kubeconfig = args.authorization_kubeconfig.as_ref().or(args.aggregated.kubeconfig.as_ref());
        let modes = match (&args.authorization_config, host_kubeconfig) {
            (Some(file), None) if args.authorization_mode.is_empty() && !has_webhook_flags(args) => from_file(file)?,
            (Some(_), _) => {
                return Err(
                    "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are \
                            defined; nor with --authorization-kubeconfig"
                        .to_owned(),
                );
            }
            (None, Some(_)) if !args.authorization_mode.is_empty() => {
                return Err("--authorization-kubeconfig can not be specified when --authorization-mode is".to_owned());
            }
            (None, Some(kubeconfig)) => host(args, kubeconfig),
            (None, None) => named(args)?,
        };
        if !args.authorization_always_allow_paths.is_empty() && host_kubeconfig.is_none() {
            return Err("--authorization-always-allow-paths is for --authorization-kubeconfig and --kubeconfig".to_owned());
        }
        // Who is allowed everything should at least be known.
        let anonymous = args.anonymous_auth.unwrap_or(true) && !modes.contains(&Mode::AlwaysAllow);
        Ok(Authorization { modes, file: args.authorization_config.clone(), anonymous, ends_watches: args.end_forbidden_watches })
    }

    /// The files that decide who is asked: that of the configuration, or that of the webhook.
    #[must_use]
    pub fn files(&self) -> Vec<Named> {
        let of_webhook = |mode: &Mode| match mode {
            Mode::Webhook(call) => Some(Named { flag: call.flag, path: call.kubeconfig.clone() }),
            _ => None,
        };
        match &self.file {
            Some(file) => vec![Named { flag: CONFIG, path: file.clone() }],
            None => self.modes.iter().filter_map(of_webhook).collect(),
        }
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

fn has_webhook_flags(args: &ServeArgs) -> bool {
    args.authorization_webhook_config_file.is_some()
        || args.authorization_webhook_version.is_some()
        || args.authorization_webhook_cache_authorized_ttl.is_some()
        || args.authorization_webhook_cache_unauthorized_ttl.is_some()
}

fn memory(name: &str) -> Option<Mode> {
    match name {
        "RBAC" => Some(Mode::Rbac),
        "Node" => Some(Mode::Node),
        "AlwaysAllow" => Some(Mode::AlwaysAllow),
        "AlwaysDeny" => Some(Mode::AlwaysDeny),
        _ => None,
    }
}

/// Of `--authorization-mode`.
fn named(args: &ServeArgs) -> Result<Vec<Mode>, String> {
    let mut modes = Vec::new();
    for word in &args.authorization_mode {
        let mode = match (word.as_str(), memory(word), &args.authorization_webhook_config_file) {
            (_, Some(mode), _) => mode,
            ("Webhook", None, Some(file)) => Mode::Webhook(webhook(args, file)?),
            ("Webhook", None, None) => {
                return Err("--authorization-mode: authorization-mode Webhook's authorization config file not passed".to_owned());
            }
            ("ABAC", None, _) => return Err("--authorization-mode: ABAC is not supported".to_owned()),
            _ => return Err(format!("--authorization-mode: authorization-mode {word:?} is not a valid mode")),
        };
        if modes.contains(&mode) {
            return Err(format!("--authorization-mode: authorization-mode {word:?} has mode specified more than once"));
        }
        modes.push(mode);
    }
    if modes.is_empty() {
        modes.push(Mode::Rbac);
    }
    if has_webhook_flags(args) && !modes.iter().any(|mode| matches!(mode, Mode::Webhook(_))) {
        return Err("cannot specify --authorization-webhook-config-file or its options without mode Webhook".to_owned());
    }
    Ok(modes)
}

fn webhook(args: &ServeArgs, file: &Path) -> Result<WebhookCall, String> {
    let name = args.authorization_webhook_version.as_deref().unwrap_or("v1beta1");
    let version = Version::named(name)
        .ok_or_else(|| format!("unsupported webhook authorizer version {name:?}, supported versions are \"v1\", \"v1beta1\""))?;
    let ttl = |given: Option<Duration>, default| Some(given.unwrap_or(default)).filter(|ttl| !ttl.is_zero());
    let settings = Settings {
        name: "default".to_owned(),
        version,
        allowed_ttl: ttl(args.authorization_webhook_cache_authorized_ttl, ALLOWED_TTL),
        refused_ttl: ttl(args.authorization_webhook_cache_unauthorized_ttl, REFUSED_TTL),
        denies_on_error: false,
    };
    let flag = "--authorization-webhook-config-file";
    Ok(WebhookCall { settings, flag, kubeconfig: file.to_owned(), path: "", timeout: WEBHOOK_TIMEOUT })
}

/// What an aggregated API server asks: the host cluster, but not about the paths of health checks.
fn host(args: &ServeArgs, kubeconfig: &Path) -> Vec<Mode> {
    let ttl = |given: Option<Duration>| Some(given.unwrap_or(HOST_TTL)).filter(|ttl| !ttl.is_zero());
    let settings = Settings {
        name: "host".to_owned(),
        version: Version::V1,
        allowed_ttl: ttl(args.authorization_webhook_cache_authorized_ttl),
        refused_ttl: ttl(args.authorization_webhook_cache_unauthorized_ttl),
        denies_on_error: false,
    };
    let paths = match &args.authorization_always_allow_paths[..] {
        [] => ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
        paths => paths.to_vec(),
    };
    let (flag, path) = ("--authorization-kubeconfig", "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    let call = WebhookCall { settings, flag, kubeconfig: kubeconfig.to_owned(), path, timeout: HOST_TIMEOUT };
    vec![Mode::Paths(paths), Mode::Webhook(call)]
}

/// Of `--authorization-config`.
fn from_file(file: &Path) -> Result<Vec<Mode>, String> {
    let wrong = |what: String| format!("{CONFIG} {}: {what}", file.display());
    read(&std::fs::read(file).map_err(|error| wrong(error.to_string()))?).map_err(wrong)
}

fn read(text: &[u8]) -> Result<Vec<Mode>, String> {
    let tree = reader::parse(text).map_err(|error| error.to_string())?.value;
    let configuration = AuthorizationConfiguration::from_tree(&tree).map_err(|error| error.to_string())?;
    let mode = |configured: Configured| match configured {
        Configured::Memory(name) => memory(&name).unwrap_or(Mode::AlwaysDeny),
        Configured::Webhook { settings, kubeconfig, timeout } => {
            Mode::Webhook(WebhookCall { settings, flag: CONFIG, kubeconfig: kubeconfig.into(), path: "", timeout })
        }
    };
    Ok(configuration.authorizers()?.into_iter().map(mode).collect())
}
