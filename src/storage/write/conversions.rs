//! Conversions to other versions that a webhook makes, known before who needs them decides: deciding waits for nobody.

use serde_json::Value;

use super::failure::WriteError;
use conversion::{ConversionError, Converter};

/// Conversions that one write may need: a few for each version that anybody has managed a field in.
const CONVERSIONS_MAX: usize = 64;

/// What is known of the conversions that one write needs.
#[derive(Default)]
pub(super) struct Conversions(Vec<Known>);

struct Known {
    of: Missing,
    made: Result<Value, String>,
}

/// An object that is needed in another version.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The object as it is.
    object: Value,
    /// The version that it is needed in.
    api_version: String,
}

impl Conversions {
    /// Returns an object in another version, or why there is none.
    ///
    /// # Errors
    /// That is not known yet.
    pub(super) fn find(&self, object: &Value, api_version: &str) -> Result<Result<Value, String>, Missing> {
        let found = self.0.iter().find(|known| known.of.api_version == api_version && known.of.object == *object);
        match found {
            Some(found) => Ok(found.made.clone()),
            None if self.0.len() >= CONVERSIONS_MAX => Ok(Err("the object is needed in too many versions".to_owned())),
            None => Err(Missing { object: object.clone(), api_version: api_version.to_owned() }),
        }
    }

    /// Has a conversion made.
    ///
    /// # Errors
    /// Too many wait for the webhook.
    pub(super) async fn make(&mut self, converter: Option<&Converter>, of: Missing) -> Result<(), WriteError> {
        let made = match converter {
            Some(converter) => match converter.raw(&of.object, &of.api_version).await {
                Err(busy @ ConversionError::Busy(_)) => return Err(busy.into()),
                made => made.map_err(|error| error.to_string()),
            },
            None => Err(format!("no version {} is served", of.api_version)),
        };
        self.0.push(Known { of, made });
        Ok(())
    }
}
