//! `watchcache kube-apiserver`, and the program under that name: kube-apiserver's command line, made into one of `watchcache serve`.

use std::fmt::Write;

use catalogue::discovery::{EMULATED, GIT_VERSION};
use go::quote::quoted;

mod plugins;
mod table;
mod versions;

use super::gates;
use super::pflag::{self, Flag};
use plugins::Asked;
use table::{Class, FLAGS, Known};

/// The name of the program that is stood in for.
pub(super) const NAME: &str = "kube-apiserver";

/// Where certificates are kept unless a flag says otherwise; kube-apiserver's.
const CERT_DIR: &str = "/var/run/kubernetes";
/// The port of the TLS listener unless a flag says otherwise; kube-apiserver's.
const SECURE_PORT: &str = "6443";

/// What a command line of kube-apiserver asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// A text on standard output.
    Text(String),
    /// A server.
    Server(Server),
}

/// A server as `watchcache serve` knows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// Flags of `watchcache serve`.
    pub(super) flags: Vec<String>,
    /// What the author of a test should know, a line each.
    pub(super) warnings: Vec<String>,
    /// Flags that were given and do nothing.
    pub(super) ignored: Vec<String>,
}

/// Reads what follows the program's name.
///
/// # Errors
/// kube-apiserver's text where it refuses the same; otherwise what is refused and why.
pub(super) fn read(line: &[String]) -> Result<Asks, String> {
    let flags: Vec<Flag<'static>> = FLAGS.iter().map(|known| known.flag).collect();
    let typed = pflag::read(line, &flags)?;
    let given = Given(typed.values);
    if given.is_true("help") {
        return Ok(Asks::Text(help()));
    }
    if typed.operands.iter().any(|operand| !operand.is_empty()) {
        let operands: Vec<String> = typed.operands.iter().map(|operand| quoted(operand)).collect();
        return Err(format!("\"{NAME}\" does not take any arguments, got [{}]", operands.join(" ")));
    }
    if let Some(version) = given.last("version").filter(|value| !matches!(*value, "false" | "0" | "f" | "F" | "FALSE" | "False")) {
        return version_text(version).map(Asks::Text);
    }
    server(&given).map(Asks::Server)
}

/// Flags by their names, each with its value, in the order in which they were typed.
struct Given(Vec<(&'static str, String)>);

impl Given {
    /// All values of a flag.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// The value that counts of a flag with one value; none when it is absent or empty.
    fn last(&self, name: &str) -> Option<&str> {
        self.values(name).last().filter(|value| !value.is_empty())
    }

    fn is_true(&self, name: &str) -> bool {
        self.last(name) == Some("true")
    }

    /// All parts of a flag whose values are lists.
    fn list(&self, name: &str) -> Vec<String> {
        self.values(name).flat_map(|value| value.split(',')).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
}

fn version_text(value: &str) -> Result<String, String> {
    match value {
        "true" | "raw" => Ok(format!("Kubernetes {GIT_VERSION}\n")),
        other => Err(format!("--version={other}: this server is of {GIT_VERSION} and takes no other version")),
    }
}

fn server(given: &Given) -> Result<Server, String> {
    let mut server = Server { flags: vec!["--insecure-port=0".to_owned(), "--controllers=".to_owned()], ..Server::default() };
    // kube-apiserver says nothing else before.
    if let Some(why) = feature_gates(given, &mut server).or_else(|| log(given, &mut server)) {
        return Err(why);
    }
    let mut mistakes = negatives(given);
    mistakes.extend(storage(given));
    mistakes.extend(priority(given));
    mistakes.extend(listener(given, &mut server));
    mistakes.extend(accounts(given));
    for known in FLAGS.iter() {
        let values: Vec<&str> = given.values(known.flag.name).collect();
        if !values.is_empty()
            && let Err(why) = take(known, &values, &mut server)
        {
            mistakes.push(why);
        }
    }
    if given.last("authorization-config").is_none() && given.list("authorization-mode").is_empty() {
        server.flags.push("--authorization-mode=AlwaysAllow".to_owned());
    }
    mistakes.extend(emulated(given));
    mistakes.extend(admission(given, &mut server));
    let judged = versions::judge(given.values("runtime-config"));
    mistakes.extend(judged.mistakes);
    server.warnings.extend(judged.reports);
    mistakes.extend(token_requests(given));
    match mistakes.len() {
        0 => Ok(server),
        1 => Err(mistakes.remove(0)),
        _ => Err(format!("[{}]", mistakes.join(", "))),
    }
}

/// Flags with a value below zero, in its words.
fn negatives(given: &Given) -> Vec<String> {
    const FLAGS: [&str; 5] =
        ["max-requests-inflight", "max-mutating-requests-inflight", "request-timeout", "min-request-timeout", "shutdown-delay-duration"];
    let is_negative = |flag: &&&str| given.last(flag).is_some_and(|value| value.starts_with('-'));
    FLAGS.iter().filter(is_negative).map(|flag| format!("--{flag} can not be negative value")).collect()
}

/// An API that fair queueing needs and that is to be off, in its words.
fn priority(given: &Given) -> Option<String> {
    if given.last("enable-priority-and-fairness").is_some_and(|value| value != "true") {
        return None;
    }
    let asked = given.list("runtime-config");
    let known = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"];
    let (name, value) = known.iter().find_map(|name| {
        ["false", "true"].into_iter().find(|value| asked.iter().any(|pair| *pair == format!("{name}={value}"))).map(|value| (name, value))
    })?;
    (value == "false").then(|| format!("--runtime-config={name}=false conflicts with --enable-priority-and-fairness=true"))
}

/// What kube-apiserver wants to know about tokens of service accounts, in its words.
fn accounts(given: &Given) -> Vec<String> {
    let mut mistakes = Vec::new();
    let issuers: Vec<&str> = given.values("service-account-issuer").collect();
    for (at, issuer) in issuers.iter().enumerate() {
        if issuer.is_empty() {
            mistakes.push("service-account-issuer should not be an empty string".to_owned());
        } else if issuers[..at].contains(issuer) {
            mistakes.push(format!("service-account-issuer {} is already specified", quoted(issuer)));
        }
    }
    if issuers.is_empty() {
        mistakes.push("service-account-issuer is a required flag".to_owned());
    }
    if given.list("service-account-key-file").is_empty() && given.last("service-account-signing-endpoint").is_none() {
        mistakes.push("either `--service-account-key-file` or `--service-account-signing-endpoint` must be set".to_owned());
    }
    mistakes
}

/// The flags that kube-apiserver wants together, in its words.
fn token_requests(given: &Given) -> Option<String> {
    let issuer = given.values("service-account-issuer").next().filter(|issuer| !issuer.is_empty());
    let key = given.last("service-account-signing-key-file");
    match (key, issuer) {
        (Some(_), Some(_)) => None,
        (None, None) if given.list("api-audiences").is_empty() => {
            Some("--service-account-signing-key-file and --service-account-issuer are required flags".to_owned())
        }
        _ => Some(
            "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together".to_owned(),
        ),
    }
}

/// Takes a flag by its class.
fn take(known: &Known, values: &[&str], server: &mut Server) -> Result<(), String> {
    let name = known.flag.name;
    let last = values.last().copied().unwrap_or_default();
    let is_default = last == known.default || last.is_empty();
    match known.class {
        // What is the default there is it here too, or says nothing.
        Class::Serve(_) if last == known.default => {}
        Class::Serve(ours) => server.flags.extend(passed(known, ours, values)),
        Class::Read(_) => {}
        Class::Ignored(_) => server.ignored.push(format!("--{name}")),
        Class::Unbuilt(_) | Class::Refused(_) if is_default => {}
        Class::Unbuilt(why) => server.warnings.push(format!("--{name}={last} is not built: {why}")),
        Class::Refused(why) => return Err(format!("--{name}={last} is not taken here: {why}")),
    }
    Ok(())
}

/// The flag as `watchcache serve` reads it: lists in one, others as often as they were given, the rest as given last. What is empty is as if not given.
fn passed(known: &Known, ours: &str, values: &[&str]) -> Vec<String> {
    let one = |value: &str| format!("--{ours}={value}");
    let filled = || values.iter().copied().filter(|value| !value.is_empty());
    match known.flag.kind {
        "stringSlice" => {
            let joined = filled().collect::<Vec<_>>().join(",");
            if joined.is_empty() { Vec::new() } else { vec![one(&joined)] }
        }
        "stringArray" | "namedCertKey" | "mapStringString" => filled().map(one).collect(),
        _ => values.last().filter(|value| !value.is_empty()).map(|value| one(value)).into_iter().collect(),
    }
}

/// Where the server listens, and with which certificate.
fn listener(given: &Given, server: &mut Server) -> Vec<String> {
    let mut mistakes = Vec::new();
    match given.last("secure-port").unwrap_or(SECURE_PORT) {
        port if port.parse::<u16>().is_ok_and(|port| port > 0) => server.flags.push(format!("--secure-port={port}")),
        port => mistakes.push(format!("--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0")),
    }
    if given.last("tls-cert-file").is_none() && given.last("tls-private-key-file").is_none() {
        match given.values("cert-dir").last().unwrap_or(CERT_DIR) {
            "" => mistakes.push("--cert-dir is empty: a certificate that is made is kept in a folder here".to_owned()),
            dir => server.flags.push(format!("--cert-dir={dir}")),
        }
    }
    mistakes
}

/// What is logged, and how.
fn log(given: &Given, server: &mut Server) -> Option<String> {
    if let Some(verbosity) = given.last("v").and_then(|verbosity| verbosity.parse::<u32>().ok()) {
        server.flags.push(format!("--v={}", verbosity.min(10)));
    }
    match given.last("logging-format") {
        None => None,
        Some(format @ ("text" | "json")) => {
            server.flags.push(format!("--log-format={format}"));
            None
        }
        Some(other) => Some(format!("format: Invalid value: {}: Unsupported log format", quoted(other))),
    }
}

fn admission(given: &Given, server: &mut Server) -> Vec<String> {
    let asked = Asked {
        enabled: given.list("enable-admission-plugins"),
        disabled: given.list("disable-admission-plugins"),
        control: given.values("admission-control").next().is_some().then(|| given.list("admission-control")),
    };
    server.flags.extend(asked.flags());
    asked.mistakes()
}

/// How objects are stored: as here, whatever a kube-apiserver takes besides.
fn storage(given: &Given) -> Vec<String> {
    const MEDIA: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
    let mut mistakes = Vec::new();
    if given.list("etcd-servers").is_empty() {
        mistakes.push("--etcd-servers must be specified".to_owned());
    }
    if given.last("storage-backend").is_some_and(|backend| backend != "etcd3") {
        mistakes.push("--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'".to_owned());
    }
    if let Some(media) = given.last("storage-media-type").filter(|media| !MEDIA.contains(media)) {
        mistakes.push(format!("--storage-media-type {} invalid, allowed values: {}", quoted(media), MEDIA.join(", ")));
    }
    mistakes
}

/// Another minor than the one whose answers there are.
fn emulated(given: &Given) -> Vec<String> {
    let values = given.list("emulated-version");
    let others = values.iter().filter(|value| value.strip_prefix("kube=").unwrap_or(value) != EMULATED);
    others.map(|value| format!("--emulated-version={value} is not taken here: the answers are those of {EMULATED}")).collect()
}

/// Gates that are not built as asked for are reported, and the rest goes to `watchcache serve`.
fn feature_gates(given: &Given, server: &mut Server) -> Option<String> {
    let mut taken = Vec::new();
    for setting in given.list("feature-gates") {
        if let Some((component, _)) = setting.split_once(':').filter(|(component, _)| *component != "kube") {
            return Some(format!("component not registered: {component}"));
        }
        match gates::judge(&setting) {
            Ok(None) => taken.push(setting),
            Ok(Some(unbuilt)) => server.warnings.push(format!("--feature-gates: {unbuilt}")),
            Err(why) => return Some(why),
        }
    }
    if !taken.is_empty() {
        server.flags.push(format!("--feature-gates={}", taken.join(",")));
    }
    None
}

/// The help text: each flag and what becomes of it.
fn help() -> String {
    let mut text = format!(
        "watchcache {} stands in for kube-apiserver {EMULATED} and takes its flags (docs/guides/envtest.md).\n\nUsage:\n  {NAME} [flags]\n\nFlags:\n",
        env!("CARGO_PKG_VERSION")
    );
    for known in FLAGS.iter() {
        let flag = known.flag;
        let letter = if flag.letter.is_empty() { String::new() } else { format!(", -{}", flag.letter) };
        let value = if flag.bare == "true" { String::new() } else { format!(" {}", flag.kind) };
        let _ = writeln!(text, "  --{}{letter}{value}\n        {}", flag.name, meaning(known));
    }
    text
}

/// What becomes of a flag, in a sentence.
fn meaning(known: &Known) -> String {
    match known.class {
        Class::Serve(ours) => format!("taken: as `watchcache serve --{ours}`"),
        Class::Read(what) => format!("taken: {what}"),
        Class::Ignored(why) => format!("ignored: {why}"),
        Class::Unbuilt(why) => format!("not built, reported: {why}"),
        Class::Refused(why) => format!("refused: {why}"),
    }
}

/// The flags for the reference of command lines.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    FLAGS.iter().map(|known| (known.flag.name, known.default, meaning(known)))
}

#[cfg(test)]
mod tests;
