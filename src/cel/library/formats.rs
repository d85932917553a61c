//! The named formats of Kubernetes, and what they say of a text that is of none.

use model::legal;
use schema::formats::Format;

use super::url;

/// A named format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedFormat {
    /// The name of the function that returns it, behind which is the name that an expression asks for.
    function: &'static str,
    /// The name that is compared.
    name: &'static str,
    problems: fn(&str) -> Vec<String>,
    /// What costs are counted with.
    regex_size: u64,
}

/// Bytes of the longest name of a format.
pub(crate) const NAME_SIZE_MAX: u64 = 64;
/// Bytes of the longest expression behind a format.
pub(crate) const REGEX_SIZE_MAX: u64 = 128;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

static FORMATS: [NamedFormat; 13] = [
    format("format.dns1123Label", "DNS1123Label", label, 30),
    format("format.dns1123Subdomain", "DNS1123Subdomain", legal::wrong_subdomain, 60),
    format("format.dns1035Label", "DNS1035Label", legal::wrong_label_1035, 30),
    format("format.qualifiedName", "QualifiedName", legal::wrong_key, 60),
    format("format.dns1123LabelPrefix", "DNS1123LabelPrefix", |text| label(&masked(text)), 30),
    format("format.dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", |text| legal::wrong_subdomain(&masked(text)), 60),
    format("format.dns1035LabelPrefix", "DNS1035LabelPrefix", |text| legal::wrong_label_1035(&masked(text)), 30),
    format("format.labelValue", "LabelValue", legal::wrong_value, 40),
    format("format.uri", "URI", uri, 1103),
    format("format.uuid", "uuid", |text| strfmt("uuid", text, "does not match the UUID format"), 70),
    format("format.byte", "byte", |text| strfmt("byte", text, "invalid base64"), 84),
    format("format.date", "date", |text| strfmt("date", text, "invalid date"), 71),
    format("format.datetime", "datetime", |text| strfmt("datetime", text, "invalid datetime"), 71),
];

const fn format(function: &'static str, name: &'static str, problems: fn(&str) -> Vec<String>, regex_size: u64) -> NamedFormat {
    NamedFormat { function, name, problems, regex_size }
}

impl NamedFormat {
    /// Returns the format of a name.
    pub(crate) fn named(key: &str) -> Option<Self> {
        FORMATS.iter().find(|format| format.function.strip_prefix("format.") == Some(key)).copied()
    }

    /// Returns all formats.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().copied()
    }

    /// Returns the name of the function that returns it.
    pub(crate) fn function(self) -> &'static str {
        self.function
    }

    /// Returns why a text is not of the format: nothing when it is.
    pub(crate) fn problems(self, text: &str) -> Vec<String> {
        (self.problems)(text)
    }

    pub(crate) fn regex_size(self) -> u64 {
        self.regex_size
    }
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

fn label(text: &str) -> Vec<String> {
    let is_legal = legal::is_label(text);
    let why = if legal::is_subdomain(text) { "must not contain dots" } else { LABEL };
    let too_long = (text.len() > 63).then_some("must be no more than 63 characters");
    too_long.into_iter().chain((!is_legal).then_some(why)).map(str::to_owned).collect()
}

/// The beginning of a name with its last dash replaced.
fn masked(text: &str) -> String {
    let beginning = text.strip_suffix('-').filter(|beginning| !beginning.is_empty());
    let Some(beginning) = beginning else { return text.to_owned() };
    let mut bytes = beginning.as_bytes().to_vec();
    bytes.pop();
    bytes.push(b'a');
    String::from_utf8_lossy(&bytes).into_owned()
}

fn uri(text: &str) -> Vec<String> {
    url::problem(text).into_iter().collect()
}

fn strfmt(format: &str, text: &str, problem: &str) -> Vec<String> {
    let fits = Format::of(format).is_none_or(|format| format.fits(text));
    if fits { Vec::new() } else { vec![problem.to_owned()] }
}
