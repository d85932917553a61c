//! How much of which resource: quantities are compared exactly, and names of resources have rules (`pkg/apis/core/helper`, `ValidateResourceQuantityValue`).

use crate::{at::At, causes::Causes, names};
use go::quantity;

/// Names of whole classes of resources.
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
/// In the names of resources that are Kubernetes' own.
const NATIVE: &str = "kubernetes.io/";

/// Resources that a container can have.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that are counted.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// Resources that are measured, by their names in quotas.
const MEASURED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// An amount in billionths, which no quantity divides further. Amounts beyond 128 bits count as the largest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(i128);

/// Billionths of one.
const NANOS: i128 = 1_000_000_000;

impl Amount {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the amount of a quantity; none of a text that is no quantity.
    pub(crate) fn of(text: &str) -> Option<Self> {
        quantity::nanos(text).map(Self)
    }

    /// Returns the amount at a path; zero when there is none, as Go's zero value.
    pub(crate) fn at(at: &At<'_, '_>) -> Self {
        Self::of(at.text()).unwrap_or_default()
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the text of the amount, with suffixes of the kind that `like` has.
    pub(crate) fn text_like(self, like: &str) -> String {
        quantity::of_nanos(self.0, like)
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it is a whole number, to a thousandth: Go rounds up to that.
    pub(crate) fn is_whole(self) -> bool {
        rounded_up(self.0, NANOS / 1_000).rem_euclid(NANOS) == 0
    }

    /// Returns the whole number, rounded up; 0 when it has more than 64 bits, as Go does it (`Value`).
    pub(crate) fn value(self) -> i64 {
        i64::try_from(rounded_up(self.0, NANOS) / NANOS).unwrap_or_default()
    }
}

/// Rounds away from zero to a multiple of `unit`.
fn rounded_up(number: i128, unit: i128) -> i128 {
    let rest = number % unit;
    if rest == 0 { number } else { (number - rest).saturating_add(unit * rest.signum()) }
}

/// Whether two texts are the same amount; texts that are no quantities are the same when they are equal.
pub(crate) fn same_amount(a: &str, b: &str) -> bool {
    a == b || Amount::of(a).is_some_and(|amount| Some(amount) == Amount::of(b))
}

/// `must be greater than or equal to 0`.
pub(crate) fn not_negative(at: &At<'_, '_>, causes: &mut Causes) {
    if Amount::at(at).is_negative() {
        causes.invalid(at, "must be greater than or equal to 0");
    }
}

/// `must be greater than zero`; an absent quantity is Go's zero.
pub(crate) fn positive(at: &At<'_, '_>, causes: &mut Causes) {
    if Amount::at(at) <= Amount::ZERO {
        let shown = if at.is_absent() { "0" } else { at.text() };
        causes.invalid(&at.with(&shown.into()), "must be greater than zero");
    }
}

/// The amount of a resource: not negative, and whole when it can only be counted (`ValidateResourceQuantityValue`).
pub(crate) fn amount_of(name: &str, at: &At<'_, '_>, causes: &mut Causes) {
    not_negative(at, causes);
    if is_integer(name) && !Amount::at(at).is_whole() {
        causes.invalid_json(at, "must be an integer");
    }
}

/// The name of any resource (`validateResourceName`); returns whether it is right.
pub(crate) fn resource_name(name: &str, at: &At<'_, '_>, causes: &mut Causes) -> bool {
    let shown = name.into();
    let at = at.with(&shown);
    let wrong = names::qualified(name);
    wrong.iter().for_each(|why| causes.invalid_json(&at, why));
    let known = !wrong.is_empty() || name.contains('/') || is_standard(name);
    if !known {
        causes.invalid_json(&at, "must be a standard resource type or fully qualified");
    }
    wrong.is_empty() && known
}

/// The name of a resource of a container (`validateContainerResourceName`).
pub(crate) fn container_resource_name(name: &str, at: &At<'_, '_>, causes: &mut Causes) {
    resource_name(name, at, causes);
    let shown = name.into();
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
            causes.invalid_json(&at.with(&shown), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.invalid_json(&at.with(&shown), "doesn't follow extended resource name standard");
    }
}

/// `IsHugePageResourceName`.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether an amount of huge pages is a number of whole pages of the size in its name.
pub(crate) fn is_whole_pages(name: &str, amount: Amount) -> bool {
    let page = name.strip_prefix(HUGE_PAGES).and_then(Amount::of);
    page.is_some_and(|page| page > Amount::ZERO && page.is_whole() && amount.value().checked_rem(page.value()) == Some(0))
}

/// `IsQuotaHugePageResourceName`.
pub(crate) fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.strip_prefix(REQUESTS).is_some_and(is_huge_pages)
}

/// `IsStandardQuotaResourceName`.
pub(crate) fn is_standard_of_quotas(name: &str) -> bool {
    COUNTED.contains(&name) || MEASURED.contains(&name) || is_quota_huge_pages(name)
}

/// `IsStandardResourceName`.
pub(crate) fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_of_quotas(name)
}

/// `IsNativeResource`.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE)
}

/// `IsExtendedResourceName`.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && names::qualified(&format!("{REQUESTS}{name}")).is_empty()
}

/// `IsOvercommitAllowed`.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// `IsIntegerResourceName`.
pub(crate) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_compared_exactly() {
        let of = |text: &str| Amount::of(text);
        for (a, b) in [("1", "1000m"), ("1Ki", "1024"), ("1e3", "1k"), ("0.5", "500m"), ("+5", "5"), ("1n", "0.000000001"), ("0", "0Gi")] {
            assert!(of(a).is_some() && of(a) == of(b), "{a} {b}");
            assert!(same_amount(a, b));
        }
        for (less, more) in [("-1", "0"), ("1", "1001m"), ("9007199254740993", "9007199254740994"), ("99E", "100E"), ("1", "1e100")] {
            assert!(of(less) < of(more), "{less} {more}");
        }
        assert_eq!((of("x"), of(""), of("1Zi")), (None, None, None));
        assert_eq!(
            ["1", "1500m", "-1500m", "1Ki", "100E"].map(|text| Amount::of(text).map(Amount::value)),
            [Some(1), Some(2), Some(-2), Some(1024), Some(0)]
        );
        assert_eq!(
            ["1", "1m", "1n", "-1500m", "2Ki"].map(|text| Amount::of(text).map(Amount::is_whole)),
            [Some(true), Some(false), Some(false), Some(false), Some(true)]
        );
        assert_eq!(of("1").map(|one| one.plus(Amount(NANOS))), of("2"));
    }

    #[test]
    fn names_of_resources() {
        let texts = |name: &str, judge: fn(&str, &At<'_, '_>, &mut Causes)| {
            let object = json!({});
            let errors = Causes::of(|causes| judge(name, &At::named("x", &object), causes));
            errors.into_iter().map(|error| error.message.chars().take(80).collect()).collect::<Vec<String>>()
        };
        for name in ["cpu", "hugepages-2Mi", "example.com/gpu", "a.kubernetes.io/b"] {
            assert_eq!(texts(name, container_resource_name), [""; 0], "{name}");
        }
        assert_eq!(texts("pods", container_resource_name), [r#"Invalid value: "pods": must be a standard resource for containers"#]);
        assert_eq!(
            texts("gpu", container_resource_name),
            [
                r#"Invalid value: "gpu": must be a standard resource type or fully qualified"#,
                r#"Invalid value: "gpu": must be a standard resource for containers"#
            ]
        );
        assert_eq!(
            texts("requests.a.b/c", container_resource_name),
            [r#"Invalid value: "requests.a.b/c": doesn't follow extended resource name standard"#]
        );
        assert!(is_whole_pages("hugepages-2Mi", Amount(4 * (1 << 20) * NANOS)) && !is_whole_pages("hugepages-2Mi", Amount(NANOS)));
        assert!(!is_whole_pages("hugepages-x", Amount(NANOS)) && !is_whole_pages("hugepages-0", Amount::ZERO));
        let judge = |name: &str, amount: &str| {
            let object = json!(amount);
            Causes::of(|causes| amount_of(name, &At::named("x", &object), causes))
                .into_iter()
                .map(|error| error.message)
                .collect::<Vec<_>>()
        };
        assert_eq!(judge("cpu", "-1"), [r#"Invalid value: "-1": must be greater than or equal to 0"#]);
        assert_eq!(judge("a.b/c", "1500m"), [r#"Invalid value: "1500m": must be an integer"#]);
        assert_eq!(judge("cpu", "1500m"), [""; 0]);
    }
}
