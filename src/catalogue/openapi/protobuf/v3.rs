//! The messages of OpenAPI v3 that documents of ours have.

use super::{
    Field::{Alone, Any, Anys, Bool, Double, Int, Many, One, Text, Texts},
    Message::{self, Choice, Map, Record},
};

pub(super) static DOCUMENT: Message =
    Record(&[(1, "openapi", Text), (2, "info", One(&INFO)), (4, "paths", One(&PATHS)), (5, "components", One(&COMPONENTS))], 9);
static INFO: Message = Record(&[(1, "title", Text), (2, "description", Text), (6, "version", Text)], 7);
static PATHS: Message = Map(1, One(&PATH), 2);
static PATH: Message = Record(
    &[
        (4, "get", One(&OPERATION)),
        (5, "put", One(&OPERATION)),
        (6, "post", One(&OPERATION)),
        (7, "delete", One(&OPERATION)),
        (8, "options", One(&OPERATION)),
        (9, "head", One(&OPERATION)),
        (10, "patch", One(&OPERATION)),
        (13, "parameters", Many(&PARAMETER_OR_REFERENCE)),
    ],
    14,
);
static OPERATION: Message = Record(
    &[
        (1, "tags", Texts),
        (3, "description", Text),
        (5, "operationId", Text),
        (6, "parameters", Many(&PARAMETER_OR_REFERENCE)),
        (7, "requestBody", One(&BODY_OR_REFERENCE)),
        (8, "responses", One(&RESPONSES)),
    ],
    13,
);
static PARAMETER_OR_REFERENCE: Message = Choice(|_| (1, One(&PARAMETER)));
static PARAMETER: Message = Record(
    &[(1, "name", Text), (2, "in", Text), (3, "description", Text), (4, "required", Bool), (10, "schema", One(&SCHEMA_OR_REFERENCE))],
    14,
);
static BODY_OR_REFERENCE: Message = Choice(|_| (1, One(&BODY)));
static BODY: Message = Record(&[(1, "description", Text), (2, "content", One(&MEDIA_TYPES)), (3, "required", Bool)], 4);
static MEDIA_TYPES: Message = Map(1, One(&MEDIA_TYPE), 0);
static MEDIA_TYPE: Message = Record(&[(1, "schema", One(&SCHEMA_OR_REFERENCE))], 5);
static RESPONSES: Message = Map(2, One(&RESPONSE_OR_REFERENCE), 3);
static RESPONSE_OR_REFERENCE: Message = Choice(|_| (1, One(&RESPONSE)));
static RESPONSE: Message = Record(&[(1, "description", Text), (3, "content", One(&MEDIA_TYPES))], 5);
static COMPONENTS: Message = Record(&[(1, "schemas", One(&SCHEMAS)), (7, "securitySchemes", One(&SECURITY))], 10);
static SCHEMAS: Message = Map(1, One(&SCHEMA_OR_REFERENCE), 0);
static SCHEMA_OR_REFERENCE: Message = Choice(|value| if value.get("$ref").is_some() { (2, One(&REFERENCE)) } else { (1, One(&SCHEMA)) });
static REFERENCE: Message = Record(&[(1, "$ref", Text), (2, "summary", Text), (3, "description", Text)], 0);
static SCHEMA: Message = Record(
    &[
        (1, "nullable", Bool),
        (6, "externalDocs", One(&EXTERNAL)),
        (7, "example", Any),
        (9, "title", Text),
        (10, "multipleOf", Double),
        (11, "maximum", Double),
        (12, "exclusiveMaximum", Bool),
        (13, "minimum", Double),
        (14, "exclusiveMinimum", Bool),
        (15, "maxLength", Int),
        (16, "minLength", Int),
        (17, "pattern", Text),
        (18, "maxItems", Int),
        (19, "minItems", Int),
        (20, "uniqueItems", Bool),
        (21, "maxProperties", Int),
        (22, "minProperties", Int),
        (23, "required", Texts),
        (24, "enum", Anys),
        (25, "type", Text),
        (26, "allOf", Many(&SCHEMA_OR_REFERENCE)),
        (27, "oneOf", Many(&SCHEMA_OR_REFERENCE)),
        (28, "anyOf", Many(&SCHEMA_OR_REFERENCE)),
        (29, "not", One(&SCHEMA)),
        (30, "items", Alone(&SCHEMA_OR_REFERENCE)),
        (31, "properties", One(&SCHEMAS)),
        (32, "additionalProperties", One(&MORE_PROPERTIES)),
        (33, "default", One(&DEFAULT)),
        (34, "description", Text),
        (35, "format", Text),
    ],
    36,
);
static EXTERNAL: Message = Record(&[(1, "description", Text), (2, "url", Text)], 3);
static MORE_PROPERTIES: Message = Choice(|value| if value.is_boolean() { (2, Bool) } else { (1, One(&SCHEMA_OR_REFERENCE)) });
/// Lists and maps have no field there.
static DEFAULT: Message = Choice(|value| match value {
    value if value.is_number() => (1, Double),
    value if value.is_boolean() => (2, Bool),
    value if value.is_string() => (3, Text),
    _ => (0, Text),
});
static SECURITY: Message = Map(1, One(&SCHEME_OR_REFERENCE), 0);
static SCHEME_OR_REFERENCE: Message = Choice(|_| (1, One(&SCHEME)));
static SCHEME: Message = Record(&[(1, "type", Text), (2, "description", Text), (3, "name", Text), (4, "in", Text)], 9);
