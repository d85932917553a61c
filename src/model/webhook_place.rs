//! Where a webhook is: of conversion, of admission.

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookPlace {
    /// `url`.
    Url(String),
    /// `service`.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The path on it, with a slash at its beginning; may be empty.
        path: String,
        /// The port of the Service.
        port: u16,
    },
}
