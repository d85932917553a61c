//! Which part of an object a write is about.

/// Which part of an object a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of namespaces: `spec.finalizers`.
    Finalizers,
    /// `/approval` of certificate requests: the conditions.
    Approval,
    /// `/ephemeralcontainers` of Pods.
    EphemeralContainers,
    /// `/resize` of Pods: the resources of containers.
    Resize,
    /// All of it, by the server itself.
    Server,
}

impl Part {
    /// Returns the subresource on the URL of a request that changes this part; empty for the object itself.
    #[must_use]
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main | Self::Server => "",
            Self::Status => "status",
            Self::Finalizers => "finalize",
            Self::Approval => "approval",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }
}
