//! The messages of Swagger 2.0 that documents of ours have.

use serde_json::Value;

use super::{
    Field::{Any, Anys, Bool, Double, Int, Many, One, Text, Texts, TextsInside},
    Message::{self, Choice, Map, Record},
};

pub(super) static DOCUMENT: Message = Record(
    &[
        (1, "swagger", Text),
        (2, "info", One(&INFO)),
        (8, "paths", One(&PATHS)),
        (9, "definitions", One(&DEFINITIONS)),
        (10, "parameters", One(&PARAMETERS)),
        (12, "security", Many(&REQUIREMENT)),
        (13, "securityDefinitions", One(&SECURITY)),
    ],
    16,
);
static INFO: Message = Record(&[(1, "title", Text), (2, "version", Text), (3, "description", Text)], 7);
static PATHS: Message = Map(2, One(&PATH), 1);
static PATH: Message = Record(
    &[
        (2, "get", One(&OPERATION)),
        (3, "put", One(&OPERATION)),
        (4, "post", One(&OPERATION)),
        (5, "delete", One(&OPERATION)),
        (6, "options", One(&OPERATION)),
        (7, "head", One(&OPERATION)),
        (8, "patch", One(&OPERATION)),
        (9, "parameters", Many(&PARAMETER_OR_REFERENCE)),
    ],
    10,
);
static OPERATION: Message = Record(
    &[
        (1, "tags", Texts),
        (3, "description", Text),
        (5, "operationId", Text),
        (6, "produces", Texts),
        (7, "consumes", Texts),
        (8, "parameters", Many(&PARAMETER_OR_REFERENCE)),
        (9, "responses", One(&RESPONSES)),
        (10, "schemes", Texts),
    ],
    13,
);
static RESPONSES: Message = Map(1, One(&RESPONSE_VALUE), 2);
static RESPONSE_VALUE: Message = Choice(|_| (1, One(&RESPONSE)));
static RESPONSE: Message = Record(&[(1, "description", Text), (2, "schema", One(&RESPONSE_SCHEMA))], 5);
static RESPONSE_SCHEMA: Message = Choice(|_| (1, One(&SCHEMA)));
static PARAMETERS: Message = Map(1, One(&PARAMETER), 0);
static PARAMETER_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (2, One(&REFERENCE)) } else { (1, One(&PARAMETER)) });
static REFERENCE: Message = Record(&[(1, "$ref", Text), (2, "description", Text)], 0);
static PARAMETER: Message = Choice(|value| if is_in(value, "body") { (1, One(&BODY)) } else { (2, One(&NO_BODY)) });
static BODY: Message =
    Record(&[(1, "description", Text), (2, "name", Text), (3, "in", Text), (4, "required", Bool), (5, "schema", One(&SCHEMA))], 6);
static NO_BODY: Message = Choice(|value| if is_in(value, "path") { (4, One(&PATH_PARAMETER)) } else { (3, One(&QUERY_PARAMETER)) });
static PATH_PARAMETER: Message = Record(
    &[(1, "required", Bool), (2, "in", Text), (3, "description", Text), (4, "name", Text), (5, "type", Text), (19, "uniqueItems", Bool)],
    22,
);
static QUERY_PARAMETER: Message = Record(
    &[(1, "required", Bool), (2, "in", Text), (3, "description", Text), (4, "name", Text), (6, "type", Text), (20, "uniqueItems", Bool)],
    23,
);
static DEFINITIONS: Message = Map(1, One(&SCHEMA), 0);
static SCHEMA: Message = Record(
    &[
        (1, "$ref", Text),
        (2, "format", Text),
        (3, "title", Text),
        (4, "description", Text),
        (5, "default", Any),
        (6, "multipleOf", Double),
        (7, "maximum", Double),
        (8, "exclusiveMaximum", Bool),
        (9, "minimum", Double),
        (10, "exclusiveMinimum", Bool),
        (11, "maxLength", Int),
        (12, "minLength", Int),
        (13, "pattern", Text),
        (14, "maxItems", Int),
        (15, "minItems", Int),
        (16, "uniqueItems", Bool),
        (17, "maxProperties", Int),
        (18, "minProperties", Int),
        (19, "required", Texts),
        (20, "enum", Anys),
        (21, "additionalProperties", One(&MORE_PROPERTIES)),
        (22, "type", TextsInside),
        (23, "items", super::Field::Alone(&SCHEMA)),
        (24, "allOf", Many(&SCHEMA)),
        (25, "properties", One(&DEFINITIONS)),
        (29, "externalDocs", One(&EXTERNAL)),
        (30, "example", Any),
    ],
    31,
);
static MORE_PROPERTIES: Message = Choice(|value| if value.is_boolean() { (2, Bool) } else { (1, One(&SCHEMA)) });
static EXTERNAL: Message = Record(&[(1, "description", Text), (2, "url", Text)], 3);
static REQUIREMENT: Message = Map(1, TextsInside, 0);
static SECURITY: Message = Map(1, One(&SCHEME), 0);
static SCHEME: Message = Choice(|_| (2, One(&API_KEY)));
static API_KEY: Message = Record(&[(1, "type", Text), (2, "name", Text), (3, "in", Text), (4, "description", Text)], 5);

fn is_in(parameter: &Value, place: &str) -> bool {
    parameter.get("in").is_some_and(|it| it == place)
}
