//! Date, commit, machine and command: what makes a number more than a rumour. Knows no figures.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde::Serialize;

/// The lines above the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Header {
    date: String,
    commit: String,
    machine: String,
    command: String,
    load: String,
    /// Names of the subjects: theirs, ours.
    pub(crate) subjects: [String; 2],
}

impl Header {
    /// Of this process, now.
    pub(crate) fn of_this_run(load: String, subjects: [String; 2]) -> Self {
        let command: Vec<String> = std::env::args().map(|arg| without_folder(&arg)).collect();
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            machine: machine(),
            command: command.join(" "),
            load,
            subjects,
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, commit, machine, command, load, .. } = self;
        write!(f, "- date: {date}\n- commit: {commit}\n- machine: {machine}\n- load: {load}\n- command: `{command}`\n")
    }
}

/// The commit that is checked out where this program was built, with a mark when files differ from it. Build first, then run.
fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("unknown", |(_, model)| model);
    format!("{cores} cores, {model}, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// An absolute path is shown by its last part: where programs lie on this machine says nothing to others.
fn without_folder(arg: &str) -> String {
    let path = Path::new(arg);
    match path.file_name() {
        Some(name) if path.is_absolute() => name.to_string_lossy().into_owned(),
        _ => arg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_lose_their_folder() {
        assert_eq!(["/a/b/etcd", "--etcd", "b/etcd", "/"].map(without_folder), ["etcd", "--etcd", "b/etcd", "/"]);
    }

    #[test]
    fn the_header_names_all_that_is_needed() {
        let header = Header::of_this_run("a load".to_owned(), ["a".to_owned(), "b".to_owned()]).to_string();
        for line in ["- date: 20", "- commit: ", "- machine: ", " cores, ", "- load: a load\n", "- command: `"] {
            assert!(header.contains(line), "{line} is missing in {header}");
        }
    }
}
