//! Impersonation: the `Impersonate-…` headers, and what the authorizer must allow for them.

mod modes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use go::quote::quoted;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::request_header::{extra_key, remove_prefixed, text, texts};
use crate::user::User;
use recent::Recent;

pub use modes::Mode;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Users whose last way to impersonate is remembered; kube-apiserver's number.
const USERS_MAX: usize = 10_000;

/// Whether a request wants to be carried out as somebody else: `Impersonate-User`, `-Group`, `-Uid`, `-Extra-…` (spec api-surface §12).
#[must_use]
pub fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

/// What the authorizer is asked, about the user that comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// May he do what the request does, called by this verb?
    Request {
        /// `impersonate-on:MODE:VERB`.
        verb: String,
    },
    /// May he do this to a resource of version `v1`?
    Resource {
        /// `impersonate` or `impersonate:MODE`.
        verb: &'static str,
        /// API group.
        group: &'static str,
        /// Plural name.
        resource: &'static str,
        /// Subresource; empty for none.
        subresource: String,
        /// Namespace; empty for none.
        namespace: String,
        /// Name; empty for none.
        name: String,
    },
}

/// A question that was answered with no: a 403 about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// What was asked.
    pub question: Box<Question>,
    /// Why not; may be empty.
    pub reason: String,
}

/// Who a request is carried out as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    /// Who.
    pub user: User,
    /// How it was allowed.
    pub mode: Mode,
}

/// Decides who may act as whom.
#[derive(Debug)]
pub struct Impersonation {
    is_constrained: bool,
    /// How users, by the digests of their names, did it last. That is tried first, and its no is what they are told.
    last: Mutex<Recent<[u8; 32], Mode, ()>>,
}

impl Default for Impersonation {
    fn default() -> Impersonation {
        Impersonation { is_constrained: true, last: Mutex::new(Recent::new(USERS_MAX, usize::MAX)) }
    }
}

impl Impersonation {
    /// `is_constrained`: whether the modes of 1.36 count beside the old one.
    #[must_use]
    pub fn new(is_constrained: bool) -> Impersonation {
        Impersonation { is_constrained, ..Impersonation::default() }
    }

    /// Whom a request wants to be carried out as, as it says; those headers are gone afterwards. `None` when it does not want to.
    ///
    /// # Errors
    /// The message of a 400.
    pub fn wanted(headers: &mut HeaderMap) -> Result<Option<User>, String> {
        let value = |name: &str| headers.get(name).map(|value| text(value.as_bytes())).unwrap_or_default();
        let (name, uid) = (value(USER), value(UID));
        let groups: Vec<String> = headers.get_all(GROUP).iter().map(|value| text(value.as_bytes())).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for header in headers.keys() {
            if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
                extra.entry(extra_key(key)).or_default().extend(texts(headers, header));
            }
        }
        if name.is_empty() {
            let is_nothing = uid.is_empty() && groups.is_empty() && extra.is_empty();
            return if is_nothing { Ok(None) } else { Err(nameless(&uid, &groups, &extra)) };
        }
        for name in [USER, UID, GROUP] {
            headers.remove(name);
        }
        remove_prefixed(headers, |name| name.starts_with(EXTRA_PREFIX));
        Ok(Some(User { name, uid, groups, extra: extra.into_iter().collect() }))
    }

    /// Whether `requestor` may act as `wanted` in a request with this verb. `ask` answers for the user that it is given; its error is the reason, if any.
    ///
    /// # Errors
    /// The first no.
    pub fn decide(
        &self,
        wanted: &User,
        requestor: &User,
        verb: &str,
        ask: &mut dyn FnMut(&User, &Question) -> Result<(), String>,
    ) -> Result<Impersonated, Forbidden> {
        let key: [u8; 32] = Sha256::digest(&requestor.name).into();
        let last = self.last.lock().get(&key, ()).copied();
        let mut first = None;
        let all = Mode::ALL.into_iter().filter(|mode| self.is_constrained || *mode == Mode::Legacy);
        for mode in last.into_iter().chain(all.filter(|mode| Some(*mode) != last)) {
            match mode.check(wanted, requestor, verb, ask) {
                Some(Ok(user)) => {
                    if last != Some(mode) {
                        self.last.lock().put(key, mode, 0, (), None);
                    }
                    return Ok(Impersonated { user, mode });
                }
                Some(Err(forbidden)) => first = first.or(Some(forbidden)),
                None => {}
            }
        }
        Err(first.expect("the old mode always applies"))
    }
}

/// What is said to who wants to be somebody without a name, whom Go shows with `%#v`.
fn nameless(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        format!("{{{}}}", texts.join(", "))
    };
    let groups = if groups.is_empty() { "(nil)".to_owned() } else { list(groups) };
    let entries: Vec<String> = extra.iter().map(|(key, values)| format!("{}:[]string{}", quoted(key), list(values))).collect();
    let extra = if entries.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", entries.join(", ")) };
    let uid = quoted(uid);
    format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:[]string{groups}, Extra:map[string][]string{extra}}} without impersonating a user name"
    )
}
