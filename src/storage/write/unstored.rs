//! Objects that are answered and never stored, which are reviews and requests of tokens: what webhooks and policies say of them.

use serde_json::Value;

use super::{
    Writer,
    by::By,
    failure::WriteError,
    hooks::{Form, Unstored},
    object_ref::ObjectRef,
    options::WriteOptions,
    plugins::PluginSession,
};
use admission::plugins::Lookup;

/// The admission of one such object.
pub struct UnstoredAdmission<'a> {
    target: ObjectRef,
    plugins: PluginSession<'a>,
}

impl Writer {
    /// Returns the admission of a review; none if nobody takes part.
    ///
    /// # Errors
    /// The cache of configurations is not loaded in time.
    pub async fn admission_of_review<'a>(
        &'a self,
        of: Unstored<'a>,
        namespace: Option<&str>,
        by: &By<'a>,
        options: &WriteOptions,
    ) -> Result<Option<UnstoredAdmission<'a>>, WriteError> {
        // Nothing is stored of it: metrics and errors are those of the resource whose objects are asked.
        let Some(resource) = self.looked_up(Lookup::ValidatingWebhookConfiguration) else { return Ok(None) };
        let target = ObjectRef { resource, namespace: namespace.map(str::to_owned), name: String::new() };
        self.unstored(target, by, (Form::Unstored(of), ""), options).await
    }

    /// Returns the admission of a request of a token for this account; none if nobody takes part.
    ///
    /// # Errors
    /// The cache of configurations is not loaded in time.
    pub async fn admission_of_token<'a>(
        &'a self,
        account: ObjectRef,
        by: &By<'a>,
        options: &WriteOptions,
    ) -> Result<Option<UnstoredAdmission<'a>>, WriteError> {
        self.unstored(account, by, (Form::Other("authentication.k8s.io", "v1", "TokenRequest"), "token"), options).await
    }

    async fn unstored<'a>(
        &'a self,
        target: ObjectRef,
        by: &By<'a>,
        form: (Form<'a>, &'a str),
        options: &WriteOptions,
    ) -> Result<Option<UnstoredAdmission<'a>>, WriteError> {
        let plugins = self.hooks_alone(&target, by, form, (options.shown(), options.dry_run)).await?;
        Ok(plugins.map(|plugins| UnstoredAdmission { target, plugins }))
    }
}

impl UnstoredAdmission<'_> {
    /// Returns what webhooks and policies make of the object.
    ///
    /// # Errors
    /// One of them refuses it.
    pub async fn changed(&self, object: Value, warnings: &mut Vec<String>) -> Result<Value, WriteError> {
        self.plugins.change_other(&self.target, object, warnings).await
    }

    /// Asks webhooks and policies whether the object is admitted.
    ///
    /// # Errors
    /// One of them refuses it.
    pub async fn confirm(&self, object: &Value, warnings: &mut Vec<String>) -> Result<(), WriteError> {
        self.plugins.judge_other(&self.target, object, warnings).await
    }
}
