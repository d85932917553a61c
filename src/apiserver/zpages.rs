//! `/statusz` and `/flagz` as kube-apiserver has them (KEP-4827, KEP-4828): text for people; JSON and YAML only for those who name the kind and its version.

use std::{fmt::Write, time::Duration};

use axum::response::Response;
use codec::Media;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, WARNING},
};
use serde::Serialize;
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

use super::{
    accept::clause::{Clause, clauses},
    api::Api,
    context::Authorized,
    path::Zpage,
    started::Started,
    status::Status,
};
use catalogue::discovery::{EMULATED, GIT_VERSION};

/// Name of this component, as kube-apiserver tells its own.
const COMPONENT: &str = "apiserver";
const CAUTION: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
/// What the 406 names, in the order in which a clause is tried.
const TYPES: [&str; 3] = ["application/json", "application/yaml", TEXT];
const TEXT: &str = "text/plain";
const GROUP: &str = "config.k8s.io";
/// The versions of both kinds, and whether a client is warned of it.
const VERSIONS: [(&str, bool); 2] = [("v1beta1", false), ("v1alpha1", true)];
/// What `/statusz` points to.
const PATHS: [&str; 7] = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

/// `Statusz` and `Flagz`, with members in kube-apiserver's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    kind: &'static str,
    api_version: &'a str,
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<Map<String, Value>>,
    #[serde(flatten)]
    status: Option<StatusOf>,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusOf {
    start_time: Option<String>,
    uptime_seconds: u64,
    go_version: &'static str,
    binary_version: &'static str,
    emulation_version: &'static str,
    paths: &'static [&'static str],
}

/// The form of an answer.
#[derive(Debug, PartialEq)]
enum Form {
    /// For people.
    Text,
    /// An object.
    Object { media: Media, version: &'static str, is_deprecated: bool, pretty: bool },
}

impl Api {
    /// Answers with one of the two pages.
    pub(super) fn zpage(&self, context: &Authorized, page: Zpage, headers: &HeaderMap) -> Response {
        let (reply, started) = (&context.reply, &self.settings.started);
        let accept = headers.get(ACCEPT).map_or_else(String::new, |value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let Some(form) = form(&accept, page.kind()) else { return context.refused(&Status::not_acceptable(&TYPES)) };
        let age = started.at.elapsed().unwrap_or_default();
        match form {
            Form::Text => reply.whole(StatusCode::OK, "text/plain; charset=utf-8", page.text(started, age).into()),
            Form::Object { media, version, is_deprecated, pretty } => {
                let object = page.object(version, started, age).into_bytes();
                let mut response = match media.encode(object, pretty || reply.wants_pretty()) {
                    Ok(body) => reply.encoded(StatusCode::OK, media, body),
                    Err(why) => return context.refused(&why.into()),
                };
                let content_type = format!("{};g={GROUP};v={version};as={}", media.content_type(), page.kind());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_str(&content_type).expect("names of types"));
                if is_deprecated {
                    let warning =
                        format!("299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"", page.name());
                    response.headers_mut().insert(WARNING, HeaderValue::from_str(&warning).expect("a plain text"));
                }
                response
            }
        }
    }
}

/// Returns the first form that fits what a client accepts: clauses in their order, for each of them the types in ours. Without a clause it is text.
fn form(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let fits = |clause: &Clause<'_>, name: &str| {
        let is_plain = ["sv", "stream"].iter().all(|name| clause.parameter(name).is_none_or(str::is_empty));
        (is_plain && name.split_once('/').is_some_and(|(kind, subkind)| clause.takes(kind, subkind))).then_some(())
    };
    let found = |clause: &Clause<'_>, name: &str| {
        fits(clause, name)?;
        let asked = (clause.parameter("as"), clause.parameter("g"), clause.parameter("v"));
        if name == TEXT {
            return asked.0.is_none().then_some(Form::Text);
        }
        let (version, is_deprecated) = VERSIONS.into_iter().find(|(version, _)| asked == (Some(kind), Some(GROUP), Some(version)))?;
        let media = if name == TYPES[0] { Media::Json } else { Media::Yaml };
        Some(Form::Object { media, version, is_deprecated, pretty: clause.parameter("pretty") == Some("1") })
    };
    clauses(accept).iter().find_map(|clause| TYPES.iter().find_map(|name| found(clause, name)))
}

impl Zpage {
    /// Returns the kind of its object.
    fn kind(self) -> &'static str {
        match self {
            Self::Statusz => "Statusz",
            Self::Flagz => "Flagz",
        }
    }

    /// Returns the last part of its path.
    fn name(self) -> &'static str {
        match self {
            Self::Statusz => "statusz",
            Self::Flagz => "flagz",
        }
    }

    fn object(self, version: &str, started: &Started, age: Duration) -> String {
        let (is_status, api_version) = (self == Self::Statusz, format!("{GROUP}/{version}"));
        let object = Object {
            kind: self.kind(),
            api_version: &api_version,
            metadata: Metadata { name: COMPONENT },
            flags: (!is_status)
                .then(|| Map::from_iter(started.flags.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))))),
            status: is_status.then(|| StatusOf {
                start_time: start(started).replace_nanosecond(0).ok().and_then(|at| at.format(&Rfc3339).ok()),
                uptime_seconds: age.as_secs(),
                go_version: "",
                binary_version: binary_version(),
                emulation_version: EMULATED,
                paths: &PATHS,
            }),
        };
        serde_json::to_string(&object).expect("a tree of text and numbers is JSON")
    }

    fn text(self, started: &Started, age: Duration) -> String {
        let mut text = format!("\n{COMPONENT} {}\n{CAUTION}\n", self.name());
        match self {
            Self::Flagz => started.flags.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\n"))),
            Self::Statusz => {
                let date =
                    format_description!("[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] UTC [year]");
                let seconds = age.as_secs();
                let _ = write!(
                    text,
                    "\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: \nBinary version: {}\nEmulation version: {EMULATED}\nPaths: {}\n",
                    start(started).format(date).unwrap_or_default(),
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60,
                    binary_version(),
                    PATHS.join(" "),
                );
            }
        }
        text
    }
}

fn start(started: &Started) -> OffsetDateTime {
    OffsetDateTime::from(started.at)
}

/// Returns the version that `/version` tells, as this page writes it.
fn binary_version() -> &'static str {
    GIT_VERSION.trim_start_matches('v')
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn started() -> Started {
        let flags = [("allow-writes", "false"), ("data-dir", "/d")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Started { at: SystemTime::UNIX_EPOCH + Duration::new(1_796_000_536, 500_000_000), flags: flags.into() }
    }

    /// As kube-apiserver 1.36.3 answered the same headers.
    #[test]
    fn forms_are_negotiated() {
        let object = |media, version| {
            let is_deprecated = version == "v1alpha1";
            Some(Form::Object { media, version, is_deprecated, pretty: false })
        };
        for (accept, found) in [
            ("", Some(Form::Text)),
            (" ", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/*", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain;charset=utf-8", Some(Form::Text)),
            ("text/html,*/*;q=0.1", Some(Form::Text)),
            ("application/json", None),
            ("text/html", None),
            ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io", object(Media::Json, "v1beta1")),
            ("application/json;v=v1alpha1;g=config.k8s.io;as=Statusz", object(Media::Json, "v1alpha1")),
            ("application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz", object(Media::Yaml, "v1beta1")),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v9;g=config.k8s.io;as=Statusz", None),
            ("application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            ("application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz,text/plain;q=0.5", Some(Form::Text)),
        ] {
            assert_eq!(form(accept, "Statusz"), found, "{accept:?}");
        }
    }

    #[test]
    fn texts_are_those_of_kube_apiserver() {
        let text = Zpage::Statusz.text(&started(), Duration::from_secs(3_723));
        let told = "\nStarted: Mon Nov 30 01:02:16 UTC 2026\nUp: 1 hr 02 min 03 sec\nGo version: \n";
        assert!(text.starts_with(&format!("\napiserver statusz\n{CAUTION}\n{told}Binary version: 1.36.3+watchcache-")), "{text}");
        assert!(text.ends_with("\nEmulation version: 1.36\nPaths: /flagz /healthz /livez /metrics /readyz /statusz /version\n"), "{text}");
        assert_eq!(
            Zpage::Flagz.text(&started(), Duration::ZERO),
            format!("\napiserver flagz\n{CAUTION}\nallow-writes: false\ndata-dir: /d\n")
        );
    }

    #[test]
    fn objects_are_those_of_kube_apiserver() {
        let told = Zpage::Statusz.object("v1beta1", &started(), Duration::from_secs(6));
        let build = format!(r#""goVersion":"","binaryVersion":"{}","emulationVersion":"1.36""#, binary_version());
        let head = r#"{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"apiserver"},"startTime":"2026-11-30T01:02:16Z","uptimeSeconds":6,"#;
        let paths = r#""paths":["/flagz","/healthz","/livez","/metrics","/readyz","/statusz","/version"]}"#;
        assert_eq!(told, format!("{head}{build},{paths}"));
        let told = Zpage::Flagz.object("v1alpha1", &started(), Duration::ZERO);
        let head = r#"{"kind":"Flagz","apiVersion":"config.k8s.io/v1alpha1","metadata":{"name":"apiserver"},"#;
        assert_eq!(told, format!(r#"{head}"flags":{{"allow-writes":"false","data-dir":"/d"}}}}"#));
    }
}
