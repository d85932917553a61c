//! Chains of certificates, judged as Go's crypto/x509 judges them (`Verify`): from the certificate that a peer shows to an authority that is trusted.

use crate::alternative::AlternativeNames;
use crate::certificate::Certificate;
use crate::constraints::{self, NameConstraints};
use crate::extensions::Usages;
use crate::hostname;
use crate::key::Key;
use crate::policies;
use crate::signature::{self, Under};
use go::calendar;
use go::quote::quoted;

/// Signatures that one judgement may check, as in Go: a peer chooses what it sends along.
const SIGNATURES_MAX: u32 = 100;

const UNKNOWN_AUTHORITY: &str = "x509: certificate signed by unknown authority";

/// Why a chain is not trusted.
pub type Why = String;

/// What the certificate is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'n> {
    /// A client shows it.
    Client,
    /// A server of this name shows it: a domain or an IP address.
    Server(&'n str),
}

/// What a judgement rests on.
#[derive(Debug)]
pub struct ChainVerifier<'a, 'd> {
    /// The authorities that are trusted.
    pub roots: &'a [Certificate<'d>],
    /// What the peer has sent along.
    pub others: &'a [Certificate<'d>],
    /// Seconds since 1970.
    pub now: i64,
    /// What the certificate is to be used for.
    pub purpose: Purpose<'a>,
}

impl<'a, 'd> ChainVerifier<'a, 'd> {
    /// Whether a chain leads from this certificate to a root, and it may be used for the purpose.
    ///
    /// # Errors
    /// Why there is none.
    pub fn evaluate(&self, leaf: &'a Certificate<'d>) -> Result<(), Why> {
        self.is_valid(leaf, Position::Leaf, &[])?;
        if let Purpose::Server(name) = self.purpose
            && !hostname::matches(leaf.alternative_names(), name)
        {
            return Err(not_named(leaf, name));
        }
        if self.roots.iter().any(|root| root.raw == leaf.raw) {
            let mut search = Search::default();
            return self.fits(&[leaf]).map_err(|unfit| {
                search.note(unfit);
                search.unfit().unwrap_or_default()
            });
        }
        let mut search = Search::default();
        self.extend(&mut vec![leaf], &mut search).map_err(|end| match (search.unfit(), end) {
            (Some(why), _) | (None, End::None(why)) => why,
            (None, End::Limit) => "x509: signature check attempts limit reached while verifying certificate chain".to_owned(),
        })
    }

    /// Looks for an authority above the last one of this chain; the first chain that fits counts.
    fn extend(&self, chain: &mut Vec<&'a Certificate<'d>>, search: &mut Search) -> Result<(), End> {
        // What was wrong with the first candidate, and with the last one: as Go, which tells the last one if that was the certificate itself.
        let (mut first, mut last) = (None, None);
        for (place, certificates) in [(Position::Root, self.roots), (Position::Between, self.others)] {
            for parent in parents(chain[chain.len() - 1], certificates) {
                search.checks += 1;
                if search.checks > SIGNATURES_MAX {
                    return Err(End::Limit);
                }
                if parent.key == Key::Other || is_in(parent, chain) {
                    continue;
                }
                if let Err(why) = is_signed_by(chain[chain.len() - 1], parent) {
                    first.get_or_insert_with(|| hint(&why, parent));
                    continue;
                }
                last = self.is_valid(parent, place, chain).err();
                if let Some(why) = &last {
                    first.get_or_insert_with(|| hint(why, parent));
                    continue;
                }
                chain.push(parent);
                let found = match place {
                    Position::Root => self.fits(chain).map_err(|unfit| {
                        search.note(unfit);
                        End::None(String::new())
                    }),
                    _ => self.extend(chain, search),
                };
                chain.pop();
                match found {
                    Err(End::None(why)) => last = Some(why).filter(|why| !why.is_empty()),
                    done => return done,
                }
            }
        }
        Err(End::None(last.unwrap_or_else(|| first.map_or(UNKNOWN_AUTHORITY.to_owned(), |hint| format!("{UNKNOWN_AUTHORITY} ({hint})")))))
    }

    /// Whether a certificate may stand at this place above this chain.
    fn is_valid(&self, certificate: &Certificate<'_>, place: Position, chain: &[&Certificate<'_>]) -> Result<(), Why> {
        if certificate.extensions.has_unknown_critical {
            return Err("x509: unhandled critical extension".to_owned());
        }
        let expired = match self.now {
            now if now < certificate.not_before => Some(("before", certificate.not_before)),
            now if now > certificate.not_after => Some(("after", certificate.not_after)),
            _ => None,
        };
        if let Some((is, limit)) = expired {
            let [now, limit] = [self.now, limit].map(rfc3339);
            return Err(format!("x509: certificate has expired or is not yet valid: current time {now} is {is} {limit}"));
        }
        let authority = certificate.extensions.authority;
        if place == Position::Between && !authority.is_some_and(|(is_authority, _)| is_authority) {
            return Err("x509: certificate is not authorized to sign other certificates".to_owned());
        }
        if let Some((_, Some(most))) = authority
            && place != Position::Leaf
            && u64::try_from(chain.len() - 1).is_ok_and(|between| between > most)
        {
            return Err("x509: too many intermediates for path length constraint".to_owned());
        }
        Ok(())
    }

    /// Whether all that a whole chain says of policies, usages and names allows it.
    fn fits(&self, chain: &[&Certificate<'_>]) -> Result<(), Unfit> {
        if !policies::are_valid(chain) {
            return Err(Unfit::Policies);
        }
        let may = |usages: Usages| usages.any || if self.purpose == Purpose::Client { usages.client } else { usages.server };
        if !chain.iter().all(|certificate| certificate.extensions.usages.is_none_or(may)) {
            return Err(Unfit::Usages);
        }
        let named: Vec<(Option<&AlternativeNames>, Option<&NameConstraints>)> = chain
            .iter()
            .map(|certificate| &certificate.extensions)
            .map(|said| (said.encoded_names.map(|_| &said.names), said.name_constraints.as_ref()))
            .collect();
        constraints::confirm_chain(&named).map_err(Unfit::Names)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Leaf,
    Between,
    Root,
}

/// Why a whole chain is not trusted.
enum Unfit {
    Policies,
    Usages,
    /// The name that is not permitted.
    Names(Why),
}

/// What a search has done: signatures that it has checked, and chains that lead to a root and do not fit.
#[derive(Default)]
struct Search {
    checks: u32,
    with_policies: u32,
    with_usages: u32,
    with_names: Option<Why>,
}

impl Search {
    fn note(&mut self, unfit: Unfit) {
        match unfit {
            Unfit::Policies => self.with_policies += 1,
            Unfit::Usages => self.with_usages += 1,
            Unfit::Names(why) => drop(self.with_names.get_or_insert(why)),
        }
    }

    /// Why no chain fits, if any was found.
    fn unfit(&self) -> Option<Why> {
        if let Some(why) = &self.with_names {
            return Some(format!("x509: a root or intermediate certificate is not authorized to sign for this name: {why}"));
        }
        let (usages, policies) = (self.with_usages, self.with_policies);
        let usages = (usages > 0).then(|| format!("{usages} candidate chains with incompatible key usage"));
        let policies = (policies > 0).then(|| format!("{policies} candidate chains with invalid policies"));
        match (usages, policies) {
            (None, None) => None,
            (Some(_), None) => Some("x509: certificate specifies an incompatible key usage".to_owned()),
            (usages, policies) => {
                let details: Vec<String> = usages.into_iter().chain(policies).collect();
                Some(format!("x509: no valid chains built: {}", details.join(", ")))
            }
        }
    }
}

enum End {
    /// No chain from here: why.
    None(Why),
    /// Too much was tried.
    Limit,
}

/// Which authority might have been meant, and why it does not count.
fn hint(why: &str, authority: &Certificate<'_>) -> Why {
    let names = &authority.names;
    let name = match (names.common_name.as_str(), names.organizations.first()) {
        ("", Some(organization)) => organization.clone(),
        ("", None) => format!("serial:{}", decimal(authority.serial)),
        (name, _) => name.to_owned(),
    };
    format!("possibly because of {} while trying to verify candidate authority certificate {}", quoted(why), quoted(&name))
}

/// A positive number, big-endian, in decimal.
fn decimal(bytes: &[u8]) -> String {
    // Least significant digit first.
    let mut digits = vec![0_u8];
    for byte in bytes {
        let mut carry = u16::from(*byte);
        for digit in &mut digits {
            carry += u16::from(*digit) * 256;
            *digit = u8::try_from(carry % 10).unwrap_or_default();
            carry /= 10;
        }
        while carry > 0 {
            digits.push(u8::try_from(carry % 10).unwrap_or_default());
            carry /= 10;
        }
    }
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// Seconds since 1970 as a time of UTC.
fn rfc3339(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = calendar::civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Why a certificate is not good for a name (`HostnameError`).
fn not_named(leaf: &Certificate<'_>, name: &str) -> Why {
    const SHOWN_MAX: usize = 100;
    let names = leaf.alternative_names();
    let common = AlternativeNames { dns: vec![leaf.names.common_name.clone()], ..AlternativeNames::default() };
    if leaf.extensions.encoded_names.is_none() && hostname::matches(&common, name) {
        return "x509: certificate relies on legacy Common Name field, use SANs instead".to_owned();
    }
    let is_address = hostname::is_address(name);
    let (count, kind) = if is_address { (names.ips.len(), "IP SANs") } else { (names.dns.len(), "names") };
    if count == 0 && is_address {
        return format!("x509: cannot validate certificate for {name} because it doesn't contain any IP SANs");
    }
    if count >= SHOWN_MAX {
        return format!("x509: certificate is valid for {count} {kind}, but none matched {name}");
    }
    let valid: Vec<String> = if is_address { names.ips.iter().map(|ip| hostname::shown(ip)).collect() } else { names.dns.clone() };
    match valid.join(", ").as_str() {
        "" => format!("x509: certificate is not valid for any names, but wanted to match {name}"),
        valid => format!("x509: certificate is valid for {valid}, not {name}"),
    }
}

/// The certificates with the issuer's name; first those whose key is the one that the child names.
fn parents<'a, 'd>(child: &Certificate<'d>, certificates: &'a [Certificate<'d>]) -> Vec<&'a Certificate<'d>> {
    let mut found: Vec<_> = certificates.iter().filter(|parent| parent.subject == child.issuer).collect();
    let wanted = child.extensions.authority_key_id;
    found.sort_by_key(|parent| match parent.extensions.key_id {
        id if id == wanted => 0,
        id if id.is_empty() || wanted.is_empty() => 1,
        _ => 2,
    });
    found
}

/// Whether a chain has a certificate of the same name and key, so that none goes in a circle (`alreadyInChain`).
fn is_in(certificate: &Certificate<'_>, chain: &[&Certificate<'_>]) -> bool {
    let of = |certificate: &Certificate<'_>| certificate.extensions.encoded_names.map(<[u8]>::to_vec);
    let same = chain.iter().filter(|other| (other.subject, other.key_info) == (certificate.subject, certificate.key_info));
    for other in same {
        match (of(certificate), of(other)) {
            (None, None) => return true,
            (Some(names), Some(others)) if names == others => return true,
            (Some(_), Some(_)) => {}
            // As in Go, where the search ends here.
            (Some(_), None) | (None, Some(_)) => return false,
        }
    }
    false
}

/// Whether a certificate is signed with the key of another one, which may do that (`CheckSignatureFrom`).
fn is_signed_by(child: &Certificate<'_>, parent: &Certificate<'_>) -> Result<(), Why> {
    let is_authority = match parent.extensions.authority {
        None => parent.version != 3,
        Some((is_authority, _)) => is_authority,
    };
    if !is_authority || parent.extensions.signs_certificates == Some(false) {
        return Err("x509: invalid signature: parent certificate cannot sign this kind of certificate".to_owned());
    }
    signature::check(Under::Certificate, child.algorithm, &parent.key, child.signed, &child.signature)
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::Value;

    use super::*;
    use crate::handshake;

    /// Chains that Go trusts and this server does not, because their keys are too weak or of a kind that it does not check (docs/conformance.md).
    const REFUSED: [&str; 6] = [
        "key of root P-224",
        "key between P-224",
        "key of leaf P-224",
        "key of root RSA 1024",
        "key between RSA 1024",
        "key of leaf RSA 1024",
    ];

    /// Why a peer with this chain is not trusted; empty if it is.
    fn judged(roots: &[&[u8]], chain: &[&[u8]], now: i64, purpose: Purpose<'_>) -> String {
        let (leaf, others) = match handshake::read(chain[0], chain[1..].iter().copied()) {
            Ok(read) => read,
            Err(error) => return handshake::refusal(&error).unwrap_or_default(),
        };
        let roots: Vec<Certificate<'_>> = roots.iter().filter_map(|root| Certificate::read(root).ok()).collect();
        ChainVerifier { roots: &roots, others: &others, now, purpose }.evaluate(&leaf).err().unwrap_or_default()
    }

    /// Text without what only a handshake of Go says.
    fn comparable(text: &str) -> &str {
        text.trim_start_matches("tls: failed to parse certificate from server: ").trim_start_matches("it cannot be parsed: ")
    }

    /// `tests/differential/chains` makes them, and asks Go's crypto/tls and crypto/x509.
    #[test]
    fn chains_are_judged_as_go_judges_them() {
        let recorded = match std::env::var("WATCHCACHE_TEST_CHAINS") {
            Ok(path) => std::fs::read_to_string(path).expect("the file is there"),
            Err(_) => include_str!("../../tests/data/certificates/chains.json").to_owned(),
        };
        let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let decoded = |text: &Value| BASE64_STANDARD.decode(text.as_str().expect("base64")).expect("base64");
        let certificates: Vec<Vec<u8>> = list(&recorded["certificates"]).iter().map(decoded).collect();
        let now = recorded["at"].as_i64().expect("a time");
        let (mut wrong, mut texts, mut asked, mut refused) = (Vec::new(), Vec::new(), 0, 0);
        for case in list(&recorded["cases"]) {
            let of = |member: &str| -> Vec<&[u8]> {
                let number = |number: &Value| usize::try_from(number.as_u64().expect("a number")).expect("it is small");
                list(&case[member]).iter().map(|at| &certificates[number(at)][..]).collect()
            };
            let (name, host) = (case["name"].as_str().expect("a name"), case["host"].as_str().expect("a host"));
            for (member, purpose) in [("server", Purpose::Server(host)), ("client", Purpose::Client)] {
                let theirs = case[member].as_str().unwrap_or_default();
                let ours = judged(&of("roots"), &of("chain"), now, purpose);
                asked += 1;
                if REFUSED.contains(&name) {
                    assert!(!ours.is_empty(), "{name} as {member}");
                    refused += 1;
                } else if ours.is_empty() != theirs.is_empty() {
                    wrong.push(format!("{name} as {member}: {ours:?}, Go {theirs:?}"));
                } else if comparable(&ours) != comparable(theirs) {
                    texts.push(format!("{name} as {member}: {ours:?}, Go {theirs:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {asked} verdicts differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(texts.is_empty(), "{} of {asked} texts differ:\n{}", texts.len(), texts.join("\n"));
        assert!(asked > 700 && refused == 12, "{asked}, of which {refused} are not trusted on purpose");
    }

    #[test]
    fn numbers_and_times_are_printed_as_go_prints_them() {
        assert_eq!([decimal(&[0]), decimal(&[255]), decimal(&[1, 0]), decimal(&[0xff; 8])], ["0", "255", "256", "18446744073709551615"]);
        assert_eq!([rfc3339(0), rfc3339(-1)], ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]);
    }
}
