//! The authorizers that need no objects, and the chain that asks several authorizers in turn.

use std::sync::Arc;

use super::rbac::PolicyRule;
use super::{Attributes, Authorizer, Decision, Rules, Verdict};
use crate::user::{MASTERS, User};

/// Allows everything to members of `system:masters`; has no opinion about others. Asked before all other authorizers.
#[derive(Clone, Copy, Debug)]
pub struct Masters;

impl Authorizer for Masters {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        if asked.user.groups.iter().any(|group| group == MASTERS) { Verdict::ALLOW } else { Verdict::no_opinion("") }
    }
}

/// Allows everything to everyone.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn decide(&self, _: &Attributes<'_>) -> Verdict {
        Verdict::ALLOW
    }

    fn rules_for(&self, _: &User, _: &str) -> Rules {
        let all = || vec!["*".to_owned()];
        let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
        let paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
        Rules { resource_rules: vec![resources], non_resource_rules: vec![paths], ..Rules::default() }
    }
}

/// Allows nothing. As in Kubernetes it has no opinion, so that an authorizer after it may allow.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn decide(&self, _: &Attributes<'_>) -> Verdict {
        Verdict::no_opinion("Everything is forbidden.")
    }
}

/// Authorizers that are asked one after the other, until one decides.
pub struct Chain(pub Vec<Arc<dyn Authorizer>>);

impl Authorizer for Chain {
    /// The verdict of the first that decides; if none does, the reasons of all, a line each.
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let mut reasons = String::new();
        for authorizer in &self.0 {
            let verdict = authorizer.decide(asked);
            if verdict.decision != Decision::NoOpinion {
                return verdict;
            }
            let reason = verdict.reason.to_string();
            if !reasons.is_empty() && !reason.is_empty() {
                reasons.push('\n');
            }
            reasons.push_str(&reason);
        }
        Verdict::no_opinion(reasons)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for authorizer in &self.0 {
            let rules = authorizer.rules_for(user, namespace);
            all.resource_rules.extend(rules.resource_rules);
            all.non_resource_rules.extend(rules.non_resource_rules);
            all.incomplete |= rules.incomplete;
            all.errors.extend(rules.errors);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn decide(authorizer: &dyn Authorizer, group: &str) -> (Decision, String) {
        let user = User { name: "jane".into(), groups: vec!["a".into(), group.into()], ..User::default() };
        let verdict = authorizer.decide(&Attributes { user: &user, verb: "get", target: Target::Path("/x") });
        (verdict.decision, verdict.reason.to_string())
    }

    /// Has no opinion for this reason.
    struct Unsure(&'static str);

    impl Authorizer for Unsure {
        fn decide(&self, _: &Attributes<'_>) -> Verdict {
            Verdict::no_opinion(self.0)
        }

        fn rules_for(&self, _: &User, _: &str) -> Rules {
            Rules { incomplete: true, errors: vec![self.0.to_owned()], ..Rules::default() }
        }
    }

    #[test]
    fn the_first_that_decides_decides() {
        let chain = |links: Vec<Arc<dyn Authorizer>>| Chain(links);
        assert_eq!(decide(&Masters, "system:masters"), (Decision::Allow, String::new()));
        assert_eq!(decide(&Masters, "system:master"), (Decision::NoOpinion, String::new()));
        let deny = || chain(vec![Arc::new(Masters), Arc::new(Unsure("")), Arc::new(Unsure("no node")), Arc::new(AlwaysDeny)]);
        assert_eq!(decide(&deny(), "b"), (Decision::NoOpinion, "no node\nEverything is forbidden.".to_owned()));
        assert_eq!(decide(&deny(), "system:masters"), (Decision::Allow, String::new()));
        assert_eq!(decide(&chain(vec![Arc::new(AlwaysDeny), Arc::new(AlwaysAllow)]), "b"), (Decision::Allow, String::new()));
        assert_eq!(decide(&chain(vec![]), "b"), (Decision::NoOpinion, String::new()));
    }

    #[test]
    fn rules_are_joined_with_their_errors() {
        let links: Vec<Arc<dyn Authorizer>> =
            vec![Arc::new(Unsure("a")), Arc::new(AlwaysAllow), Arc::new(Unsure("b")), Arc::new(Unsure("a"))];
        let status = serde_json::to_string(&Chain(links).rules_for(&User::default(), "default")).expect("JSON");
        assert_eq!(
            status,
            r#"{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}],"incomplete":true,"evaluationError":"[a, b]"}"#
        );
        let status = serde_json::to_string(&AlwaysDeny.rules_for(&User::default(), "default")).expect("JSON");
        assert_eq!(status, r#"{"resourceRules":[],"nonResourceRules":[],"incomplete":false}"#);
    }
}
