//! The capacity of a device, and how much of it a request can have (`pkg/apis/resource/validation`).

use std::collections::HashSet;

use serde_json::Value;

use crate::{at::At, causes::Causes, quantities::Amount};
use go::quantity::{canonical, nanos};

const OPTIONS_MAX: usize = 10;

/// A capacity; only of a device that is shared requests can have a part.
pub(crate) fn capacity(at: &At<'_, '_>, is_shared: bool, causes: &mut Causes) {
    let policy = at.member("requestPolicy");
    if policy.is_absent() {
        return;
    }
    if !is_shared {
        return causes.forbidden(&policy, "allowMultipleAllocations must be true");
    }
    let (default, values, range) = (policy.member("default"), policy.member("validValues"), policy.member("validRange"));
    let all = at.member("value");
    match (values.len() > 0, range.is_present()) {
        (true, true) => causes
            .forbidden(&policy, r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#),
        (true, false) if default.is_absent() => causes.required(&default, "required when validValues is defined"),
        (true, false) => options(&values, &default, &all, causes),
        (false, true) if default.is_absent() => causes.required(&default, "required when validRange is defined"),
        (false, true) => self::range(&range, &default, &all, causes),
        (false, false) => {}
    }
}

/// Amounts in ascending order, of which one is the default.
fn options(at: &At<'_, '_>, default: &At<'_, '_>, all: &At<'_, '_>, causes: &mut Causes) {
    let amounts: Vec<Amount> = at.items().map(|item| Amount::at(&item)).collect();
    for (i, _) in amounts.windows(2).enumerate().filter(|(_, pair)| pair[0] > pair[1]) {
        causes.invalid(&at.item(i + 1), "values must be sorted in ascending order");
    }
    let mut has_default = false;
    if at.len() > OPTIONS_MAX {
        causes.too_many(at, OPTIONS_MAX);
    } else {
        let mut known = HashSet::new();
        for (item, amount) in at.items().zip(&amounts) {
            if *amount > Amount::at(all) {
                causes.invalid(&item, &format!("option is larger than capacity value: {}", all.text()));
            }
            has_default |= *amount == Amount::at(default);
        }
        for (item, amount) in at.items().zip(&amounts).filter(|(_, amount)| !known.insert(amount.value())) {
            causes.duplicate(&item.with(&amount.value().to_string().into()));
        }
    }
    if !has_default {
        causes.invalid_as(at, default.value(), "default value is not valid according to the requestPolicy");
    }
}

/// Amounts from one to another, in steps.
fn range(at: &At<'_, '_>, default: &At<'_, '_>, all: &At<'_, '_>, causes: &mut Causes) {
    let (min, max, step) = (at.member("min"), at.member("max"), at.member("step"));
    if min.is_absent() {
        return causes.required(&min, "required when validRange is defined");
    }
    let [least, most, whole, chosen] = [&min, &max, all, default].map(Amount::at);
    let mut refuse = |is_wrong: bool, at: &At<'_, '_>, value: &At<'_, '_>, why: &str, other: &str| {
        if is_wrong {
            causes.invalid_as(at, value.value(), &format!("{why}: {other}"));
        }
    };
    refuse(least > whole, &min, &min, "min is larger than capacity value", all.text());
    refuse(chosen < least, &min, default, "default is less than min", min.text());
    if max.is_present() {
        refuse(least > most, &max, &min, "min is larger than max", max.text());
        refuse(most > whole, &max, &max, "max is larger than capacity value", all.text());
        refuse(chosen > most, &max, default, "default is more than max", max.text());
    }
    if step.is_present() {
        steps(&step, &min, [default, &max], all, causes);
    }
}

/// Each amount is whole steps above the least one.
fn steps(at: &At<'_, '_>, min: &At<'_, '_>, amounts: [&At<'_, '_>; 2], all: &At<'_, '_>, causes: &mut Causes) {
    let (step, least) = (Amount::at(at), Amount::at(min));
    if least.plus(step) > Amount::at(all) {
        causes.invalid(at, &format!("one step {} is larger than capacity value: {}", sum(min.text(), at.text()), all.text()));
    }
    for amount in amounts.into_iter().filter(|amount| amount.is_present()) {
        let above = Amount::at(amount).value().wrapping_sub(least.value());
        if above.checked_rem(step.value()).is_some_and(|rest| rest != 0) {
            let why = format!("value is not a multiple of a given step ({}) from ({})", at.text(), min.text());
            causes.invalid_as(at, &Value::from(amount.text()), &why);
        }
    }
}

/// Two quantities together, in the form of the first one; in that of the second when the first is nothing.
fn sum(one: &str, other: &str) -> String {
    const NANOS: i128 = 1_000_000_000;
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let [first, second] = [one, other].map(|text| nanos(text).unwrap_or_default());
    let (all, form) = (first.saturating_add(second), if first == 0 { other } else { one });
    let mut whole = all / NANOS;
    if !form.ends_with('i') || all % NANOS != 0 {
        return canonical(&format!("{all}n")).unwrap_or_default();
    }
    let mut units = UNITS.iter().peekable();
    while whole != 0 && whole % 1024 == 0 && units.len() > 1 {
        whole /= 1024;
        units.next();
    }
    format!("{whole}{}", units.next().unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn sums_have_the_form_of_the_first() {
        let cases =
            [("0", "10Gi", "10Gi"), ("1Gi", "1Gi", "2Gi"), ("1", "1500m", "2500m"), ("1k", "1Ki", "2024"), ("10Gi", "1", "10737418241")];
        for (one, other, want) in cases {
            assert_eq!(sum(one, other), want, "{one} {other}");
        }
    }
}
