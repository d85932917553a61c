//! The extensions of a certificate, as far as chains are judged by them (`processExtensions`).

use std::collections::HashSet;

use crate::Malformed;
use crate::alternative::{AlternativeNames, CONTEXT, URI};
use crate::constraints::NameConstraints;
use crate::der::{BOOLEAN, INTEGER, OCTET_STRING, OID, Reader, constructed, primitive};

/// `id-ce`: 2.5.29, before one more number.
const CERTIFICATE: &[u8] = &[0x55, 0x1d];
const SUBJECT_KEY_ID: u8 = 14;
const KEY_USAGE: u8 = 15;
const ALTERNATIVE_NAMES: u8 = 17;
const BASIC_CONSTRAINTS: u8 = 19;
const NAME_CONSTRAINTS: u8 = 30;
const DISTRIBUTION_POINTS: u8 = 31;
const POLICIES: u8 = 32;
const POLICY_MAPPINGS: u8 = 33;
const AUTHORITY_KEY_ID: u8 = 35;
const POLICY_CONSTRAINTS: u8 = 36;
const EXTENDED_KEY_USAGE: u8 = 37;
const INHIBIT_ANY_POLICY: u8 = 54;
/// 1.3.6.1.5.5.7.1.1
const AUTHORITY_INFO_ACCESS: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x01];

/// 1.3.6.1.5.5.7.3.1
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
/// 1.3.6.1.5.5.7.3.2
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
/// 2.5.29.37.0
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// The bit `keyCertSign` of a key usage.
const CERT_SIGN: u8 = 0x80 >> 5;

/// The largest length of a chain that an authority may name.
const PATH_LENGTH_MAX: u64 = i64::MAX as u64;

/// The extensions of a certificate.
#[derive(Debug, Default)]
pub(crate) struct Extensions<'d> {
    /// Whether it may sign others, and through how many more at most; none where it does not say.
    pub(crate) authority: Option<(bool, Option<u64>)>,
    /// Whether its key may sign certificates; none where it may do everything.
    pub(crate) signs_certificates: Option<bool>,
    /// What it may be used for; none where for everything.
    pub(crate) usages: Option<Usages>,
    pub(crate) key_id: &'d [u8],
    pub(crate) authority_key_id: &'d [u8],
    /// Alternative names as they are encoded; none where there is no such extension.
    pub(crate) encoded_names: Option<&'d [u8]>,
    pub(crate) names: AlternativeNames,
    pub(crate) name_constraints: Option<NameConstraints>,
    pub(crate) policies: Policies<'d>,
    /// Whether one of them is critical and nobody here knows it.
    pub(crate) has_unknown_critical: bool,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usages {
    pub(crate) any: bool,
    pub(crate) client: bool,
    pub(crate) server: bool,
}

/// What a certificate says of policies.
#[derive(Debug, Default)]
pub(crate) struct Policies<'d> {
    pub(crate) named: Vec<&'d [u8]>,
    /// A policy of the issuer, and that of the subject which is the same.
    pub(crate) mappings: Vec<(&'d [u8], &'d [u8])>,
    pub(crate) require_explicit: Option<i64>,
    pub(crate) inhibit_mapping: Option<i64>,
    pub(crate) inhibit_any: Option<i64>,
}

impl<'d> Extensions<'d> {
    /// Reads the list.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn read(all: &'d [u8]) -> Result<Extensions<'d>, Malformed> {
        let mut found = Vec::new();
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let mut list = Reader::new(all).sequence().ok_or("x509: malformed extensions")?;
        while !list.is_empty() {
            let mut extension = list.sequence().ok_or("x509: malformed extension")?;
            let oid = extension.oid().ok_or("x509: malformed extension OID field")?;
            let is_critical = extension.peeks(BOOLEAN) && extension.boolean().ok_or("x509: malformed extension critical field")?;
            let value = extension.contents(OCTET_STRING).ok_or("x509: malformed extension value field")?;
            if !seen.insert(oid) {
                return Err(format!("x509: certificate contains duplicate extension with OID \"{}\"", dotted(oid)).into());
            }
            found.push((oid, value, is_critical));
        }
        let mut read = Extensions::default();
        for (oid, value, is_critical) in found {
            let is_known = read.take(oid, value, is_critical)?;
            read.has_unknown_critical |= is_critical && !is_known;
        }
        Ok(read)
    }

    /// Notes one extension; `false` when nobody here knows all that it says.
    fn take(&mut self, oid: &[u8], value: &'d [u8], is_critical: bool) -> Result<bool, Malformed> {
        if oid == AUTHORITY_INFO_ACCESS {
            return if is_critical {
                Err("x509: authority info access incorrectly marked critical".into())
            } else {
                info_access(value).ok_or_else(|| "x509: invalid authority info access".into())
            };
        }
        let Some([number]) = oid.strip_prefix(CERTIFICATE) else { return Ok(false) };
        match *number {
            KEY_USAGE => self.signs_certificates = key_usage(value).ok_or("x509: invalid key usage")?,
            BASIC_CONSTRAINTS => self.authority = Some(basic_constraints(value).ok_or("x509: invalid basic constraints")?),
            ALTERNATIVE_NAMES => {
                self.encoded_names = Some(value);
                self.names = AlternativeNames::read(value)?;
                return Ok(!self.names.is_empty());
            }
            NAME_CONSTRAINTS => {
                let (constraints, are_known) = NameConstraints::read(value)?;
                self.name_constraints = Some(constraints);
                return Ok(are_known);
            }
            AUTHORITY_KEY_ID if is_critical => return Err("x509: authority key identifier incorrectly marked critical".into()),
            AUTHORITY_KEY_ID => self.authority_key_id = authority_key_id(value).ok_or("x509: invalid authority key identifier")?,
            SUBJECT_KEY_ID if is_critical => return Err("x509: subject key identifier incorrectly marked critical".into()),
            SUBJECT_KEY_ID => {
                self.key_id = Reader::new(value).contents(OCTET_STRING).ok_or("x509: invalid subject key identifier")?;
            }
            EXTENDED_KEY_USAGE => self.usages = extended_key_usage(value).ok_or("x509: invalid extended key usages")?,
            DISTRIBUTION_POINTS => distribution_points(value)?,
            POLICIES => self.policies.named = policies(value).ok_or("x509: invalid certificate policies")?,
            POLICY_MAPPINGS => self.policies.mappings = policy_mappings(value).ok_or("x509: invalid policy mappings extension")?,
            POLICY_CONSTRAINTS => {
                let wrong = "x509: invalid policy constraints extension";
                let mut members = Reader::new(value).sequence().ok_or(wrong)?;
                for (number, limit) in [(0, &mut self.policies.require_explicit), (1, &mut self.policies.inhibit_mapping)] {
                    if members.peeks(primitive(number)) {
                        *limit = Some(members.signed_as(primitive(number)).ok_or(wrong)?);
                    }
                }
            }
            INHIBIT_ANY_POLICY => {
                self.policies.inhibit_any = Some(Reader::new(value).signed().ok_or("x509: invalid inhibit any policy extension")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An object identifier as numbers with dots.
fn dotted(oid: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in oid {
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// Whether certificates may be signed; none where no usage is named that Go knows: then the key may do everything.
#[allow(clippy::option_option, reason = "the outer one is malformed DER, the inner one a usage that says nothing")]
fn key_usage(value: &[u8]) -> Option<Option<bool>> {
    let (bits, _) = Reader::new(value).bits()?;
    let first = bits.first().copied().unwrap_or_default();
    let ninth = bits.get(1).copied().unwrap_or_default() & 0x80;
    Some((first != 0 || ninth != 0).then_some(first & CERT_SIGN != 0))
}

fn basic_constraints(value: &[u8]) -> Option<(bool, Option<u64>)> {
    let mut members = Reader::new(value).sequence()?;
    let is_authority = if members.peeks(BOOLEAN) { members.boolean()? } else { false };
    let length = if members.peeks(INTEGER) { Some(members.unsigned().filter(|length| *length <= PATH_LENGTH_MAX)?) } else { None };
    Some((is_authority, length))
}

fn authority_key_id(value: &[u8]) -> Option<&[u8]> {
    let mut members = Reader::new(value).sequence()?;
    members.optional(primitive(0)).map(Option::unwrap_or_default)
}

/// What it may be used for; none where there is no usage in the list.
#[allow(clippy::option_option, reason = "the outer one is malformed DER, the inner one a list that says nothing")]
fn extended_key_usage(value: &[u8]) -> Option<Option<Usages>> {
    let mut list = Reader::new(value).sequence()?;
    let mut found = None;
    while !list.is_empty() {
        let usages: &mut Usages = found.get_or_insert_default();
        match list.oid()? {
            ANY_USAGE => usages.any = true,
            CLIENT_AUTH => usages.client = true,
            SERVER_AUTH => usages.server = true,
            _ => {}
        }
    }
    Some(found)
}

/// Reads the list and its URIs, which nobody here needs.
fn distribution_points(value: &[u8]) -> Result<(), Malformed> {
    const WRONG: &str = "x509: invalid CRL distribution point";
    let mut list = Reader::new(value).sequence().ok_or("x509: invalid CRL distribution points")?;
    while !list.is_empty() {
        let mut point = list.sequence().ok_or(WRONG)?;
        let Some(name) = point.optional(constructed(0)).ok_or(WRONG)? else { continue };
        let mut names = Reader::new(Reader::new(name).contents(constructed(0)).ok_or(WRONG)?);
        while names.peeks(CONTEXT | URI) {
            names.any().ok_or(WRONG)?;
        }
    }
    Ok(())
}

/// Reads the list, which nobody here needs.
fn info_access(value: &[u8]) -> Option<bool> {
    let mut list = Reader::new(value).sequence()?;
    while !list.is_empty() {
        let mut access = list.sequence()?;
        access.oid()?;
        if access.peeks(CONTEXT | URI) {
            access.any()?;
        }
    }
    Some(true)
}

fn policies(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut list = Reader::new(value).sequence()?;
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    while !list.is_empty() {
        let policy = list.sequence()?.contents(OID).filter(|oid| is_long_oid(oid))?;
        if !seen.insert(policy) {
            return None;
        }
        found.push(policy);
    }
    Some(found)
}

fn policy_mappings(value: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut list = Reader::new(value).sequence()?;
    let mut found = Vec::new();
    while !list.is_empty() {
        let mut mapping = list.sequence()?;
        found.push((mapping.contents(OID)?, mapping.contents(OID)?));
    }
    Some(found)
}

/// Whether it is an object identifier whose numbers have their shortest form, of whatever length.
fn is_long_oid(oid: &[u8]) -> bool {
    let ends = |byte: &u8| byte & 0x80 == 0;
    let begins_well = std::iter::once(&0).chain(oid).zip(oid).all(|(before, byte)| !(ends(before) && *byte == 0x80));
    oid.last().is_some_and(ends) && begins_well
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_are_numbers_with_dots() {
        assert_eq!(dotted(&[0x55, 0x1d, 0x11]), "2.5.29.17");
        assert_eq!(dotted(AUTHORITY_INFO_ACCESS), "1.3.6.1.5.5.7.1.1");
        assert_eq!(dotted(&[0x88, 0x37, 0x03]), "2.999.3");
        assert!(is_long_oid(&[0x55, 0x1d]) && is_long_oid(&[0xff; 9].iter().copied().chain([1]).collect::<Vec<_>>()));
        assert!(!is_long_oid(&[]) && !is_long_oid(&[0x80, 0x01]) && !is_long_oid(&[0x55, 0x80, 0x01]) && !is_long_oid(&[0x55, 0x81]));
    }

    #[test]
    fn usages_that_go_does_not_know_say_nothing() {
        assert_eq!(key_usage(&[3, 2, 2, 0x04]), Some(Some(true)));
        assert_eq!(key_usage(&[3, 2, 7, 0x80]), Some(Some(false)));
        assert_eq!(key_usage(&[3, 3, 7, 0, 0x80]), Some(Some(false)));
        assert_eq!(key_usage(&[3, 3, 6, 0, 0x40]), Some(None));
        assert_eq!(key_usage(&[3, 1, 0]), Some(None));
        assert_eq!(extended_key_usage(&[0x30, 0]), Some(None));
        assert_eq!(basic_constraints(&[0x30, 3, 1, 1, 0xff]), Some((true, None)));
        assert_eq!(basic_constraints(&[0x30, 6, 1, 1, 0xff, 2, 1, 0]), Some((true, Some(0))));
        assert_eq!(basic_constraints(&[0x30, 3, 2, 1, 0xff]), None, "a negative length");
    }
}
