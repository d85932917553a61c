//! Alternative names of a subject: domains, mail addresses, IP addresses and URIs.

use crate::Malformed;
use crate::der::Reader;
use go::quote::quoted;
use go::url;

/// Tags of kinds of names, without their class.
pub(crate) const MAIL: u8 = 1;
pub(crate) const DNS: u8 = 2;
pub(crate) const URI: u8 = 6;
pub(crate) const IP: u8 = 7;
/// The class of their tags.
pub(crate) const CONTEXT: u8 = 0x80;

/// The names that Go knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// Domains, maybe with a wildcard.
    pub dns: Vec<String>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// IP addresses, of 4 or 16 bytes.
    pub ips: Vec<Vec<u8>>,
    /// URIs.
    pub uris: Vec<Uri>,
}

/// A URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// As it is written.
    pub text: String,
    /// With its port.
    pub host: String,
}

/// One name.
#[derive(Debug)]
pub(crate) enum Name {
    Dns(String),
    Email(String),
    Ip(Vec<u8>),
    Uri(Uri),
}

/// Reads the value of the extension (`parseSANExtension`), name by name.
///
/// # Errors
/// Why Go could not read it.
pub(crate) fn each(value: &[u8], mut take: impl FnMut(Name)) -> Result<(), Malformed> {
    let mut list = Reader::new(value).sequence().ok_or("x509: invalid subject alternative names")?;
    while !list.is_empty() {
        let name = list.any().ok_or("x509: invalid subject alternative name")?;
        let text = |kind: &str| ascii(name.contents).ok_or_else(|| Malformed::from(format!("x509: SAN {kind} is malformed")));
        match name.tag ^ CONTEXT {
            MAIL => take(Name::Email(text("rfc822Name")?)),
            DNS => take(Name::Dns(text("dNSName")?)),
            URI => take(Name::Uri(uri(text("uniformResourceIdentifier")?)?)),
            IP if [4, 16].contains(&name.contents.len()) => take(Name::Ip(name.contents.to_vec())),
            IP => return Err(format!("x509: cannot parse IP address of length {}", name.contents.len()).into()),
            _ => {}
        }
    }
    Ok(())
}

impl AlternativeNames {
    /// Reads the value of the extension.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn read(value: &[u8]) -> Result<AlternativeNames, Malformed> {
        let mut names = AlternativeNames::default();
        each(value, |name| match name {
            Name::Dns(name) => names.dns.push(name),
            Name::Email(name) => names.emails.push(name),
            Name::Ip(ip) => names.ips.push(ip),
            Name::Uri(uri) => names.uris.push(uri),
        })?;
        Ok(names)
    }

    /// Whether there is no name of a kind that Go knows.
    pub(crate) fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.ips.is_empty() && self.uris.is_empty()
    }
}

/// A text of ASCII.
pub(crate) fn ascii(bytes: &[u8]) -> Option<String> {
    bytes.is_ascii().then(|| bytes.iter().copied().map(char::from).collect())
}

fn uri(text: String) -> Result<Uri, Malformed> {
    let parsed = url::parse(&text).map_err(|why| format!("x509: cannot parse URI {}: {why}", quoted(&text)))?;
    let host = parsed.host.to_owned();
    if !is_domain(&host, false) {
        return Err(format!("x509: cannot parse URI {}: invalid domain", quoted(&text)).into());
    }
    Ok(Uri { text, host })
}

/// Whether a text may be a domain, or the domain of a constraint, which may begin with a dot (`domainNameValid`).
pub(crate) fn is_domain(text: &str, is_constraint: bool) -> bool {
    if text.is_empty() {
        return true;
    }
    let labels = if is_constraint { text.strip_prefix('.').unwrap_or(text) } else { text };
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|byte| (33..=126).contains(&byte));
    !text.ends_with('.') && labels.split('.').all(is_label)
}
