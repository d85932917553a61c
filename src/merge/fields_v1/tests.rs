//! `FieldsV1`.
