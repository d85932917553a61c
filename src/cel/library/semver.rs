//! Semantic versions as `blang/semver` reads and compares them.

use std::cmp::Ordering;

use go::{quote::quoted, strconv};

/// A version. What is behind its `+` does not count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre_release: PreRelease,
}

/// The parts behind a `-`; none come after all others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PreRelease(Vec<Part>);

/// Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Semver {
    /// Reads a version. A normalized text may have a `v` before it, fewer than three numbers, and zeros before those.
    ///
    /// # Errors
    /// The library's text.
    pub(crate) fn parse(text: &str, normalizes: bool) -> Result<Self, String> {
        if normalizes { Self::read(&normalized(text)?) } else { Self::read(text) }
    }

    pub(crate) fn major(&self) -> i64 {
        self.numbers[0].cast_signed()
    }

    pub(crate) fn minor(&self) -> i64 {
        self.numbers[1].cast_signed()
    }

    pub(crate) fn patch(&self) -> i64 {
        self.numbers[2].cast_signed()
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (patch, build) = patch.split_once('+').map_or((patch, None), |(patch, build)| (patch, Some(build)));
        let (patch, pre_release) = patch.split_once('-').map_or((patch, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number(patch, "Patch")?;
        let pre_release = pre_release.map(|parts| parts.split('.').map(Part::read).collect::<Result<_, _>>()).transpose()?;
        build.into_iter().flat_map(|parts| parts.split('.')).try_for_each(checked_build)?;
        Ok(Self { numbers: [major, minor, patch], pre_release: PreRelease(pre_release.unwrap_or_default()) })
    }
}

impl Ord for PreRelease {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.is_empty().cmp(&other.0.is_empty()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for PreRelease {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Part {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if has_leading_zeros(text) {
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(text)));
            }
            return strconv::parse_uint(text).map(Self::Number);
        }
        if is_alphanumeric(text) {
            return Ok(Self::Text(text.to_owned()));
        }
        Err(format!("Invalid character(s) found in prerelease {}", quoted(text)))
    }
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {}", name.to_ascii_lowercase(), quoted(text)));
    }
    if has_leading_zeros(text) {
        return Err(format!("{name} number must not contain leading zeroes {}", quoted(text)));
    }
    strconv::parse_uint(text)
}

fn checked_build(part: &str) -> Result<(), String> {
    match part {
        "" => Err("Build meta data is empty".to_owned()),
        part if is_alphanumeric(part) => Ok(()),
        part => Err(format!("Invalid character(s) found in build meta data {}", quoted(part))),
    }
}

fn has_leading_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Completes a version as Kubernetes does.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    match part.len() {
        0 | 1 => part.to_owned(),
        _ if rest.starts_with(|c: char| c.is_ascii_digit()) => rest.to_owned(),
        _ => format!("0{rest}"),
    }
}
