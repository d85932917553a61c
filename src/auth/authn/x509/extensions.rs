//! What a chain of certificates is judged by in their extensions.

use super::certificate::{Malformed, value};
use super::der::{BOOLEAN, OCTET_STRING, OID, Reader, SEQUENCE, constructed, primitive};

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

/// 1.3.6.1.5.5.7.3.2
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
/// 2.5.29.37.0
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// The bit `keyCertSign` of a key usage.
const CERT_SIGN: u8 = 0x80 >> 5;

/// Kinds of names that Go knows: mail, DNS, URI, IP address.
const KNOWN_NAMES: [u8; 4] = [1, 2, 6, 7];

/// The extensions of a certificate.
#[derive(Debug, Default)]
pub(super) struct Extensions<'d> {
    /// Whether it may sign others, and through how many more at most; none where it does not say.
    pub(super) authority: Option<(bool, Option<u64>)>,
    /// Whether its key may sign certificates; none where it may do everything.
    pub(super) signs_certificates: Option<bool>,
    /// Whether clients may use it; none where everybody may.
    pub(super) for_clients: Option<bool>,
    pub(super) key_id: &'d [u8],
    pub(super) authority_key_id: &'d [u8],
    /// Other names of the subject, as they are encoded.
    pub(super) alternative_names: Option<&'d [u8]>,
    /// Whether the names of those below it are constrained.
    pub(super) constrains_names: bool,
    /// Whether a policy must be stated by those below it.
    pub(super) requires_policy: bool,
    /// Whether one of them is critical and nobody here knows it.
    pub(super) has_unknown_critical: bool,
}

impl<'d> Extensions<'d> {
    /// Reads the list.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(super) fn read(all: &'d [u8]) -> Result<Extensions<'d>, Malformed> {
        let mut read = Extensions::default();
        let mut seen: Vec<&[u8]> = Vec::new();
        let mut list = Reader::new(all).sequence().ok_or("malformed extensions")?;
        while !list.is_empty() {
            let mut extension = list.sequence().ok_or("malformed extension")?;
            let oid = extension.oid().ok_or("malformed extension OID field")?;
            let mut rest = extension;
            let is_critical = match rest.any() {
                Some(next) if next.tag == BOOLEAN => extension.boolean().ok_or("malformed extension critical field")?,
                _ => false,
            };
            let value = value(&mut extension).ok_or("malformed extension value field")?;
            if seen.contains(&oid) {
                return Err("certificate contains duplicate extension");
            }
            seen.push(oid);
            let is_known = read.take(oid, value, is_critical)?;
            read.has_unknown_critical |= is_critical && !is_known;
        }
        Ok(read)
    }

    /// Notes one extension; `false` when nobody here knows all that it says.
    fn take(&mut self, oid: &[u8], value: &'d [u8], is_critical: bool) -> Result<bool, Malformed> {
        if oid == AUTHORITY_INFO_ACCESS {
            return if is_critical { Err("authority info access incorrectly marked critical") } else { Ok(true) };
        }
        let Some([number]) = oid.strip_prefix(CERTIFICATE) else { return Ok(false) };
        let mut value_reader = Reader::new(value);
        match *number {
            KEY_USAGE => {
                let (bits, _) = value_reader.bits().ok_or("invalid key usage")?;
                // Without any bit it is as if it were not there.
                let says = bits.iter().any(|byte| *byte != 0);
                self.signs_certificates = says.then(|| bits[0] & CERT_SIGN != 0);
            }
            BASIC_CONSTRAINTS => self.authority = Some(basic_constraints(value).ok_or("invalid basic constraints")?),
            ALTERNATIVE_NAMES => {
                self.alternative_names = Some(value);
                return alternative_names(value);
            }
            NAME_CONSTRAINTS => {
                self.constrains_names = true;
                return name_constraints(value).ok_or("invalid NameConstraints extension");
            }
            AUTHORITY_KEY_ID if is_critical => return Err("authority key identifier incorrectly marked critical"),
            AUTHORITY_KEY_ID => {
                let mut members = value_reader.sequence().ok_or("invalid authority key identifier")?;
                self.authority_key_id = members.optional(primitive(0)).ok_or("invalid authority key identifier")?.unwrap_or_default();
            }
            SUBJECT_KEY_ID if is_critical => return Err("subject key identifier incorrectly marked critical"),
            SUBJECT_KEY_ID => self.key_id = value_reader.contents(OCTET_STRING).ok_or("invalid subject key identifier")?,
            EXTENDED_KEY_USAGE => self.for_clients = extended_key_usage(value).ok_or("invalid extended key usages")?,
            POLICY_CONSTRAINTS => {
                let mut members = value_reader.sequence().ok_or("invalid policy constraints extension")?;
                self.requires_policy = members.optional(primitive(0)).ok_or("invalid policy constraints extension")?.is_some();
            }
            // They say nothing that counts where no policy is required.
            POLICIES | POLICY_MAPPINGS | DISTRIBUTION_POINTS => {
                value_reader.expect(SEQUENCE).ok_or("invalid policies, policy mappings or distribution points")?;
            }
            INHIBIT_ANY_POLICY => {
                value_reader.integer().ok_or("invalid inhibit any policy extension")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn basic_constraints(value: &[u8]) -> Option<(bool, Option<u64>)> {
    let mut members = Reader::new(value).sequence()?;
    let mut next = members;
    let is_authority = match next.any() {
        Some(first) if first.tag == BOOLEAN => members.boolean()?,
        _ => false,
    };
    let length = if members.is_empty() { None } else { Some(members.unsigned()?) };
    Some((is_authority, length))
}

/// Whether there is a name of a kind that Go knows.
fn alternative_names(value: &[u8]) -> Result<bool, Malformed> {
    let mut names = Reader::new(value).sequence().ok_or("invalid subject alternative names")?;
    let mut is_known = false;
    while !names.is_empty() {
        let name = names.any().ok_or("invalid subject alternative name")?;
        match name.tag ^ 0x80 {
            1 | 2 | 6 if !name.contents.is_ascii() => return Err("SAN name is malformed"),
            7 if ![4, 16].contains(&name.contents.len()) => return Err("cannot parse IP address"),
            kind => is_known |= KNOWN_NAMES.contains(&kind),
        }
    }
    Ok(is_known)
}

/// Whether all constraints are of kinds of names that Go knows.
fn name_constraints(value: &[u8]) -> Option<bool> {
    let mut members = Reader::new(value).sequence()?;
    let lists = [members.optional(constructed(0))?, members.optional(constructed(1))?];
    if !members.is_empty() || lists.iter().all(Option::is_none) {
        return None;
    }
    let mut all_known = true;
    for list in lists.into_iter().flatten() {
        let mut subtrees = Reader::new(list);
        while !subtrees.is_empty() {
            let base = subtrees.sequence()?.any()?;
            all_known &= KNOWN_NAMES.contains(&(base.tag ^ 0x80));
        }
    }
    Some(all_known)
}

/// Whether clients may use it; none where there is no usage in the list.
#[allow(clippy::option_option, reason = "the outer one is malformed DER, the inner one a list that says nothing")]
fn extended_key_usage(value: &[u8]) -> Option<Option<bool>> {
    let mut usages = Reader::new(value).sequence()?;
    let mut found = None;
    while !usages.is_empty() {
        let usage = usages.expect(OID)?.contents;
        found = Some(found.unwrap_or(false) || usage == CLIENT_AUTH || usage == ANY_USAGE);
    }
    Some(found)
}
