//! Whether upstream is of the minor whose answers this server makes, as its `/version` says again and again: behind one address there may be several.

use std::sync::atomic::{AtomicU32, Ordering};

/// Looks in a row that must find our minor after one has found another: a minute of them.
const LOOKS_AFTER_ANOTHER: u32 = 12;
/// No look has found anything yet.
const UNKNOWN: u32 = u32::MAX;

/// What was found so far.
#[derive(Debug)]
pub struct Release {
    minor: &'static str,
    /// Looks that must find our minor before it is believed.
    left: AtomicU32,
}

impl Release {
    /// Nothing is known; `minor` is ours, as `/version` says it (`36`).
    #[must_use]
    pub fn new(minor: &'static str) -> Self {
        Self { minor, left: AtomicU32::new(UNKNOWN) }
    }

    /// Upstream has told its version, as JSON. Returns the minor, if that is in it.
    pub fn told(&self, version: &[u8]) -> Option<String> {
        let version: serde_json::Value = serde_json::from_slice(version).ok()?;
        // Some builds add a plus.
        let minor = version["minor"].as_str()?.trim_end_matches('+').to_owned();
        let is_ours = minor == self.minor && version["major"].as_str() == Some("1");
        let left = match self.left.load(Ordering::Relaxed) {
            _ if !is_ours => LOOKS_AFTER_ANOTHER,
            UNKNOWN => 0,
            left => left.saturating_sub(1),
        };
        self.left.store(left, Ordering::Relaxed);
        Some(minor)
    }

    /// Whether every answer of late was of our minor.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_minors_behind_one_address_are_another() {
        let release = Release::new("36");
        assert!(!release.is_ours(), "nothing is known");
        let tell = |minor: &str| {
            assert_eq!(
                release.told(format!(r#"{{"major":"1","minor":"{minor}"}}"#).as_bytes()).as_deref(),
                Some(minor.trim_end_matches('+'))
            );
            release.is_ours()
        };
        assert!(tell("36") && tell("36+"));
        assert!(!tell("37"), "one of three is upgraded");
        for look in 1..LOOKS_AFTER_ANOTHER {
            assert!(!tell("36"), "{look}");
        }
        assert!(tell("36"), "it is rolled back");
        assert!(!tell("35"));
        assert_eq!((release.told(b"no JSON"), release.told(b"{}")), (None, None));
        assert!(Release::new("36").told(br#"{"major":"2","minor":"36"}"#).is_some());
        let other = Release::new("36");
        other.told(br#"{"major":"2","minor":"36"}"#);
        assert!(!other.is_ours());
    }
}
