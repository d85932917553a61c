//! The standard library: what every environment has.

mod conversions;
mod operators;
mod optionals;
mod texts;
mod times;
mod zone;

use std::sync::{Arc, LazyLock};

use crate::functions::Functions;

/// Returns the functions of the standard library, optional values and loops of two variables.
#[must_use]
pub fn functions() -> Functions {
    let functions = operators::functions().into_iter().chain(conversions::functions());
    let functions = functions.chain(texts::functions()).chain(times::functions()).chain(optionals::functions());
    Functions::default().with(functions)
}

/// Returns them, shared.
#[must_use]
pub fn shared() -> Arc<Functions> {
    static SHARED: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(functions()));
    SHARED.clone()
}
