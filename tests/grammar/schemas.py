"""Schemas that tests compile: each leaf alone, in arrays, objects, alternatives and a recursion."""

LEAVES = [
    {"type": "null"}, {"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "string"},
    {"const": "a\"b\\c\n"}, {"enum": ["red", "green", "reddish", 3, None, [1, 2], {"k": "v"}]},
    {"type": "integer", "minimum": 0}, {"type": "integer", "maximum": -7}, {"type": "integer", "minimum": -105, "maximum": 2044},
    {"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 11}, {"type": "integer", "multipleOf": 12, "minimum": 1},
    {"type": "number", "minimum": -1.25, "maximum": 3.75}, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 1e3}, {"type": "number", "multipleOf": 0.5, "maximum": 10},
    {"type": "string", "minLength": 1}, {"type": "string", "maxLength": 3}, {"type": "string", "minLength": 4, "maxLength": 9},
    {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"}, {"type": "string", "pattern": "ab|cd", "maxLength": 12},
    {"type": "string", "pattern": "^(\\d{3}-)?\\w+\\.x$", "minLength": 5}, {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"}, {"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"},
    {"type": "string", "format": "time"}, {"type": "string", "format": "email"},
    {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "string", "maxLength": 4}, {"type": "null"}]},
    {"type": ["string", "null"], "maxLength": 2}, {"enum": ["v%d" % i for i in range(1000)]},
]


def wrappers(leaf):
    yield leaf
    yield {"type": "array", "items": leaf, "minItems": 1, "maxItems": 3}
    yield {"type": "object", "properties": {"first": leaf, "second": {"type": "boolean"}, "third": leaf},
           "required": ["third"], "additionalProperties": False}
    yield {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": leaf, "maxProperties": 3}
    yield {"anyOf": [{"type": "array", "prefixItems": [leaf, {"type": "null"}], "items": False, "minItems": 2},
                     {"type": "object", "patternProperties": {"^k": leaf}, "additionalProperties": False, "minProperties": 1}]}
    yield {"$defs": {"tree": {"type": "object", "properties": {"value": leaf, "sub": {
        "type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}}, "required": ["value"],
        "additionalProperties": False}}, "allOf": [{"$ref": "#/$defs/tree"}, {"required": ["sub"]}]}


SCHEMAS = [w for leaf in LEAVES for w in wrappers(leaf)]
