//! Words of CEL that expressions cannot have as names.

/// Returns whether the grammar of CEL reserves a word: an expression that has it as a name is refused.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "as" | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}
