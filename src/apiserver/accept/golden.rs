//! What a live kube-apiserver 1.36.3 made of hundreds of `Accept` headers (`tests/data/media/record.py`).

use http::HeaderValue;
use serde_json::Value;

use super::{Asked, Form, Partial, Shape, Status, negotiate, of_failure};
use codec::{Media, MetaVersion};

#[test]
fn answers_are_negotiated_as_by_kube_apiserver() {
    let mut compared = 0;
    for line in include_str!("../../../tests/data/media/accept.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let value = case["value"].as_str().expect("a value");
        let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
        // What parses a request takes the spaces away.
        let header = HeaderValue::from_bytes(bytes.trim_ascii()).expect("a header value");
        for (kind, theirs) in case["answers"].as_object().expect("answers") {
            let theirs = theirs.as_str().expect("text");
            let asked = match &**kind {
                "get" | "missing" => Asked::BuiltIn,
                "list" => Asked::BuiltInList,
                "custom" | "custom list" | "custom missing" => Asked::Custom,
                "watch" => Asked::BuiltInWatch,
                "custom watch" => Asked::CustomWatch,
                "version" => Asked::JsonDocument,
                "resources" => Asked::RoutedDocument,
                "group" => Asked::Document,
                "groups" => Asked::Discovery,
                "versions" => Asked::RoutedDiscovery,
                _ => continue,
            };
            let negotiated = negotiate(Some(&header), false, asked);
            let ours = match (negotiated, of_failure(Some(&header), false)) {
                (Err(status), _) => refusal(&status),
                (Ok(_), None) if kind.ends_with("missing") => "json pretty".to_owned(),
                (Ok(_), Some((media, pretty))) if kind.ends_with("missing") => told(Form { media, pretty, ..Form::default() }),
                // It is always indented.
                (Ok(form), _) if kind == "version" => told(Form { pretty: true, ..form }),
                (Ok(form), _) if kind.ends_with("watch") => told(Form { pretty: false, ..form }),
                (Ok(form), _) => told(form),
            };
            // That an object is no list, or a list no object, is found out later.
            if ["406 you requested", "500 content is not a list", "nothing"].iter().any(|start| theirs.starts_with(start)) {
                assert!(ours.contains("PartialObjectMetadata"), "{kind}: {value:?}: {ours}, {theirs}");
            } else {
                assert_eq!(ours, theirs, "{kind}: {value:?}");
            }
            compared += 1;
        }
    }
    assert!(compared > 4_000, "{compared}");
}

fn refusal(status: &Status) -> String {
    assert_eq!(status.code, 406);
    let (before, types) = status.message.split_once(": ").map_or(("", ""), |(before, types)| match types.split_once(": ") {
        Some((_, types)) => ("routed", types),
        None => (before, types),
    });
    format!("406 {} {types}", if before == "routed" { before } else { "known" })
}

fn told(form: Form) -> String {
    let media = match form.media {
        Media::Json => "json",
        Media::Yaml => "yaml",
        Media::Protobuf => "protobuf",
    };
    let of = |version| match version {
        MetaVersion::V1 => "v1",
        MetaVersion::V1Beta1 => "v1beta1",
    };
    let shape = match form.shape {
        _ if form.aggregated => " aggregated".to_owned(),
        Shape::Whole => String::new(),
        Shape::Table(version) => format!(" Table {}", of(version)),
        Shape::Partial(Partial { version, .. }) => format!(" PartialObjectMetadata {}", of(version)),
    };
    let pretty = if form.pretty && form.media == Media::Json { " pretty" } else { "" };
    format!("{media}{pretty}{shape}")
}
