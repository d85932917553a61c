//! Names of field managers.

use go::quote::printable;
use model::invalid::{FieldError, told};

/// Returns the name that a user agent gives its user: what stands before the first `/`, without what cannot be printed, as long as a field manager may be.
pub(super) fn manager_of(user_agent: &str) -> String {
    let mut manager = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| printable(*c)) {
        if manager.len() + c.len_utf8() > MANAGER_BYTES_MAX {
            break;
        }
        manager.push(c);
    }
    manager
}

/// Bytes of a field manager.
pub(super) const MANAGER_BYTES_MAX: usize = 128;

/// What is wrong with the name of a manager. Each unprintable character is reported with the whole name, which may have as many of them as a request has bytes.
pub(super) fn wrong_manager(field: &str, manager: &str) -> impl Iterator<Item = FieldError> {
    let too_long = (manager.len() > MANAGER_BYTES_MAX).then(|| FieldError::too_long(field, MANAGER_BYTES_MAX));
    let unprintable = manager.char_indices().filter(|(_, c)| !printable(*c)).map(move |(at, c)| {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        FieldError::invalid(field, &manager.into(), &why)
    });
    too_long.into_iter().chain(unprintable).take_while(told())
}
