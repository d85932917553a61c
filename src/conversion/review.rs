//! ConversionReview: what a webhook is asked, and what is believed of its answer. Every text is kube-apiserver's.

use go::{json, quote::quoted, yaml::reader};
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
/// As a Go program calls the set of types that it knows.
const SCHEME: &str = r#"in scheme "pkg/runtime/scheme.go:111""#;
/// What Go reads kind and version into.
const TYPE_META: &str =
    r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

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
        let review = self.read(answer)?;
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

    fn read(self, answer: &[u8]) -> Read<Review<'_>> {
        const UNREAD: &str = "couldn't get version/kind; json parse error";
        let wrong = |kind: &str| format!("{UNREAD}: json: cannot unmarshal {kind} into {TYPE_META}");
        let begins = answer.iter().find(|byte| !byte.is_ascii_whitespace());
        if begins != Some(&b'{') {
            // What is no JSON is taken for YAML.
            let document = reader::parse(answer).map_err(|why| format!("{UNREAD}: {why}"))?;
            return if document.value.is_null() { Ok(Review::default()) } else { Err(wrong(json::kind(&document.value))) };
        }
        let unread = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Eof => format!("{UNREAD}: unexpected end of JSON input"),
            _ => format!("{UNREAD}: {error}"),
        };
        let TypeMeta { api_version, kind } = serde_json::from_slice(answer).map_err(unread)?;
        let own = format!("{GROUP}/{}", self.name());
        let into = format!("({}.ConversionReview)", self.name());
        match (&*api_version, &*kind) {
            ("", _) | (_, "") => {}
            (version, "ConversionReview") if version == own => {}
            ("apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1", "ConversionReview") => {
                let other = api_version.rsplit('/').next().unwrap_or_default();
                return Err(format!("converting ({other}.ConversionReview) to {into}: unknown conversion"));
            }
            ("v1", "Status") => return Err(format!("converting (v1.Status) to {into}: unknown conversion")),
            (version, kind) => return Err(format!("no kind {} is registered for version {} {SCHEME}", quoted(kind), quoted(version))),
        }
        serde_json::from_slice(answer).map_err(|error| format!("the answer is no ConversionReview: {error}"))
    }
}

type Read<T> = Result<T, String>;

/// A group, version and kind as Go prints them.
pub(crate) fn kind_of(api_version: &str, kind: &str) -> String {
    let (group, version) = match api_version.split_once('/') {
        // Go does not split what has more slashes.
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
        None => ("", api_version),
    };
    format!("{group}/{version}, Kind={kind}")
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: String,
    kind: String,
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
