//! The body of a write becomes a JSON tree: JSON or YAML, with its duplicate keys. Knows no kind and no field.
