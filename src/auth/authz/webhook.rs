//! The authorizer that asks a server elsewhere (`--authorization-mode=Webhook`): what is asked, what its answers mean, and how long they count. Sends nothing
//! itself.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Attributes, Decision, Requirement, Target, Verdict, or_default};
use recent::Recent;

/// Answers that are remembered; kube-apiserver's number.
const ANSWERS_MAX: usize = 8_192;

/// From so many bytes on that a client chooses, an answer is not remembered; kube-apiserver's number.
const CONTROLLED_BYTES_MAX: usize = 10_000;

/// Answers with a longer reason are not kept: it often repeats what was asked, which may be long in other ways.
pub(super) const REASON_BYTES_MAX: usize = 10_000;

/// The API version of the reviews that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1Beta1,
}

impl Version {
    /// The version of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Version> {
        match name {
            "v1" => Some(Version::V1),
            "v1beta1" => Some(Version::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Version::V1 => "authorization.k8s.io/v1",
            Version::V1Beta1 => "authorization.k8s.io/v1beta1",
        }
    }
}

/// How a webhook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its name, in metrics.
    pub name: String,
    /// The version of its reviews.
    pub version: Version,
    /// How long a yes counts; none: once.
    pub allowed_ttl: Option<Duration>,
    /// How long another answer counts.
    pub refused_ttl: Option<Duration>,
    /// What it means when there is no answer: a no, or no opinion.
    pub denies_on_error: bool,
    /// It is an API server, which judges by authorizers of its own: what those could not find out is no answer, as it is for whoever asks that server for the
    /// thing itself.
    pub is_host: bool,
}

/// A webhook, and what it answered lately.
#[derive(Debug)]
pub struct Webhook {
    /// How it is asked.
    pub settings: Settings,
    answers: Mutex<Recent<Digested, Verdict, Duration>>,
}

/// A question for a webhook. Its text is there once, however many hold it.
#[derive(Clone, Debug)]
pub struct Question {
    review: Bytes,
    digest: Digested,
    may_be_kept: bool,
}

/// What tells the questions for one webhook apart.
pub type Digested = [u8; 32];

/// Why an answer of a webhook is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer. It and its status are read as maps first, for serde would take a list for a struct.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default, deserialize_with = "or_default")]
    status: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Said {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

impl Webhook {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(settings: Settings) -> Webhook {
        Webhook { settings, answers: Mutex::new(Recent::new(ANSWERS_MAX, usize::MAX)) }
    }

    /// What it is asked about this.
    #[must_use]
    pub fn question(&self, asked: &Attributes<'_>) -> Question {
        let version = self.settings.version;
        let head = format!(r#"{{"kind":"SubjectAccessReview","apiVersion":"{}","metadata":{{}},"spec":"#, version.api_version());
        let mut review = head.into_bytes();
        serde_json::to_writer(&mut review, &Spec::new(asked, version)).expect("texts are JSON, and memory takes them");
        review.extend_from_slice(br#","status":{"allowed":false}}"#);
        let controlled = match asked.target {
            Target::Path(path) => path.len(),
            Target::Resource(of) => [of.namespace, of.group, of.version, of.resource, of.subresource, of.name].map(str::len).iter().sum(),
        };
        let digest = Sha256::digest(&review).into();
        // Without the room that it grew into.
        let review = Bytes::from(review.into_boxed_slice());
        Question { review, digest, may_be_kept: controlled + asked.verb.len() < CONTROLLED_BYTES_MAX }
    }

    /// What it answered, if that still counts `now`, which is told since the Unix epoch.
    #[must_use]
    pub fn known(&self, question: &Question, now: Duration) -> Option<Verdict> {
        self.answers.lock().get(&question.digest(), now).cloned()
    }

    /// Reads an answer, and remembers it.
    ///
    /// # Errors
    /// What is wrong with it, for the log.
    pub fn answered(&self, question: &Question, answer: &[u8], now: Duration) -> Result<Verdict, NoAnswer> {
        let no_review = |error: serde_json::Error| NoAnswer(format!("the answer is no review: {error}"));
        let answer: Map<String, Value> = serde_json::from_slice(answer).map_err(no_review)?;
        let answer = Answer::deserialize(Value::Object(answer)).map_err(no_review)?;
        let is_review = ["", "SubjectAccessReview"].contains(&&*answer.kind);
        if !is_review || !["", self.settings.version.api_version()].contains(&&*answer.api_version) {
            return Err(NoAnswer(format!("the answer is a {} of {}", answer.kind, answer.api_version)));
        }
        let Said { allowed, denied, reason, evaluation_error } = Said::deserialize(Value::Object(answer.status)).map_err(no_review)?;
        if self.settings.is_host && !allowed && !evaluation_error.is_empty() {
            return Err(NoAnswer(evaluation_error));
        }
        let decision = match (allowed, denied) {
            (_, true) => Decision::Deny,
            (true, false) => Decision::Allow,
            (false, false) => Decision::NoOpinion,
        };
        let may_be_kept = question.may_be_kept && reason.len() < REASON_BYTES_MAX;
        let error = (allowed && denied).then(|| "webhook subject access review returned both allow and deny response".into());
        let verdict = Verdict { decision, error, ..Verdict::no_opinion(reason) };
        let ttl = if allowed { self.settings.allowed_ttl } else { self.settings.refused_ttl };
        if let Some(until) = ttl.filter(|_| may_be_kept).and_then(|ttl| now.checked_add(ttl)) {
            self.answers.lock().put(question.digest(), verdict.clone(), 0, now, Some(until));
        }
        Ok(verdict)
    }

    /// What it means that there is no answer, for this reason.
    #[must_use]
    pub fn failed(&self, why: &str) -> Verdict {
        let decision = if self.settings.denies_on_error { Decision::Deny } else { Decision::NoOpinion };
        Verdict { decision, error: Some(why.into()), ..Verdict::no_opinion("") }
    }
}

impl Question {
    /// The SubjectAccessReview to send, as JSON.
    #[must_use]
    pub fn review(&self) -> Bytes {
        self.review.clone()
    }

    /// Bytes that are sent for it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.review.len()
    }

    /// What it is known by.
    #[must_use]
    pub fn digest(&self) -> Digested {
        self.digest
    }
}

/// `SubjectAccessReviewSpec`, its members in Go's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<PathAttributes<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    /// Their name in `v1beta1`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    group: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<&'a str, &'a [String]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Requirements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Requirements<'a>>,
}

#[derive(Serialize)]
struct Requirements<'a> {
    requirements: &'a [Requirement],
}

#[derive(Serialize)]
struct PathAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
}

impl<'a> Spec<'a> {
    fn new(asked: &Attributes<'a>, version: Version) -> Spec<'a> {
        let (verb, user) = (asked.verb, asked.user);
        let some = |requirements: &'a [Requirement]| (!requirements.is_empty()).then_some(Requirements { requirements });
        let (resource_attributes, non_resource_attributes) = match asked.target {
            Target::Path(path) => (None, Some(PathAttributes { path, verb })),
            Target::Resource(of) => {
                let resource = ResourceAttributes {
                    namespace: of.namespace,
                    verb,
                    group: of.group,
                    version: of.version,
                    resource: of.resource,
                    subresource: of.subresource,
                    name: of.name,
                    field_selector: some(&of.selectors.fields),
                    label_selector: some(&of.selectors.labels),
                };
                (Some(resource), None)
            }
        };
        let (groups, group) = match version {
            Version::V1 => (&user.groups[..], &[][..]),
            Version::V1Beta1 => (&[][..], &user.groups[..]),
        };
        let extra = user.extra.iter().map(|(key, values)| (&**key, &**values)).collect();
        Spec { resource_attributes, non_resource_attributes, user: &user.name, groups, group, extra, uid: &user.uid }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operator, Resource, Selectors};
    use super::*;
    use crate::user::User;

    fn webhook(version: Version) -> Webhook {
        let (allowed_ttl, refused_ttl) = (Some(Duration::from_secs(300)), Some(Duration::from_secs(30)));
        Webhook::new(Settings { name: "w".to_owned(), version, allowed_ttl, refused_ttl, denies_on_error: false, is_host: false })
    }

    fn user() -> User {
        let extra = vec![("scopes".to_owned(), vec!["a".to_owned()])];
        User { name: "jane".to_owned(), uid: "7".to_owned(), groups: vec!["dev".to_owned()], extra }
    }

    #[test]
    fn a_review_says_all_that_is_known() {
        let fields = vec![Requirement { key: "spec.nodeName".to_owned(), operator: Operator::In, values: vec!["n".to_owned()] }];
        let labels = vec![Requirement { key: "app".to_owned(), operator: Operator::Exists, values: Vec::new() }];
        let selectors = Selectors { fields, labels };
        let pods = Resource { namespace: "default", version: "v1", resource: "pods", selectors: &selectors, ..Resource::default() };
        let asked = Attributes { user: &user(), verb: "list", target: Target::Resource(pods) };
        let review = |version| String::from_utf8(webhook(version).question(&asked).review().to_vec()).expect("UTF-8");
        assert_eq!(
            review(Version::V1),
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":"default","verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n"]}]},"labelSelector":{"requirements":[{"key":"app","operator":"Exists"}]}},"user":"jane","groups":["dev"],"extra":{"scopes":["a"]},"uid":"7"},"status":{"allowed":false}}"#
        );
        assert!(review(Version::V1Beta1).contains(r#""user":"jane","group":["dev"],"extra""#));
        let asked = Attributes { user: &user(), verb: "get", target: Target::Path("/metrics") };
        let review = webhook(Version::V1).question(&asked).review();
        let review = std::str::from_utf8(&review).expect("UTF-8");
        assert!(review.contains(r#""spec":{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user""#), "{review}");
    }

    #[test]
    fn answers_count_for_their_time() {
        let (webhook, user) = (webhook(Version::V1), user());
        let ask = |path: &str| webhook.question(&Attributes { user: &user, verb: "get", target: Target::Path(path) });
        let start = Duration::from_secs(1_000);
        let answered = |path: &str, answer: &str| {
            let verdict = webhook.answered(&ask(path), answer.as_bytes(), start);
            verdict.map(|verdict| (verdict.decision, verdict.reason.to_string()))
        };
        assert_eq!(answered("/a", r#"{"status":{"allowed":true}}"#), Ok((Decision::Allow, String::new())));
        assert_eq!(answered("/b", r#"{"status":{"allowed":false,"reason":"no"}}"#), Ok((Decision::NoOpinion, "no".to_owned())));
        assert_eq!(answered("/c", r#"{"status":{"allowed":true,"denied":true}}"#), Ok((Decision::Deny, String::new())));
        let known = |path: &str, seconds| webhook.known(&ask(path), start + Duration::from_secs(seconds)).map(|verdict| verdict.decision);
        assert_eq!((known("/b", 29), known("/b", 30)), (Some(Decision::NoOpinion), None));
        assert_eq!((known("/a", 299), known("/a", 300)), (Some(Decision::Allow), None));
        assert_eq!(known("/d", 0), None);
        // What a client could fill the memory with is asked each time.
        let long = format!("/{}", "x".repeat(CONTROLLED_BYTES_MAX));
        assert!(answered(&long, r#"{"status":{"allowed":true}}"#).is_ok() && known(&long, 0).is_none());
        let long = format!(r#"{{"status":{{"allowed":true,"reason":"{}"}}}}"#, "x".repeat(REASON_BYTES_MAX));
        assert!(answered("/e", &long).is_ok() && known("/e", 0).is_none());
    }

    #[test]
    fn what_is_no_review_is_no_answer() {
        let (webhook, user) = (webhook(Version::V1), user());
        let question = webhook.question(&Attributes { user: &user, verb: "get", target: Target::Path("/a") });
        for answer in [
            "",
            "[]",
            "<html>",
            r#"{"kind":"TokenReview","status":{"allowed":true}}"#,
            r#"{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}"#,
            r#"{"status":{"allowed":"yes"}}"#,
        ] {
            assert!(webhook.answered(&question, answer.as_bytes(), Duration::ZERO).is_err(), "{answer}");
        }
        // An API server tells that its own authorizers have failed; a webhook of anybody else may say there what it likes.
        let host = Webhook::new(Settings { is_host: true, ..webhook.settings.clone() });
        let failed = br#"{"status":{"allowed":false,"reason":"no","evaluationError":"webhook: timed out"}}"#;
        assert_eq!(host.answered(&question, failed, Duration::ZERO).map(drop), Err(NoAnswer("webhook: timed out".to_owned())));
        assert!(host.known(&question, Duration::ZERO).is_none());
        let allowed = br#"{"status":{"allowed":true,"evaluationError":"webhook: timed out"}}"#;
        assert!(host.answered(&question, allowed, Duration::ZERO).is_ok_and(|verdict| verdict.decision == Decision::Allow));
        assert!(webhook.answered(&question, failed, Duration::ZERO).is_ok_and(|verdict| verdict.decision == Decision::NoOpinion));
        assert_eq!(webhook.failed("away").decision, Decision::NoOpinion);
        let strict = Webhook::new(Settings { denies_on_error: true, ..webhook.settings.clone() });
        assert_eq!((strict.failed("away").decision, strict.failed("away").error.as_deref()), (Decision::Deny, Some("away")));
    }
}
