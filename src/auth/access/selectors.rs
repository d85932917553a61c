//! Selectors as authorizers see them (KEP-4601). Pure.

use crate::authz::{Operator, Requirement};
use model::selector::{LabelOp, LabelRequirement, parse};

/// The requirements of a field selector.
///
/// # Errors
/// What is wrong with it.
pub fn of_fields(text: &str) -> Result<Vec<Requirement>, String> {
    let requirement = |clause: parse::FieldClause| Requirement {
        key: clause.label,
        operator: if clause.equal { Operator::In } else { Operator::NotIn },
        values: vec![clause.value],
    };
    Ok(parse::fields(text)?.into_iter().map(requirement).collect())
}

/// The requirements of a label selector; those that compare numbers are left out, for authorizers do not know them.
///
/// # Errors
/// What is wrong with it.
pub fn of_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let requirement = |LabelRequirement { key, op }: LabelRequirement| {
        let (operator, values) = match op {
            LabelOp::Exists => (Operator::Exists, Vec::new()),
            LabelOp::Absent => (Operator::DoesNotExist, Vec::new()),
            LabelOp::In(values) => (Operator::In, values),
            LabelOp::NotIn(values) => (Operator::NotIn, values),
            LabelOp::Greater(_) | LabelOp::Less(_) => return None,
        };
        Some(Requirement { key: key.into(), operator, values: values.into_iter().map(String::from).collect() })
    };
    Ok(parse::labels(text)?.requirements.into_iter().filter_map(requirement).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_told_as_in_an_access_review() {
        let told = |found: Result<Vec<Requirement>, String>| serde_json::to_string(&found.expect("legal")).expect("JSON");
        assert_eq!(
            told(of_fields("spec.nodeName=n,status.phase!=Failed")),
            r#"[{"key":"spec.nodeName","operator":"In","values":["n"]},{"key":"status.phase","operator":"NotIn","values":["Failed"]}]"#
        );
        assert_eq!(
            told(of_labels("a in (x,y),b,!c,d!=z,e>1")),
            r#"[{"key":"a","operator":"In","values":["x","y"]},{"key":"b","operator":"Exists"},{"key":"c","operator":"DoesNotExist"},{"key":"d","operator":"NotIn","values":["z"]}]"#
        );
        assert!(of_fields("a").is_err() && of_labels("!!").is_err());
    }
}
