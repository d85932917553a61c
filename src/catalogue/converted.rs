//! How a version of a custom resource is made of what is stored, where that takes more than another `apiVersion` (spec api-surface §11.3).

use std::sync::Arc;

use model::{Object, Storage, Structural, WebhookPlace};

/// What a definition says of the conversion of its objects to one version, and back to that in which new values are stored.
#[derive(Debug, PartialEq, Eq)]
pub struct DefinedConversion {
    /// The name of the definition.
    pub definition: String,
    /// Who converts; without a webhook only `apiVersion` changes.
    pub webhook: Option<ConversionWebhook>,
    /// The objects as the version has them.
    pub shown: Arc<Storage>,
    /// The versions by their `apiVersion`, each with the schema that prunes and defaults its objects, if it has one.
    pub versions: Vec<(String, Option<Arc<Structural>>)>,
    /// Which of the storage's fields is the `apiVersion` of a stored value. Without one all are of the version in which new values are stored, and have been
    /// pruned and defaulted by its schema.
    pub version_field: Option<usize>,
}

/// `spec.conversion.webhook`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionWebhook {
    /// Where it is; none when a definition that was stored long ago says neither.
    pub place: Option<WebhookPlace>,
    /// The authorities that its certificate is checked with, in PEM; the system's when it is empty.
    pub bundle: Vec<u8>,
    /// `conversionReviewVersions`.
    pub reviews: Vec<String>,
}

impl DefinedConversion {
    /// Returns the `apiVersion` under which an object is stored; `stored_as` is that of new values.
    #[must_use]
    pub fn version_of<'o>(&self, object: &'o Object, stored_as: &'o str) -> &'o str {
        self.version_field.map_or(stored_as, |field| object.field(field))
    }

    /// Returns the schema of a version; `None` when the definition has no such version.
    #[must_use]
    pub fn schema(&self, api_version: &str) -> Option<Option<&Structural>> {
        self.versions.iter().find(|(known, _)| known == api_version).map(|(_, schema)| schema.as_deref())
    }

    /// The same, to be kept.
    #[must_use]
    pub fn shared_schema(&self, api_version: &str) -> Option<&Arc<Structural>> {
        self.versions.iter().find(|(known, _)| known == api_version)?.1.as_ref()
    }
}
