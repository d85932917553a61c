//! A default of `defaults`: a Job without labels is shown with those of its pod template.
//!
//! It generates the template's labels (`job-name`, `controller-uid`) after it has filled in defaults, so a new Job is stored without labels and
//! read with them (`SetDefaults_Job` of `pkg/apis/batch/v1`). Selectors see the labels that are shown.

use super::members::Members;

/// Members of `metadata` that follow `labels` in the order of its Go struct.
const AFTER_LABELS: [&str; 4] = ["annotations", "ownerReferences", "finalizers", "managedFields"];

/// The Job with the labels it is shown with; `None` when it is shown as it is. Invalid JSON is left for ingest to complain about.
pub(super) fn labelled(job: &str) -> Option<String> {
    let members = Members::read(job).ok()?;
    let metadata_text = members.raw("metadata")?;
    let metadata = Members::read(metadata_text).ok()?;
    let template = members.object("spec").ok()?.object("template").ok()?.object("metadata").ok()?;
    let labels = template.raw("labels").filter(|labels| Members::read(labels).is_ok_and(|labels| !labels.is_empty()))?;
    // Go writes no empty map, so what stands there is not empty.
    if metadata.raw("labels").is_some() {
        return None;
    }
    let next = AFTER_LABELS.iter().find_map(|name| Some((name, offset(job, metadata.raw(name)?) - name.len() - "\"\":".len())));
    if next.is_some_and(|(name, at)| !job[at..].starts_with(&format!("\"{name}\":"))) {
        return None;
    }
    let at = next.map_or(offset(job, metadata_text) + metadata_text.len() - 1, |(_, at)| at);
    let (before, after) = job.split_at(at);
    let (left, right) = match next {
        Some(_) => ("", ","),
        None if metadata.is_empty() => ("", ""),
        None => (",", ""),
    };
    Some(format!("{before}{left}\"labels\":{labels}{right}{after}"))
}

/// Where a part of the text begins in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metadata: &str, template: &str, want: Option<&str>) {
        let job = |metadata: &str| {
            format!(r#"{{"kind":"Job","apiVersion":"batch/v1","metadata":{metadata},"spec":{{"template":{{"metadata":{template}}}}}}}"#)
        };
        assert_eq!(labelled(&job(metadata)), want.map(job), "{metadata} {template}");
    }

    #[test]
    fn labels_come_from_the_template_when_there_are_none() {
        let template = r#"{"labels":{"a":"1","b":"2"}}"#;
        check(r#"{"labels":{"x":"y"}}"#, template, None);
        check(r#"{"name":"n"}"#, "{}", None);
        check(r#"{"name":"n"}"#, r#"{"labels":{}}"#, None);
        check(r#"{"name":"n"}"#, template, Some(r#"{"name":"n","labels":{"a":"1","b":"2"}}"#));
        check("{}", template, Some(r#"{"labels":{"a":"1","b":"2"}}"#));
        check(
            r#"{"name":"n","finalizers":["f"],"managedFields":[]}"#,
            template,
            Some(r#"{"name":"n","labels":{"a":"1","b":"2"},"finalizers":["f"],"managedFields":[]}"#),
        );
        assert_eq!(labelled("{"), None);
    }
}
