//! `watchcache etcd`, and the program under that name: etcd's command line, made into one of `watchcache store`.

use std::fmt::Write;
use std::sync::LazyLock;

use store::ETCD_VERSION;

use super::pflag::{self, Flag};

/// The name of the program that is stood in for.
pub(super) const NAME: &str = "etcd";

const TABLE: &str = include_str!("etcd_program/flags.txt");

/// A flag of etcd.
struct Known {
    flag: Flag<'static>,
    default: &'static str,
    class: &'static str,
    text: &'static str,
}

static FLAGS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = |line: &'static str| {
        let mut words = line.splitn(5, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (name, kind, default, class, text) = (next(), next(), next(), next(), next());
        let bare = if kind == "bool" { "true" } else { "" };
        Known { flag: Flag { name, letter: "", kind, bare }, default: default.trim_matches('-'), class, text }
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).map(known).collect()
});

/// What a command line of etcd asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// A text on standard output.
    Text(String),
    /// A store.
    Store(Store),
}

/// A store as `watchcache store` knows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    /// Flags of `watchcache store`.
    pub(super) flags: Vec<String>,
    /// What the list of members says; empty for where it listens.
    pub(super) advertised: Vec<String>,
    /// Whether a write is answered before it is on the disk.
    pub(super) unsynced: bool,
    /// What the operator should know, a line each.
    pub(super) warnings: Vec<String>,
    /// Flags that were given and do nothing.
    pub(super) ignored: Vec<String>,
}

/// Why there is no store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The command line cannot be read, in etcd's words.
    Line(String),
    /// What it asks for cannot be had.
    Asked(String),
}

/// Reads what follows the program's name.
///
/// # Errors
/// etcd's text where it refuses the same; otherwise what is refused and why.
pub(super) fn read(line: &[String]) -> Result<Asks, Wrong> {
    if line.iter().any(|word| matches!(word.as_str(), "-h" | "--h" | "-help" | "--help")) {
        return Ok(Asks::Text(help()));
    }
    let flags: Vec<Flag<'static>> = FLAGS.iter().map(|known| known.flag).collect();
    let typed = pflag::read_simple(line, &flags).map_err(Wrong::Line)?;
    if let Some(operand) = typed.operands.first() {
        return Err(Wrong::Asked(format!("{operand:?} is not a valid flag")));
    }
    let last = |name: &str| typed.values.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str());
    if last("version") == Some("true") {
        return Ok(Asks::Text(format!("etcd Version: {ETCD_VERSION}\n")));
    }
    let mut store = Store::default();
    for known in FLAGS.iter() {
        let Some(value) = last(known.flag.name) else { continue };
        match known.class {
            "ignored" => store.ignored.push(format!("--{}", known.flag.name)),
            "refused" if value != known.default => {
                return Err(Wrong::Asked(format!("--{}={value} is not taken here: {}", known.flag.name, known.text)));
            }
            _ => {}
        }
    }
    taken(&last, &mut store).map_err(Wrong::Asked)?;
    Ok(Asks::Store(store))
}

/// The flags of the class `taken`, with etcd's defaults.
fn taken<'v>(last: &impl Fn(&str) -> Option<&'v str>, store: &mut Store) -> Result<(), String> {
    let data_dir = match last("data-dir").filter(|dir| !dir.is_empty()) {
        Some(dir) => dir.to_owned(),
        None => format!("{}.etcd", last("name").unwrap_or("default")),
    };
    store.flags.push(format!("--data-dir={data_dir}"));
    let urls = last("listen-client-urls").unwrap_or("http://localhost:2379").split(',');
    let urls: Vec<String> = urls.map(|url| narrowed(url.trim(), &mut store.warnings)).collect();
    store.flags.push(format!("--listen-client-urls={}", urls.join(",")));
    store.advertised = last("advertise-client-urls").map(|urls| urls.split(',').map(str::to_owned).collect()).unwrap_or_default();
    store.unsynced = last("unsafe-no-fsync") == Some("true");
    for name in ["quota-backend-bytes", "watch-progress-notify-interval"] {
        store.flags.extend(last(name).map(|value| format!("--{name}={value}")));
    }
    match last("auto-compaction-mode") {
        None | Some("" | "periodic") => {}
        Some(mode) => return Err(format!("--auto-compaction-mode={mode} is not taken here: history is kept by its age alone")),
    }
    if let Some(kept) = last("auto-compaction-retention").filter(|kept| !kept.is_empty()) {
        let unit = if kept.bytes().all(|byte| byte.is_ascii_digit()) { "h" } else { "" };
        store.flags.push(format!("--auto-compaction-retention={kept}{unit}"));
    }
    match last("log-level").unwrap_or("info") {
        level @ ("debug" | "info" | "warn" | "error") => store.flags.push(format!("--log-level={level}")),
        "panic" | "dpanic" | "fatal" => store.flags.push("--log-level=error".to_owned()),
        other => return Err(format!("unrecognized level: {other:?}")),
    }
    match last("log-format") {
        None | Some("console") => {}
        Some("json") => store.flags.push("--log-format=json".to_owned()),
        Some(other) => return Err(format!("unknown log format: {other}, supported values json, console")),
    }
    Ok(())
}

/// A URL of all addresses as that of loopback, for the store asks nobody who they are.
fn narrowed(url: &str, warnings: &mut Vec<String>) -> String {
    for (all, loopback) in [("http://0.0.0.0:", "http://127.0.0.1:"), ("http://[::]:", "http://[::1]:")] {
        if let Some(port) = url.strip_prefix(all) {
            let narrow = format!("{loopback}{port}");
            warnings.push(format!(
                "--listen-client-urls: {url} is served as {narrow}, for this host alone: the store asks nobody who they are"
            ));
            return narrow;
        }
    }
    url.to_owned()
}

/// The help text: each flag and what becomes of it.
fn help() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "watchcache {version} stands in for etcd and takes its flags (docs/guides/envtest.md).\n\nUsage:\n  {NAME} [flags]\n\nFlags:\n"
    );
    for known in FLAGS.iter() {
        let value = if known.flag.kind == "bool" { String::new() } else { format!(" {}", known.flag.kind) };
        let _ = writeln!(text, "  --{}{value}\n        {}: {}", known.flag.name, known.class, known.text);
    }
    text
}

/// The flags for the reference of command lines.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    FLAGS.iter().map(|known| (known.flag.name, known.default, format!("{}: {}", known.class, known.text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(line: &str) -> Result<Asks, Wrong> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn store(line: &str) -> Store {
        match asks(line) {
            Ok(Asks::Store(store)) => store,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The flags of controller-runtime's envtest, and of fabric8's kube-api-test.
    #[test]
    fn test_environments_get_a_store() {
        let made = store(
            "--advertise-client-urls=http://127.0.0.1:1 --data-dir=/d --listen-client-urls=http://127.0.0.1:1 \
             --listen-peer-urls=http://127.0.0.1:2 --unsafe-no-fsync=true",
        );
        assert_eq!(made.flags, ["--data-dir=/d", "--listen-client-urls=http://127.0.0.1:1", "--log-level=info"]);
        assert_eq!((made.unsynced, &made.advertised[..], &made.warnings[..]), (true, &["http://127.0.0.1:1".to_owned()][..], &[][..]));
        assert_eq!(made.ignored, ["--listen-peer-urls"]);
        let made = store(
            "-data-dir /d -wal-dir /w --listen-client-urls http://0.0.0.0:1 --advertise-client-urls http://0.0.0.0:1 \
             --initial-cluster default=http://localhost:2 --initial-advertise-peer-urls http://localhost:2 --listen-peer-urls http://localhost:2",
        );
        assert_eq!(made.flags[1], "--listen-client-urls=http://127.0.0.1:1");
        assert_eq!(made.warnings.len(), 1);
    }

    #[test]
    fn defaults_are_etcds() {
        assert_eq!(store("").flags, ["--data-dir=default.etcd", "--listen-client-urls=http://localhost:2379", "--log-level=info"]);
        assert_eq!(store("--name=a").flags[0], "--data-dir=a.etcd");
        assert!(!store("").unsynced);
        assert_eq!(store("--auto-compaction-retention=1").flags[2], "--auto-compaction-retention=1h");
        assert_eq!(store("--auto-compaction-retention=5m").flags[2], "--auto-compaction-retention=5m");
    }

    #[test]
    fn what_would_mislead_is_refused() {
        for (line, want) in [
            ("--nope", Wrong::Line("flag provided but not defined: -nope".to_owned())),
            ("foo", Wrong::Asked("\"foo\" is not a valid flag".to_owned())),
            ("--cert-file=c", Wrong::Asked("--cert-file=c is not taken here: the store speaks plain http, on loopback only".to_owned())),
            (
                "--auto-compaction-mode=revision",
                Wrong::Asked("--auto-compaction-mode=revision is not taken here: history is kept by its age alone".to_owned()),
            ),
        ] {
            assert_eq!(asks(line), Err(want), "{line}");
        }
        assert!(matches!(asks("--cert-file= --client-cert-auth=false"), Ok(Asks::Store(_))));
    }

    /// envtest looks for this flag at the start of a line, behind spaces.
    #[test]
    fn the_help_names_each_flag_at_the_start_of_a_line() {
        let Ok(Asks::Text(text)) = asks("--help") else { panic!("no text") };
        assert!(text.lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync")));
        assert!(FLAGS.iter().all(|known| ["taken", "ignored", "refused"].contains(&known.class) && !known.text.is_empty()));
        assert!(matches!(asks("--version"), Ok(Asks::Text(text)) if text.starts_with("etcd Version: 3.")));
    }
}
