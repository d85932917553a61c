//! `fieldPath` of a rule: which field of its value the error is about.

use schema::{
    View,
    field_path::{tokens, unquoted},
};

/// Returns the path as field errors have it, relative to the value of the rule; none of what is no path in this schema.
pub(crate) fn normalized(path: &str, view: View<'_>) -> Option<String> {
    let (mut found, mut at) = (String::new(), Some(view));
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let key = match token {
            "." => tokens.next()?.to_owned(),
            "[" => {
                let key = unquoted(tokens.next()?)?;
                (tokens.next()? == "]").then_some(key)?
            }
            _ => return None,
        };
        let here = at?;
        if here.properties().next().is_some() {
            if !found.is_empty() {
                found.push('.');
            }
            found.push_str(&key);
            at = Some(here.property(&key)?);
        } else {
            at = here.additional();
            found = format!("{found}[{key}]");
        }
    }
    Some(found)
}
