//! Features that are off by default, by the names of kube-apiserver's gates.

use apiserver::settings::Gates;

const SHARDED_LIST_AND_WATCH: &str = "ShardedListAndWatch";

/// Reads `Name=true` and `Name=false`; the last one of a name counts, and kube-apiserver's prefix `kube:` may stand before it.
pub(super) fn gates(settings: &[String]) -> Result<Gates, String> {
    let mut gates = Gates::default();
    for setting in settings.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let (name, value) = setting.split_once('=').map_or((setting, None), |(name, value)| (name.trim(), Some(value.trim())));
        let name = name.strip_prefix("kube:").unwrap_or(name);
        if name != SHARDED_LIST_AND_WATCH {
            return Err(format!("--feature-gates: unrecognized feature gate: {name}; there is only {SHARDED_LIST_AND_WATCH}"));
        }
        gates.sharded_list_and_watch = match value {
            Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(format!("--feature-gates: invalid value of {name}: {other:?} is not true or false")),
            None => return Err(format!("--feature-gates: missing bool value for {name}: true or false")),
        };
    }
    Ok(gates)
}
