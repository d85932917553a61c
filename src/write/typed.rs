//! A JSON tree against the type of its kind: unknown fields, nulls, wrong types (spec api-surface §3.8, §5.6). Knows no request.
