//! Caches for a few seconds the user of a token, so that not every request verifies a signature. Keeps only digests of tokens.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{AuthenticatedUser, tokens};
use recent::Recent;

/// How long a valid token is not evaluated again (kube-apiserver's `TokenSuccessCacheTTL`). An invalid one is always evaluated again.
const SUCCESS: Duration = Duration::from_secs(10);
/// Cached tokens, at most; kube-apiserver has 32 stripes of 4,096 in mind.
const TOKENS_MAX: usize = 32_768;
/// Bytes of their users, whose groups and extra are what a provider says.
const USERS_BYTES_MAX: usize = 64 << 20;

/// What tells tokens apart: a digest.
pub type Key = [u8; 32];

/// Tokens that were valid a moment ago.
#[derive(Debug)]
pub(super) struct Cache(Mutex<Recent<Key, AuthenticatedUser, SystemTime>>);

impl Default for Cache {
    fn default() -> Cache {
        Cache(Mutex::new(Recent::new(TOKENS_MAX, USERS_BYTES_MAX)))
    }
}

/// Tells tokens, the audiences that they are asked about, and the generations of the keys that vouch for them apart.
#[must_use]
pub fn key(token: &str, audiences: Option<&[String]>, generation: u64) -> Key {
    key_of(&tokens::digest(token.as_bytes()), audiences, generation)
}

/// The same of a token with this digest: what is long is read once.
pub(super) fn key_of(token: &Key, audiences: Option<&[String]>, generation: u64) -> Key {
    let mut digest = Sha256::new();
    digest.update(generation.to_be_bytes());
    digest.update(token);
    for audience in audiences.unwrap_or_default() {
        digest.update(audience.len().to_be_bytes());
        digest.update(audience);
    }
    digest.finalize().into()
}

impl Cache {
    /// Returns the user whose token it was at most ten seconds ago.
    pub(super) fn get(&self, key: &Key, now: SystemTime) -> Option<AuthenticatedUser> {
        let mut recent = self.0.lock();
        recent.get(key, now).filter(|authenticated| authenticated.expires.is_none_or(|end| now <= end)).cloned()
    }

    /// Caches the user of a token.
    pub(super) fn put(&self, key: Key, authenticated: &AuthenticatedUser, now: SystemTime) {
        // What was to be written of its use is written once.
        let entry = AuthenticatedUser { last_use: None, ..authenticated.clone() };
        self.0.lock().put(key, entry, authenticated.bytes(), now, Some(now + SUCCESS));
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::user::User;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_token_is_remembered_for_ten_seconds() {
        let cache = Cache::default();
        let (a, b) = (key("a", None, 0), key("b", None, 0));
        cache.put(a, &AuthenticatedUser::default(), at(0));
        assert!(cache.get(&a, at(9_999)).is_some() && cache.get(&a, at(10_000)).is_none() && cache.get(&b, at(0)).is_none());
        cache.put(b, &AuthenticatedUser::default(), at(9_000));
        cache.put(key("c", None, 0), &AuthenticatedUser::default(), at(10_500));
        assert!(cache.get(&b, at(18_999)).is_some());
        assert!(cache.get(&a, at(0) - Duration::from_secs(5)).is_none(), "the clock was set back");
    }

    #[test]
    fn a_token_is_not_remembered_past_its_end() {
        let cache = Cache::default();
        cache.put(key("a", None, 0), &AuthenticatedUser { expires: Some(at(500)), ..AuthenticatedUser::default() }, at(0));
        assert!(cache.get(&key("a", None, 0), at(500)).is_some() && cache.get(&key("a", None, 0), at(501)).is_none());
    }

    #[test]
    fn memory_has_a_limit() {
        let cache = Cache::default();
        for token in 0..3 * TOKENS_MAX {
            cache.put(key(&token.to_string(), None, 0), &AuthenticatedUser::default(), at(0));
        }
        assert!(cache.0.lock().len() <= TOKENS_MAX);
        // A token has up to 64 KiB, and what it says of groups is kept.
        let many = User { groups: vec!["g".repeat(60 << 10)], ..User::default() };
        let authenticated = AuthenticatedUser::of(many);
        for token in 0..3 * USERS_BYTES_MAX / (60 << 10) {
            cache.put(key(&token.to_string(), None, 0), &authenticated, at(0));
        }
        assert!(cache.0.lock().len() <= USERS_BYTES_MAX / (60 << 10), "{}", cache.0.lock().len());
    }

    /// They stayed until another token was put.
    #[test]
    fn what_is_over_is_forgotten_by_whoever_asks() {
        let cache = Cache::default();
        cache.put(key("a", None, 0), &AuthenticatedUser::default(), at(0));
        assert!(cache.get(&key("b", None, 0), at(9_999)).is_none() && cache.0.lock().len() == 1);
        assert!(cache.get(&key("b", None, 0), at(10_000)).is_none() && cache.0.lock().is_empty());
    }

    #[test]
    fn audiences_and_generations_are_part_of_the_question() {
        let of = |audiences: &[&str]| key("a", Some(&audiences.iter().map(|audience| (*audience).to_owned()).collect::<Vec<_>>()), 0);
        let keys = [key("a", None, 0), key("a", None, 1), of(&["b"]), of(&["b", "c"]), of(&["bc"]), of(&["c", "b"]), key("ab", None, 0)];
        for (i, one) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(one), "{i}");
        }
    }
}
