//! The formats of texts that a schema may ask for, as kube-openapi's `strfmt` checks them. Of others nothing is asked.

mod address;
mod email;
mod numbers;
mod time;

use std::sync::LazyLock;

use regex::Regex;

/// A format that is known.
#[derive(Clone, Copy, Debug)]
pub struct Format(fn(&str) -> bool);

impl Format {
    /// Finds a format by its name, in which dashes do not count.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(Self(match &*name.replace('-', "") {
            "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            "uri" => |text| go::url::parse_request(text).is_ok(),
            "email" => email::is_email,
            "hostname" => is_hostname,
            "ipv4" => address::is_ipv4,
            "ipv6" => address::is_ipv6,
            "cidr" => address::is_cidr,
            "mac" => address::is_mac,
            "uuid" => |text| is_uuid(text, None, false),
            "uuid3" => |text| is_uuid(text, Some(b'3'), false),
            "uuid4" => |text| is_uuid(text, Some(b'4'), true),
            "uuid5" => |text| is_uuid(text, Some(b'5'), true),
            "isbn" => |text| numbers::is_isbn10(text) || numbers::is_isbn13(text),
            "isbn10" => numbers::is_isbn10,
            "isbn13" => numbers::is_isbn13,
            "creditcard" => numbers::is_credit_card,
            "ssn" => numbers::is_social_security_number,
            "hexcolor" => is_hex_color,
            "rgbcolor" => |text| matches(&RGB_COLOR, text),
            "byte" => is_base64,
            "password" => |_| true,
            "date" => time::is_date,
            "duration" => time::is_duration,
            "datetime" => time::is_date_time,
            "k8sshortname" => |text| text.len() <= 63 && is_short_name(text),
            "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_short_name),
            _ => return None,
        }))
    }

    /// Returns whether a text is of this format.
    #[must_use]
    pub fn fits(self, text: &str) -> bool {
        (self.0)(text)
    }
}

static RGB_COLOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});

/// A label alone, or labels with dots behind them and a last one of letters.
static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = r"[a-zA-Z0-9\p{S}\p{L}]";
    let any = r"[-a-zA-Z0-9\p{S}\p{L}]";
    Regex::new(&format!(r"^({one}((-?{one}{{0,62}})?)|({one}(({any}{{0,61}}{one})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$")).ok()
});

fn matches(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Bytes are counted, not characters.
fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&HOSTNAME, text)
}

/// Thirty-two hexadecimal digits with dashes or without, of a version, and of the variant of those versions.
fn is_uuid(text: &str, version: Option<u8>, is_of_variant: bool) -> bool {
    let mut rest = text;
    let mut groups = [""; 5];
    for (at, (group, length)) in groups.iter_mut().zip([8, 4, 4, 4, 12]).enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else { return false };
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        (*group, rest) = (digits, after);
    }
    let first = |group: &str| group.as_bytes().first().copied().unwrap_or_default();
    rest.is_empty()
        && version.is_none_or(|version| first(groups[2]) == version)
        && (!is_of_variant || matches!(first(groups[3]), b'8' | b'9' | b'a' | b'b' | b'A' | b'B'))
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Base64 that is not empty.
fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_whole = text.len().is_multiple_of(4) && !text.is_empty();
    is_whole && digits.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_short_name(text: &str) -> bool {
    let is_end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was asked of kube-openapi's `strfmt.Default`.
    #[test]
    fn texts_fit_as_they_do_in_go() {
        for line in include_str!("../../tests/data/schemas/formats.txt").lines() {
            let mut columns = line.split('\t');
            let mut next = || columns.next().expect("three columns");
            let (name, text, want) = (next(), next(), next());
            let text: String = serde_json::from_str(text).expect("a text");
            assert_eq!(Format::of(name).expect("a format").fits(&text).to_string(), want, "{name} {text:?}");
        }
    }

    #[test]
    fn unknown_formats_ask_nothing() {
        assert!(Format::of("int32").is_none() && Format::of("Date").is_none() && Format::of("d-a-t-e").is_some());
    }
}
