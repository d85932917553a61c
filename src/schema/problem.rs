//! What is wrong with a value, as kube-openapi finds it and the API tells it.

use std::collections::HashSet;

use model::invalid::FieldError;
use serde_json::Value;

/// One thing that is wrong, and where.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Path of the value, in a schema whose root has none; none of what is told of the whole.
    pub(crate) name: Option<String>,
    pub(crate) wrong: Wrong,
    /// The sentence of kube-openapi, which is told or at least makes it the same problem as another.
    pub(crate) why: String,
}

/// A kind of wrong, with the value that is told.
#[derive(Debug)]
pub(crate) enum Wrong {
    Invalid(Value),
    Type(Value),
    Required,
    TooLong(i64),
    TooMany(usize, i64),
    NotSupported(Value, Vec<String>),
}

impl Problem {
    /// One with a sentence about a path, `spec.a in body should be less than 3`.
    pub(crate) fn of(path: &str, wrong: Wrong, what: &str) -> Self {
        Self { name: Some(path.to_owned()), wrong, why: format!("{path} in body {what}") }
    }

    /// One that is told without its path.
    pub(crate) fn of_whole(why: String) -> Self {
        Self { name: None, wrong: Wrong::Invalid("".into()), why }
    }

    pub(crate) fn bytes(&self) -> usize {
        let value = |value: &Value| value.as_str().map_or(0, str::len);
        self.why.len()
            + self.name.as_ref().map_or(0, String::len)
            + match &self.wrong {
                Wrong::Invalid(told) | Wrong::Type(told) => value(told),
                Wrong::NotSupported(told, choices) => value(told) + choices.iter().map(String::len).sum::<usize>(),
                _ => 0,
            }
    }

    fn told(self, base: &str) -> FieldError {
        let name = self.name.as_deref().filter(|name| *name != ".").unwrap_or_default();
        let name = name.strip_prefix('.').unwrap_or(name);
        let field = match (base, name) {
            ("", "") => "<nil>".to_owned(),
            ("", name) => name.to_owned(),
            (base, "") => base.to_owned(),
            (base, name) => format!("{base}.{name}"),
        };
        match self.wrong {
            Wrong::Invalid(value) => FieldError::invalid(field, &value, &self.why),
            Wrong::Type(value) => FieldError::type_invalid(field, &value, &self.why),
            Wrong::Required => FieldError::required(field, ""),
            Wrong::TooLong(max) => {
                usize::try_from(max).map_or_else(|_| FieldError::too_long_at_all(&*field), |max| FieldError::too_long(&*field, max))
            }
            Wrong::TooMany(count, max) => usize::try_from(max)
                .map_or_else(|_| FieldError::too_many_at_all(&*field, count), |max| FieldError::too_many(&*field, count, max)),
            Wrong::NotSupported(value, choices) => {
                let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
                FieldError::not_supported_value(field, &value, &choices)
            }
        }
    }
}

/// Tells problems, each once, below a path.
pub(crate) fn told(problems: Vec<Problem>, base: &str) -> Vec<FieldError> {
    let mut seen = HashSet::new();
    problems.into_iter().filter(|problem| seen.insert(problem.why.clone())).map(|problem| problem.told(base)).collect()
}
