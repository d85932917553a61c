//! Operations of discovery, of the release and of the keys of tokens.

use serde_json::{Value, json};

use super::{
    path_of,
    paths::{ANSWERS, part_of_id, responses, tag, words},
    schemas::Schemas,
};

/// Documents besides those of group versions, by path, when Kubernetes' own groups are served; of `apis` each group has one besides.
pub(super) const FIXED: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

const VERSIONS: &str = "get available API versions";

/// Returns the operations of the document at one of these paths.
pub(super) fn fixed(path: &str, schemas: &mut Schemas<'_>) -> (String, Value) {
    const JSON: &[&str] = &["application/json"];
    const KEYS: &[&str] = &["application/jwk-set+json"];
    let token = "get service account issuer OpenID";
    let text = json!({ "type": "string" });
    let (tag, id, description, types, schema) = match path {
        "api" => ("core", "getCoreAPIVersions", VERSIONS.to_owned(), ANSWERS, schemas.meta("APIVersions")),
        "apis" => ("apis", "getAPIVersions", VERSIONS.to_owned(), ANSWERS, schemas.meta("APIGroupList")),
        "version" => {
            let description = "get the version information for this server".to_owned();
            ("version", "getCodeVersion", description, JSON, schemas.named("io.k8s.apimachinery.pkg.version.Info"))
        }
        "openid/v1/jwks" => {
            let description = format!("{token} JSON Web Key Set (contains public token verification keys)");
            ("openid", "getServiceAccountIssuerOpenIDKeyset", description, KEYS, text)
        }
        _ => {
            let description = format!("{token} configuration, also known as the 'OIDC discovery doc'");
            ("WellKnown", "getServiceAccountIssuerOpenIDConfiguration", description, JSON, text)
        }
    };
    (format!("/{path}/"), operation(tag, id, &description, types, &schema))
}

/// Returns the operation that tells of a group.
pub(super) fn of_group(group: &str, schemas: &mut Schemas<'_>) -> (String, Value) {
    let id = format!("get{}APIGroup", words(group));
    (format!("/apis/{group}/"), operation(&tag(group, None), &id, "get information of a group", ANSWERS, &schemas.meta("APIGroup")))
}

/// Returns the operation that tells of a group version.
pub(super) fn of_version(group: &str, version: &str, schemas: &mut Schemas<'_>) -> (String, Value) {
    let id = format!("get{}{}APIResources", words(group), part_of_id(version, true));
    let schema = schemas.meta("APIResourceList");
    (format!("/{}/", path_of(group, version)), operation(&tag(group, Some(version)), &id, "get available resources", ANSWERS, &schema))
}

fn operation(tag: &str, id: &str, description: &str, types: &[&str], schema: &Value) -> Value {
    let responses = responses(&[("200", types, schema)]);
    json!({ "get": { "description": description, "operationId": id, "responses": responses, "tags": [tag] } })
}
