//! Tells an optimised program which commit it is made of: `WATCHCACHE_COMMIT` in the environment, or what git says of the sources. An unoptimised one would be
//! compiled again after each commit.

use std::io::{Result, Write, stdout};
use std::{env, path::Path, process::Command};

fn main() -> Result<()> {
    let mut out = stdout();
    writeln!(out, "cargo::rerun-if-env-changed=WATCHCACHE_COMMIT")?;
    let named = env::var("WATCHCACHE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match named {
        Some(commit) => commit,
        None if is_optimised => head(&mut out)?,
        None => String::new(),
    };
    let is_commit = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte));
    writeln!(out, "cargo::rustc-env=WATCHCACHE_COMMIT={}", if is_commit { &commit } else { "unknown" })
}

/// Returns the commit that is checked out, and has this run again when another one is. Empty without git, and where the sources are no repository of their own.
fn head(out: &mut impl Write) -> Result<String> {
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let git = |arguments: &[&str]| {
        let answer = Command::new("git").arg("-C").arg(&here).args(arguments).output().ok()?;
        answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    };
    let top = git(&["rev-parse", "--show-toplevel"]).unwrap_or_default();
    if Path::new(&top).canonicalize().ok() != Path::new(&here).join("../..").canonicalize().ok() {
        return Ok(String::new());
    }
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).map(|path| Path::new(&here).join(path)).filter(|path| path.exists()) {
            writeln!(out, "cargo::rerun-if-changed={}", path.display())?;
        }
    }
    Ok(git(&["rev-parse", "HEAD"]).unwrap_or_default())
}
