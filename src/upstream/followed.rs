//! Upstream as the files say now where it is and who we are there.

use std::sync::Arc;

use client::Derived;
use reload::{Reload, Reloaded};

use super::upstream::Upstream;

/// See the file's header.
pub enum Followed<B> {
    /// Of files that are its own.
    Files(Reloaded<Upstream<B>>),
    /// Of a kubeconfig file, as all have it that ask the same server.
    Login(Derived<Upstream<B>>),
}

impl<B> Followed<B> {
    /// Returns it as it is now.
    pub fn now(&self) -> Arc<Upstream<B>> {
        match self {
            Self::Files(files) => files.now(),
            Self::Login(login) => login.now(),
        }
    }

    /// Returns the files that are its own.
    #[must_use]
    pub fn files(&self) -> Option<&dyn Reload>
    where
        B: Send + 'static,
    {
        match self {
            Self::Files(files) => Some(files),
            Self::Login(_) => None,
        }
    }
}
