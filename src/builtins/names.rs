//! Which texts are legal names of different kinds (`util/validation` of apimachinery): a function returns why one is not, and nothing for a legal text.

use model::legal;

/// Bytes of a DNS label.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of a DNS subdomain, and of a key of a ConfigMap.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Bytes of the name of a port.
const PORT_NAME_BYTES_MAX: usize = 15;
/// The largest id of a user or of a group.
const ID_MAX: i64 = i32::MAX as i64;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_UNDERSCORE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const RELAXED_ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const HTTP_PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// `IsDNS1123Label`.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, LABEL_BYTES_MAX);
    if !legal::is_label(text) {
        wrong.push(if legal::is_subdomain(text) { "must not contain dots" } else { LABEL }.to_owned());
    }
    wrong
}

/// `IsDNS1035Label`.
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    legal::wrong_label_1035(text)
}

/// `IsDNS1123Subdomain`.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    legal::wrong_subdomain(text)
}

/// `IsDNS1123SubdomainWithUnderscore`.
pub(crate) fn subdomain_with_underscore(text: &str) -> Vec<String> {
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = label.as_bytes();
        let known = bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        known && ends(bytes.first()) && ends(bytes.last())
    };
    let mut wrong = too_long(text, SUBDOMAIN_BYTES_MAX);
    if !text.split('.').all(is_label) {
        wrong.push(SUBDOMAIN_UNDERSCORE.to_owned());
    }
    wrong
}

/// `IsWildcardDNS1123Subdomain`.
pub(crate) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, SUBDOMAIN_BYTES_MAX);
    if !text.strip_prefix("*.").is_some_and(legal::is_subdomain) {
        wrong.push(WILDCARD.to_owned());
    }
    wrong
}

/// `IsQualifiedName`, which is the same for keys of labels.
pub(crate) fn qualified(text: &str) -> Vec<String> {
    legal::wrong_key(text)
}

/// `IsValidLabelValue`.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    legal::wrong_value(text)
}

/// `IsValidPortName`.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, PORT_NAME_BYTES_MAX);
    let mut unless = |right: bool, why: &str| {
        if !right {
            wrong.push(why.to_owned());
        }
    };
    let known = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    unless(known && !text.is_empty(), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    unless(text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    unless(!text.contains("--"), "must not contain consecutive hyphens");
    unless(!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen");
    wrong
}

/// `IsValidPortNum`.
pub(crate) fn port_number(port: i64) -> Option<String> {
    in_range(port, 1, 65_535)
}

/// `IsInRange`.
pub(crate) fn in_range(number: i64, min: i64, max: i64) -> Option<String> {
    (!(min..=max).contains(&number)).then(|| format!("must be between {min} and {max}, inclusive"))
}

/// `IsValidUserID`, `IsValidGroupID`.
pub(crate) fn id(number: i64) -> Option<String> {
    in_range(number, 0, ID_MAX)
}

/// `IsValidPercent`.
pub(crate) fn percent(text: &str) -> Option<&'static str> {
    let is = text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    (!is).then_some(PERCENT)
}

/// `IsHTTPHeaderName`.
pub(crate) fn http_header(text: &str) -> Option<&'static str> {
    let is = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!is).then_some(HTTP_HEADER)
}

/// `IsRelaxedEnvVarName`, which the gate `RelaxedEnvironmentVariableValidation` has for all names.
pub(crate) fn env_name(text: &str) -> Option<&'static str> {
    let is_wrong = |byte: u8| !matches!(byte, b' '..=b'~') || byte == b'=';
    match text {
        "" => Some("environment variable name must be non-empty"),
        text => text.bytes().any(is_wrong).then_some(RELAXED_ENV_NAME),
    }
}

/// `IsConfigMapKey`.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, SUBDOMAIN_BYTES_MAX);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
        wrong.push(CONFIG_KEY.to_owned());
    }
    let dots = match text {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        text => text.starts_with("..").then_some("must not start with '..'"),
    };
    wrong.extend(dots.map(str::to_owned));
    wrong
}

/// `IsCIdentifier`.
pub(crate) fn c_identifier(text: &str) -> Option<&'static str> {
    let known = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is = known && !text.is_empty() && !text.starts_with(|first: char| first.is_ascii_digit());
    (!is).then_some(C_IDENTIFIER)
}

/// The regular expression `[A-Za-z0-9/\-._~%!$&'()*+,;=:]+` of paths in `IsDomainPrefixedPath`.
pub(crate) fn http_path(text: &str) -> Option<&'static str> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    (text.is_empty() || !text.bytes().all(is_known)).then_some(HTTP_PATH)
}

/// `IsPathSegmentName`, as names without a rule of their own are judged.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        text => path_segment_prefix(text),
    }
}

/// `IsPathSegmentPrefix`.
pub(crate) fn path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%'].into_iter().filter(|&letter| text.contains(letter)).map(|letter| format!("may not contain '{letter}'")).collect()
}

/// The text that a `generateName` is judged by (`maskTrailingDash`): the dash at its end, and the letter before that, count as an `a`.
pub(crate) fn masked(text: &str) -> String {
    match text.strip_suffix('-').and_then(|rest| Some((rest, rest.chars().next_back()?))) {
        Some((rest, last)) if last.is_ascii() => format!("{}a", &rest[..rest.len() - 1]),
        _ => text.to_owned(),
    }
}

fn too_long(text: &str, max: usize) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(judge: impl Fn(&str) -> Vec<String>, cases: &[(&str, &[&str])]) {
        for (text, want) in cases {
            assert_eq!(judge(text), *want, "{text}");
        }
    }

    fn one(judge: fn(&str) -> Option<&'static str>) -> impl Fn(&str) -> Vec<String> {
        move |text| judge(text).map(str::to_owned).into_iter().collect()
    }

    #[test]
    fn dns() {
        let long = "a".repeat(64);
        check(
            label,
            &[
                ("a", &[]),
                ("0-b", &[]),
                ("a.b", &["must not contain dots"]),
                ("", &[LABEL]),
                ("-a", &[LABEL]),
                (&long, &["must be no more than 63 characters"]),
            ],
        );
        check(
            subdomain_with_underscore,
            &[
                ("_a.b_c", &[]),
                ("a.b", &[]),
                ("a_", &[SUBDOMAIN_UNDERSCORE]),
                ("__a", &[SUBDOMAIN_UNDERSCORE]),
                ("", &[SUBDOMAIN_UNDERSCORE]),
            ],
        );
        check(wildcard_subdomain, &[("*.a.b", &[]), ("*", &[WILDCARD]), ("a.b", &[WILDCARD])]);
    }

    #[test]
    fn ports_and_numbers() {
        let letters = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        let one = "must contain at least one letter (a-z)";
        check(
            port_name,
            &[
                ("http", &[]),
                ("1a-b", &[]),
                ("", &[letters, one]),
                ("80", &[one]),
                ("A", &[letters, one]),
                ("a--b", &["must not contain consecutive hyphens"]),
                ("-a", &["must not begin or end with a hyphen"]),
                ("abcdefghijklmnop", &["must be no more than 15 characters"]),
            ],
        );
        for (port, right) in [(0, false), (1, true), (65_535, true), (65_536, false)] {
            assert_eq!(port_number(port).is_none(), right, "{port}");
        }
        assert_eq!((id(-1).is_some(), id(0), id(i64::from(i32::MAX)), id(1 << 31).is_some()), (true, None, None, true));
        assert_eq!(in_range(5, 1, 3).as_deref(), Some("must be between 1 and 3, inclusive"));
    }

    #[test]
    fn others() {
        check(one(percent), &[("1%", &[]), ("100%", &[]), ("%", &[PERCENT]), ("1", &[PERCENT]), ("-1%", &[PERCENT])]);
        check(one(http_header), &[("X-A", &[]), ("", &[HTTP_HEADER]), ("a_b", &[HTTP_HEADER])]);
        check(
            one(env_name),
            &[
                ("a b", &[]),
                ("1=2", &[RELAXED_ENV_NAME]),
                ("é", &[RELAXED_ENV_NAME]),
                ("", &["environment variable name must be non-empty"]),
            ],
        );
        check(
            config_key,
            &[
                ("a.B_c-1", &[]),
                (".", &["must not be '.'"]),
                ("..", &["must not be '..'"]),
                ("..a", &["must not start with '..'"]),
                ("", &[CONFIG_KEY]),
                ("a/b", &[CONFIG_KEY]),
            ],
        );
        check(one(c_identifier), &[("_a1", &[]), ("1a", &[C_IDENTIFIER]), ("", &[C_IDENTIFIER])]);
        check(one(http_path), &[("/a:b", &[]), ("", &[HTTP_PATH]), ("a b", &[HTTP_PATH])]);
        check(path_segment, &[("a:b", &[]), ("..", &["may not be '..'"]), ("/%", &["may not contain '/'", "may not contain '%'"])]);
        assert_eq!(["a-", "a", "-", "ab-", "é-"].map(masked), ["a", "a", "-", "aa", "é-"]);
    }
}
