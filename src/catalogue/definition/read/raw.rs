//! A CustomResourceDefinition as its JSON has it, read without its schemas.

use std::cell::OnceCell;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use super::{Draft, Schema, Version};
use crate::{builtins::members, converted::ConversionWebhook, served::ScalePaths};
use model::{PrinterColumn, WebhookPlace};

/// The object as both API versions write it: v1beta1 may say at the top of `spec` what holds for every version.
#[derive(Deserialize)]
pub(super) struct Raw<'a> {
    pub(super) metadata: RawMetadata,
    #[serde(borrow)]
    spec: RawSpec<'a>,
    #[serde(default, deserialize_with = "null_is_default")]
    status: RawStatus,
}

#[derive(Deserialize)]
pub(super) struct RawMetadata {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    group: String,
    scope: String,
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    versions: Vec<RawVersion<'a>>,
    #[serde(flatten)]
    common: RawCommon,
    /// v1beta1: the schema of every version.
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    validation: RawSchema<'a>,
    /// v1beta1 only: nothing is pruned.
    #[serde(default, deserialize_with = "null_is_default")]
    preserve_unknown_fields: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    conversion: RawConversion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVersion<'a> {
    name: String,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
    served: bool,
    storage: bool,
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    schema: RawSchema<'a>,
    #[serde(flatten)]
    common: RawCommon,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCommon {
    subresources: Option<RawSubresources>,
    selectable_fields: Option<Vec<RawSelectable>>,
    additional_printer_columns: Option<Vec<PrinterColumn>>,
}

#[derive(Deserialize, Default)]
struct RawSchema<'a> {
    #[serde(borrow, rename = "openAPIV3Schema")]
    open_api: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawSubresources {
    status: Option<Value>,
    scale: Option<RawScale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawScale {
    spec_replicas_path: String,
    status_replicas_path: String,
    label_selector_path: Option<String>,
}

impl RawScale {
    fn paths(&self) -> ScalePaths {
        let path = |path: &str| members(path.trim_start_matches('.'));
        let selector = self.label_selector_path.as_deref().filter(|p| !p.is_empty()).map(path);
        ScalePaths { spec: path(&self.spec_replicas_path), status: path(&self.status_replicas_path), selector }
    }
}

#[derive(Deserialize)]
struct RawSelectable {
    #[serde(rename = "jsonPath")]
    path: String,
}

/// v1beta1 has what concerns the webhook beside the strategy.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawConversion {
    strategy: String,
    webhook: Option<RawWebhook>,
    webhook_client_config: Option<RawClient>,
    #[serde(deserialize_with = "null_is_default")]
    conversion_review_versions: Vec<String>,
}

#[derive(Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawWebhook {
    client_config: Option<RawClient>,
    #[serde(deserialize_with = "null_is_default")]
    conversion_review_versions: Vec<String>,
}

#[derive(Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawClient {
    url: Option<String>,
    service: Option<RawService>,
    #[serde(deserialize_with = "null_is_default")]
    ca_bundle: String,
}

#[derive(Clone, Deserialize)]
struct RawService {
    namespace: String,
    name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    path: String,
    #[serde(default = "https")]
    port: u16,
}

/// The port of a Service when a definition names none.
fn https() -> u16 {
    443
}

impl RawConversion {
    fn webhook(&self) -> Option<ConversionWebhook> {
        if self.strategy != "Webhook" {
            return None;
        }
        let (client, reviews) = match &self.webhook {
            Some(webhook) => (&webhook.client_config, &webhook.conversion_review_versions),
            None => (&self.webhook_client_config, &self.conversion_review_versions),
        };
        let client = client.clone().unwrap_or_default();
        let of_service = |RawService { namespace, name, path, port }| WebhookPlace::Service { namespace, name, path, port };
        Some(ConversionWebhook {
            place: client.url.map(WebhookPlace::Url).or_else(|| client.service.map(of_service)),
            bundle: BASE64_STANDARD.decode(client.ca_bundle).unwrap_or_default(),
            reviews: reviews.clone(),
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "null_is_default")]
    accepted_names: Names,
    #[serde(default, deserialize_with = "null_is_default")]
    conditions: Vec<RawCondition>,
    #[serde(default, deserialize_with = "null_is_default")]
    stored_versions: Vec<String>,
}

#[derive(Deserialize)]
struct RawCondition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Names {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) short_names: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) categories: Vec<String>,
}

impl<'a> Raw<'a> {
    pub(super) fn checked(self) -> Result<Draft<'a>, String> {
        let mut stored = self.spec.versions.iter().enumerate().filter(|(_, version)| version.storage).map(|(index, _)| index);
        let (Some(storage), None) = (stored.next(), stored.next()) else {
            return Err("it must have exactly one storage version".to_owned());
        };
        let namespaced = match self.spec.scope.as_str() {
            "Namespaced" => true,
            "Cluster" => false,
            other => return Err(format!("its scope {other:?} is neither Namespaced nor Cluster")),
        };
        let holds = |kind: &str| self.status.conditions.iter().any(|c| c.r#type == kind && c.status == "True");
        Ok(Draft {
            namespaced,
            storage,
            webhook: self.spec.conversion.webhook(),
            mixed: OnceCell::new(),
            names_accepted: holds("NamesAccepted"),
            established: holds("Established"),
            terminating: holds("Terminating"),
            versions: self.spec.versions.iter().map(|version| version.resolved(&self.spec)).collect(),
            group: self.spec.group,
            names: self.status.accepted_names,
            stored: self.status.stored_versions,
        })
    }
}

impl<'a> RawVersion<'a> {
    fn resolved(&self, spec: &RawSpec<'a>) -> Version<'a> {
        let subresources = self.common.subresources.as_ref().or(spec.common.subresources.as_ref());
        let selectable = self.common.selectable_fields.as_ref().or(spec.common.selectable_fields.as_ref());
        let schema = self.schema.open_api.or(spec.validation.open_api);
        let columns = self.common.additional_printer_columns.as_ref().or(spec.common.additional_printer_columns.as_ref());
        let label = |field: &RawSelectable| field.path.strip_prefix('.').unwrap_or(&field.path).to_owned();
        Version {
            name: self.name.clone(),
            served: self.served,
            deprecation: self.deprecated.then(|| self.deprecation_warning.clone()),
            schema: schema.map(|schema| Schema {
                text: schema.get(),
                preserves: spec.preserve_unknown_fields,
                structural: OnceCell::new(),
            }),
            selectable: selectable.into_iter().flatten().map(label).collect(),
            status: subresources.is_some_and(|s| s.status.is_some()),
            scale: subresources.and_then(|s| s.scale.as_ref()).map(RawScale::paths),
            columns: columns.cloned().unwrap_or_default(),
        }
    }
}

/// Go writes an empty slice or pointer as `null`.
fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
