//! A CustomResourceDefinition as stored (`apiextensions.k8s.io/v1beta1`) written as v1, in the order of v1's Go structs. Schemas pass through.

mod shape;
mod stored;

use serde_json::value::RawValue;

pub use stored::{lifted, normal, to_stored};

use super::{
    encode,
    ingest::invalid,
    members::{Members, Writer},
};

const STORED: &str = "apiextensions.k8s.io/v1beta1";

/// The members that v1 has in each version and v1beta1 once for all, when they agree (apiextensions `v1/conversion.go`): v1's name,
/// v1beta1's name.
const PER_VERSION: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The v1 form; `None` when the value is not a v1beta1 definition (v1 is served as it is, others are refused by their type).
///
/// # Errors
/// Invalid JSON, or members of a wrong type.
pub fn converted(text: &str) -> Result<Option<String>, String> {
    let top = Members::read(text).map_err(|e| invalid(&e))?;
    let words = (top.text("kind"), top.text("apiVersion"));
    if !matches!(words, (Ok(Some(kind)), Ok(Some(version))) if kind == "CustomResourceDefinition" && version == STORED) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(text.len());
    v1_into(&top, &mut out).map_err(|e| invalid(&e))?;
    String::from_utf8(out).map(Some).map_err(|_| "not UTF-8".to_owned())
}

fn v1_into(top: &Members<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let spec = top.object("spec")?;
    let versions = versions_of(&spec)?;
    let mut writer = Writer::open(out);
    writer.raw("kind", "\"CustomResourceDefinition\"");
    writer.raw("apiVersion", "\"apiextensions.k8s.io/v1\"");
    writer.raw("metadata", top.raw("metadata").unwrap_or("{}"));
    spec_into(&spec, &versions, writer.name("spec"))?;
    status_into(&top.object("status")?, &versions, writer.name("status"))?;
    writer.close();
    Ok(())
}

/// `spec.versions`, or the one that the older `spec.version` names. The members of one version each.
fn versions_of<'a>(spec: &Members<'a>) -> serde_json::Result<Vec<Version<'a>>> {
    let listed: Vec<&RawValue> = spec.array("versions")?.unwrap_or_default();
    if listed.is_empty()
        && let Some(name) = spec.raw("version").filter(|name| *name != "\"\"")
    {
        return Ok(vec![Version { name, served: "true", storage: "true", members: Members::default() }]);
    }
    listed
        .into_iter()
        .map(|raw| {
            let members = Members::read(raw.get())?;
            let flag = |name| members.raw(name).unwrap_or("false");
            Ok(Version { name: members.raw("name").unwrap_or("\"\""), served: flag("served"), storage: flag("storage"), members })
        })
        .collect()
}

struct Version<'a> {
    name: &'a str,
    served: &'a str,
    storage: &'a str,
    members: Members<'a>,
}

fn spec_into(spec: &Members<'_>, versions: &[Version<'_>], out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut writer = Writer::open(out);
    writer.raw("group", spec.raw("group").unwrap_or("\"\""));
    names_into(&spec.object("names")?, true, writer.name("names"))?;
    writer.raw("scope", spec.raw("scope").filter(|scope| *scope != "\"\"").unwrap_or("\"Namespaced\""));
    let list = writer.name("versions");
    list.push(b'[');
    for (i, version) in versions.iter().enumerate() {
        if i > 0 {
            list.push(b',');
        }
        version_into(version, spec, list)?;
    }
    list.push(b']');
    conversion_into(&spec.object("conversion")?, writer.name("conversion"))?;
    // v1beta1 defaults it to true, v1 leaves false out.
    if spec.raw("preserveUnknownFields") != Some("false") {
        writer.raw("preserveUnknownFields", "true");
    }
    writer.close();
    Ok(())
}

fn version_into(version: &Version<'_>, spec: &Members<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut writer = Writer::open(out);
    writer.raw("name", version.name);
    writer.raw("served", version.served);
    writer.raw("storage", version.storage);
    writer.some("deprecated", version.members.raw("deprecated").filter(|flag| *flag != "false"));
    writer.some("deprecationWarning", version.members.raw("deprecationWarning"));
    for (name, for_all) in PER_VERSION {
        let holder = if spec.raw(for_all).is_some() { (spec, for_all) } else { (&version.members, name) };
        match holder.0.array(holder.1) {
            _ if holder.0.raw(holder.1).is_none_or(|raw| raw == "[]") => {}
            Ok(Some(columns)) if name == "additionalPrinterColumns" => columns_into(&columns, writer.name(name))?,
            _ => writer.some(name, holder.0.raw(holder.1)),
        }
    }
    writer.close();
    Ok(())
}

/// Columns whose path is under `JSONPath` in v1beta1 and under `jsonPath` in v1.
fn columns_into(columns: &[&RawValue], out: &mut Vec<u8>) -> serde_json::Result<()> {
    out.push(b'[');
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let column = Members::read(column.get())?;
        let mut writer = Writer::open(out);
        writer.raw("name", column.raw("name").unwrap_or("\"\""));
        writer.raw("type", column.raw("type").unwrap_or("\"\""));
        writer.some("format", column.raw("format").filter(|text| *text != "\"\""));
        writer.some("description", column.raw("description").filter(|text| *text != "\"\""));
        writer.some("priority", column.raw("priority").filter(|number| *number != "0"));
        writer.raw("jsonPath", column.raw("JSONPath").unwrap_or("\"\""));
        writer.close();
    }
    out.push(b']');
    Ok(())
}

/// Names; `spec.names` gets the defaults for singular and list kind (apiextensions `v1beta1/defaults.go`), the accepted ones do not.
fn names_into(names: &Members<'_>, defaults: bool, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let kind = names.text("kind")?.filter(|kind| defaults && !kind.is_empty());
    let quoted = |text: String| {
        let mut out = Vec::new();
        encode::string_into(&text, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let singular = kind.as_ref().map(|kind| quoted(kind.to_lowercase()));
    let list_kind = kind.as_ref().map(|kind| quoted(format!("{kind}List")));
    let filled = |name| names.raw(name).filter(|raw| !matches!(*raw, "\"\"" | "[]"));
    let mut writer = Writer::open(out);
    writer.raw("plural", names.raw("plural").unwrap_or("\"\""));
    writer.some("singular", filled("singular").or(singular.as_deref()));
    writer.some("shortNames", filled("shortNames"));
    writer.raw("kind", names.raw("kind").unwrap_or("\"\""));
    writer.some("listKind", filled("listKind").or(list_kind.as_deref()));
    writer.some("categories", filled("categories"));
    writer.close();
    Ok(())
}

/// v1 puts the webhook's two members into an object; a service's port defaults to 443.
fn conversion_into(conversion: &Members<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let strategy = conversion.raw("strategy").unwrap_or("\"None\"");
    let versions = conversion.raw("conversionReviewVersions").filter(|list| *list != "[]");
    let versions = versions.or((strategy == "\"Webhook\"").then_some("[\"v1beta1\"]"));
    let config = conversion.raw("webhookClientConfig");
    let mut writer = Writer::open(out);
    writer.raw("strategy", strategy);
    if config.is_some() || versions.is_some() {
        let mut webhook = Writer::open(writer.name("webhook"));
        if let Some(config) = config {
            client_config_into(&Members::read(config)?, webhook.name("clientConfig"))?;
        }
        webhook.raw("conversionReviewVersions", versions.unwrap_or("null"));
        webhook.close();
    }
    writer.close();
    Ok(())
}

fn client_config_into(config: &Members<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut writer = Writer::open(out);
    writer.some("url", config.raw("url"));
    if let Some(service) = config.raw("service") {
        let service = Members::read(service)?;
        let mut inner = Writer::open(writer.name("service"));
        inner.raw("namespace", service.raw("namespace").unwrap_or("\"\""));
        inner.raw("name", service.raw("name").unwrap_or("\"\""));
        inner.some("path", service.raw("path"));
        inner.raw("port", service.raw("port").unwrap_or("443"));
        inner.close();
    }
    writer.some("caBundle", config.raw("caBundle").filter(|text| *text != "\"\""));
    writer.close();
    Ok(())
}

fn status_into(status: &Members<'_>, versions: &[Version<'_>], out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut writer = Writer::open(out);
    writer.raw("conditions", status.raw("conditions").unwrap_or("null"));
    names_into(&status.object("acceptedNames")?, false, writer.name("acceptedNames"))?;
    let storage = versions.iter().find(|version| version.storage == "true").map(|version| format!("[{}]", version.name));
    let kept = status.raw("storedVersions").filter(|list| *list != "[]");
    writer.raw("storedVersions", kept.or(storage.as_deref()).unwrap_or("null"));
    writer.some("observedGeneration", status.raw("observedGeneration").filter(|number| *number != "0"));
    writer.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A definition of the year 2017: no versions list, no defaults written.
    #[test]
    fn an_old_definition_gets_the_defaults_of_v1beta1() {
        let old = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"a.ex.io"},
            "spec":{"group":"ex.io","version":"v1","names":{"plural":"as","kind":"A"},"scope":"",
            "conversion":{"strategy":"Webhook","webhookClientConfig":{"service":{"namespace":"n","name":"s"}}}}}"#;
        let new = converted(old).expect("valid").expect("v1beta1");
        assert_eq!(
            new,
            concat!(
                r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"a.ex.io"},"spec":{"group":"ex.io","#,
                r#""names":{"plural":"as","singular":"a","kind":"A","listKind":"AList"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"#,
                r#""storage":true}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"namespace":"n","name":"s","port":443}},"#,
                r#""conversionReviewVersions":["v1beta1"]}},"preserveUnknownFields":true},"status":{"conditions":null,"acceptedNames":{"plural":"","#,
                r#""kind":""},"storedVersions":["v1"]}}"#
            )
        );
    }

    #[test]
    fn only_v1beta1_definitions_are_converted() {
        assert_eq!(converted(r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"}"#), Ok(None));
        assert_eq!(converted(r#"{"kind":"Other","apiVersion":"apiextensions.k8s.io/v1beta1"}"#), Ok(None));
        assert!(converted(r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","spec":7}"#).is_err());
        assert!(converted("{").is_err());
    }
}
