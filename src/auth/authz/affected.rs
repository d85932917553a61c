//! Those from whom a change of what rights are made of may have taken a right.

use std::collections::HashSet;

use crate::user::User;

/// Names that are told apart; of more everybody is affected.
const NAMES_MAX: usize = 10_000;

/// Users by name, and all members of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    is_everybody: bool,
    users: HashSet<String>,
    groups: HashSet<String>,
}

impl Affected {
    /// Whoever it is.
    #[must_use]
    pub fn everybody() -> Self {
        Self { is_everybody: true, ..Self::default() }
    }

    /// Adds a user.
    pub fn add_user(&mut self, name: &str) {
        if !self.is_everybody && !self.users.contains(name) {
            self.users.insert(name.to_owned());
            self.limit();
        }
    }

    /// Adds the members of a group.
    pub fn add_group(&mut self, name: &str) {
        if !self.is_everybody && !self.groups.contains(name) {
            self.groups.insert(name.to_owned());
            self.limit();
        }
    }

    /// Adds those that another change affects.
    pub fn add(&mut self, other: Affected) {
        if self.is_nobody() {
            *self = other;
            return;
        }
        self.is_everybody |= other.is_everybody;
        self.users.extend(other.users);
        self.groups.extend(other.groups);
        self.limit();
    }

    /// Whether nobody is affected.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        !self.is_everybody && self.users.is_empty() && self.groups.is_empty()
    }

    /// Whether this user is affected.
    #[must_use]
    pub fn has(&self, user: &User) -> bool {
        self.is_everybody || self.users.contains(&user.name) || user.groups.iter().any(|group| self.groups.contains(group))
    }

    fn limit(&mut self) {
        if self.is_everybody || self.users.len() + self.groups.len() > NAMES_MAX {
            *self = Self::everybody();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, group: &str) -> User {
        User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() }
    }

    #[test]
    fn users_and_members_are_affected() {
        let mut affected = Affected::default();
        assert!(affected.is_nobody() && !affected.has(&user("jane", "dev")));
        affected.add_user("jane");
        let mut other = Affected::default();
        other.add_group("ops");
        affected.add(other);
        let has = |name, group| affected.has(&user(name, group));
        assert!(has("jane", "dev") && has("joe", "ops") && !has("joe", "dev") && !has("ops", "jane"));
        affected.add(Affected::everybody());
        assert_eq!(affected, Affected::everybody());
        assert!(affected.has(&user("joe", "dev")));
    }

    #[test]
    fn names_are_bounded() {
        let (mut affected, mut other) = (Affected::default(), Affected::default());
        (0..NAMES_MAX).for_each(|nth| affected.add_user(&nth.to_string()));
        affected.add_user("0");
        assert!(!affected.has(&user("jane", "dev")));
        other.add_group("x");
        affected.add(other);
        assert_eq!(affected, Affected::everybody());
    }
}
