//! Which etcd versions answer progress requests, and what we know about ours. Knows versions, no connection.

use std::sync::atomic::{AtomicU8, Ordering};

/// Progress requests are trusted from this version on (spec list-watch §2.9) …
const FIRST_GOOD: [u64; 3] = [3, 4, 31];
/// … except from this one …
const BAD_FROM: [u64; 3] = [3, 5, 0];
/// … until this one.
const GOOD_AGAIN: [u64; 3] = [3, 5, 13];

const UNKNOWN: u8 = 0;
const SUPPORTED: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Whether progress requests may be used: no until the first endpoint said so, never again once one endpoint is too old.
#[derive(Debug, Default)]
pub(super) struct ProgressSupport(AtomicU8);

impl ProgressSupport {
    /// Of what is not asked for progress, but needs no requests either.
    pub(super) fn always() -> Self {
        Self(AtomicU8::new(SUPPORTED))
    }

    pub(super) fn is_supported(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SUPPORTED
    }

    /// An endpoint told its version.
    pub(super) fn learn(&self, version: &str) {
        if answers_progress_requests(version) {
            // Fails when already known; a bad endpoint outlives good ones.
            let _ = self.0.compare_exchange(UNKNOWN, SUPPORTED, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.0.store(UNSUPPORTED, Ordering::Relaxed);
        }
    }
}

/// The rule of spec list-watch §2.9; a version we cannot read is an old one.
fn answers_progress_requests(version: &str) -> bool {
    let Some(version) = Version::parse(version) else { return false };
    !version.is_before(FIRST_GOOD) && (version.is_before(BAD_FROM) || !version.is_before(GOOD_AGAIN))
}

/// A semantic version, as far as comparing with a release needs it.
struct Version {
    numbers: [u64; 3],
    pre_release: bool,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (release, _build) = text.split_once('+').unwrap_or((text, ""));
        let (release, pre_release) = match release.split_once('-') {
            Some((_, "")) => return None,
            Some((release, _)) => (release, true),
            None => (release, false),
        };
        let mut parts = release.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(Self { numbers, pre_release })
    }

    /// A pre-release comes before its release.
    fn is_before(&self, release: [u64; 3]) -> bool {
        self.numbers < release || (self.numbers == release && self.pre_release)
    }
}

/// Digits only, no leading zero.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_specification() {
        let check = |version: &str, want: bool| assert_eq!(answers_progress_requests(version), want, "{version}");
        for good in ["3.4.31", "3.4.99", "3.5.13", "3.5.21", "3.6.0", "3.6.0-rc.1", "3.7.3", "v3.7.3", "3.7.3+git", "4.0.0", "3.5.0-rc.1"] {
            check(good, true);
        }
        for bad in ["3.3.27", "3.4.0", "3.4.30", "3.4.31-rc.0", "3.5.0", "3.5.12", "3.5.13-rc.0", "2.3.8"] {
            check(bad, false);
        }
        for unreadable in ["", "3", "3.5", "3.5.x", "not_decided", "3.6.0.1", "3.06.0", "3.6.-1", "3.6.0-", "3.6.99999999999999999999"] {
            check(unreadable, false);
        }
    }

    #[test]
    fn one_old_endpoint_decides_for_good() {
        let support = ProgressSupport::default();
        assert!(!support.is_supported(), "unknown is unsupported");
        support.learn("3.7.3");
        assert!(support.is_supported());
        support.learn("3.5.12");
        assert!(!support.is_supported());
        support.learn("3.7.3");
        assert!(!support.is_supported());
    }
}
