//! The order of versions that Kubernetes calls kube-aware: `v2` > `v1` > `v3beta1` > `v2alpha2` > `foo`.

use std::cmp::{Ordering, Reverse};

/// Compares two version names so that sorting puts the most preferred first.
pub(super) fn preferred_first(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (2 for GA, 1 beta, 0 alpha), major and minor number of a version name of Kubernetes' form.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, suffix) = rest.split_at(digits);
    let major = number(major)?;
    if suffix.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match suffix.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, suffix.strip_prefix("alpha")?),
    };
    Some((stability, major, number(minor)?))
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ga_then_beta_then_alpha_then_the_rest() {
        let sorted =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "bar", "foo1", "foo10", "v01", "v1gamma1"];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_by(|a, b| preferred_first(a, b));
        assert_eq!(shuffled, sorted);
    }
}
