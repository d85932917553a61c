//! Conversions to other versions that a webhook makes, known before who needs them decides: deciding waits for nobody.

use parking_lot::Mutex;
use serde_json::Value;

use crate::write::failure::WriteError;
use conversion::{ConversionError, Converter};

/// Conversions that one write may need: a few for each version that anybody has managed a field in.
const CONVERSIONS_MAX: usize = 64;

/// What is known of the conversions that one write needs, and which one is missing.
#[derive(Default)]
pub(in crate::write) struct Conversions {
    known: Mutex<Vec<Known>>,
    wanted: Mutex<Option<(Value, String)>>,
}

struct Known {
    object: Value,
    api_version: String,
    made: Result<Value, String>,
}

impl Conversions {
    /// Returns an object in another version, if that is known; `None` notes that it is wanted.
    pub(super) fn find(&self, object: &Value, api_version: &str) -> Option<Result<Value, String>> {
        let known = self.known.lock();
        let found = known.iter().find(|known| known.api_version == api_version && known.object == *object);
        if let Some(found) = found {
            return Some(found.made.clone());
        }
        if known.len() >= CONVERSIONS_MAX {
            return Some(Err("the object is needed in too many versions".to_owned()));
        }
        self.wanted.lock().get_or_insert_with(|| (object.clone(), api_version.to_owned()));
        None
    }

    /// Whether one is missing: what was decided without it does not count.
    pub(in crate::write) fn is_incomplete(&self) -> bool {
        self.wanted.lock().is_some()
    }

    /// Finds out what is missing.
    ///
    /// # Errors
    /// Too many wait for the webhook.
    pub(in crate::write) async fn complete(&self, converter: Option<&Converter>) -> Result<(), WriteError> {
        let Some((object, api_version)) = self.wanted.lock().clone() else { return Ok(()) };
        let made = match converter {
            Some(converter) => match converter.raw(&object, &api_version).await {
                Err(busy @ ConversionError::Busy(_)) => return Err(busy.into()),
                made => made.map_err(|error| error.to_string()),
            },
            None => Err(format!("no version {api_version} is served")),
        };
        *self.wanted.lock() = None;
        self.known.lock().push(Known { object, api_version, made });
        Ok(())
    }
}
