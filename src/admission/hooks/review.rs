//! AdmissionReview: what a webhook is asked, and what is believed of its answer. Every text is kube-apiserver's.

use std::collections::BTreeMap;

use go::{
    envelope::{Envelope, kind_of},
    quote::quoted,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::HookKind;
use crate::{Operation, criteria::Resource};

/// The group of AdmissionReview.
const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";
/// The only type of patches.
const JSON_PATCH: &str = "JSONPatch";

/// A version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// Answers of this version are believed whatever kind and uid they have.
    V1beta1,
}

/// The user of a request.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of `authentication.k8s.io/v1` UserInfo")]
pub struct UserInfo<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: &'a [(String, Vec<String>)],
}

/// What a webhook is asked, besides the object.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// What is done.
    pub operation: Operation,
    /// The resource of the request.
    pub request: Resource<'a>,
    /// Group, version and kind of the object that was sent.
    pub request_kind: (&'a str, &'a str, &'a str),
    /// The resource as which the webhook is asked.
    pub matched: Resource<'a>,
    /// Group, version and kind of the object that it is shown.
    pub matched_kind: (&'a str, &'a str, &'a str),
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace; of a namespace its own name.
    pub namespace: &'a str,
    /// Name; empty while it is not known.
    pub name: &'a str,
    /// Who asks.
    pub user: UserInfo<'a>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The options of the write.
    pub options: &'a Value,
}

impl Question<'_> {
    /// Returns the `request` of expressions and reviews, without uid and objects.
    #[must_use]
    pub fn request(&self) -> Value {
        let of = |Resource { group, version, resource }: Resource<'_>| json!({"group": group, "version": version, "resource": resource});
        let is = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
        let (kind, resource) = (is(self.matched_kind), of(self.matched));
        let (request_kind, request_resource) = (is(self.request_kind), of(self.request));
        let mut request = json!({"kind": kind, "resource": resource, "requestKind": request_kind, "requestResource": request_resource,
            "operation": self.operation.name(), "userInfo": self.user_info(), "dryRun": self.dry_run, "options": self.options});
        let texts = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[name] = text.into();
        }
        request
    }

    fn user_info(&self) -> Value {
        let UserInfo { name, uid, groups, extra } = self.user;
        let mut info = json!({});
        for (member, text) in [("username", name), ("uid", uid)].into_iter().filter(|(_, text)| !text.is_empty()) {
            info[member] = text.into();
        }
        if !groups.is_empty() {
            info["groups"] = groups.into();
        }
        if !extra.is_empty() {
            info["extra"] = extra.iter().map(|(name, values)| (name.clone(), Value::from(values.as_slice()))).collect::<Value>();
        }
        info
    }
}

/// What a webhook answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why it refuses, if it does.
    pub denied: Option<Denial>,
    /// The JSON of a patch of the object; empty when nothing is to be changed.
    pub patch: Vec<u8>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations for the audit log, without the name of the webhook.
    pub annotations: BTreeMap<String, String>,
}

/// The refusal of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// At least 400.
    pub code: u16,
    /// The whole message.
    pub message: String,
    /// May be empty.
    pub reason: String,
    /// `details`, as the webhook sent them.
    pub details: Option<Value>,
}

impl ReviewVersion {
    /// Returns the first of these versions that is spoken here.
    pub(super) fn first_of<'t>(reviews: impl Iterator<Item = &'t str>) -> Option<Self> {
        reviews.into_iter().find_map(|review| match review {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }

    /// Writes a review of these objects, each a JSON text.
    ///
    /// # Errors
    /// An object is no JSON.
    pub fn review(self, uid: &str, question: &Question<'_>, object: Option<&[u8]>, old: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let raw = |json: Option<&[u8]>| -> Result<Box<RawValue>, String> {
            let text = std::str::from_utf8(json.unwrap_or(b"null")).map_err(|error| error.to_string())?;
            RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())
        };
        let request = Request { uid, request: question.request(), object: raw(object)?, old_object: raw(old)? };
        let review = Review { kind: KIND, api_version: format!("{GROUP}/{}", self.name()), request };
        serde_json::to_vec(&review).map_err(|error| error.to_string())
    }

    /// Reads the answer to the review with this uid.
    ///
    /// # Errors
    /// It is none that can be believed: the text that follows `failed calling webhook "NAME": `.
    pub fn answer(self, kind: HookKind, uid: &str, name: &str, body: &[u8]) -> Result<Answer, String> {
        let read: Answered = Envelope { group: GROUP, kind: KIND, version: self.name() }
            .read(body)
            .map_err(|why| format!("failed to call webhook: {why}"))?;
        let invalid = |why: String| format!("received invalid webhook response: {why}");
        let response = read.response.ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
        if self == Self::V1 {
            if response.uid != uid {
                return Err(invalid(format!("expected response.uid={}, got {}", quoted(uid), quoted(&response.uid))));
            }
            let (wanted, got) = (kind_of(&format!("{GROUP}/v1"), KIND), kind_of(&read.api_version, &read.kind));
            if got != wanted {
                return Err(invalid(format!("expected webhook response of {wanted}, got {got}")));
            }
        }
        let patch = match &response.patch {
            Some(text) => go::base64::decode(text).map_err(|error| format!("failed to call webhook: {error}"))?,
            None => Vec::new(),
        };
        self.judge_patch(kind, &patch, response.patch_type.as_deref()).map_err(invalid)?;
        Ok(Answer {
            denied: (!response.allowed).then(|| Denial::of(name, response.status)),
            patch: if kind == HookKind::Mutating { patch } else { Vec::new() },
            warnings: response.warnings.unwrap_or_default().into_iter().filter(|text| is_shown(text)).collect(),
            annotations: response.audit_annotations.unwrap_or_default(),
        })
    }

    /// Judges whether there is a patch exactly where there may be one.
    fn judge_patch(self, kind: HookKind, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
        if self == Self::V1beta1 {
            return Ok(());
        }
        match (kind, patch.is_empty(), patch_type) {
            (HookKind::Validating, false, _) => Err("validating webhook may not return response.patch".to_owned()),
            (HookKind::Validating, true, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
            (HookKind::Mutating, false, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
            (HookKind::Mutating, true, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
            (HookKind::Mutating, false, Some("")) => Err(r#"webhook returned invalid response.patchType of """#.to_owned()),
            (HookKind::Mutating, false, Some(other)) if other != JSON_PATCH => Err(format!("unsupported patch type {}", quoted(other))),
            _ => Ok(()),
        }
    }
}

/// Whether a warning can be sent: one that is empty or has control characters is dropped.
fn is_shown(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

impl Denial {
    /// Returns whether clients read it as the absence of an object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound" || self.reason.is_empty() && self.code == 404
    }

    /// Makes a refusal of the status that a webhook sent.
    fn of(name: &str, status: Option<Value>) -> Self {
        let status = status.unwrap_or_default();
        let text = |member: &str| status[member].as_str().unwrap_or_default();
        let by = format!("admission webhook {} denied the request", quoted(name));
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{by} without explanation"),
            ("", reason) => format!("{by}: {reason}"),
            (message, _) => format!("{by}: {message}"),
        };
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
        let details = Some(&status["details"]).filter(|details| details.is_object()).cloned();
        Self { code: code.max(400), message, reason: text("reason").to_owned(), details }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'a str,
    api_version: String,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    #[serde(flatten)]
    request: Value,
    object: Box<RawValue>,
    old_object: Box<RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Answered {
    api_version: String,
    kind: String,
    response: Option<Response>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::*;

    fn answer(response: Value) -> String {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
    }

    fn read(kind: HookKind, response: Value) -> Result<Answer, String> {
        ReviewVersion::V1.answer(kind, "u", "w", answer(response).as_bytes())
    }

    #[test]
    fn a_question_has_all_that_is_known_and_nothing_else() {
        let resource = Resource { group: "apps", version: "v1", resource: "deployments" };
        let (groups, options) = (["g".to_owned()], json!({"kind": "CreateOptions"}));
        let user = UserInfo { name: "n", uid: "", groups: &groups, extra: &[("k".to_owned(), vec!["v".to_owned()])] };
        let question = Question {
            operation: Operation::Create,
            request: resource,
            request_kind: ("apps", "v1", "Deployment"),
            matched: resource,
            matched_kind: ("apps", "v1", "Deployment"),
            subresource: "",
            namespace: "ns",
            name: "",
            user,
            dry_run: false,
            options: &options,
        };
        let review = ReviewVersion::V1.review("u", &question, Some(b"{\"a\":1.50}"), None).expect("JSON");
        assert!(String::from_utf8_lossy(&review).contains("1.50"), "an object is sent as it is");
        let review: Value = serde_json::from_slice(&review).expect("JSON");
        let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        let of = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        assert_eq!(
            review,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "kind": kind, "resource": of,
                "requestKind": kind, "requestResource": of, "namespace": "ns", "operation": "CREATE", "dryRun": false,
                "userInfo": {"username": "n", "groups": ["g"], "extra": {"k": ["v"]}}, "object": {"a": 1.5}, "oldObject": null, "options": options}})
        );
    }

    #[test]
    fn refusals_have_a_code_and_words() {
        let told = |status: Value| {
            let denied = read(HookKind::Validating, json!({"uid": "u", "allowed": false, "status": status})).expect("an answer").denied;
            let Denial { code, message, .. } = denied.expect("refused");
            (code, message)
        };
        let by = r#"admission webhook "w" denied the request"#;
        assert_eq!(told(Value::Null), (400, format!("{by} without explanation")));
        assert_eq!(told(json!({"code": 200, "reason": "R"})), (400, format!("{by}: R")));
        assert_eq!(told(json!({"code": 422, "reason": "R", "message": "m"})), (422, format!("{by}: m")));
    }

    #[test]
    fn what_is_no_answer_is_told_as_by_kube_apiserver() {
        let patch = BASE64_STANDARD.encode("[]");
        let told = |kind, response: Value| read(kind, response).expect_err("no answer");
        let invalid = |why: &str| format!("received invalid webhook response: {why}");
        let (mutating, validating) = (HookKind::Mutating, HookKind::Validating);
        assert_eq!(told(mutating, Value::Null), invalid("webhook response was absent"));
        assert_eq!(told(mutating, json!({"uid": "v"})), invalid(r#"expected response.uid="u", got "v""#));
        for (kind, patch, patch_type, why) in [
            (mutating, json!(patch), Value::Null, "webhook returned response.patch but not response.patchType"),
            (mutating, Value::Null, json!("JSONPatch"), "webhook returned response.patchType but not response.patch"),
            (mutating, json!(patch), json!(""), r#"webhook returned invalid response.patchType of """#),
            (validating, json!(patch), json!("JSONPatch"), "validating webhook may not return response.patch"),
            (validating, Value::Null, json!("JSONPatch"), "validating webhook may not return response.patchType"),
        ] {
            assert_eq!(told(kind, json!({"uid": "u", "allowed": true, "patch": patch, "patchType": patch_type})), invalid(why));
        }
        let wrong = json!({"response": {"uid": "u", "allowed": true}}).to_string();
        let got = ReviewVersion::V1.answer(mutating, "u", "w", wrong.as_bytes());
        assert_eq!(got, Err(invalid("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=")));
        let old = ReviewVersion::V1beta1.answer(
            mutating,
            "u",
            "w",
            json!({"response": {"uid": "x", "allowed": true, "patch": patch}}).to_string().as_bytes(),
        );
        assert_eq!(old, Ok(Answer { patch: b"[]".to_vec(), ..Answer::default() }), "of old answers less is asked");
        let text = ReviewVersion::V1.answer(mutating, "u", "w", b"<html>").expect_err("no answer");
        assert!(text.starts_with("failed to call webhook: couldn't get version/kind; "), "{text}");
    }
}
