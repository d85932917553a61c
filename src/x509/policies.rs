//! Certificate policies along a chain (`policiesValid`, RFC 5280 6.1 as updated by RFC 9618), when any policy is acceptable to whoever asks.

use std::collections::BTreeMap;

use crate::certificate::Certificate;

/// `anyPolicy`: 2.5.29.32.0.
const ANY: &[u8] = &[0x55, 0x1d, 0x20, 0x00];

/// The valid policies at one certificate of the chain, each with the policies that are expected of it in the next one.
type Stratum<'d> = BTreeMap<&'d [u8], Vec<&'d [u8]>>;

/// Whether the policies of a chain, from the leaf to the root, allow it.
pub(crate) fn are_valid(chain: &[&Certificate<'_>]) -> bool {
    let Some((_root, below)) = chain.split_last().filter(|(_, below)| !below.is_empty()) else { return true };
    let length = below.len();
    let start = i64::try_from(length).map_or(i64::MAX, |length| length.saturating_add(1));
    let (mut inhibit_any, mut explicit, mut mapping) = (start, start, start);
    // Which policies are valid down to here; none when no policy is.
    let mut valid: Option<Stratum<'_>> = Some(Stratum::from([(ANY, vec![ANY])]));
    for (at, certificate) in below.iter().enumerate().rev() {
        let policies = &certificate.extensions.policies;
        let is_self_issued = certificate.issuer == certificate.subject;
        if policies.named.is_empty() {
            valid = None;
        }
        if explicit == 0 && valid.is_none() {
            return false;
        }
        if let Some(above) = valid.take() {
            let takes_any = inhibit_any > 0 || (at > 0 && is_self_issued);
            let mut here = descend(&above, &policies.named, takes_any);
            if at != 0 && !map(&mut here, &policies.mappings, mapping > 0) {
                return false;
            }
            valid = Some(here);
        }
        if at != 0 {
            if !is_self_issued {
                [&mut explicit, &mut mapping, &mut inhibit_any].into_iter().for_each(|limit| *limit = (*limit - 1).max(0));
            }
            for (limit, said) in [
                (&mut explicit, policies.require_explicit),
                (&mut mapping, policies.inhibit_mapping),
                (&mut inhibit_any, policies.inhibit_any),
            ] {
                *limit = said.filter(|said| *said >= 0).map_or(*limit, |said| said.min(*limit));
            }
        }
    }
    explicit = (explicit - 1).max(0);
    if below[0].extensions.policies.require_explicit == Some(0) {
        explicit = 0;
    }
    explicit > 0 || valid.is_some_and(|valid| !valid.is_empty())
}

/// The policies of a certificate that are valid below these.
fn descend<'d>(above: &Stratum<'d>, named: &[&'d [u8]], takes_any: bool) -> Stratum<'d> {
    let mut here = Stratum::new();
    let expected = |policy: &[u8]| above.values().any(|expected| expected.contains(&policy));
    for policy in named.iter().filter(|policy| **policy != ANY) {
        if expected(policy) || above.contains_key(ANY) {
            here.insert(policy, vec![policy]);
        }
    }
    if named.contains(&ANY) && takes_any {
        for policy in above.values().flatten() {
            here.entry(policy).or_insert_with(|| vec![policy]);
        }
    }
    here
}

/// Maps policies to what is expected below this certificate; `false` if a mapping is none.
fn map<'d>(here: &mut Stratum<'d>, mappings: &[(&'d [u8], &'d [u8])], may_map: bool) -> bool {
    let mut mapped: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for (issuers, subjects) in mappings {
        if !may_map {
            here.remove(issuers);
        } else if *issuers == ANY || *subjects == ANY {
            return false;
        } else {
            mapped.entry(issuers).or_default().push(subjects);
        }
    }
    for (issuers, subjects) in mapped {
        if here.contains_key(issuers) || here.contains_key(ANY) {
            here.insert(issuers, subjects);
        }
    }
    true
}
