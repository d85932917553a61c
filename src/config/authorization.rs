//! Flags about authorization: which authorizers are asked, in which order.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::access::settings::{Authorization, Mode, WebhookCall};
use auth::authz::webhook::{Settings, Version};

use super::{args::ServeArgs, gates::gates};

/// How long a webhook that flags name may take for one answer; kube-apiserver's number.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the API server of the host cluster may take, and how long its answers count when no flag says it; the numbers of Kubernetes' aggregated servers.
const HOST_TIMEOUT: Duration = Duration::from_secs(10);
const HOST_TTL: Duration = Duration::from_secs(10);
/// How long answers of a webhook count when no flag says it; kube-apiserver's numbers.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const REFUSED_TTL: Duration = Duration::from_secs(30);

/// What the flags ask for, in kube-apiserver's rules and words.
pub(super) fn authorization(args: &ServeArgs) -> Result<Authorization, String> {
    let host_kubeconfig = args.host_kubeconfig("--authorization-kubeconfig", args.authorization_kubeconfig.as_ref());
    let modes = match (&args.authorization_config, &host_kubeconfig) {
        (Some(file), None) if args.authorization_mode.is_empty() && !has_webhook_flags(args) => Mode::from_file(file)?,
        (Some(_), _) => {
            return Err("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are \
                        defined; nor with --authorization-kubeconfig"
                .to_owned());
        }
        (None, Some(_)) if !args.authorization_mode.is_empty() => {
            return Err("--authorization-kubeconfig can not be specified when --authorization-mode is".to_owned());
        }
        (None, Some((flag, kubeconfig))) => host(args, flag, kubeconfig),
        (None, None) => named(args)?,
    };
    if !args.authorization_always_allow_paths.is_empty() && host_kubeconfig.is_none() {
        return Err("--authorization-always-allow-paths is for --authorization-kubeconfig and --kubeconfig".to_owned());
    }
    // Who is allowed everything should at least be known.
    let anonymous = args.anonymous_auth.unwrap_or(true) && !modes.contains(&Mode::AlwaysAllow);
    let constrained_impersonation = gates(&args.feature_gates)?.constrained_impersonation;
    let (file, ends_watches) = (args.authorization_config.clone(), args.end_forbidden_watches);
    Ok(Authorization { modes, file, anonymous, ends_watches, constrained_impersonation })
}

fn has_webhook_flags(args: &ServeArgs) -> bool {
    args.authorization_webhook_config_file.is_some()
        || args.authorization_webhook_version.is_some()
        || args.authorization_webhook_cache_authorized_ttl.is_some()
        || args.authorization_webhook_cache_unauthorized_ttl.is_some()
}

/// Of `--authorization-mode`.
fn named(args: &ServeArgs) -> Result<Vec<Mode>, String> {
    let mut modes = Vec::new();
    for word in &args.authorization_mode {
        let mode = match (word.as_str(), Mode::in_memory(word), &args.authorization_webhook_config_file) {
            (_, Some(mode), _) => mode,
            ("Webhook", None, Some(file)) => Mode::Webhook(webhook(args, file)?),
            ("Webhook", None, None) => {
                return Err("--authorization-mode: authorization-mode Webhook's authorization config file not passed".to_owned());
            }
            ("ABAC", None, _) => return Err("--authorization-mode: ABAC is not supported".to_owned()),
            _ => return Err(format!("--authorization-mode: authorization-mode {word:?} is not a valid mode")),
        };
        if modes.contains(&mode) {
            let all: Vec<String> = args.authorization_mode.iter().map(|word| go::quote::quoted(word)).collect();
            return Err(format!("--authorization-mode: authorization-mode [{}] has mode specified more than once", all.join(" ")));
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
        is_host: false,
    };
    let flag = "--authorization-webhook-config-file";
    Ok(WebhookCall { settings, flag, kubeconfig: file.to_owned(), path: "", timeout: WEBHOOK_TIMEOUT, presence: Arc::default() })
}

/// What an aggregated API server asks: the host cluster, but not about the paths of health checks.
fn host(args: &ServeArgs, flag: &'static str, kubeconfig: &Path) -> Vec<Mode> {
    let ttl = |given: Option<Duration>| Some(given.unwrap_or(HOST_TTL)).filter(|ttl| !ttl.is_zero());
    let settings = Settings {
        name: "host".to_owned(),
        version: Version::V1,
        allowed_ttl: ttl(args.authorization_webhook_cache_authorized_ttl),
        refused_ttl: ttl(args.authorization_webhook_cache_unauthorized_ttl),
        denies_on_error: false,
        is_host: true,
    };
    let paths = match &args.authorization_always_allow_paths[..] {
        [] => ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
        paths => paths.to_vec(),
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let call = WebhookCall { settings, flag, kubeconfig: kubeconfig.to_owned(), path, timeout: HOST_TIMEOUT, presence: args.presence() };
    vec![Mode::Paths(paths), Mode::Webhook(call)]
}
