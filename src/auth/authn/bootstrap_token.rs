//! Bootstrap tokens: `ID.SECRET`, kept in a Secret of `kube-system`, for nodes that join.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subtle::ConstantTimeEq;

use super::AuthenticatedUser;
use super::directory::{Directory, Kind, Object};
use crate::user::User;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
/// Characters of an id.
const ID_LEN: usize = 6;
/// Characters of a secret.
const SECRET_LEN: usize = 16;
/// Longest part of a group's name that is its own; a longer one could not be `[a-z0-9:-]{0,255}[a-z0-9]`.
const GROUP_OWN_LEN_MAX: usize = 256;

/// Whose token it is. One that is not good says nothing about why, as in kube-apiserver.
pub(super) fn evaluate(token: &str, directory: &dyn Directory, now: SystemTime) -> Option<AuthenticatedUser> {
    let (id, secret) = token.split_once('.').filter(|(id, secret)| is_word(id, ID_LEN) && is_word(secret, SECRET_LEN))?;
    let kept = directory.object(Kind::Secret, NAMESPACE, &format!("bootstrap-token-{id}"))?;
    if kept.is_deleting() || kept.secret_type() != SECRET_TYPE {
        return None;
    }
    let is_right = bool::from(kept.value("token-secret").as_slice().ct_eq(secret.as_bytes()));
    if !is_right || kept.value("token-id") != id.as_bytes() || kept.value("usage-bootstrap-authentication") != b"true" {
        return None;
    }
    let expires = expires(&kept).ok()?;
    if expires.is_some_and(|at| at <= now) {
        return None;
    }
    let user = User { name: format!("system:bootstrap:{id}"), groups: groups(&kept)?, ..User::default() };
    Some(AuthenticatedUser { expires, ..AuthenticatedUser::of(user) })
}

/// Digits and small letters, so many.
fn is_word(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// When it ends, if it does; one that nobody can read is over.
fn expires(kept: &Object) -> Result<Option<SystemTime>, String> {
    let value = kept.value("expiration");
    if value.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(value).map_err(|_| "not UTF-8".to_owned())?;
    let (seconds, nanos) = go::time::parse(&text)?;
    let (seconds, nanos) = (u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
    Ok(UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)))
}

/// The groups that it names and the one of all such tokens, sorted; none when one is not of theirs.
fn groups(kept: &Object) -> Option<Vec<String>> {
    let named = String::from_utf8(kept.value("auth-extra-groups")).ok()?;
    let named = named.split(',').filter(|_| !named.is_empty()).map(|group| is_group(group).then(|| group.to_owned()));
    let all: BTreeSet<String> = named.chain([Some(GROUP.to_owned())]).collect::<Option<_>>()?;
    Some(all.into_iter().collect())
}

/// `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`.
fn is_group(name: &str) -> bool {
    let is_own = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    name.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).is_some_and(|own| {
        let middle = own.bytes().all(|byte| is_own(byte) || matches!(byte, b':' | b'-'));
        middle && own.len() <= GROUP_OWN_LEN_MAX && own.bytes().last().is_some_and(is_own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::recorded::Recorded;

    const GOOD: &str = "aaaaaa.0123456789abcdef";

    #[test]
    fn it_is_good_until_its_end() {
        let end = evaluate(GOOD, &Recorded, UNIX_EPOCH).and_then(|authenticated| authenticated.expires).expect("it has an end");
        assert!(evaluate(GOOD, &Recorded, end - Duration::from_secs(1)).is_some());
        assert!(evaluate(GOOD, &Recorded, end).is_none());
    }

    #[test]
    fn groups_are_those_of_bootstrappers() {
        for group in ["system:bootstrappers:a", "system:bootstrappers:a:b-c", "system:bootstrappers:-0"] {
            assert!(is_group(group), "{group}");
        }
        for group in
            ["", "system:bootstrappers", "system:bootstrappers:", "system:bootstrappers:a-", "system:bootstrappers:A", "system:masters"]
        {
            assert!(!is_group(group), "{group}");
        }
    }
}
