//! Tells of fields that others manage: the 409 of an apply.

use std::collections::BTreeMap;

use merge::Conflicts;

use super::identifier::Identifier;
use crate::write::failure::WriteError;
use go::quote::quoted;

/// The error of an apply that would change what others manage.
pub(super) fn refused(conflicts: &Conflicts) -> WriteError {
    let causes =
        conflicts.0.iter().map(|conflict| (conflict.path.to_string(), format!("conflict with {}", printed(&conflict.manager)))).collect();
    WriteError::ApplyConflict { message: message(conflicts), causes }
}

fn message(conflicts: &Conflicts) -> String {
    if let [conflict] = &conflicts.0[..] {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", printed(&conflict.manager), conflict.path);
    }
    let mut by_manager: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for conflict in &conflicts.0 {
        by_manager.entry(&conflict.manager).or_default().push(format!("- {}", conflict.path));
    }
    let lines =
        by_manager.into_iter().flat_map(|(manager, paths)| [format!("conflicts with {}:", printed(manager))].into_iter().chain(paths));
    format!("Apply failed with {} conflicts: {}", conflicts.0.len(), lines.collect::<Vec<_>>().join("\n"))
}

/// Names a manager as kube-apiserver does.
fn printed(manager: &str) -> String {
    let Identifier { manager, operation, api_version, subresource } = Identifier::parse(manager);
    let mut text = quoted(&manager);
    if !subresource.is_empty() {
        text = format!("{text} with subresource {}", quoted(&subresource));
    }
    if operation == "Update" { format!("{text} using {api_version}") } else { text }
}
