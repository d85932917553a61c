//! What a client accepts and what we answer with: JSON, indented or not, YAML, protobuf; whole, the metadata alone or as a Table; and the aggregated
//! form of discovery (spec api-surface §3, list-watch §4.3). Encodes nothing.

pub(super) mod clause;
#[cfg(test)]
mod golden;

use std::borrow::Cow;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};

use self::clause::{Clause, clauses};
use super::status::Status;
use codec::{Media, MetaVersion};

/// What is being asked for; decides which clauses fit and which 406 text is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GET or a write of a built-in resource.
    BuiltIn,
    /// LIST of a built-in resource: the router does not tell it from a watch.
    BuiltInList,
    /// GET, LIST or a write of a custom resource: the router's check does not apply (spec api-surface §3.3), and there is no protobuf of it.
    Custom,
    /// Watch of a built-in resource.
    BuiltInWatch,
    /// Watch of a custom resource.
    CustomWatch,
    /// `/version`, which is JSON only.
    JsonDocument,
    /// An API object that is no resource's, under a path that the router guards: it has one shape.
    RoutedDocument,
    /// The same where the router does not look; every failure is one.
    Document,
    /// `/apis`, which has an aggregated form too.
    Discovery,
    /// `/api`, which has one too, under a path that the router guards.
    RoutedDiscovery,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// How it is encoded.
    pub media: Media,
    /// JSON with two spaces and no newline at its end. Watches ignore it (spec list-watch §1.2).
    pub pretty: bool,
    /// `APIGroupDiscoveryList` v2 instead of the plain document (spec api-surface §2.2); only for `Asked::Discovery`.
    pub aggregated: bool,
    /// As what an object is shown; only for resources.
    pub shape: Shape,
}

/// As what an object is shown: the parameters `as`, `g` and `v`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Itself.
    #[default]
    Whole,
    /// `as=PartialObjectMetadata` or `as=PartialObjectMetadataList`.
    Partial(Partial),
    /// `as=Table`.
    Table(MetaVersion),
}

/// `as=PartialObjectMetadata` or `as=PartialObjectMetadataList`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// `v` of the clause.
    pub version: MetaVersion,
    /// Whether the answer must be a list.
    pub list: bool,
}

/// In kube-apiserver's order.
const MEDIA: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];
/// What the 406 texts name.
const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// Chooses the form of the answer. `wants_pretty`: see [`is_pretty`].
///
/// # Errors
/// The 406.
pub fn negotiate(accept: Option<&HeaderValue>, wants_pretty: bool, asked: Asked) -> Result<Form, Status> {
    let accept = accepted(accept);
    if let Some(media) = asked.guarded()
        && !is_routed(&accept, media)
    {
        let streams: &[&str] = if matches!(asked, Asked::BuiltInList | Asked::BuiltInWatch) { &STREAMS } else { &[] };
        return Err(Status::not_acceptable_routed(&[&TYPES[..media.len()], streams].concat()));
    }
    if asked == Asked::JsonDocument {
        // It is JSON whatever the parameters of a clause say.
        return Ok(Form { pretty: wants_pretty, ..Form::default() });
    }
    let form = best(&clauses(&accept), asked).ok_or_else(|| Status::not_acceptable(&TYPES))?;
    if asked.is_watch() && form.media == Media::Yaml {
        return Err(Status::not_acceptable(&STREAMS));
    }
    Ok(Form { pretty: form.pretty || wants_pretty, ..form })
}

/// How a failure is encoded, and whether it is indented: it has a negotiation of its own. Where that comes to nothing it is indented JSON
/// (spec api-surface §3.4).
pub fn of_failure(accept: Option<&HeaderValue>, wants_pretty: bool) -> Option<(Media, bool)> {
    best(&clauses(&accepted(accept)), Asked::Document).map(|form| (form.media, form.pretty || wants_pretty))
}

/// The header; without one anything is accepted.
fn accepted(accept: Option<&HeaderValue>) -> Cow<'_, str> {
    accept.filter(|value| !value.is_empty()).map_or(Cow::Borrowed("*/*"), |value| String::from_utf8_lossy(value.as_bytes()))
}

/// Whether the router of built-in resources lets the header pass: it has a known type or `*/*` in so many words, whatever follows a `;`.
fn is_routed(accept: &str, known: &[Media]) -> bool {
    let mut named = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim_matches(' '));
    named.any(|named| named == "*/*" || known.iter().any(|media| media.content_type() == named))
}

/// The first form that fits: clauses in their order, for each of them the media types in ours. The aggregated form of discovery is not weighed against others.
fn best(clauses: &[Clause<'_>], asked: Asked) -> Option<Form> {
    let first = |form: &dyn Fn(&Clause<'_>, Media) -> Option<Form>| {
        clauses.iter().find_map(|clause| MEDIA.into_iter().filter(|media| takes(clause, *media)).find_map(|media| form(clause, media)))
    };
    let aggregated = if asked.is_discovery() { first(&aggregated) } else { None };
    aggregated.or_else(|| first(&|clause, media| form(clause, asked, media)))
}

fn takes(clause: &Clause<'_>, media: Media) -> bool {
    media.content_type().split_once('/').is_some_and(|(kind, subkind)| clause.takes(kind, subkind))
}

fn aggregated(clause: &Clause<'_>, media: Media) -> Option<Form> {
    let asked = (clause.parameter("as"), clause.parameter("g"), clause.parameter("v"));
    let is_asked = asked == (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2"));
    (is_asked && media == Media::Json && clause.parameter("sv").is_none_or(str::is_empty) && streams(clause, media))
        .then(|| Form { aggregated: true, ..plain(clause, media) })
}

/// What the client asks to be streamed, if anything, is a watch. There is none in YAML.
fn streams(clause: &Clause<'_>, media: Media) -> bool {
    clause.parameter("stream").is_none_or(|stream| stream.is_empty() || (stream == "watch" && media != Media::Yaml))
}

fn plain(clause: &Clause<'_>, media: Media) -> Form {
    Form { media, pretty: clause.parameter("pretty") == Some("1"), aggregated: false, shape: Shape::Whole }
}

/// The form that the parameters of a clause ask for; `None` when there is none in this encoding.
fn form(clause: &Clause<'_>, asked: Asked, media: Media) -> Option<Form> {
    let fits = |version: &str| version.is_empty() || (asked.is_resource() && version == "v1");
    if !streams(clause, media) || !clause.parameter("sv").is_none_or(fits) {
        return None;
    }
    let plain = plain(clause, media);
    let custom = matches!(asked, Asked::Custom | Asked::CustomWatch);
    match (clause.parameter("as"), clause.parameter("g"), clause.parameter("v")) {
        (None, None, None) => (media != Media::Protobuf || !custom).then_some(plain),
        (Some(kind), Some("meta.k8s.io"), Some(version)) if asked.is_resource() => {
            let version = match version {
                "v1" => MetaVersion::V1,
                "v1beta1" => MetaVersion::V1Beta1,
                _ => return None,
            };
            let shape = match kind {
                "Table" if media != Media::Protobuf => Shape::Table(version),
                "PartialObjectMetadata" => Shape::Partial(Partial { version, list: false }),
                "PartialObjectMetadataList" => Shape::Partial(Partial { version, list: true }),
                _ => return None,
            };
            Some(Form { shape, ..plain })
        }
        _ => None,
    }
}

impl Asked {
    /// The media types that the router of built-ins lets pass; it does not look at anything else.
    fn guarded(self) -> Option<&'static [Media]> {
        match self {
            Self::BuiltIn | Self::BuiltInList | Self::BuiltInWatch | Self::RoutedDocument | Self::RoutedDiscovery => Some(&MEDIA),
            Self::JsonDocument => Some(&MEDIA[..1]),
            Self::Custom | Self::CustomWatch | Self::Document | Self::Discovery => None,
        }
    }

    fn is_watch(self) -> bool {
        matches!(self, Self::BuiltInWatch | Self::CustomWatch)
    }

    fn is_discovery(self) -> bool {
        matches!(self, Self::Discovery | Self::RoutedDiscovery)
    }

    fn is_resource(self) -> bool {
        matches!(self, Self::BuiltIn | Self::BuiltInList | Self::Custom) || self.is_watch()
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(accept: &str, asked: Asked) -> Result<Form, String> {
        let accept = HeaderValue::from_str(accept).expect("a header value");
        negotiate(Some(&accept), false, asked).map_err(|status| status.message)
    }

    const PLAIN: Form = Form { media: Media::Json, pretty: false, aggregated: false, shape: Shape::Whole };
    const YAML: Form = Form { media: Media::Yaml, ..PLAIN };
    const PROTOBUF: Form = Form { media: Media::Protobuf, ..PLAIN };
    const TABLE: Form = Form { shape: Shape::Table(MetaVersion::V1), ..PLAIN };
    const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    const CLIENT_GO_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    const RESOURCES: [Asked; 4] = [Asked::BuiltIn, Asked::Custom, Asked::BuiltInWatch, Asked::CustomWatch];

    /// As long as a head may be by default, in clauses and in parameters: what is quadratic takes minutes of CPU.
    #[test]
    fn long_headers_take_little_time() {
        let began = cpu();
        for unit in ["a/b,", "*/*;a=b,", "a/*;q=0.1,", ";a=b", "application/json;as=x,", ","] {
            for asked in RESOURCES {
                let _ = ask(&format!("a/b{}", unit.repeat((128 << 10) / unit.len())), asked);
            }
        }
        let took = cpu() - began;
        assert!(took < std::time::Duration::from_secs(30), "{took:?}");
    }

    /// Returns the CPU time of this thread, whatever else the machine does.
    fn cpu() -> std::time::Duration {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
        std::time::Duration::from_nanos(stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("a number"))
    }

    #[test]
    fn json_unless_something_else_is_asked_for() {
        for accept in [
            "",
            "*/*",
            "application/json",
            " application/json ; charset=utf-8",
            "application/json;stream=watch",
            "application/yaml;q=0.1,application/json;q=0.9",
            "text/html,application/xml;q=0.9,*/*;q=0.8",
        ] {
            for asked in RESOURCES.into_iter().chain([Asked::Discovery]) {
                assert_eq!(ask(accept, asked), Ok(PLAIN), "{accept:?} {asked:?}");
            }
        }
        assert_eq!(ask("application/*", Asked::Custom), Ok(PLAIN));
        assert_eq!(ask("*", Asked::Custom), Ok(PLAIN));
        assert_eq!(ask("application/json;sv=v1", Asked::BuiltIn), Ok(PLAIN));
        assert_eq!(ask("application/json;pretty=1", Asked::BuiltIn), Ok(Form { pretty: true, ..PLAIN }));
    }

    #[test]
    fn protobuf_is_for_built_ins() {
        let go = "application/vnd.kubernetes.protobuf,application/json";
        for asked in [Asked::BuiltIn, Asked::BuiltInWatch, Asked::Document, Asked::RoutedDocument] {
            assert_eq!(ask(go, asked), Ok(PROTOBUF), "{asked:?}");
        }
        for asked in [Asked::Custom, Asked::CustomWatch] {
            assert_eq!(ask(go, asked), Ok(PLAIN), "{asked:?}");
            assert!(ask("application/vnd.kubernetes.protobuf", asked).is_err());
        }
        assert_eq!(ask("application/vnd.kubernetes.protobuf;stream=watch", Asked::BuiltInWatch), Ok(PROTOBUF));
    }

    #[test]
    fn yaml_is_for_what_is_whole() {
        for asked in [Asked::BuiltIn, Asked::Custom, Asked::Document] {
            assert_eq!(ask("application/yaml", asked), Ok(YAML));
        }
        let streams =
            "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        for asked in [Asked::BuiltInWatch, Asked::CustomWatch] {
            assert_eq!(ask("application/yaml", asked), Err(streams.to_owned()));
        }
    }

    #[test]
    fn the_texts_of_406() {
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let routed = format!("406: Not Acceptable\n\nAvailable representations: {types}");
        let negotiated = format!("only the following media types are accepted: {types}");
        for accept in ["text/plain", "application/*", "APPLICATION/JSON", "nonsense"] {
            assert_eq!(ask(accept, Asked::BuiltIn), Err(routed.clone()), "{accept}");
        }
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        for asked in [Asked::BuiltInList, Asked::BuiltInWatch] {
            assert_eq!(ask("text/plain", asked), Err(format!("{routed}, {streams}")));
        }
        let json = "406: Not Acceptable\n\nAvailable representations: application/json";
        assert_eq!(ask("application/yaml", Asked::JsonDocument), Err(json.to_owned()));
        assert_eq!(ask("application/json;as=Foo;v=v1;g=meta.k8s.io", Asked::JsonDocument), Ok(PLAIN));
        assert_eq!(ask("text/plain", Asked::Custom), Err(negotiated.clone()));
        for accept in
            ["application/json;stream=foo", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "application/json;sv=v9"]
        {
            assert_eq!(ask(accept, Asked::BuiltIn), Err(negotiated.clone()), "{accept}");
        }
        let old = "application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io";
        assert_eq!(ask(old, Asked::Discovery), Err(negotiated));
    }

    #[test]
    fn aggregated_discovery_is_chosen_wherever_it_is_asked_for() {
        assert_eq!(ask(CLIENT_GO_DISCOVERY, Asked::Discovery), Ok(Form { aggregated: true, ..PLAIN }));
        assert_eq!(ask(CLIENT_GO_DISCOVERY, Asked::BuiltIn), Ok(PLAIN));
        assert_eq!(
            ask("application/json;as=APIGroupDiscoveryList;profile=nopeer;v=v2;g=apidiscovery.k8s.io", Asked::Discovery),
            Ok(Form { aggregated: true, ..PLAIN })
        );
        let json_first = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.5,application/json";
        assert_eq!(ask(json_first, Asked::Discovery), Ok(Form { aggregated: true, ..PLAIN }), "it is not weighed against others");
    }

    #[test]
    fn tables_are_for_resources_in_text() {
        for asked in RESOURCES {
            assert_eq!(ask(KUBECTL, asked), Ok(TABLE));
        }
        assert_eq!(ask(KUBECTL, Asked::Document), Ok(PLAIN));
        let yaml = "application/yaml;as=Table;v=v1beta1;g=meta.k8s.io";
        assert_eq!(ask(yaml, Asked::Custom), Ok(Form { shape: Shape::Table(MetaVersion::V1Beta1), ..YAML }));
    }

    #[test]
    fn metadata_alone_is_chosen_for_resources() {
        const GO: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let partial = |version, list| Shape::Partial(Partial { version, list });
        let one = Form { shape: partial(MetaVersion::V1, false), ..PROTOBUF };
        for asked in RESOURCES {
            assert_eq!(ask(GO, asked), Ok(one));
            let list = "application/json;q=0.5, */*;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1;stream=watch";
            assert_eq!(ask(list, asked), Ok(Form { shape: partial(MetaVersion::V1Beta1, true), ..PLAIN }));
            assert_eq!(ask("application/json,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", asked), Ok(PLAIN));
            for unknown in ["g=meta.k8s.io;v=v2", "g=apps;v=v1", "v=v1", "g=meta.k8s.io"] {
                assert_eq!(ask(&format!("application/json;as=PartialObjectMetadata;{unknown},application/json"), asked), Ok(PLAIN));
            }
        }
        for asked in [Asked::Document, Asked::RoutedDocument, Asked::Discovery] {
            assert!(ask("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", asked).is_err());
        }
    }

    #[test]
    fn failures_have_a_negotiation_of_their_own() {
        let alone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let failure = |accept: &str| of_failure(Some(&HeaderValue::from_str(accept).expect("a header value")), false);
        assert_eq!(failure(alone), None);
        assert_eq!(failure("text/plain"), None);
        assert_eq!(failure(&format!("{alone},application/yaml,*/*")), Some((Media::Yaml, false)));
        assert_eq!(failure(&format!("{alone};pretty=1,application/json")), Some((Media::Json, false)));
        assert_eq!(failure(&format!("{alone},application/json;pretty=1")), Some((Media::Json, true)));
        assert_eq!(failure("application/vnd.kubernetes.protobuf"), Some((Media::Protobuf, false)));
        assert_eq!(of_failure(None, true), Some((Media::Json, true)));
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
