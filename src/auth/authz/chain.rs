//! The authorizers that need no objects, and the chain that asks several authorizers in turn.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::rbac::PolicyRule;
use super::webhook::{Digested, Question, Webhook};
use super::{Attributes, Authorizer, Decision, Rules, Target, Verdict};
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
        Rules { of_roles: vec![Arc::new([resources, paths])], ..Rules::default() }
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

/// Allows everyone some paths: those of health checks. A path that ends in `*` stands for all that begin with what is before it.
#[derive(Clone, Debug)]
pub struct Paths(pub Vec<String>);

impl Authorizer for Paths {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let Target::Path(path) = asked.target else { return Verdict::no_opinion("") };
        let path = path.trim_start_matches('/');
        let is_it = |allowed: &String| match allowed.trim_start_matches('/') {
            allowed if allowed.ends_with('*') => path.starts_with(allowed.trim_end_matches('*')),
            allowed => path == allowed,
        };
        if self.0.iter().any(is_it) { Verdict::ALLOW } else { Verdict::no_opinion("") }
    }
}

/// One authorizer of several.
#[derive(Clone)]
pub enum Link {
    /// Decides at once.
    Memory(Arc<dyn Authorizer>),
    /// Decides elsewhere.
    Webhook(Arc<Webhook>),
}

/// Authorizers that are asked one after the other, until one decides.
#[derive(Clone, Default)]
pub struct Chain(pub Vec<Link>);

/// A question that a webhook must answer before the authorizers can decide.
#[derive(Debug)]
pub struct Open {
    /// Who is asked.
    pub webhook: Arc<Webhook>,
    /// What.
    pub question: Question,
}

/// The questions of one request. They are decided from memory as far as that goes. When a webhook must be asked first, the verdict is none: `open` tells what
/// to ask it, and after `answer` the same question is decided further.
pub struct Asking<'a> {
    chain: &'a Chain,
    now: Duration,
    answers: Vec<(Arc<Webhook>, Digested, Verdict)>,
    open: Mutex<Option<Open>>,
}

impl Chain {
    /// Questions at this time since the Unix epoch.
    #[must_use]
    pub fn asking(&self, now: Duration) -> Asking<'_> {
        Asking { chain: self, now, answers: Vec::new(), open: Mutex::new(None) }
    }
}

impl Asking<'_> {
    /// What has to be asked before anything that was decided since the last call counts.
    pub fn open(&mut self) -> Option<Open> {
        self.open.get_mut().take()
    }

    /// Whether something has to be asked first.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.open.lock().is_some()
    }

    /// What the webhook says.
    pub fn answer(&mut self, open: Open, verdict: Verdict) {
        self.answers.push((open.webhook, open.question.digest(), verdict));
    }

    /// What a webhook says; none when it must be asked.
    fn of_webhook(&self, webhook: &Arc<Webhook>, asked: &Attributes<'_>) -> Option<Verdict> {
        let question = webhook.question(asked);
        let is_that = |asked: &Arc<Webhook>, digest: &Digested| Arc::ptr_eq(asked, webhook) && *digest == question.digest();
        let answer = self.answers.iter().find(|(asked, digest, _)| is_that(asked, digest)).map(|(.., verdict)| verdict.clone());
        let answer = answer.or_else(|| webhook.known(&question, self.now));
        if answer.is_none() {
            let open = &mut *self.open.lock();
            open.get_or_insert(Open { webhook: Arc::clone(webhook), question });
        }
        answer
    }
}

impl Authorizer for Asking<'_> {
    /// The verdict of the first that decides; if none does, the reasons of all, a line each. What went wrong on the way is told unless the answer is yes.
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let (mut reasons, mut errors) = (String::new(), Vec::new());
        for link in &self.chain.0 {
            let verdict = match link {
                Link::Memory(authorizer) => authorizer.decide(asked),
                Link::Webhook(webhook) => match self.of_webhook(webhook, asked) {
                    Some(verdict) => verdict,
                    None => return Verdict::no_opinion(""),
                },
            };
            errors.extend(verdict.error.clone());
            match verdict.decision {
                Decision::Allow => return verdict,
                Decision::Deny => return Verdict { error: aggregate(&errors), ..verdict },
                Decision::NoOpinion => {}
            }
            let reason = verdict.reason.to_string();
            if !reasons.is_empty() && !reason.is_empty() {
                reasons.push('\n');
            }
            reasons.push_str(&reason);
        }
        Verdict { error: aggregate(&errors), ..Verdict::no_opinion(reasons) }
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for link in &self.chain.0 {
            let rules = match link {
                Link::Memory(authorizer) => authorizer.rules_for(user, namespace),
                Link::Webhook(_) => Rules { incomplete: true, errors: vec![NO_RULES.to_owned()], ..Rules::default() },
            };
            all.of_roles.extend(rules.of_roles);
            all.incomplete |= rules.incomplete;
            all.errors.extend(rules.errors);
        }
        all
    }
}

/// Several errors as Go's aggregate prints them: each once.
fn aggregate(errors: &[Box<str>]) -> Option<Box<str>> {
    let mut told: Vec<&str> = Vec::new();
    for error in errors {
        if !told.contains(&&**error) {
            told.push(error);
        }
    }
    match told[..] {
        [] => None,
        [one] => Some(one.into()),
        _ => Some(format!("[{}]", told.join(", ")).into()),
    }
}

/// What a webhook says of somebody's rules, in kube-apiserver's words.
const NO_RULES: &str = "webhook authorizer does not support user rule resolution";

#[cfg(test)]
mod tests {
    use super::super::Resource;
    use super::super::webhook::{Settings, Version};
    use super::*;

    fn decide(authorizer: &dyn Authorizer, group: &str) -> (Decision, String) {
        let user = User { name: "jane".into(), groups: vec!["a".into(), group.into()], ..User::default() };
        let verdict = authorizer.decide(&Attributes { user: &user, verb: "get", target: Target::Path("/x") });
        (verdict.decision, verdict.reason.to_string())
    }

    fn chain(links: Vec<Arc<dyn Authorizer>>) -> Chain {
        Chain(links.into_iter().map(Link::Memory).collect())
    }

    fn asked(chain: &Chain, group: &str) -> (Decision, String) {
        decide(&chain.asking(Duration::ZERO), group)
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
        assert_eq!(decide(&Masters, "system:masters"), (Decision::Allow, String::new()));
        assert_eq!(decide(&Masters, "system:master"), (Decision::NoOpinion, String::new()));
        let deny = chain(vec![Arc::new(Masters), Arc::new(Unsure("")), Arc::new(Unsure("no node")), Arc::new(AlwaysDeny)]);
        assert_eq!(asked(&deny, "b"), (Decision::NoOpinion, "no node\nEverything is forbidden.".to_owned()));
        assert_eq!(asked(&deny, "system:masters"), (Decision::Allow, String::new()));
        assert_eq!(asked(&chain(vec![Arc::new(AlwaysDeny), Arc::new(AlwaysAllow)]), "b"), (Decision::Allow, String::new()));
        assert_eq!(asked(&chain(vec![]), "b"), (Decision::NoOpinion, String::new()));
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let paths = Paths(["/healthz", "readyz", "/openapi/*"].map(str::to_owned).to_vec());
        let user = User::default();
        let allows = |target| paths.decide(&Attributes { user: &user, verb: "get", target }).decision == Decision::Allow;
        for (path, is_allowed) in
            [("/healthz", true), ("/readyz", true), ("/healthz/log", false), ("/openapi/v2", true), ("/openapi", false)]
        {
            assert_eq!(allows(Target::Path(path)), is_allowed, "{path}");
        }
        assert!(!allows(Target::Resource(Resource { name: "healthz", ..Resource::default() })));
    }

    #[test]
    fn rules_are_joined_with_their_errors() {
        let links = chain(vec![Arc::new(Unsure("a")), Arc::new(AlwaysAllow), Arc::new(Unsure("b")), Arc::new(Unsure("a"))]);
        let status = serde_json::to_string(&links.asking(Duration::ZERO).rules_for(&User::default(), "default")).expect("JSON");
        assert_eq!(
            status,
            r#"{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}],"incomplete":true,"evaluationError":"[a, b]"}"#
        );
        let status = serde_json::to_string(&AlwaysDeny.rules_for(&User::default(), "default")).expect("JSON");
        assert_eq!(status, r#"{"resourceRules":[],"nonResourceRules":[],"incomplete":false}"#);
    }

    #[test]
    fn a_webhook_is_asked_once_and_only_when_nobody_before_it_decides() {
        let settings = Settings {
            name: "w".to_owned(),
            version: Version::V1,
            allowed_ttl: None,
            refused_ttl: None,
            denies_on_error: true,
            is_host: false,
        };
        let webhook = Arc::new(Webhook::new(settings));
        let links = vec![
            Link::Memory(Arc::new(Masters)),
            Link::Memory(Arc::new(Unsure("no"))),
            Link::Webhook(webhook.clone()),
            Link::Memory(Arc::new(AlwaysDeny)),
        ];
        let chain = Chain(links);
        let mut asking = chain.asking(Duration::ZERO);
        assert_eq!(decide(&asking, "system:masters").0, Decision::Allow);
        assert!(asking.open().is_none());
        assert_eq!(decide(&asking, "b").0, Decision::NoOpinion);
        let open = asking.open().expect("a question");
        let review = open.question.review();
        assert!(asking.open().is_none() && std::str::from_utf8(&review).is_ok_and(|text| text.contains(r#""groups":["a","b"]"#)));
        asking.answer(open, Verdict::no_opinion("perhaps"));
        assert_eq!(decide(&asking, "b"), (Decision::NoOpinion, "no\nperhaps\nEverything is forbidden.".to_owned()));
        assert!(asking.open().is_none(), "it is answered");
        decide(&asking, "c");
        let other = asking.open().expect("another question");
        asking.answer(other, webhook.failed("away"));
        assert_eq!(decide(&asking, "c").0, Decision::Deny);
        let rules = serde_json::to_value(asking.rules_for(&User::default(), "default")).expect("JSON");
        assert_eq!((&rules["incomplete"], &rules["evaluationError"]), (&true.into(), &format!("[no, {NO_RULES}]").into()));
    }

    #[test]
    fn a_webhook_that_does_not_answer_is_no_judgement() {
        let webhook = |denies_on_error| {
            let settings = Settings {
                name: "w".to_owned(),
                version: Version::V1,
                allowed_ttl: None,
                refused_ttl: None,
                denies_on_error,
                is_host: false,
            };
            Arc::new(Webhook::new(settings))
        };
        let verdict = |first_denies, last: Arc<dyn Authorizer>| {
            let (first, second) = (webhook(first_denies), webhook(false));
            let links = vec![Link::Webhook(first.clone()), Link::Webhook(second.clone()), Link::Memory(last)];
            let chain = Chain(links);
            let (mut asking, user) = (chain.asking(Duration::ZERO), User::default());
            let asked = Attributes { user: &user, verb: "get", target: Target::Path("/x") };
            for (webhook, why) in [(&first, "a"), (&second, "b")] {
                asking.decide(&asked);
                if let Some(open) = asking.open() {
                    asking.answer(open, webhook.failed(why));
                }
            }
            let verdict = asking.decide(&asked);
            (verdict.decision, verdict.error.as_deref().map(str::to_owned))
        };
        assert_eq!(verdict(false, Arc::new(AlwaysAllow)), (Decision::Allow, None), "somebody else has said yes");
        assert_eq!(verdict(false, Arc::new(AlwaysDeny)), (Decision::NoOpinion, Some("[a, b]".to_owned())));
        assert_eq!(verdict(true, Arc::new(AlwaysAllow)), (Decision::Deny, Some("a".to_owned())));
    }
}
