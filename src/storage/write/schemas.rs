//! The schemas of custom resources that are written, compiled once: of each served version the last one.

use std::sync::Arc;

use dashmap::DashMap;

use super::{
    Writer,
    custom::{self, CompiledSchema},
    failure::WriteError,
};
use catalogue::{DefinedSchema, Served};
use registry::ServedResources;
use rules::Validator;

/// Compiled schemas by group, version and plural name.
#[derive(Default)]
pub(super) struct Schemas {
    compiled: DashMap<(String, String, String), Compiled>,
}

struct Compiled {
    /// What it was compiled from: bytes of the definition.
    defined: DefinedSchema,
    /// None of what cannot be compiled.
    schema: Option<Arc<CompiledSchema>>,
}

impl Schemas {
    /// The one that was compiled from this text. That of a definition which was written since, and says the same, stays.
    fn known(&self, key: &(String, String, String), defined: &DefinedSchema) -> Option<Option<Arc<CompiledSchema>>> {
        let mut known = self.compiled.get_mut(key)?;
        if known.defined.json.as_ptr() != defined.json.as_ptr() {
            if known.defined != *defined {
                return None;
            }
            // Else the definition before would be kept for it.
            known.defined = defined.clone();
        }
        Some(known.schema.clone())
    }

    /// Forgets those of what is not served any more.
    fn forget_unserved(&self, resources: &ServedResources) {
        self.compiled.retain(|(group, version, resource), _| resources.find(group, version, resource).is_some());
    }
}

impl Writer {
    /// The schema of a resource, if its definition has one that objects are judged by.
    ///
    /// # Errors
    /// It is no schema that can be read.
    pub(super) async fn schema(&self, served: &Served) -> Result<Option<Arc<CompiledSchema>>, WriteError> {
        if !served.is_custom() {
            return Ok(None);
        }
        let resources = self.resources.load_full();
        let Some(defined) = resources.catalogue.schema(&served.group, &served.version, &served.resource).cloned() else { return Ok(None) };
        let key = (served.group.clone(), served.version.clone(), served.resource.clone());
        let schema = match self.schemas.known(&key, &defined) {
            Some(schema) => schema,
            None => {
                let schema = self.offload.run(true, || custom::compile(&defined)).await.ok().map(Arc::new);
                report_broken(&key, schema.as_deref());
                self.schemas.forget_unserved(&resources);
                self.schemas.compiled.insert(key, Compiled { defined, schema: schema.clone() });
                schema
            }
        };
        // A kube-apiserver's words for a definition that it cannot serve.
        schema.map(Some).ok_or_else(|| WriteError::Internal("error resolving resource".to_owned()))
    }
}

/// Logs that a stored definition has rules that are none: objects that have them are refused.
fn report_broken((group, version, resource): &(String, String, String), schema: Option<&CompiledSchema>) {
    let broken = schema.and_then(|schema| schema.rules.as_ref()).map_or(0, Validator::broken);
    if broken > 0 {
        tracing::warn!(
            group,
            version,
            resource,
            rules = broken,
            "rules of a definition cannot be compiled: writes of its objects are refused"
        );
    }
}
