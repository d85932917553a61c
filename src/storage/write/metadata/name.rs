//! Which names a resource accepts (spec api-surface §5.4).

use std::net::IpAddr;

use serde_json::Value;

use catalogue::NameRule;
use go::quote::quoted;
use model::{
    invalid::FieldError,
    legal::{is_label, is_subdomain, wrong_subdomain},
};

/// Characters of a label.
const LABEL_MAX: usize = 63;
/// Characters of the name of a CronJob: the names of its Jobs add eleven.
const CRON_JOB_MAX: usize = 52;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The tails of the errors for a name, or for a `generateName` when `prefix`: more characters follow that one, so it may end with a dash.
pub(crate) fn wrong_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix { mask_dash(name) } else { name.to_owned() };
    match rule {
        NameRule::Subdomain | NameRule::PluralGroup => wrong_subdomain(&masked),
        NameRule::Label => label(&masked),
        NameRule::PathSegment | NameRule::VersionGroup => path_segment(name),
        NameRule::CronJob => {
            let mut wrong = wrong_subdomain(&masked);
            if !prefix && name.len() > CRON_JOB_MAX {
                wrong.push(too_long(CRON_JOB_MAX));
            }
            wrong
        }
        NameRule::IpAddress => ip_address(name).into_iter().collect(),
    }
}

/// The error for an APIService whose name is not its version and group. That of a CustomResourceDefinition is told among those of its spec.
pub(crate) fn version_group(name: &str, object: &Value) -> Option<FieldError> {
    let text = |member: &str| object["spec"][member].as_str().unwrap_or_default();
    let wanted = format!("{}.{}", text("version"), text("group"));
    let why = format!(r#"must be `spec.version+"."+spec.group`: {}"#, quoted(&wanted));
    (name != wanted).then(|| FieldError::invalid("metadata.name", &name.into(), &why))
}

/// Go takes the dash and the letter before it for an `a`. A dash alone has no letter before it, and stays wrong.
fn mask_dash(name: &str) -> String {
    let mut letters = name.chars();
    match (letters.next_back(), letters.next_back()) {
        (Some('-'), Some(letter)) if letter.is_ascii() => format!("{}a", letters.as_str()),
        _ => name.to_owned(),
    }
}

fn too_long(characters: usize) -> String {
    format!("must be no more than {characters} characters")
}

fn label(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !is_label(name) {
        wrong.push(if is_subdomain(name) { "must not contain dots" } else { LABEL }.to_owned());
    }
    wrong
}

fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." => return vec!["may not be '.'".to_owned()],
        ".." => return vec!["may not be '..'".to_owned()],
        _ => {}
    }
    ['/', '%'].into_iter().filter(|&c| name.contains(c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn ip_address(name: &str) -> Option<String> {
    let Ok(address) = name.parse::<IpAddr>() else {
        let without_zeros: Vec<&str> =
            name.split('.').map(|part| Some(part.trim_start_matches('0')).filter(|part| !part.is_empty()).unwrap_or("0")).collect();
        let would_be = without_zeros.join(".").parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
        return Some(if would_be { "must not have leading 0s" } else { IP }.to_owned());
    };
    if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Some("must not be an IPv4-mapped IPv6 address".to_owned());
    }
    let canonical = address.to_string();
    (canonical != name).then(|| format!("must be in canonical form ({})", quoted(&canonical)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::legal::SUBDOMAIN;

    /// Each was sent to a kube-apiserver.
    #[test]
    fn names_are_refused_with_the_texts_of_the_real_server() {
        use NameRule::{CronJob, IpAddress, Label, PathSegment, Subdomain};
        let long = |c: &str, count| c.repeat(count);
        let cases: &[(NameRule, String, &[&str])] = &[
            (Subdomain, "9a.b".into(), &[]),
            (Subdomain, "A.%b".into(), &[SUBDOMAIN]),
            (Subdomain, "..".into(), &[SUBDOMAIN]),
            (Subdomain, long("x", 254), &["must be no more than 253 characters"]),
            (Subdomain, long("X", 254), &["must be no more than 253 characters", SUBDOMAIN]),
            (Label, "9a".into(), &[]),
            (Label, "a.b".into(), &["must not contain dots"]),
            (Label, "a.B".into(), &[LABEL]),
            (Label, long("X", 64), &["must be no more than 63 characters", LABEL]),
            (CronJob, long("x", 52), &[]),
            (CronJob, long("X", 53), &[SUBDOMAIN, "must be no more than 52 characters"]),
            (CronJob, long("x", 254), &["must be no more than 253 characters", "must be no more than 52 characters"]),
            (PathSegment, "system:node".into(), &[]),
            (PathSegment, "..".into(), &["may not be '..'"]),
            (PathSegment, "a/b%c".into(), &["may not contain '/'", "may not contain '%'"]),
            (IpAddress, "::1".into(), &[]),
            (IpAddress, "10.0.0.01".into(), &["must not have leading 0s"]),
            (IpAddress, "2001:DB8::1".into(), &[r#"must be in canonical form ("2001:db8::1")"#]),
            (IpAddress, "::ffff:1.2.3.4".into(), &["must not be an IPv4-mapped IPv6 address"]),
            (IpAddress, "10.0.0.1/24".into(), &[IP]),
            (IpAddress, "fe80::1%eth0".into(), &[IP]),
        ];
        for (rule, name, want) in cases {
            assert_eq!(wrong_name(*rule, name, false), *want, "{name}");
        }
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        use NameRule::{Label, Subdomain};
        for (rule, base, right) in [
            (Subdomain, "ok-", true),
            (Label, "a-", true),
            (Subdomain, "a.", false),
            (Subdomain, "a-.", false),
            (Subdomain, "é-", false),
            (Subdomain, "-", false),
        ] {
            assert_eq!(wrong_name(rule, base, true).is_empty(), right, "{base}");
        }
        assert_eq!(wrong_name(NameRule::CronJob, &"x".repeat(53), true), Vec::<String>::new());
    }

    #[test]
    fn an_api_service_is_called_as_its_version_and_group() {
        let object = serde_json::json!({"spec": {"group": "ex.io", "version": "v1"}});
        assert_eq!(version_group("v1.ex.io", &object), None);
        let wrong = version_group("x.ex.io", &object).expect("wrong").message;
        assert_eq!(wrong, r#"Invalid value: "x.ex.io": must be `spec.version+"."+spec.group`: "v1.ex.io""#);
    }
}
