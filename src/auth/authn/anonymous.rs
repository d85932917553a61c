//! Requests without credentials: the user `system:anonymous`, on all paths or on some.

use crate::user::{ANONYMOUS, UNAUTHENTICATED, User};

/// Where requests without credentials are let through to the authorizer: `--anonymous-auth`, or `anonymous` of an AuthenticationConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Nowhere.
    #[default]
    No,
    /// Everywhere.
    Yes,
    /// On these paths.
    Paths(Vec<String>),
}

impl Anonymous {
    /// Who asks for this path without credentials.
    #[must_use]
    pub fn user(&self, path: &str) -> Option<User> {
        let is_allowed = match self {
            Anonymous::No => false,
            Anonymous::Yes => true,
            Anonymous::Paths(paths) => paths.iter().any(|allowed| allowed == path),
        };
        is_allowed.then(|| User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_whole() {
        let some = Anonymous::Paths(vec!["/livez".to_owned(), "/healthz".to_owned()]);
        assert!(some.user("/livez").is_some() && some.user("/livez/ping").is_none() && some.user("/").is_none());
        assert!(
            Anonymous::Yes.user("/any").is_some_and(|user| user.name == "system:anonymous" && user.groups == ["system:unauthenticated"])
        );
        assert!(Anonymous::No.user("/livez").is_none());
    }
}
