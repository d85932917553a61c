//! The laws of the parsers of reads: selectors, tokens, queries, `Accept`, paths, durations. Each prints what it accepted and must read that again as the
//! same.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, USER_AGENT},
};

use crate::{
    accept::{Asked, Form, negotiate},
    path::{Odd, PathError, ResourcePath, Route, escaped, version_path},
};
use codec::Media;
use corpus::Subject;
use go::{duration, strconv::parse_int, url::Query};
use model::{
    Object, Revision,
    selector::{
        LabelMatcher,
        parse::{FieldClause, fields, labels},
    },
    shard::{self, Shard},
    test_object_of,
};
use storage::read::{
    options::ListOptions,
    token::{self, Token, TokenRevision},
};

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

#[test]
fn label_selectors() {
    Subject {
        name: "label-selectors",
        law: |input| {
            let Ok(selector) = labels(&text(input)) else { return false };
            let again = labels(&selector.printed()).expect("a printed selector parses");
            assert_eq!(again, selector);
            for object in objects() {
                assert_eq!(LabelMatcher::new(&selector).matches(object.labels()), selector.matches(object.labels()));
            }
            true
        },
        words: &[
            "in",
            "notin",
            "(",
            ")",
            "!",
            "=",
            "==",
            "!=",
            ">",
            "<",
            ",",
            " in (a,b)",
            " notin ()",
            "app",
            "ex.io/",
            "app in (a,,b)",
            "!app",
        ],
        long: &[
            ["a in (", "b,", "c)"],
            ["", "a,", "a"],
            ["", "!", "a"],
            ["a in (", ",", ")"],
            ["", "(", ""],
            ["", "a", ""],
            ["a=", "\u{a0}", ""],
        ],
    }
    .check();
}

/// Objects with labels of every kind.
fn objects() -> [Object; 3] {
    let object = |labels: &[(&str, &str)]| {
        let mut object = test_object_of("/registry/things/ns/a", 7, labels, &[]);
        object.uid_hash = shard::hash("1797abea-ee19-4d36-ba63-639a7d45e51e");
        object
    };
    [object(&[]), object(&[("app", "a"), ("a", ""), ("b", "5")]), object(&[("in", "in"), ("ex.io/a", "-9"), ("a", "9223372036854775807")])]
}

#[test]
fn field_selectors() {
    fn escaped(clause: &FieldClause) -> String {
        let value = clause.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        format!("{}{}{value}", clause.label, if clause.equal { "=" } else { "!=" })
    }
    Subject {
        name: "field-selectors",
        law: |input| {
            let Ok(clauses) = fields(&text(input)) else { return false };
            for clause in &clauses {
                assert_eq!(fields(&escaped(clause)), Ok(vec![clause.clone()]), "{clause:?}");
            }
            // They are sorted as they stand, escapes and all: together they may come back in another order.
            let mut again = fields(&clauses.iter().map(escaped).collect::<Vec<_>>().join(",")).expect("printed clauses parse");
            let mut clauses = clauses;
            let key = |clause: &FieldClause| (clause.label.clone(), clause.equal, clause.value.clone());
            again.sort_by_key(key);
            clauses.sort_by_key(key);
            assert_eq!(again, clauses);
            true
        },
        words: &["=", "==", "!=", ",", "\\,", "\\=", "\\\\", "metadata.name", "metadata.namespace", "spec.nodeName=", "status.phase!="],
        long: &[["", ",", ""], ["", "a=b,", ""], ["a=", "\\,", ""], ["", "\\", ""], ["", "!=", ""], ["", "a", "=b"]],
    }
    .check();
}

#[test]
fn shard_selectors() {
    Subject {
        name: "shard-selectors",
        law: |input| {
            let Ok(shard) = Shard::parse(&text(input)) else { return false };
            let again = Shard::parse(&shard.to_string()).expect("a printed shard parses");
            for object in objects() {
                assert_eq!(shard.matches(&object), again.matches(&object));
            }
            assert_eq!(again, shard);
            true
        },
        words: &[
            "shardRange(",
            "object.metadata.uid",
            "object.metadata.namespace",
            "'0x0000000000000000'",
            "'0x8000000000000000'",
            "'0x10000000000000000'",
            " || ",
            "&&",
            "(",
            ")",
            "'''",
            "r\"",
            "b'",
            "\\x30",
            "?",
            ":",
            "[",
            "{",
            "//",
            "0x1u",
            "1e5",
            "-",
            "!",
            " in ",
        ],
        long: &[
            ["", "(", ""],
            ["", "!", "a"],
            ["", "-", "1"],
            ["a", ".a", ""],
            ["", "[", ""],
            ["", "a || ", "a"],
            ["", "a + ", "a"],
            ["'", "\\x30", "'"],
            ["", "a ? ", "b"],
            ["//", " c", ""],
            ["", "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')||", "a"],
        ],
    }
    .check();
}

#[test]
fn continue_tokens() {
    /// The text as a token, and as the JSON inside of one.
    fn both(input: &[u8]) -> bool {
        [text(input), URL_SAFE_NO_PAD.encode(input)].iter().filter(|token| comes_back(token)).count() > 0
    }
    fn comes_back(text: &str) -> bool {
        let Ok(read) = token::decode(text) else { return false };
        assert!(!read.start.starts_with('/') && !read.start.split('/').any(|part| matches!(part, "." | "..")), "{read:?}");
        if read.start.is_empty() {
            return true; // The real server, too, hands out a token of it that it does not take back.
        }
        let reopened = token::decode(&read.reopened());
        assert_eq!(reopened, Ok(Token { revision: TokenRevision::Newest, start: read.start.clone() }));
        if let (TokenRevision::Pinned(Revision(revision)), Some(key)) = (read.revision, read.start.strip_suffix('\0')) {
            let revision = i64::try_from(revision).expect("it was an int64");
            let slashes: &[bool] = if key.is_empty() { &[false] } else { &[false, true] };
            for slash in slashes {
                assert_eq!(token::decode(&token::encode(revision, key, *slash)).as_ref(), Ok(&read));
            }
        }
        true
    }
    Subject {
        name: "continue-tokens",
        law: both,
        words: &[
            r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/a\u0000"}"#,
            r#""v":"meta.k8s.io/v1","#,
            r#""rv":-1,"#,
            r#""start":""#,
            r#"START"#,
            "..",
            "//",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "=",
            "eyJ2Ijoi",
        ],
        long: &[
            ["", "[", ""],
            ["", "{\"a\":", ""],
            ["", "A", ""],
            ["", "=", ""],
            ["\"", "\\u0000", "\""],
            ["{", "\"v\":null,", "\"rv\":1}"],
            [r#"{"v":"meta.k8s.io/v1","rv":7,"start":""#, "a/", "b\"}"],
        ],
    }
    .check();
}

#[test]
fn queries() {
    /// Every byte that means nothing to a query and nothing to an escape, escaped.
    fn escaped(text: &str) -> String {
        let keep = |byte: u8| b"&=+%;".contains(&byte) || byte.is_ascii_hexdigit();
        text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
    }
    Subject {
        name: "queries",
        law: |input| {
            let text = text(input);
            let query = Query::parse(&text);
            assert_eq!(query, Query::parse(&escaped(&text)), "escapes mean what they stand for");
            for name in ["watch", "limit", "a", ""] {
                assert_eq!(query.first(name), query.all(name).next());
            }
            let Ok(mut options) = ListOptions::of(&Query::parse(&text)) else { return false };
            options.default_watch();
            let once = options.clone();
            options.default_watch();
            assert_eq!(options, once, "defaults are there already");
            holds(&options);
            true
        },
        words: &[
            "watch",
            "limit=",
            "continue=",
            "resourceVersion=",
            "resourceVersionMatch=Exact",
            "NotOlderThan",
            "sendInitialEvents=true",
            "allowWatchBookmarks",
            "timeoutSeconds=",
            "labelSelector=",
            "fieldSelector=",
            "shardSelector=",
            "&",
            "=",
            "+",
            ";",
            "%",
            "%2",
            "true",
            "FALSE",
        ],
        long: &[
            ["", "&", ""],
            ["", "a=b&", "limit=1"],
            ["a=", "%41", ""],
            ["a=", "%", ""],
            ["limit=", "9", ""],
            ["resourceVersion=", "0", ""],
        ],
    }
    .check();
}

fn holds(options: &ListOptions) {
    let _ = options.validate();
    let digits = &options.resource_version;
    assert_eq!(
        options.revision().is_ok(),
        digits.is_empty() || (digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u64>().is_ok())
    );
    assert_eq!(parse_int(digits).ok(), digits.parse::<i64>().ok());
}

#[test]
fn accept() {
    const ALL: [Asked; 6] =
        [Asked::BuiltIn, Asked::Custom, Asked::BuiltInWatch, Asked::CustomWatch, Asked::RoutedDocument, Asked::RoutedDiscovery];
    fn ask(accept: &[u8], asked: Asked) -> Option<Form> {
        let mut headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static("corpus"))]);
        headers.insert(ACCEPT, HeaderValue::from_bytes(accept).ok()?);
        negotiate(headers.get(ACCEPT), false, asked).ok()
    }
    Subject {
        name: "accept",
        law: |input| {
            // A header has one line.
            let accept: Vec<u8> = input.iter().copied().filter(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f)).collect();
            let mut any = false;
            for asked in ALL {
                let Some(form) = ask(&accept, asked) else {
                    let or_json = [&accept, b",application/json".as_slice()].concat();
                    let readable = HeaderValue::from_bytes(&or_json).is_ok_and(|value| value.to_str().is_ok());
                    // A watch has no YAML, whatever else is accepted after it.
                    let yaml = ask(&or_json, Asked::Custom).is_some_and(|form| form.media == Media::Yaml);
                    assert!(!readable || yaml || ask(&or_json, asked).is_some(), "plain JSON is always there: {asked:?}");
                    continue;
                };
                any = true;
                // More than twelve are ordered in another way. At the beginning it may come between two clauses that would change places.
                if !accept.is_empty() && accept.split(|byte| *byte == b',').count() < 12 {
                    let and_nothing = [&accept, b" , none/such;q=0.5".as_slice()].concat();
                    assert_eq!(ask(&and_nothing, asked), Some(form), "a type that nobody has changes nothing: {asked:?}");
                }
            }
            any
        },
        words: &[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "*/*",
            "application/*",
            ";as=Table",
            ";v=v1",
            ";g=meta.k8s.io",
            ";as=PartialObjectMetadata",
            ";as=PartialObjectMetadataList",
            ";as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
            ";stream=watch",
            ";pretty=1",
            ";q=0.5",
            ";q=nan",
            ";q=inf",
            ";sv=v1",
            ",",
            ";",
            "=",
            "*",
        ],
        long: &[
            ["", ",", "*/*"],
            ["", "application/json,", "a"],
            ["a/b", ";q=1", ""],
            ["", "*/*;q=0.1,", "*/*"],
            ["", "/", ""],
            ["", ";", ""],
        ],
    }
    .check();
}

#[test]
fn paths() {
    Subject {
        name: "paths",
        law: |input| match Route::parse(&text(input)) {
            Ok(route) => {
                if let Some(path) = written(&route) {
                    assert_eq!(Route::parse(&path), Ok(route), "{path}");
                }
                true
            }
            Err(PathError::BadEscape) => false,
            Err(PathError::NoRequestInfo(why)) => {
                assert!(!why.is_empty());
                false
            }
        },
        words: &[
            "/api/v1",
            "/apis/apps/v1",
            "/namespaces/",
            "/watch/",
            "/proxy/",
            "/status",
            "/finalize",
            "/scale",
            "/pods",
            "/healthz",
            "/readyz/",
            "/openapi/v3/",
            "/version",
            "/metrics",
            "/slis",
            "//",
            "/",
            ".",
            "..",
            "%2E",
            "%25",
        ],
        long: &[
            ["", "/", ""],
            ["/api/v1/pods/", "a", ""],
            ["/api/v1", "/namespaces", ""],
            ["/", "%", ""],
            ["/openapi", "/a", ""],
            ["/", "%ff", ""],
        ],
    }
    .check();
}

/// A path that leads here; what is unknown has none.
fn written(route: &Route) -> Option<String> {
    let Route::Resource(ResourcePath { group, version, namespace, resource, name, subresource, legacy_watch, odd }) = route else {
        return route.path().map(Into::into);
    };
    if *odd != Odd::default() || resource.is_empty() {
        return None;
    }
    let segment = |text: &str| format!("/{}", escaped(text));
    let watch = if *legacy_watch { "/watch" } else { "" };
    let namespace = namespace.as_deref().map(|name| format!("/namespaces{}", segment(name))).unwrap_or_default();
    let rest = [Some(resource), name.as_ref(), subresource.as_ref()].into_iter().flatten().map(|text| segment(text));
    Some(format!("{}{watch}{namespace}{}", version_path(group, version), rest.collect::<String>()))
}

#[test]
fn durations() {
    Subject {
        name: "durations",
        law: |input| {
            let Ok(length) = duration::parse(&text(input)) else { return false };
            assert_eq!(duration::parse(&format!("{}ns", length.as_nanos())), Ok(length));
            assert!(length.as_nanos() <= i64::MAX as u128);
            true
        },
        words: &["h", "m", "s", "ms", "us", "µs", "μs", "ns", ".", "-", "+", "1h30m", "9223372036854775807ns", "2562047h47m16.854775807s"],
        long: &[["", "0", "s"], ["", "0s", ""], ["0.", "9", "s"], ["", ".", ""], ["1", "s", ""], ["", "1h", ""]],
    }
    .check();
}
