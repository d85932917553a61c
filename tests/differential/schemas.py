#!/usr/bin/env python3
"""Random structural schemas, and random objects that nearly fit them: what schema.py sends, and as a program lines for tests/data/schemas/oracle.go.

    schemas.py SEED COUNT > cases.in"""

import copy
import json
import random
import sys

FORMATS = {
    "date": "2024-02-29", "date-time": "2024-01-02T03:04:05Z", "byte": "YQ==", "duration": "3 days", "email": "a@b.c", "hostname": "a.bc", "ipv4": "1.2.3.4", "ipv6": "::1",
    "cidr": "10.0.0.0/8", "mac": "01:23:45:67:89:ab", "uuid": "123e4567-e89b-42d3-a456-426614174000", "uuid4": "123e4567-e89b-42d3-a456-426614174000", "uri": "http://a/b",
    "hexcolor": "#fff", "rgbcolor": "rgb(1,2,3)", "ssn": "111-11-1111", "isbn": "0321751043", "creditcard": "4111111111111111", "bsonobjectid": "507f1f77bcf86cd799439011",
    "password": "x", "k8s-short-name": "a-b", "k8s-long-name": "a.b-c", "nonsense": "x"}
PATTERNS = {"^a+$": "aa", "b": "abc", "^{[a-z]+}$": "{x}", "a{,3}": "a{,3}", r"^\d$": "7", r"^\Q.*\E$": ".*", r"^\w{2,3}$": "ab", r"(?i)^x$": "X", r"^[^a]$": "b", r"\bq\b": "q"}
TEXTS = ["", "a", "aa", "b", "abc", "x", "X", "7", "٣", "é", "{x}", "zzzzzzzz", "12", "a b", "q", "日本語", "a<b>", "\"", "line\nbreak"]
NUMBERS = [0, 1, -1, 2, 3, 5, 7, 10, 100, 2.0, -3000000.0, 3e9, 2147483648, -2147483649, 1.5, 0.1, -0.5, 2.25, 1e6 + 0.5, 3000000000, 1e21, 1e-7, 9007199254740993, 1e300]
NAMES = ["a", "b", "c", "d", "name", "x-y", "é", "kind", "metadata"]


class Cases:
    def __init__(self, seed, embeds=False):
        self.random, self.embeds = random.Random(seed), embeds

    def maybe(self, share):
        return self.random.random() < share

    def one(self, *of):
        return self.random.choice(of)

    def some(self, of, least, most):
        return self.random.sample(of, min(len(of), self.random.randint(least, most)))

    # Schemas

    def root(self, **more):
        """Of a whole object."""
        properties = {name: self.schema(3) for name in self.some(["spec", "a", "b", "l", "m"], 1, 3)} | more
        schema = {"type": "object", "properties": properties}
        if self.maybe(0.2):
            schema["required"] = self.some(sorted(properties), 1, 1)
        if self.maybe(0.05):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self.maybe(0.1):
            self.junctors(schema)
        return schema

    def schema(self, depth):
        kind = self.one(*["string"] * 3, *["integer"] * 2, "number", "boolean", "intorstring", *(["object"] * 4 + ["map", "any"] + ["array"] * 4 if depth else []))
        if self.embeds and kind in ("object", "map") and self.maybe(0.12):
            kind = "embedded"
        schema = getattr(self, f"{kind}_schema")(depth)
        if self.maybe(0.1):
            schema["nullable"] = True
        if self.maybe(0.12):
            self.junctors(schema)
        if self.maybe(0.15) and not schema.get("x-kubernetes-embedded-resource"):
            schema["default"] = self.value(schema, 0 if self.maybe(0.95) else 0.3)
            if schema["default"] is None:
                del schema["default"]
        return schema

    def string_schema(self, _):
        schema = {"type": "string"}
        if self.maybe(0.3):
            schema["format"] = self.one(*sorted(FORMATS))
        self.string_validations(schema)
        if self.maybe(0.2):
            schema["enum"] = self.some(TEXTS + list(PATTERNS.values()), 1, 4)
        return schema

    def string_validations(self, schema):
        if self.maybe(0.2):
            schema["maxLength"] = self.one(0, 1, 2, 3, 8)
        if self.maybe(0.2):
            schema["minLength"] = self.one(0, 1, 2, 3)
        if self.maybe(0.2):
            schema["pattern"] = self.one(*sorted(PATTERNS))

    def integer_schema(self, _):
        schema = {"type": "integer"}
        if self.maybe(0.3):
            schema["format"] = self.one("int32", "int64", "double", "nonsense")
        self.number_validations(schema)
        if self.maybe(0.1):
            schema["enum"] = self.some([0, 1, 2, 3, 5, 7, 10], 1, 3)
        return schema

    def number_schema(self, _):
        schema = {"type": "number"}
        if self.maybe(0.3):
            schema["format"] = self.one("float", "double", "int32")
        self.number_validations(schema)
        if self.maybe(0.1):
            schema["enum"] = self.some([0, 1, 1.5, 2.25, 100], 1, 3)
        return schema

    def number_validations(self, schema):
        for bound in "maximum", "minimum":
            if self.maybe(0.2):
                schema[bound] = self.one(0, 1, 2, 5, 1.5, 10, 100, -1, 1000000, 1e19, 0.1)
                if self.maybe(0.3):
                    schema["exclusive" + bound.capitalize()] = True
        if self.maybe(0.1):
            schema["multipleOf"] = self.one(1, 2, 0.5, 0.1, 3, 1.5)

    def boolean_schema(self, _):
        return {"type": "boolean"} | ({"enum": [True]} if self.maybe(0.1) else {})

    def intorstring_schema(self, _):
        schema = {"x-kubernetes-int-or-string": True}
        self.string_validations(schema)
        if self.maybe(0.2):
            schema["maximum"] = self.one(1, 5, 100)
        if self.maybe(0.1):
            schema["enum"] = self.some(["a", "A", 1, 2, 65], 1, 3)
        return schema

    def any_schema(self, _):
        return {"x-kubernetes-preserve-unknown-fields": True} | ({"type": "object"} if self.maybe(0.5) else {})

    def object_schema(self, depth):
        properties = {name: self.schema(depth - 1) for name in self.some(NAMES, 1, 4)}
        schema = {"type": "object", "properties": properties}
        if self.maybe(0.3):
            schema["required"] = self.some(sorted(properties), 1, 2)
        self.size_validations(schema, "Properties")
        if self.maybe(0.1):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        return schema

    def embedded_schema(self, depth):
        schema = {"type": "object", "x-kubernetes-embedded-resource": True}
        if self.maybe(0.5):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self.maybe(0.6) or len(schema) == 2:
            schema["properties"] = {"spec": self.schema(depth - 1)}
        return schema

    def map_schema(self, depth):
        schema = {"type": "object", "additionalProperties": True if self.maybe(0.1) else self.schema(depth - 1)}
        if isinstance(schema["additionalProperties"], dict):
            without_defaults(schema["additionalProperties"])
        self.size_validations(schema, "Properties")
        return schema

    def array_schema(self, depth):
        kind = self.one("atomic", "atomic", "set", "map", "map")
        schema = {"type": "array"}
        self.size_validations(schema, "Items")
        if kind == "map":
            keys = self.some(["k", "name"], 1, 2)
            properties = {key: self.one({"type": "string"}, {"type": "integer"}) for key in keys} | {name: self.schema(depth - 1) for name in self.some(["a", "b"], 0, 2)}
            required = [key for key in keys if self.maybe(0.8)]
            for key in set(keys) - set(required):
                properties[key]["default"] = 1 if properties[key]["type"] == "integer" else "d"
            schema["items"] = {"type": "object", "properties": properties} | ({"required": required} if required else {})
            return schema | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        if kind == "set":
            schema["items"] = self.one(self.string_schema(0), self.integer_schema(0))
            return schema | {"x-kubernetes-list-type": "set"}
        schema["items"] = self.schema(depth - 1)
        return schema

    def size_validations(self, schema, what):
        if self.maybe(0.15):
            schema[f"max{what}"] = self.one(0, 1, 2, 3)
        if self.maybe(0.15):
            schema[f"min{what}"] = self.one(0, 1, 2)

    def junctors(self, schema):
        """Value validations under one of the junctors, of what the schema has outside."""
        junctor = self.one("allOf", "anyOf", "anyOf", "oneOf", "oneOf", "not")
        if junctor == "not":
            schema["not"] = self.validations(schema)
        else:
            schema[junctor] = [self.validations(schema) for _ in range(self.random.randint(1, 3))]

    def validations(self, schema, depth=2):
        found = {}
        kind = schema.get("type", "")
        if kind == "string" or schema.get("x-kubernetes-int-or-string"):
            self.string_validations(found)
            if self.maybe(0.3):
                found["enum"] = self.some(TEXTS, 1, 3)
            if self.maybe(0.2) and kind:
                found["format"] = self.one(*sorted(FORMATS))
        if kind in ("integer", "number"):
            self.number_validations(found)
        if kind == "object":
            if schema.get("properties") and self.maybe(0.7):
                found["required"] = self.some(sorted(schema["properties"]), 1, 2)
            if schema.get("properties") and depth and self.maybe(0.6):
                found["properties"] = {name: self.validations(schema["properties"][name], depth - 1) for name in self.some(sorted(schema["properties"]), 1, 2)}
            self.size_validations(found, "Properties")
        if kind == "array":
            self.size_validations(found, "Items")
            if depth and self.maybe(0.5):
                found["items"] = self.validations(schema["items"], depth - 1)
        if depth and self.maybe(0.15):
            found[self.one("allOf", "anyOf", "oneOf")] = [self.validations(schema, depth - 1) for _ in range(2)]
        return found

    # Values

    def object(self, schema, wrong):
        made = self.value({name: member for name, member in schema.items() if name != "nullable"}, wrong)
        made = made if isinstance(made, dict) else {}
        if self.maybe(wrong):
            made[self.one("zz", "other")] = self.anything(1)
        return made

    def value(self, schema, wrong):
        """A value that fits, but for a share of its parts."""
        if self.maybe(wrong * 0.25):
            return self.anything(2)
        if self.maybe(0.02 + wrong * 0.1):
            return None
        if schema.get("x-kubernetes-int-or-string"):
            return self.one(1, 2, 65, "a", "10%", *([1.5] if wrong else []))
        kind = schema.get("type", "any")
        if schema.get("enum") and not self.maybe(wrong):
            return self.one(*schema["enum"])
        if kind == "string":
            if self.maybe(wrong):
                return self.one(*TEXTS)
            if "pattern" in schema:
                return PATTERNS[schema["pattern"]]
            if "format" in schema:
                return FORMATS.get(schema["format"], "x")
            return "a" * max(schema.get("minLength", 0), min(schema.get("maxLength", 2), 2))
        if kind == "integer":
            return self.one(*NUMBERS) if self.maybe(wrong) else self.random.randint(-2, 12)
        if kind == "number":
            return self.one(*NUMBERS) if self.maybe(wrong) else self.one(0, 1, 1.5, 2, 2.25, 10)
        if kind == "boolean":
            return self.one(True, True, False)
        if kind == "array":
            items = [self.value(schema["items"], wrong) for _ in range(self.random.randint(schema.get("minItems", 0), max(schema.get("minItems", 0), min(schema.get("maxItems", 3), 4))))]
            if schema.get("x-kubernetes-list-type") in ("set", "map") and not self.maybe(wrong):
                return self.distinct(items, schema)
            return items
        if schema.get("x-kubernetes-embedded-resource"):
            return self.embedded(schema, wrong)
        if kind == "object" and "additionalProperties" in schema:
            of = schema["additionalProperties"]
            return {name: self.anything(2) if of is True else self.value(of, wrong) for name in self.some(NAMES, 0, 3)}
        if kind == "object" and "properties" in schema:
            required = schema.get("required", [])
            made = {name: self.value(of, wrong) for name, of in schema["properties"].items() if (name in required and not self.maybe(wrong)) or self.maybe(0.6)}
            if self.maybe(0.05 + wrong * 0.3):
                made[self.one("zz", "yy", "metadata")] = self.anything(1)
            return made
        return self.anything(2) if kind == "any" else {}

    def embedded(self, schema, wrong):
        made = {"apiVersion": self.one("v1", "a.b/v1"), "kind": "Thing", "metadata": {"name": "x"}}
        if "properties" in schema and self.maybe(0.7):
            made["spec"] = self.value(schema["properties"]["spec"], wrong)
        if self.maybe(0.3):
            made["metadata"] = self.one(
                {}, None, {"labels": {"a": "b"}}, {"name": "x", "namespace": "n", "odd": 1}, {"creationTimestamp": None, "finalizers": []},
                {"annotations": {"a": ""}, "ownerReferences": [{"zz": 1}]}, {"labels": {"a": None}, "ownerReferences": [None, {"kind": "", "name": "x", "controller": None}]},
                {"generation": 0, "managedFields": [{"manager": "", "time": None, "fieldsV1": {"f:b": {}, "f:a": {}}}, {}]})
        if self.maybe(wrong):
            name = self.one("apiVersion", "kind", "metadata")
            made[name] = self.one("", "a/b/c", "-x", 1, None, {}, {"name": "A/b"}, {"labels": {"-": "x"}}, {"namespace": "N_"}, {"generation": -1})
        if self.maybe(wrong * 0.5):
            made.pop(self.one("apiVersion", "kind", "metadata"))
        if self.maybe(wrong):
            made["more"] = self.anything(1)
        return made

    def distinct(self, items, schema):
        keys, seen = schema.get("x-kubernetes-list-map-keys"), []
        for item in items:
            of = {key: item.get(key, schema["items"]["properties"][key].get("default")) for key in keys} if keys and isinstance(item, dict) else item
            if keys and isinstance(item, dict):
                at = len(seen)
                for key in keys:
                    of[key] = item[key] = f"k{at}" if schema["items"]["properties"][key]["type"] == "string" else at
            if of not in [before for before, _ in seen]:
                seen.append((of, item))
        return [item for _, item in seen]

    def anything(self, depth):
        kind = self.random.randint(0, 7 if depth else 5)
        if kind == 6:
            return [self.anything(depth - 1) for _ in range(self.random.randint(0, 2))]
        if kind == 7:
            return {name: self.anything(depth - 1) for name in self.some(NAMES, 0, 2)}
        return [None, True, self.random.randint(-3, 70), self.one(*NUMBERS), self.one(*TEXTS), "text"][kind]

    def changed(self, value, schema, share):
        """A value with some of its parts made anew."""
        if self.maybe(share * 0.3):
            return self.value(schema, 0.3)
        if isinstance(value, dict):
            of = schema.get("properties", {})
            more = schema.get("additionalProperties")
            made = {}
            for name, member in value.items():
                below = of.get(name, more if isinstance(more, dict) else None)
                if not self.maybe(share * 0.2):
                    made[name] = self.changed(member, below, share) if below else member
            return made
        if isinstance(value, list) and "items" in schema:
            made = [self.changed(item, schema["items"], share) for item in value]
            if self.maybe(share):
                self.random.shuffle(made)
            return made
        return copy.deepcopy(value)


def without_defaults(schema):
    """Defaults may not be below additionalProperties of metadata, and nowhere directly."""
    schema.pop("default", None)


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    for nth in range(count):
        cases = Cases(seed * 1_000_003 + nth)
        schema = cases.root()
        wrong = cases.one(0, 0.05, 0.2, 0.5)
        old = cases.object(schema, wrong)
        case = {"schema": schema, "object": cases.changed(old, schema, cases.one(0.1, 0.5)), "old": old}
        case["object"] = case["object"] if isinstance(case["object"], dict) else {}
        print(json.dumps(case))


if __name__ == "__main__":
    main()
