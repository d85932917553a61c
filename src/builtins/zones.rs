//! Which time zones there are.

use std::sync::LazyLock;

/// The names, in the order of their bytes.
static KNOWN: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<&str> = include_str!("zones.txt").lines().filter(|line| !line.starts_with('#')).collect();
    names.sort_unstable();
    names
});

/// Whether zones are below a name, as they are on a machine that has them as files.
fn is_directory(name: &str) -> bool {
    KNOWN.iter().any(|zone| zone.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
}

/// Returns Go's error for a name that is no time zone (`time.LoadLocation`).
pub(crate) fn unknown(name: &str) -> Option<String> {
    match name {
        "" | "UTC" | "Local" => None,
        _ if name.contains("..") || name.starts_with(['/', '\\']) => Some("time: invalid location name".to_owned()),
        _ if KNOWN.binary_search(&name).is_ok() => None,
        _ if is_directory(name) => Some("is a directory".to_owned()),
        _ => Some(format!("unknown time zone {name}")),
    }
}
