//! ConversionReview: what a webhook is asked, and what is believed of its answer. Every text is kube-apiserver's.

use go::{
    envelope::{Envelope, kind_of},
    quote::quoted,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A version of ConversionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    /// Answers of this version are believed whatever kind and uid they have.
    V1beta1,
}

/// The group of ConversionReview.
const GROUP: &str = "apiextensions.k8s.io";
impl ReviewVersion {
    /// Returns the first of these versions that is spoken here.
    pub(crate) fn first_of(reviews: &[String]) -> Option<Self> {
        reviews.iter().find_map(|review| match review.as_str() {
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

    /// Writes a request to convert these objects, each a JSON text.
    pub(crate) fn request<'t>(self, uid: &str, desired: &str, objects: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
        let (api_version, quote) = (format!("{GROUP}/{}", self.name()), |text: &str| serde_json::Value::from(text).to_string());
        let mut out = format!(
            r#"{{"kind":"ConversionReview","apiVersion":{},"request":{{"uid":{},"desiredAPIVersion":{},"objects":["#,
            quote(&api_version),
            quote(uid),
            quote(desired)
        )
        .into_bytes();
        for (at, object) in objects.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(object);
        }
        out.extend_from_slice(b"]}}");
        out
    }

    /// Returns the converted objects of an answer, as they are written there.
    ///
    /// # Errors
    /// What is told after `conversion webhook for GROUP/VERSION, Kind=KIND failed: `.
    pub(crate) fn objects<'a>(self, uid: &str, answer: &'a [u8]) -> Result<Vec<&'a RawValue>, String> {
        let review: Review<'_> = Envelope { group: GROUP, kind: "ConversionReview", version: self.name() }.read(answer)?;
        if self == Self::V1 {
            let got = kind_of(&review.api_version, &review.kind);
            let wanted = kind_of(&format!("{GROUP}/v1"), "ConversionReview");
            if got != wanted {
                return Err(format!("expected webhook response of {wanted}, got {got}"));
            }
        }
        let response = review.response.ok_or("no response provided")?;
        if self == Self::V1 && response.uid != uid {
            return Err(format!("expected response.uid={}, got {}", quoted(uid), quoted(&response.uid)));
        }
        if response.result.status != "Success" {
            let Outcome { status, message } = response.result;
            return Err(if message.is_empty() { format!("response.result.status was '{status}', not 'Success'") } else { message });
        }
        Ok(response.converted_objects.unwrap_or_default())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Review<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Response<'a> {
    uid: String,
    result: Outcome,
    #[serde(borrow)]
    converted_objects: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Outcome {
    status: String,
    message: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn told(answer: &str) -> Result<usize, String> {
        ReviewVersion::V1.objects("u", answer.as_bytes()).map(|objects| objects.len())
    }

    fn answer(response: Value) -> String {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}).to_string()
    }

    #[test]
    fn a_request_has_its_objects_as_they_are() {
        let request = ReviewVersion::V1beta1.request("u\"", "ex.io/v2", [&b"{\"a\":1.50}"[..], b"{}"].into_iter());
        let read: Value = serde_json::from_slice(&request).expect("JSON");
        assert_eq!(read["request"], json!({"uid": "u\"", "desiredAPIVersion": "ex.io/v2", "objects": [{"a": 1.5}, {}]}));
        assert_eq!(read["apiVersion"], "apiextensions.k8s.io/v1beta1");
        assert!(String::from_utf8_lossy(&request).contains("1.50"));
    }

    #[test]
    fn what_is_no_answer_is_told_as_by_kube_apiserver() {
        let check = |answer: &str, want: &str| assert_eq!(told(answer), Err(want.to_owned()), "{answer}");
        assert_eq!(told(&answer(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{}, null, 7]}))), Ok(3));
        check(&answer(json!({"uid": "v", "result": {"status": "Success"}})), r#"expected response.uid="u", got "v""#);
        check(&answer(json!({"uid": "u", "result": {"status": "Failure", "message": "why"}})), "why");
        check(&answer(json!({"uid": "u"})), "response.result.status was '', not 'Success'");
        check(&answer(Value::Null), "no response provided");
        check("{}", "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=");
        let old = ReviewVersion::V1beta1.objects("u", br#"{"response":{"uid":"w","result":{"status":"Success"}}}"#);
        assert!(old.is_ok_and(|objects| objects.is_empty()), "of old answers less is asked");
    }

    proptest! {
        /// Whatever a webhook sends, it is read or refused, and an answer to another question is never believed.
        #[test]
        fn any_answer_is_read_or_refused(text in "\\PC*", uid in "[a-z]{0,3}", cut in 0..200_usize, at in 0..200_usize, byte: u8) {
            let _ = told(&text);
            let whole = answer(json!({"uid": uid, "result": {"status": "Success"}, "convertedObjects": [{"kind": "T"}]}));
            prop_assert_eq!(told(&whole).is_ok(), uid == "u");
            let _ = ReviewVersion::V1.objects("u", &whole.as_bytes()[..cut.min(whole.len())]);
            let mut broken = whole.into_bytes();
            let at = at % broken.len();
            broken[at] = byte;
            let _ = ReviewVersion::V1beta1.objects("u", &broken);
        }
    }
}
