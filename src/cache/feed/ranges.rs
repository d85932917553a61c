//! How the key space is cut into the few disjoint ranges that are watched (one stream, a few watches).
//!
//! Resources that are busy or large in most clusters get a range of their own, the rest lies between them: etcd re-reads a lagging watch's whole gap
//! under its store lock and sends at most 1,000 revisions per 100 ms and watch, so one watch for all would starve.

use model::KeyRange;

/// Resource prefixes that are watched alone (decision 0004): what changes most, or weighs most, in the clusters people run.
pub const WATCHED_ALONE: &[&str] = &["configmaps", "events", "leases", "minions", "pods", "replicasets", "secrets"];

/// The ranges that together cover every key starting with `prefix` (`/registry/`), disjoint, in key order.
#[must_use]
pub fn cover(prefix: &str, alone: &[&str]) -> Vec<KeyRange> {
    let mut alone: Vec<Vec<u8>> = alone.iter().map(|name| format!("{prefix}{name}/").into_bytes()).collect();
    alone.sort();
    let whole = KeyRange::prefix(prefix.as_bytes());
    let mut ranges = Vec::new();
    let mut at = whole.start.clone();
    for start in alone {
        let own = KeyRange::prefix(&start);
        ranges.push(KeyRange { start: std::mem::replace(&mut at, own.end.clone()), end: own.start.clone() });
        ranges.push(own);
    }
    ranges.push(KeyRange { start: at, end: whole.end });
    ranges.retain(|r| r.start < r.end);
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every key under the prefix is in exactly one range; no other key is in any.
        #[test]
        fn every_key_has_one_range(key in "/registry[/0]?[a-z./]{0,20}") {
            let ranges = cover("/registry/", WATCHED_ALONE);
            let inside = ranges.iter().filter(|r| r.contains(key.as_bytes())).count();
            prop_assert_eq!(inside, usize::from(key.starts_with("/registry/")));
        }
    }

    #[test]
    fn neighbours_touch() {
        let ranges = cover("/registry/", WATCHED_ALONE);
        assert_eq!(ranges.len(), 15);
        assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
        assert_eq!((&ranges[0].start[..], &ranges[14].end[..]), (&b"/registry/"[..], &b"/registry0"[..]));
    }
}
