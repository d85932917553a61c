//! Numbers of books, cards and people, most of which check themselves.

/// A number of ten digits, of which the last may be an `X`; white space and dashes do not count.
pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let Some((last, first)) = digits.split_last().filter(|_| digits.len() == 10) else { return false };
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => value(*digit),
        _ => return false,
    };
    let sum: u32 = first.iter().zip(1..).map(|(digit, weight)| value(*digit) * weight).sum();
    first.iter().all(u8::is_ascii_digit) && (sum + 10 * last).is_multiple_of(11)
}

/// A number of thirteen digits.
pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_separators(text);
    let weights = [1, 3].into_iter().cycle();
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().zip(weights).map(|(digit, weight)| value(*digit) * weight).sum::<u32>().is_multiple_of(10)
}

/// A number of a card that one of the issuers gives; only digits count.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| digits.starts_with(prefix.as_bytes()));
    let is_issued = match digits.len() {
        13 => begins(&["4"]),
        14 => begins(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => begins(&["34", "37", "2131", "1800"]),
        16 => begins(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let every_second = [false, true].into_iter().cycle();
    let sum: u32 = digits
        .iter()
        .rev()
        .zip(every_second)
        .map(|(digit, is_doubled)| if is_doubled { doubled(value(*digit)) } else { value(*digit) })
        .sum();
    is_issued && sum.is_multiple_of(10)
}

/// Nine digits in groups of three, two and four, with two separators.
pub(super) fn is_social_security_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_right = |(at, byte): (usize, &u8)| if matches!(at, 3 | 6) { matches!(byte, b'-' | b' ') } else { byte.is_ascii_digit() };
    bytes.len() == 11 && bytes.iter().enumerate().all(is_right)
}

fn without_separators(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'-' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c)).collect()
}

fn value(digit: u8) -> u32 {
    u32::from(digit.wrapping_sub(b'0'))
}
