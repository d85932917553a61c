//! A stored core/v1 Event shown as events.k8s.io/v1: other names, the order of its Go struct, values passed through as they stand.

use serde_json::{Map, Value};

use super::{
    members::{Members, Writer},
    versions::Stored,
};

#[cfg(test)]
/// What events.k8s.io/v1 shows of the zero Event after its metadata: its members without `omitempty`.
pub(super) const ZERO: &str =
    r#","eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#;

/// Appends the members of the v1 form of `core` (a whole object's text) from `metadata` on, and the closing brace.
///
/// Ingest has read the text before, so it is an object; members of a type that no Event has are shown as if they were missing.
pub(super) fn tail_into(core: &str, out: &mut Vec<u8>) {
    let core = Members::read(core).unwrap_or_default();
    let text = |name| core.raw(name).filter(|text| *text != "\"\"");
    let mut writer = Writer::resume(out);
    writer.raw("metadata", core.raw("metadata").unwrap_or("{}"));
    writer.raw("eventTime", core.raw("eventTime").unwrap_or("null"));
    if let Some(series) = core.raw("series") {
        let series = Members::read(series).unwrap_or_default();
        let mut inner = Writer::open(writer.name("series"));
        inner.raw("count", series.raw("count").unwrap_or("0"));
        inner.raw("lastObservedTime", series.raw("lastObservedTime").unwrap_or("null"));
        inner.close();
    }
    writer.some("reportingController", text("reportingComponent"));
    writer.some("reportingInstance", text("reportingInstance"));
    writer.some("action", text("action"));
    writer.some("reason", text("reason"));
    writer.raw("regarding", core.raw("involvedObject").unwrap_or("{}"));
    writer.some("related", core.raw("related"));
    writer.some("note", text("message"));
    writer.some("type", text("type"));
    writer.raw("deprecatedSource", core.raw("source").unwrap_or("{}"));
    writer.raw("deprecatedFirstTimestamp", core.raw("firstTimestamp").unwrap_or("null"));
    writer.raw("deprecatedLastTimestamp", core.raw("lastTimestamp").unwrap_or("null"));
    writer.some("deprecatedCount", core.raw("count").filter(|count| *count != "0"));
    writer.close();
}

/// Members that have another name in a core/v1 Event: v1, core.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// The core/v1 Event that an events.k8s.io/v1 Event is stored as; its `apiVersion` stays. None is too long.
pub(super) fn core_of(event: &Map<String, Value>) -> Stored {
    let name = |name: &String| RENAMED.iter().find(|(v1, _)| v1 == name).map_or_else(|| name.clone(), |(_, core)| (*core).to_owned());
    Ok(event.iter().map(|(member, value)| (name(member), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(core: &str) -> String {
        let mut out = Vec::new();
        tail_into(core, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn empty_members_are_left_out_or_zero() {
        assert_eq!(shown("{}"), format!("\"metadata\":{{}}{ZERO}}}"));
        assert_eq!(
            shown(r#"{"metadata":{"name":"n"},"reason":"","count":0,"series":{"lastObservedTime":null},"source":null}"#),
            format!(
                "\"metadata\":{{\"name\":\"n\"}}{}}}",
                ZERO.replacen(r#"null"#, r#"null,"series":{"count":0,"lastObservedTime":null}"#, 1)
            )
        );
    }
}
