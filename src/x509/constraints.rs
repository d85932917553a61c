//! Name constraints of authorities: what they permit and exclude, and which names fit.

use crate::Malformed;
use crate::alternative::{AlternativeNames, CONTEXT, DNS, IP, MAIL, URI, Uri, ascii, is_domain};
use crate::der::{Reader, constructed};
use crate::hostname;
use crate::mailbox::Mailbox;
use go::quote::quoted;

/// What an authority permits and excludes.
#[derive(Debug, Default)]
pub(crate) struct NameConstraints {
    permitted: Subtrees,
    excluded: Subtrees,
}

/// Names, by their kinds.
#[derive(Debug, Default)]
struct Subtrees {
    dns: Vec<String>,
    /// Address and mask, of 4 or 16 bytes each.
    ips: Vec<(Vec<u8>, Vec<u8>)>,
    emails: Vec<String>,
    uris: Vec<String>,
}

impl NameConstraints {
    /// Reads the value of the extension; `false` when it has constraints of kinds that Go does not know.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn read(value: &[u8]) -> Result<(NameConstraints, bool), Malformed> {
        const WRONG: &str = "x509: invalid NameConstraints extension";
        let mut outer = Reader::new(value);
        let mut members = outer.sequence().filter(|_| outer.is_empty()).ok_or(WRONG)?;
        let permitted = members.optional(constructed(0)).ok_or(WRONG)?.unwrap_or_default();
        let excluded = members.optional(constructed(1)).ok_or(WRONG)?.unwrap_or_default();
        if !members.is_empty() {
            return Err(WRONG.into());
        }
        if permitted.is_empty() && excluded.is_empty() {
            return Err("x509: empty name constraints extension".into());
        }
        let (permitted, knows_permitted) = Subtrees::read(permitted)?;
        let (excluded, knows_excluded) = Subtrees::read(excluded)?;
        Ok((NameConstraints { permitted, excluded }, knows_permitted && knows_excluded))
    }

    /// Whether these names are permitted and not excluded.
    ///
    /// # Errors
    /// Which one is not.
    fn confirm(&self, names: &Checked<'_>) -> Result<(), String> {
        let (permitted, excluded) = (&self.permitted, &self.excluded);
        for ip in names.ips {
            let fits = |(network, mask): &&(Vec<u8>, Vec<u8>)| is_in_network(ip, network, mask);
            let permits = permitted.ips.is_empty() || permitted.ips.iter().any(|one| fits(&one));
            let excludes = excluded.ips.iter().find(fits).map(|(network, mask)| shown_network(network, mask));
            told("IP address", &hostname::shown(ip), permits, excludes.as_deref())?;
        }
        for name in names.dns {
            if !is_domain(name, false) {
                return Err(format!("x509: cannot parse dnsName {}", quoted(name)));
            }
            let permits = permitted.dns.is_empty() || permitted.dns.iter().any(|constraint| is_below(name, constraint));
            let excludes = excluded.dns.iter().find(|constraint| is_below(name, constraint) || may_be_below(name, constraint));
            told("DNS name", name, permits, excludes.map(String::as_str))?;
        }
        for (uri, domain) in &names.uris {
            let fits = |constraint: &&String| is_below(domain, constraint);
            verdict("URI", uri, &permitted.uris, &excluded.uris, fits)?;
        }
        for mailbox in &names.emails {
            if !is_domain(&mailbox.domain, false) {
                return Err(format!("x509: cannot parse rfc822Name {}", quoted(&mailbox.to_string())));
            }
            let fits = |constraint: &&String| match constraint.contains('@') {
                true => Mailbox::read(constraint).is_some_and(|exact| exact.lower() == *mailbox),
                false => is_below(&mailbox.domain, constraint),
            };
            verdict("email address", &mailbox.to_string(), &permitted.emails, &excluded.emails, fits)?;
        }
        Ok(())
    }
}

/// Whether the names of a chain, from the leaf to the root, fit the constraints of those above them (`checkChainConstraints`).
///
/// # Errors
/// Which name does not.
pub(crate) fn confirm_chain(chain: &[(Option<&AlternativeNames>, Option<&NameConstraints>)]) -> Result<(), String> {
    for (at, (names, _)) in chain.iter().enumerate() {
        let Some(names) = names else { continue };
        let mut above = chain[at + 1..].iter().filter_map(|(_, constraints)| *constraints).peekable();
        if above.peek().is_none() {
            return Ok(());
        }
        let checked = Checked::of(names)?;
        above.try_for_each(|constraints| constraints.confirm(&checked))?;
    }
    Ok(())
}

/// Names that can be compared with constraints.
struct Checked<'n> {
    dns: &'n [String],
    ips: &'n [Vec<u8>],
    /// A URI, and the domain in it.
    uris: Vec<(&'n str, String)>,
    emails: Vec<Mailbox>,
}

impl<'n> Checked<'n> {
    fn of(names: &'n AlternativeNames) -> Result<Self, String> {
        let uris = names.uris.iter().map(|uri| Ok((&*uri.text, domain_of(uri)?))).collect::<Result<_, String>>()?;
        let mailbox = |email: &String| {
            Mailbox::read(email).map(|mailbox| mailbox.lower()).ok_or_else(|| format!("cannot parse rfc822Name {}", quoted(email)))
        };
        let emails = names.emails.iter().map(mailbox).collect::<Result<_, _>>()?;
        Ok(Self { dns: &names.dns, ips: &names.ips, uris, emails })
    }
}

/// The domain of a URI, which must have one.
fn domain_of(uri: &Uri) -> Result<String, String> {
    let text = || quoted(&uri.text);
    let host = uri.host.to_lowercase();
    if host.is_empty() {
        return Err(format!("URI with empty host ({}) cannot be matched against constraints", text()));
    }
    let domain = match host.rsplit_once(':') {
        _ if host.ends_with(']') => host.clone(),
        Some((domain, _)) if domain.starts_with('[') || !domain.contains(':') => domain.to_owned(),
        Some(_) => return Err(format!("cannot parse URI host {}: address {host}: too many colons in address", quoted(&uri.host))),
        None => host.clone(),
    };
    let is_address = domain.starts_with('[') || domain.parse::<core::net::IpAddr>().is_ok();
    if is_address { Err(format!("URI with IP ({}) cannot be matched against constraints", text())) } else { Ok(domain) }
}

fn verdict(
    kind: &str,
    name: &str,
    permitted: &[String],
    excluded: &[String],
    fits: impl FnMut(&&String) -> bool + Copy,
) -> Result<(), String> {
    let permits = permitted.is_empty() || permitted.iter().find(fits).is_some();
    told(kind, name, permits, excluded.iter().find(fits).map(String::as_str))
}

/// The verdict about a name that is permitted or not, and that this constraint excludes.
fn told(kind: &str, name: &str, permits: bool, excludes: Option<&str>) -> Result<(), String> {
    match (permits, excludes) {
        (false, _) => Err(format!("{kind} {} is not permitted by any constraint", quoted(name))),
        (true, Some(constraint)) => Err(format!("{kind} {} is excluded by constraint {}", quoted(name), quoted(constraint))),
        (true, None) => Ok(()),
    }
}

fn shown_network(network: &[u8], mask: &[u8]) -> String {
    let bits: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
    format!("{}/{bits}", hostname::shown(network))
}

/// Whether a domain is the one of a constraint or below it; with a dot before it only below it (`dnsHasSuffix`).
fn is_below(name: &str, constraint: &str) -> bool {
    if constraint.is_empty() {
        return true;
    }
    let Some(at) = name.len().checked_sub(constraint.len()) else { return false };
    let (before, end) = name.as_bytes().split_at(at);
    end.eq_ignore_ascii_case(constraint.as_bytes()) && (constraint.starts_with('.') || before.last().is_none_or(|last| *last == b'.'))
}

/// Whether a wildcard stands for the domain of a constraint: `*.example.com` for `a.example.com`.
fn may_be_below(name: &str, constraint: &str) -> bool {
    let parent = |name: &str| name.find('.').map(|dot| name[dot..].to_lowercase());
    name.starts_with('*') && parent(name).is_some_and(|name| parent(constraint).is_some_and(|constraint| constraint == name))
}

fn is_in_network(ip: &[u8], network: &[u8], mask: &[u8]) -> bool {
    ip.len() == network.len() && ip.iter().zip(network).zip(mask).all(|((ip, network), mask)| ip & mask == network & mask)
}

impl Subtrees {
    fn read(list: &[u8]) -> Result<(Subtrees, bool), Malformed> {
        let mut found = Subtrees::default();
        let mut are_known = true;
        let mut list = Reader::new(list);
        while !list.is_empty() {
            let base = list.sequence().and_then(|mut subtree| subtree.any()).ok_or("x509: invalid NameConstraints extension")?;
            let text = || {
                let text = ascii(base.contents);
                text.ok_or("x509: invalid constraint value: it cannot be encoded as an IA5String")
            };
            match base.tag ^ CONTEXT {
                DNS => found.dns.push(domain("dnsName", text()?)?),
                IP => found.ips.push(network(base.contents)?),
                MAIL => {
                    let constraint = text()?;
                    let is_one = if constraint.contains('@') { Mailbox::read(&constraint).is_some() } else { is_domain(&constraint, true) };
                    if !is_one {
                        return Err(format!("x509: failed to parse rfc822Name constraint {}", quoted(&constraint)).into());
                    }
                    found.emails.push(constraint);
                }
                URI => {
                    let constraint = text()?;
                    if constraint.parse::<core::net::IpAddr>().is_ok() {
                        return Err(format!("x509: failed to parse URI constraint {}: cannot be IP address", quoted(&constraint)).into());
                    }
                    found.uris.push(domain("URI", constraint)?);
                }
                _ => are_known = false,
            }
        }
        Ok((found, are_known))
    }
}

fn domain(kind: &str, text: String) -> Result<String, Malformed> {
    if is_domain(&text, true) { Ok(text) } else { Err(format!("x509: failed to parse {kind} constraint {}", quoted(&text)).into()) }
}

fn network(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
    if ![8, 32].contains(&bytes.len()) {
        return Err(format!("x509: IP constraint contained value of length {}", bytes.len()).into());
    }
    let (ip, mask) = bytes.split_at(bytes.len() / 2);
    let ones = mask.iter().map(|byte| byte.leading_ones()).take_while(|ones| *ones == 8).count();
    let (rest, is_prefix) = match &mask[ones..] {
        [] => (&[][..], true),
        [partial, rest @ ..] => (rest, partial.leading_ones() + partial.trailing_zeros() >= 8),
    };
    if !is_prefix || rest.iter().any(|byte| *byte != 0) {
        let shown: String = mask.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(format!("x509: IP constraint contained invalid mask {shown}").into());
    }
    Ok((ip.to_vec(), mask.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_below_constraints() {
        for (name, constraint, wanted) in [
            ("example.com", "example.com", true),
            ("a.EXAMPLE.com", "example.com", true),
            ("aexample.com", "example.com", false),
            ("example.com", ".example.com", false),
            ("a.example.com", ".example.com", true),
            ("com", "example.com", false),
            ("anything", "", true),
        ] {
            assert_eq!(is_below(name, constraint), wanted, "{name} {constraint}");
        }
        assert!(may_be_below("*.example.com", "a.Example.com") && !may_be_below("*.example.com", "example.com"));
        assert!(!may_be_below("b.example.com", "a.example.com"));
    }

    #[test]
    fn masks_are_prefixes() {
        let of = |mask: [u8; 4]| network(&[[10, 0, 0, 0], mask].concat()).is_ok();
        assert!(of([255, 0, 0, 0]) && of([255, 254, 0, 0]) && of([0, 0, 0, 0]) && of([255; 4]));
        assert!(!of([255, 0, 255, 0]) && !of([253, 0, 0, 0]) && !of([0, 255, 0, 0]) && network(&[1, 2, 3]).is_err());
        assert!(
            is_in_network(&[10, 1, 2, 3], &[10, 0, 0, 0], &[255, 0, 0, 0])
                && !is_in_network(&[11, 1, 2, 3], &[10, 0, 0, 0], &[255, 0, 0, 0])
        );
        assert!(!is_in_network(&[10, 1, 2, 3], &[0; 16], &[0; 16]));
    }
}
