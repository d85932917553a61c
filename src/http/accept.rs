//! What a client accepts and what we answer with: JSON, indented or not, whole or the metadata alone, and the aggregated form of discovery (spec
//! api-surface §3, list-watch §4.3). Clauses for YAML, protobuf and Table are skipped, as a server skips what it cannot do; the 406 texts name what is
//! left.
//!
//! Deviations until those forms are served: the texts list `application/json` only (kube-apiserver adds YAML and protobuf, and for watches protobuf's stream
//! form); `Accept: application/yaml` alone gets the router's 406, where kube-apiserver answers (or, for a watch, gives the other text, in YAML).

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};

use super::status::Status;
use crate::codec::MetaVersion;

const JSON: &str = "application/json";
const JSON_STREAM: &str = "application/json;stream=watch";

/// What is being asked for; decides which clauses fit and which 406 text is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GET, LIST or a write of a built-in resource.
    BuiltIn,
    /// GET, LIST or a write of a custom resource: the router's check does not apply (spec api-surface §3.3).
    Custom,
    /// Watch of a built-in resource.
    BuiltInWatch,
    /// Watch of a custom resource.
    CustomWatch,
    /// An API object that is no resource's, under a path that the router guards: it has one form.
    RoutedDocument,
    /// The same where the router does not look.
    Document,
    /// `/api` and `/apis`, which have an aggregated form too.
    Discovery,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// JSON with two spaces and no newline at its end. Watches ignore it (spec list-watch §1.2).
    pub pretty: bool,
    /// `APIGroupDiscoveryList` v2 instead of the plain document (spec api-surface §2.2); only for `Asked::Discovery`.
    pub aggregated: bool,
    /// The metadata alone; only for resources. Writes do not look at it yet: they answer with the whole object.
    pub partial: Option<Partial>,
    /// Whether failures are indented: no clause that asks for another kind of object fits them, and without one that fits they are indented (spec
    /// api-surface §3.4).
    pub errors_pretty: bool,
}

/// `as=PartialObjectMetadata` or `as=PartialObjectMetadataList`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// `v` of the clause.
    pub version: MetaVersion,
    /// Whether the answer must be a list.
    pub list: bool,
}

impl Form {
    fn plain(pretty: bool) -> Self {
        Self { pretty, aggregated: false, partial: None, errors_pretty: pretty }
    }
}

/// Chooses the form of the answer from the `Accept` and `User-Agent` headers and the `pretty` parameter (`None` when absent).
///
/// # Errors
/// The 406. It is sent indented when `Accept` could not be met (spec api-surface §3.4).
pub fn negotiate(headers: &HeaderMap, pretty: Option<&str>, asked: Asked) -> Result<Form, Status> {
    let accept = match headers.get(ACCEPT) {
        Some(value) => value.to_str().unwrap_or("unreadable"),
        None => "",
    };
    let wants_pretty = is_pretty(headers, pretty);
    if accept.is_empty() {
        return Ok(Form::plain(wants_pretty));
    }
    let clauses = clauses(accept);
    if matches!(asked, Asked::BuiltIn | Asked::BuiltInWatch | Asked::RoutedDocument) && !clauses.iter().any(Clause::routes) {
        let types: &[&str] = if asked == Asked::BuiltInWatch { &[JSON, JSON_STREAM] } else { &[JSON] };
        return Err(Status::not_acceptable_routed(types));
    }
    let fitting = |asked| clauses.iter().filter(|clause| clause.names_json()).find_map(|clause| clause.form(asked));
    let Some(form) = fitting(asked) else { return Err(Status::not_acceptable(&[JSON])) };
    let errors = if form.partial.is_some() || form.aggregated { fitting(Asked::Document) } else { Some(form) };
    let errors_pretty = errors.is_none_or(|errors| errors.pretty || wants_pretty);
    Ok(Form { pretty: form.pretty || wants_pretty, errors_pretty, ..form })
}

/// Whether JSON is indented, `Accept: …;pretty=1` apart (spec api-surface §3.5): the parameter decides, else a client that a person looks through.
pub fn is_pretty(headers: &HeaderMap, parameter: Option<&str>) -> bool {
    match parameter {
        Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        _ => {
            let agent = headers.get(USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
            [&b"curl"[..], b"Wget", b"Mozilla/5.0"].iter().any(|start| agent.starts_with(start))
        }
    }
}

/// One clause of an `Accept` header.
#[derive(Debug, PartialEq)]
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Clauses by falling q, wildcards after what is specific, else in the client's order (spec api-surface §3.2).
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        b.quality.total_cmp(&a.quality).then((a.kind == "*").cmp(&(b.kind == "*"))).then((a.subkind == "*").cmp(&(b.subkind == "*")))
    });
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next()?;
        let (kind, subkind) = match media.split_once('/') {
            Some((kind, subkind)) => (kind.trim(), subkind.trim()),
            None if media == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Clause { kind, subkind, quality: 1.0, parameters: Vec::new() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match (key.trim(), value.trim()) {
                ("q", value) => clause.quality = value.parse().ok().filter(|q: &f32| q.is_finite()).unwrap_or(0.0),
                parameter => clause.parameters.push(parameter),
            }
        }
        Some(clause)
    }

    /// Passes the router of built-in resources: an exact type, or `*/*`; not `application/*`.
    fn routes(&self) -> bool {
        (self.kind, self.subkind) == ("*", "*") || (self.kind, self.subkind) == ("application", "json")
    }

    fn names_json(&self) -> bool {
        (self.kind == "*" && self.subkind == "*") || (self.kind == "application" && matches!(self.subkind, "json" | "*"))
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The form that the parameters ask for; `None` when we cannot give it.
    fn form(&self, asked: Asked) -> Option<Form> {
        let pretty = self.parameter("pretty") == Some("1");
        if self.parameter("stream").is_some_and(|stream| !stream.is_empty() && stream != "watch") {
            return None;
        }
        if self.parameter("sv").is_some_and(|version| !version.is_empty() && version != "v1") {
            return None;
        }
        let plain = Form::plain(pretty);
        match (self.parameter("as"), self.parameter("g"), self.parameter("v")) {
            (None, None, None) => Some(plain),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) if asked == Asked::Discovery => {
                Some(Form { aggregated: true, ..plain })
            }
            (Some(kind @ ("PartialObjectMetadata" | "PartialObjectMetadataList")), Some("meta.k8s.io"), Some(version))
                if !matches!(asked, Asked::Document | Asked::RoutedDocument | Asked::Discovery) =>
            {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                Some(Form { partial: Some(Partial { version, list: kind.ends_with("List") }), ..plain })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn ask(accept: &str, asked: Asked) -> Result<Form, String> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).expect("a header value"));
        negotiate(&headers, None, asked).map_err(|status| status.message)
    }

    const PLAIN: Form = Form { pretty: false, aggregated: false, partial: None, errors_pretty: false };
    const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    const CLIENT_GO_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

    #[test]
    fn what_we_can_do_is_found_among_what_we_cannot() {
        for accept in [
            "",
            "*/*",
            "*",
            "application/json",
            " application/json ; charset=utf-8",
            "application/json;stream=watch",
            "application/json;sv=v1",
            KUBECTL,
            "application/vnd.kubernetes.protobuf,application/json",
            "application/yaml;q=0.9,application/json;q=0.1",
            "text/html,application/xml;q=0.9,*/*;q=0.8",
        ] {
            for asked in [Asked::BuiltIn, Asked::Custom, Asked::BuiltInWatch, Asked::CustomWatch, Asked::Discovery] {
                assert_eq!(ask(accept, asked), Ok(PLAIN), "{accept:?} {asked:?}");
            }
        }
        assert_eq!(ask("application/*", Asked::Custom), Ok(PLAIN));
        assert_eq!(ask("application/json;pretty=1", Asked::BuiltIn), Ok(Form { pretty: true, errors_pretty: true, ..PLAIN }));
    }

    #[test]
    fn the_texts_of_406() {
        let routed = "406: Not Acceptable\n\nAvailable representations: application/json";
        let negotiated = "only the following media types are accepted: application/json";
        for accept in ["text/plain", "application/*", "APPLICATION/JSON", "nonsense", "application/yaml"] {
            assert_eq!(ask(accept, Asked::BuiltIn), Err(routed.to_owned()), "{accept}");
        }
        assert_eq!(ask("text/plain", Asked::BuiltInWatch), Err(format!("{routed}, application/json;stream=watch")));
        assert_eq!(ask("text/plain", Asked::Custom), Err(negotiated.to_owned()));
        for accept in ["application/json;stream=foo", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;sv=v9"] {
            assert_eq!(ask(accept, Asked::BuiltIn), Err(negotiated.to_owned()), "{accept}");
        }
        assert_eq!(
            ask("application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io", Asked::Discovery),
            Err(negotiated.to_owned())
        );
    }

    #[test]
    fn aggregated_discovery_is_chosen_in_the_clients_order() {
        assert_eq!(ask(CLIENT_GO_DISCOVERY, Asked::Discovery), Ok(Form { aggregated: true, ..PLAIN }));
        assert_eq!(ask(CLIENT_GO_DISCOVERY, Asked::BuiltIn), Ok(PLAIN));
        assert_eq!(
            ask("application/json;as=APIGroupDiscoveryList;profile=nopeer;v=v2;g=apidiscovery.k8s.io", Asked::Discovery),
            Ok(Form { aggregated: true, errors_pretty: true, ..PLAIN })
        );
        let json_first = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.5,application/json";
        assert_eq!(ask(json_first, Asked::Discovery), Ok(PLAIN));
    }

    #[test]
    fn metadata_alone_is_chosen_for_resources() {
        const GO: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        let partial = |version, list| Some(Partial { version, list });
        let one = Form { partial: partial(MetaVersion::V1, false), ..PLAIN };
        let resources = [Asked::BuiltIn, Asked::Custom, Asked::BuiltInWatch, Asked::CustomWatch];
        for asked in resources {
            assert_eq!(ask(GO, asked), Ok(one));
            let list = "application/json;q=0.5, */*;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1;stream=watch";
            assert_eq!(ask(list, asked), Ok(Form { partial: partial(MetaVersion::V1Beta1, true), ..PLAIN }));
            assert_eq!(ask("application/json,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", asked), Ok(PLAIN));
            for unknown in ["g=meta.k8s.io;v=v2", "g=apps;v=v1", "v=v1", "g=meta.k8s.io"] {
                assert_eq!(ask(&format!("application/json;as=PartialObjectMetadata;{unknown},application/json"), asked), Ok(PLAIN));
            }
        }
        for asked in [Asked::Document, Asked::RoutedDocument, Asked::Discovery] {
            assert_eq!(ask(GO, asked), Ok(PLAIN));
            assert!(ask("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", asked).is_err());
        }
    }

    #[test]
    fn failures_have_a_negotiation_of_their_own() {
        let alone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let pretty = |accept: &str| ask(accept, Asked::BuiltIn).map(|form| (form.pretty, form.errors_pretty));
        assert_eq!(pretty(alone), Ok((false, true)));
        assert_eq!(pretty(&format!("{alone},application/yaml,*/*")), Ok((false, false)));
        assert_eq!(pretty(&format!("{alone};pretty=1,application/json")), Ok((true, false)));
        assert_eq!(pretty(&format!("{alone},application/json;pretty=1")), Ok((false, true)));
    }

    #[test]
    fn people_get_indented_json() {
        let agent = |agent: &'static str| HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(agent))]);
        for (headers, parameter, expected) in [
            (agent("curl/8.5"), None, true),
            (agent("Mozilla/5.0 (X11)"), Some(""), true),
            (agent("curl/8.5"), Some("false"), false),
            (agent("curl/8.5"), Some("maybe"), false),
            (agent("kubectl/v1.32"), None, false),
            (agent("kubectl/v1.32"), Some("1"), true),
            (HeaderMap::new(), Some("yes"), false),
        ] {
            assert_eq!(is_pretty(&headers, parameter), expected, "{headers:?} {parameter:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(accept in "[a-z*/;,=q0-9. ]{0,40}|(application/json|;q=(nan|inf|1e9|-1)|,|\\*/\\*){0,9}") {
            for asked in [Asked::BuiltIn, Asked::Discovery] {
                let _ = ask(&accept, asked);
            }
        }
    }
}
