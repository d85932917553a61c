//! The file of `--admission-control-config-file`: which plugins it has settings for, and what they say.

use std::path::{Path, PathBuf};

use admission::plugins::{LimitedResource, SecuritySettings, Settings};
use auth::strict::Shape::{self, Any, List, Object};
use go::quote::quoted;
use go::yaml::reader;
use serde_json::Value;

/// Bytes of a file.
const BYTES_MAX: u64 = 1 << 20;

const PLUGINS: Shape =
    Object(&[("kind", Any), ("apiVersion", Any), ("plugins", List(&Object(&[("name", Any), ("path", Any), ("configuration", Any)])))]);
const PLUGINS_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

const SECURITY: Shape = Object(&[
    ("kind", Any),
    ("apiVersion", Any),
    (
        "defaults",
        Object(&[("enforce", Any), ("enforce-version", Any), ("audit", Any), ("audit-version", Any), ("warn", Any), ("warn-version", Any)]),
    ),
    ("exemptions", Object(&[("usernames", List(&Any)), ("namespaces", List(&Any)), ("runtimeClasses", List(&Any))])),
]);
const SECURITY_VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

const QUOTA: Shape = Object(&[
    ("kind", Any),
    ("apiVersion", Any),
    (
        "limitedResources",
        List(&Object(&[
            ("apiGroup", Any),
            ("resource", Any),
            ("matchContains", List(&Any)),
            ("matchScopes", List(&Object(&[("scopeName", Any), ("operator", Any), ("values", List(&Any))]))),
        ])),
    ),
]);
const QUOTA_KIND: (&str, [&str; 1]) = ("ResourceQuotaConfiguration", ["apiserver.config.k8s.io/v1"]);
/// The names that the same had before.
const OLD_QUOTA_KIND: (&str, [&str; 2]) =
    ("Configuration", ["resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1"]);

const WEBHOOKS: Shape = Object(&[("kind", Any), ("apiVersion", Any), ("kubeConfigFile", Any)]);
const WEBHOOKS_KIND: (&str, [&str; 1]) = ("WebhookAdmissionConfiguration", ["apiserver.config.k8s.io/v1"]);
const OLD_WEBHOOKS_KIND: (&str, [&str; 1]) = ("WebhookAdmission", ["apiserver.config.k8s.io/v1alpha1"]);

/// Reads the settings of plugins.
///
/// # Errors
/// A file cannot be read, or says what nobody reads.
pub(super) fn read(file: &Path) -> Result<Settings, String> {
    let tree = tree(file)?;
    let tree: Value = PLUGINS.read(&tree, "AdmissionConfiguration", &PLUGINS_VERSIONS).map_err(|error| error.to_string())?;
    let mut settings = Settings::default();
    for plugin in tree["plugins"].as_array().into_iter().flatten() {
        let name = plugin["name"].as_str().unwrap_or_default();
        let wrong = |why: String| format!("plugin {}: {why}", quoted(name));
        match name {
            "PodSecurity" => settings.security = configuration(plugin, file).and_then(|read| security(&read)).map_err(wrong)?,
            "ResourceQuota" => settings.limited = configuration(plugin, file).and_then(|read| limited(&read)).map_err(wrong)?,
            "MutatingAdmissionWebhook" => {
                settings.mutating_kubeconfig = configuration(plugin, file).and_then(|read| webhooks(&read)).map_err(wrong)?;
            }
            "ValidatingAdmissionWebhook" => {
                settings.validating_kubeconfig = configuration(plugin, file).and_then(|read| webhooks(&read)).map_err(wrong)?;
            }
            "" => return Err("a plugin has no name".to_owned()),
            _ => return Err(wrong("this server reads no configuration for it".to_owned())),
        }
    }
    Ok(settings)
}

fn tree(file: &Path) -> Result<Value, String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let size = std::fs::metadata(file)?.len();
        if size > BYTES_MAX {
            return Err(std::io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
        }
        std::fs::read(file)
    };
    let text = read().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(reader::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?.value)
}

/// The configuration of a plugin, which is in the file or in one of its own.
fn configuration(plugin: &Value, file: &Path) -> Result<Value, String> {
    match (&plugin["configuration"], plugin["path"].as_str().filter(|path| !path.is_empty())) {
        (Value::Null, Some(path)) => tree(&file.parent().unwrap_or(Path::new(".")).join(path)),
        (Value::Null, None) => Err("it has neither a configuration nor a path".to_owned()),
        (configuration, _) => Ok(configuration.clone()),
    }
}

fn security(tree: &Value) -> Result<SecuritySettings, String> {
    let tree: Value = SECURITY.read(tree, "PodSecurityConfiguration", &SECURITY_VERSIONS).map_err(|error| error.to_string())?;
    let settings = SecuritySettings::read(&tree).map_err(|wrong| {
        let texts: Vec<String> =
            wrong.into_iter().map(|(field, value, why)| format!("{field}: Invalid value: {}: {why}", quoted(&value))).collect();
        texts.join("; ")
    })?;
    Ok(settings)
}

/// The kubeconfig file of a configuration of webhooks.
fn webhooks(tree: &Value) -> Result<Option<PathBuf>, String> {
    let read: Result<Value, _> = match tree["kind"].as_str() {
        Some(kind) if kind == OLD_WEBHOOKS_KIND.0 => WEBHOOKS.read(tree, OLD_WEBHOOKS_KIND.0, &OLD_WEBHOOKS_KIND.1),
        _ => WEBHOOKS.read(tree, WEBHOOKS_KIND.0, &WEBHOOKS_KIND.1),
    };
    let tree = read.map_err(|error| error.to_string())?;
    let file = tree["kubeConfigFile"].as_str().filter(|file| !file.is_empty()).map(PathBuf::from);
    match file {
        Some(file) if file.is_relative() => {
            let shown = quoted(&file.to_string_lossy());
            Err(format!("kubeConfigFile: Invalid value: {shown}: must be an absolute file path"))
        }
        file => Ok(file),
    }
}

fn limited(tree: &Value) -> Result<Vec<LimitedResource>, String> {
    let read: Result<Value, _> = match tree["kind"].as_str() {
        Some(kind) if kind == OLD_QUOTA_KIND.0 => QUOTA.read(tree, OLD_QUOTA_KIND.0, &OLD_QUOTA_KIND.1),
        _ => QUOTA.read(tree, QUOTA_KIND.0, &QUOTA_KIND.1),
    };
    let tree = read.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for (at, of) in tree["limitedResources"].as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| of[name].as_str().unwrap_or_default().to_owned();
        let list = |name: &str| of[name].as_array().cloned().unwrap_or_default();
        if text("resource").is_empty() {
            return Err(format!("limitedResources[{at}].resource: Required value"));
        }
        let contains = list("matchContains").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        all.push(LimitedResource { group: text("apiGroup"), resource: text("resource"), contains, scopes: list("matchScopes") });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Settings, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, other) = (directory.path().join("admission.yaml"), directory.path().join("quota.yaml"));
        std::fs::write(&file, text).expect("written");
        let quota = "{kind: Configuration, apiVersion: resourcequota.admission.k8s.io/v1beta1, limitedResources: [{resource: pods, matchContains: [cpu]}]}";
        std::fs::write(other, quota).expect("written");
        read(&file)
    }

    fn plugin(text: &str) -> Result<Settings, String> {
        of(&format!("{{kind: AdmissionConfiguration, apiVersion: apiserver.config.k8s.io/v1, plugins: [{text}]}}"))
    }

    #[test]
    fn settings_are_read_from_the_file_and_from_those_that_it_names() {
        let security = "{kind: PodSecurityConfiguration, apiVersion: pod-security.admission.config.k8s.io/v1, defaults: {enforce: baseline, enforce-version: v1.30}, exemptions: {namespaces: [kube-system]}}";
        let settings = plugin(&format!("{{name: PodSecurity, configuration: {security}}}, {{name: ResourceQuota, path: quota.yaml}}"));
        let settings = settings.expect("settings");
        assert_ne!(settings.security, SecuritySettings::default());
        let pods = LimitedResource { resource: "pods".to_owned(), contains: vec!["cpu".to_owned()], ..LimitedResource::default() };
        assert_eq!(settings.limited, [pods]);
        assert_eq!(plugin(""), Ok(Settings::default()));
    }

    #[test]
    fn what_nobody_reads_is_refused() {
        let security = |more: &str| {
            plugin(&format!(
                "{{name: PodSecurity, configuration: {{kind: PodSecurityConfiguration, apiVersion: pod-security.admission.config.k8s.io/v1, {more}}}}}"
            ))
        };
        for (made, part) in [
            (of("{"), "admission.yaml"),
            (of("{kind: X}"), "no kind \"X\" is registered"),
            (plugin("{name: PodSecurity}"), "neither a configuration nor a path"),
            (plugin("{name: PodSecurity, path: gone}"), "gone: No such file"),
            (plugin("{name: PodSecurity, paht: x}"), "unknown field \"plugins[0].paht\""),
            (plugin("{name: EventRateLimit, configuration: {}}"), "reads no configuration for it"),
            (plugin("{}"), "a plugin has no name"),
            (
                security("defaults: {enforce: strict}"),
                "defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
            ),
            (
                plugin(
                    "{name: MutatingAdmissionWebhook, configuration: {kind: WebhookAdmissionConfiguration, apiVersion: apiserver.config.k8s.io/v1, kubeConfigFile: x}}",
                ),
                "kubeConfigFile: Invalid value: \"x\": must be an absolute file path",
            ),
            (security("default: {}"), "unknown field \"default\""),
            (
                plugin(
                    "{name: ResourceQuota, configuration: {kind: ResourceQuotaConfiguration, apiVersion: apiserver.config.k8s.io/v1, limitedResources: [{}]}}",
                ),
                "limitedResources[0].resource: Required value",
            ),
        ] {
            let why = made.expect_err(part);
            assert!(why.contains(part), "{why} has no {part}");
        }
    }
}
