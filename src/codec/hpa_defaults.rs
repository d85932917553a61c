//! A default of `defaults`: the behavior of an autoscaler is shown with rules for both directions, whole.
//!
//! It is stored without them when it was written as autoscaling/v1, whose annotation goes past the defaults of v2
//! (`SetDefaults_HorizontalPodAutoscalerBehavior` of `pkg/apis/autoscaling/v2`).

use super::members::{Members, Writer};

const UP: &str = r#"[{"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]"#;
const DOWN: &str = r#"[{"type":"Percent","value":100,"periodSeconds":15}]"#;

/// The autoscaler with the rules it is shown with; `None` when it has them. Invalid JSON is left for ingest to complain about.
pub(super) fn ruled(autoscaler: &str) -> Option<String> {
    memchr::memmem::find(autoscaler.as_bytes(), b"\"behavior\"")?;
    let behavior = Members::read(autoscaler).ok()?.object("spec").ok()?.raw("behavior")?;
    let rules = Members::read(behavior).ok()?;
    let mut out = Vec::with_capacity(behavior.len() + UP.len() + DOWN.len() + 128);
    let mut writer = Writer::open(&mut out);
    rules_into(&rules.object("scaleUp").ok()?, Some("0"), UP, writer.name("scaleUp"));
    rules_into(&rules.object("scaleDown").ok()?, None, DOWN, writer.name("scaleDown"));
    writer.close();
    let made = String::from_utf8(out).ok().filter(|made| made != behavior)?;
    let at = behavior.as_ptr().addr() - autoscaler.as_ptr().addr();
    Some(format!("{}{made}{}", &autoscaler[..at], &autoscaler[at + behavior.len()..]))
}

/// The rules of one direction; `window` in seconds.
fn rules_into(rules: &Members<'_>, window: Option<&str>, policies: &str, out: &mut Vec<u8>) {
    let mut writer = Writer::open(out);
    writer.some("stabilizationWindowSeconds", rules.raw("stabilizationWindowSeconds").or(window));
    writer.raw("selectPolicy", rules.raw("selectPolicy").unwrap_or("\"Max\""));
    writer.raw("policies", rules.raw("policies").unwrap_or(policies));
    writer.some("tolerance", rules.raw("tolerance"));
    writer.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(behavior: &str, want: Option<&str>) {
        let autoscaler = |behavior: &str| {
            format!(r#"{{"kind":"HorizontalPodAutoscaler","spec":{{"maxReplicas":1,"behavior":{behavior}}},"status":{{}}}}"#)
        };
        assert_eq!(ruled(&autoscaler(behavior)), want.map(autoscaler), "{behavior}");
    }

    #[test]
    fn both_directions_have_rules() {
        let up = format!(r#"{{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":{UP}}}"#);
        let down = format!(r#"{{"selectPolicy":"Max","policies":{DOWN}}}"#);
        let both = format!(r#"{{"scaleUp":{up},"scaleDown":{down}}}"#);
        check("{}", Some(&both));
        check(&format!(r#"{{"scaleUp":{up}}}"#), Some(&both));
        check(&both, None);
        let own = r#"{"stabilizationWindowSeconds":5,"selectPolicy":"Disabled","policies":[],"tolerance":"100m"}"#;
        check(&format!(r#"{{"scaleDown":{own}}}"#), Some(&format!(r#"{{"scaleUp":{up},"scaleDown":{own}}}"#)));
        for nothing in ["null", "[]", "1", r#"{"scaleUp":1}"#] {
            check(nothing, None);
        }
        assert_eq!((ruled("{}"), ruled("no \"behavior\"")), (None, None));
    }
}
