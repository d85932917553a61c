//! Feature gates by kube-apiserver's names: what it knows, what is built here, and its words for what is wrong.

use apiserver::settings::Gates;
use storage::write::MalformedDeletion;

use super::pflag::boolean;

/// What kube-apiserver 1.36.3 knows.
const KNOWN: &str = include_str!("gates.txt");
const SHARDED_LIST_AND_WATCH: &str = "ShardedListAndWatch";
const CONSTRAINED_IMPERSONATION: &str = "ConstrainedImpersonation";
const GRANULAR_CLAIM_STATUS: &str = "DRAResourceClaimGranularStatusAuthorization";
const MALFORMED_DELETION: &str = "AllowUnsafeMalformedObjectDeletion";

/// A gate of [`KNOWN`].
struct Known {
    is_on: bool,
    is_locked: bool,
}

fn known(name: &str) -> Option<Known> {
    let mut lines = KNOWN.lines().filter(|line| !line.starts_with('#')).map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
    Some(Known { is_on: words.next() == Some("true"), is_locked: words.last() == Some("locked") })
}

/// What a setting that is not wrong comes to.
enum Effect {
    /// What is built is as asked for.
    Taken,
    /// The other value is not built; a line about it.
    Unbuilt(String),
}

/// Reads `Name=true` and `Name=false`; the last one of a name counts, and kube-apiserver's prefix `kube:` may stand before it.
///
/// # Errors
/// kube-apiserver's text; or that the other value of a gate is not built.
pub(super) fn gates(settings: &[String]) -> Result<Gates, String> {
    let mut gates = Gates::default();
    for setting in settings.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let set = set(&mut gates, setting).and_then(|effect| match effect {
            Effect::Taken => Ok(()),
            Effect::Unbuilt(why) => Err(why),
        });
        set.map_err(|why| format!("--feature-gates: {why}"))?;
    }
    Ok(gates)
}

/// Judges one setting: none when it can be taken, a line when the other value of a gate is not built.
///
/// # Errors
/// kube-apiserver's text.
pub(super) fn judge(setting: &str) -> Result<Option<String>, String> {
    match set(&mut Gates::default(), setting)? {
        Effect::Taken => Ok(None),
        Effect::Unbuilt(why) => Ok(Some(why)),
    }
}

fn set(gates: &mut Gates, setting: &str) -> Result<Effect, String> {
    let (name, value) = setting.split_once('=').ok_or_else(|| format!("missing bool value for {setting}"))?;
    let (name, value) = (name.trim(), value.trim());
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let value = boolean(value).map_err(|why| format!("invalid value of {name}={value}, err: {why}"))?;
    let known = known(name).ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
    match name {
        SHARDED_LIST_AND_WATCH => gates.sharded_list_and_watch = value,
        CONSTRAINED_IMPERSONATION => gates.constrained_impersonation = value,
        GRANULAR_CLAIM_STATUS => gates.granular_claim_status = value,
        MALFORMED_DELETION => gates.malformed_deletion = if value { MalformedDeletion::On } else { MalformedDeletion::Off },
        _ if value == known.is_on => {}
        _ if known.is_locked => return Err(format!("cannot set feature gate {name} to {value}, feature is locked to {}", known.is_on)),
        _ => return Ok(Effect::Unbuilt(format!("{name}={value} is not built; this server behaves as with {name}={}", known.is_on))),
    }
    Ok(Effect::Taken)
}
