//! The modes of impersonation in kube-apiserver 1.36: four constrained ones and the old one.

use go::quote::quoted;

use super::{Forbidden, Question};
use crate::authn::service_account::{self, NODE_NAME};
use crate::names::{is_subdomain, wrong_path};
use crate::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// What stands for the facts about an account that impersonates its own node.
const ASSOCIATED_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From so many names on one question for all of them comes first.
const MANY: usize = 4;

/// A way to act as somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A service account acts as the node that its Pod runs on.
    AssociatedNode,
    /// Somebody acts as any node.
    ArbitraryNode,
    /// Somebody acts as a service account.
    ServiceAccount,
    /// Somebody acts as a user who is neither.
    UserInfo,
    /// As before 1.36, with the verb `impersonate` alone.
    Legacy,
}

type Ask<'a> = &'a mut dyn FnMut(&User, &Question) -> Result<(), String>;

impl Mode {
    /// All of them, in the order in which they are tried.
    pub(super) const ALL: [Mode; 5] = [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

    /// As metrics call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "legacy",
        }
    }

    /// The verb of its questions; the audit log tells it, but for the old one.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "impersonate:associated-node",
            Mode::ArbitraryNode => "impersonate:arbitrary-node",
            Mode::ServiceAccount => "impersonate:serviceaccount",
            Mode::UserInfo => "impersonate:user-info",
            Mode::Legacy => "impersonate",
        }
    }

    /// Whether it is a way to act as this one at all.
    fn applies(self, wanted: &User, requestor: &User) -> bool {
        let is_bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.name);
        let is_account = service_account::split(&wanted.name).is_some();
        match self {
            Mode::AssociatedNode => {
                let own = requestor.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, values)| values.as_slice());
                let is_own = node.is_some_and(|node| matches!(own, Some([name]) if name == node));
                is_bare && is_own && service_account::split(&requestor.name).is_some()
            }
            Mode::ArbitraryNode => is_bare && node.is_some(),
            Mode::ServiceAccount => is_bare && is_account,
            Mode::UserInfo => node.is_none() && !is_account,
            Mode::Legacy => true,
        }
    }

    /// Asks all that must be allowed. `None` when the mode is not for this.
    pub(super) fn check(self, wanted: &User, requestor: &User, verb: &str, ask: Ask<'_>) -> Option<Result<User, Forbidden>> {
        if !self.applies(wanted, requestor) {
            return None;
        }
        let disguised = (self == Mode::AssociatedNode).then(|| disguised(requestor));
        let mut checks = Checks { mode: self, requestor: disguised.as_ref().unwrap_or(requestor), ask };
        if self != Mode::Legacy
            && let Err(forbidden) = checks.ask(Question::Request { verb: format!("impersonate-on:{}:{verb}", self.name()) })
        {
            return Some(Err(forbidden));
        }
        Some(checks.all(wanted))
    }
}

/// The node of a node's user name.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| is_subdomain(name))
}

/// An account whose answers are the same on all nodes: of its facts only the keys are told.
fn disguised(requestor: &User) -> User {
    let mut keys: Vec<String> = requestor.extra.iter().map(|(key, _)| key.clone()).collect();
    keys.sort();
    User { extra: vec![(ASSOCIATED_KEYS.to_owned(), keys)], ..requestor.clone() }
}

struct Checks<'a> {
    mode: Mode,
    requestor: &'a User,
    ask: Ask<'a>,
}

impl Checks<'_> {
    fn ask(&mut self, question: Question) -> Result<(), Forbidden> {
        (self.ask)(self.requestor, &question).map_err(|reason| Forbidden { question: Box::new(question), reason })
    }

    fn is_constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    /// Of users and groups.
    fn group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn about(&self, group: &'static str, resource: &'static str, name: &str) -> Question {
        let (subresource, namespace) = (String::new(), String::new());
        Question::Resource { verb: self.mode.verb(), group, resource, subresource, namespace, name: name.to_owned() }
    }

    fn all(mut self, wanted: &User) -> Result<User, Forbidden> {
        let mut user = wanted.clone();
        self.name(&mut user)?;
        if !wanted.uid.is_empty() {
            self.ask(self.about(AUTHENTICATION, "uids", &wanted.uid))?;
        }
        if !wanted.groups.is_empty() {
            self.groups(&wanted.groups)?;
        }
        if !wanted.extra.is_empty() {
            self.extra(&wanted.extra)?;
        }
        let has = |group: &str| user.groups.iter().any(|own| own == group);
        let own = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !has(own) && !has(UNAUTHENTICATED) {
            user.groups.push(own.to_owned());
        }
        Ok(user)
    }

    /// Asks for the name, and fills in the groups that follow from it.
    fn name(&mut self, user: &mut User) -> Result<(), Forbidden> {
        let mut question = self.about(self.group(), "users", &user.name);
        if let Some(node) = node(&user.name).filter(|_| self.is_constrained()) {
            // For an account's own node the answer must hold for every node.
            question = self.about(self.group(), "nodes", if self.mode == Mode::AssociatedNode { "*" } else { node });
            user.groups = vec![NODES.to_owned()];
        } else if let Some((account_namespace, account)) = service_account::split(&user.name) {
            question = self.about(self.group(), "serviceaccounts", account);
            if let Question::Resource { namespace, .. } = &mut question {
                account_namespace.clone_into(namespace);
            }
            if user.groups.is_empty() {
                user.groups = service_account::groups(account_namespace);
            }
        }
        self.ask(question)
    }

    fn groups(&mut self, groups: &[String]) -> Result<(), Forbidden> {
        let about = |checks: &Self, name: &str| checks.about(checks.group(), "groups", name);
        if self.is_constrained() {
            let never = [
                ("", "impersonating the empty string group is not allowed"),
                (MASTERS, "impersonating the system:masters group is not allowed"),
            ];
            if let Some((name, why)) = never.iter().find(|(name, _)| groups.iter().any(|group| group == name)) {
                return Err(Forbidden { question: Box::new(about(self, name)), reason: (*why).to_owned() });
            }
            if groups.len() >= MANY && self.ask(about(self, "*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.ask(about(self, group)))
    }

    fn extra(&mut self, extra: &[(String, Vec<String>)]) -> Result<(), Forbidden> {
        let about = |checks: &Self, key: &str, value: &str| {
            let mut question = checks.about(AUTHENTICATION, "userextras", value);
            if let Question::Resource { subresource, .. } = &mut question {
                key.clone_into(subresource);
            }
            question
        };
        if self.is_constrained() {
            if let Some(reason) = extra.iter().find_map(|(key, values)| wrong_fact(key, values)) {
                return Err(Forbidden { question: Box::new(about(self, "", "")), reason });
            }
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            if (extra.len() >= MANY || values >= MANY) && self.ask(about(self, "*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.ask(about(self, key, value))?;
            }
        }
        Ok(())
    }
}

/// What a constrained mode does not take.
fn wrong_fact(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let wrong = wrong_path("extra.key", key);
    match &wrong[..] {
        [] => {}
        [one] => return Some(format!("impersonating an invalid key in extra is not allowed: {one}")),
        many => return Some(format!("impersonating an invalid key in extra is not allowed: [{}]", many.join(", "))),
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", quoted(key)));
    }
    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }
    values.iter().any(String::is_empty).then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}
