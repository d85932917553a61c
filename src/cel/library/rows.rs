//! The rows of the table of functions that the libraries add.

mod args;
mod authorizer;
mod costs;
mod equality;
mod formats;
mod json_patch;
mod lists;
mod net;
mod quantity;
mod regex;
mod semver;
mod sets;
mod strings;
mod summaries;
mod url;

use std::sync::{Arc, LazyLock};

use crate::{
    env::Env,
    functions::{Function, Functions},
    standard,
    types::Type,
};

pub use authorizer::{AUTHORIZER, RESOURCE_CHECK, authorizer_value, resource_check_value};

/// Returns an environment as kube-apiserver 1.36 has it for every expression, without variables.
#[must_use]
pub fn environment() -> Env {
    of(shared())
}

/// Returns the same for expressions that make objects and patches.
pub(crate) fn patch_environment() -> Env {
    static SHARED: LazyLock<Arc<Functions>> =
        LazyLock::new(|| Arc::new(standard::functions().with(functions().into_iter().chain(json_patch::functions()))));
    of(SHARED.clone()).with_patches()
}

fn of(functions: Arc<Functions>) -> Env {
    Env::new(functions).strict().named_type(Type::opaque("net.IP")).named_type(Type::opaque("net.CIDR"))
}

/// Returns the functions of the language and of all libraries.
pub(super) fn shared() -> Arc<Functions> {
    static SHARED: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(standard::functions().with(functions())));
    SHARED.clone()
}

/// Returns the functions of all libraries that kube-apiserver 1.36 registers beside those of the language.
fn functions() -> Vec<Function> {
    let libraries = [
        url::functions,
        regex::functions,
        summaries::functions,
        quantity::functions,
        strings::functions,
        sets::functions,
        net::functions,
        formats::functions,
        semver::functions,
        lists::functions,
        authorizer::functions,
        equality::functions,
    ];
    libraries.into_iter().flat_map(|functions| functions()).collect()
}

#[cfg(test)]
mod tests;
