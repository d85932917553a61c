//! The order of keys: go-yaml's, letters after everything else and runs of digits as numbers. It is no order in the strict sense: see [`sort`].

use std::{cmp::Ordering, mem};

/// Up to so many keys are inserted one by one.
const FEW: usize = 16;

/// Sorts by `less`, keeping equal ones as they stand. The order has circles (`a1b` < `a2` < `a12` < `a1b`), where kube-apiserver's answer depends on
/// chance; any result will do, but a library's sort may panic, so this one is by hand.
pub(super) fn sort(ids: &mut Vec<u32>, less: impl Fn(u32, u32) -> bool) {
    if ids.is_sorted_by(|a, b| !less(*b, *a)) {
        return;
    }
    for run in ids.chunks_mut(FEW) {
        for end in 1..run.len() {
            let mut at = end;
            while at > 0 && less(run[at], run[at - 1]) {
                run.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    let mut merged = Vec::with_capacity(ids.len());
    let mut size = FEW;
    while size < ids.len() {
        merged.clear();
        for pair in ids.chunks(2 * size) {
            let (mut left, mut right) = pair.split_at(size.min(pair.len()));
            while let ([a, rest_a @ ..], [b, rest_b @ ..]) = (left, right) {
                if less(*b, *a) {
                    merged.push(*b);
                    right = rest_b;
                } else {
                    merged.push(*a);
                    left = rest_a;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        mem::swap(ids, &mut merged);
        size *= 2;
    }
}

/// Whether `a` comes before `b`. Beyond ASCII, letters are what Rust's library takes for alphabetic: vowel signs and other
/// marks differ from Go's, and letters newer than Unicode 15.
pub(super) fn is_less(a: &str, b: &str) -> bool {
    let mut same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(same) || !b.is_char_boundary(same) {
        same -= 1;
    }
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    let (Some(x), Some(y)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        // One is the beginning of the other.
        return a.len() < b.len();
    };
    match (is_letter(x), is_letter(y)) {
        (true, true) => x < y,
        (false, false) => by_number(&a[..same], rest_a, rest_b).unwrap_or(x < y),
        (_, y_is_letter) => y_is_letter,
    }
}

/// Compares the numbers that two texts go on with; `None` when that settles nothing.
fn by_number(same: &str, a: &str, b: &str) -> Option<bool> {
    // After a zero, what counts is whether it stands inside a number that has begun.
    let zero = a.starts_with('0') || b.starts_with('0');
    let begun = zero && same.chars().rev().take_while(|c| is_digit(*c)).any(|c| c != '0');
    let (number_a, digits_a) = number(a, i64::from(begun));
    let (number_b, digits_b) = number(b, i64::from(begun));
    match number_a.cmp(&number_b).then(digits_a.cmp(&digits_b)) {
        Ordering::Equal => None,
        order => Some(order == Ordering::Less),
    }
}

/// The digits at the beginning of a text as a number that may overflow, as Go's does, and how many they are.
fn number(text: &str, start: i64) -> (i64, usize) {
    text.chars().take_while(|c| is_digit(*c)).fold((start, 0), |(number, digits), c| {
        // Also of another script's digit, as Go has it.
        let digit = i64::from(u32::from(c)) - i64::from(u32::from('0'));
        (number.wrapping_mul(10).wrapping_add(digit), digits + 1)
    })
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || (!c.is_ascii() && c.is_alphabetic() && !c.is_numeric())
}

fn is_digit(c: char) -> bool {
    let code = u32::from(c);
    c.is_ascii_digit() || ZEROS.partition_point(|zero| *zero <= code).checked_sub(1).is_some_and(|at| code - ZEROS[at] < 10)
}

/// The zeros of all other scripts (Unicode 15, category Nd).
const ZEROS: [u32; 67] = [
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0,
    0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50,
    0x11D50, 0x11DA0, 0x11F50, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E950,
    0x1FBF0,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys as a kube-apiserver printed them (go-yaml's own list of examples is in its tests; this one is of keys that objects have).
    #[test]
    fn keys_come_as_in_yaml() {
        let sorted = [
            "",
            ".dockerconfigjson",
            "_x",
            "1",
            "2",
            "2a",
            "10",
            "A",
            "B1",
            "B02",
            "B10",
            "a",
            "a-1",
            "a-2",
            "a-10",
            "a.b",
            "a/b",
            "a0",
            "a1",
            "a01",
            "aB",
            "ab",
            "f:metadata",
            "k:{\"name\":\"a\"}",
            "é",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for b in &sorted[i + 1..] {
                assert!(is_less(a, b) && !is_less(b, a), "{a:?} is before {b:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn many_are_sorted(keys in prop::collection::vec("[a-c]{0,3}", 0..200)) {
            let mut ids: Vec<u32> = (0..keys.len() as u32).collect();
            sort(&mut ids, |a, b| is_less(&keys[a as usize], &keys[b as usize]));
            let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
            expected.sort_by(|a, b| keys[*a as usize].cmp(&keys[*b as usize]));
            prop_assert_eq!(ids, expected);
        }

        #[test]
        fn circles_lose_no_key(keys in prop::collection::vec("[a0-2b]{0,4}", 0..100)) {
            let mut ids: Vec<u32> = (0..keys.len() as u32).collect();
            sort(&mut ids, |a, b| is_less(&keys[a as usize], &keys[b as usize]));
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..keys.len() as u32).collect::<Vec<_>>());
        }

        #[test]
        fn no_two_are_before_each_other(a in "\\PC{0,4}", b in "\\PC{0,4}") {
            prop_assert!(!(is_less(&a, &b) && is_less(&b, &a)));
            prop_assert!(a == b || is_less(&a, &b) || is_less(&b, &a));
        }
    }
}
