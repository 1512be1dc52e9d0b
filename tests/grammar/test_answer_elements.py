#!/usr/bin/env python3
"""Forced calls whose arguments are elements, one for each parameter: what the grammar takes is what the models' chat templates
write, and what it writes the output parser reads as arguments that Python's jsonschema finds valid."""
import json
import os
import pathlib
import random
import sys

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402
from test_answer_grammar import ELEMENTS, REQUIRED, calls_of, formats, walk  # noqa: E402

DATA = pathlib.Path(os.environ.get("INGOT_DATA") or pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")
TEMPLATES = {"GLM-4.6": "glm45", "GLM-4.7-Flash": "glm45", "Qwen3.5-4B": "qwen3_coder", "ByteDance-Seed-OSS": "qwen3_coder",
             "stepfun-ai-Step-3.5-Flash": "qwen3_coder"}
SCHEMAS = {
    "all": {"type": "object", "required": ["free", "count", "either"], "properties": {
        "free": {"type": "string", "description": "any text"}, "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9<>/a-z]{1,12}$"}, "part": {"type": "string", "pattern": "x=[0-9]"},
        "short": {"type": "string", "minLength": 2, "maxLength": 5}, "unit": {"enum": ["m", "km", "None", "7"], "type": "string"},
        "either": {"type": ["string", "null"]}, "mixed": {"enum": ["on", "off", "3", 3, True, None]},
        "maybe": {"anyOf": [{"type": "string", "maxLength": 6}, {"type": "number"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3}, "same": {"const": "yes"},
        "flag": {"type": "boolean"}, "anything": True, "word": {"oneOf": [{"const": "a"}, {"type": "string", "enum": ["b", ""]}]}}},
    "refs": {"type": "object", "required": ["tree", "name"], "additionalProperties": False, "$defs": {
        "tree": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}},
                 "required": ["v", "next"], "additionalProperties": False},
        "name": {"type": "string", "enum": ["ann", "bob", "12", "null", "[x]"]}},
        "properties": {"tree": {"$ref": "#/$defs/tree"}, "name": {"$ref": "#/$defs/name"}, "other": {"allOf": [{"$ref": "#/$defs/name"}]}}},
}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": s, "strict": True}} for n, s in SCHEMAS.items()]


def each(formats):
    for name, templates in ELEMENTS.items():
        for template in templates:
            yield name, formats[name][0], template


def main_cases(probe, formats):
    @tap.case
    def walks_are_valid_arguments():
        seen, required, optional = set(), 0, 0
        for name, form, template in each(formats):
            for seed in range(12 if os.environ.get("INGOT_ALL") else 4):
                for tool, schema in SCHEMAS.items():
                    rng = random.Random(seed)
                    source = probe.answer_tags(form, choice=2, name=tool, tools=json.dumps(TOOLS), template=template, one_call=True,
                                               special=seed % 2 == 1).decode()
                    texts = (walk(probe, source, rng, most=1500) for _ in range(6))
                    text = next((t for t in texts if t is not None), None)
                    assert text is not None, (name, tool)
                    calls, content = calls_of(probe.output(form, text.replace(b"\xff", b""), tools=json.dumps(TOOLS)))
                    assert [c[0] for c in calls] == [tool] and not content.strip(), (text, calls, content)
                    arguments = json.loads(calls[0][1])
                    jsonschema.Draft202012Validator(schema).validate(arguments)
                    order = [k for k in schema["properties"] if k in arguments]
                    assert list(arguments) == order, (text, arguments)
                    seen |= set(order)
                    required += len(set(order) & set(schema["required"]))
                    optional += len(set(order) - set(schema["required"]))
        assert seen == {k for s in SCHEMAS.values() for k in s["properties"]} - {"part"}, seen  # no walk ends there
        assert optional > required // 3

    @tap.case
    def what_templates_write_is_taken():
        folder = DATA / "chat_templates"
        if not folder.is_dir():
            raise tap.Skip("no chat templates")
        cases = {c["name"]: c for c in json.loads((folder / "cases.json").read_text())["cases"]}
        case = cases["tool_round_trip"]
        for model, name in TEMPLATES.items():
            template = (folder / "templates" / (model + ".jinja")).read_text()
            text = (folder / "expected" / model / "tool_round_trip.txt").read_text()
            begin = max(text.rfind("<tool_call>"), text.rfind("<seed:tool_call>"))
            end = max(text.rfind("</" + t) + len("</" + t) for t in ("tool_call>", "seed:tool_call>") if "</" + t in text)
            source = probe.answer_tags(formats[name][0], choice=REQUIRED, tools=json.dumps(case["tools"]), template=template).decode()
            probe.compile("tags", source)
            call = text[begin:end]
            assert probe.matches(call.encode()), (model, call)
            assert not probe.matches(call.replace("celsius", "kelvin").encode()), (model, call)
            calls, _ = calls_of(probe.output(formats[name][0], call.encode(), tools=json.dumps(case["tools"])))
            assert json.loads(calls[0][1]) == {"city": "Paris", "unit": "celsius"}, calls

    @tap.case
    def values_that_are_taken_and_not():
        tools = json.dumps(TOOLS)
        form = formats["qwen3_coder"][0]
        probe.compile("tags", probe.answer_tags(form, choice=2, name="all", tools=tools).decode())

        def text(**values):
            values = {"free": "x", "count": "5", "either": "y", **values}
            order = [k for k in SCHEMAS["all"]["properties"] if k in values]
            return ("<tool_call>\n<function=all>\n" + "".join("<parameter=%s>\n%s\n</parameter>\n" % (k, values[k]) for k in order)
                    + "</function>\n</tool_call>").encode()
        for good in ({}, {"free": ""}, {"free": "\n\na </b>\n</parameter\n"}, {"count": "99"}, {"code": "AB-</a"}, {"part": "a x=3 \n"},
                     {"short": "é…"}, {"unit": "None"}, {"either": "null"}, {"either": "12"}, {"mixed": "on"}, {"mixed": "3"}, {"mixed": "true"},
                     {"maybe": "1.5"}, {"maybe": "abc"}, {"list": '["a","</p"]'}, {"same": "yes"}, {"anything": "{"}, {"word": ""}):
            assert probe.matches(text(**good)), good
            calls, _ = calls_of(probe.output(form, text(**good), tools=tools))
            jsonschema.validate(json.loads(calls[0][1]), SCHEMAS["all"])
        for bad in ({"free": "</parameter>"}, {"count": "100"}, {"count": "x"}, {"code": "AB-"}, {"part": "x=a"}, {"short": "a"},
                    {"short": "abcdef"}, {"unit": "cm"}, {"either": " null "}, {"either": "None"}, {"mixed": "4"}, {"maybe": "abcdefg"},
                    {"list": '["</parameter>"]'}, {"list": '["a", "b"]'}, {"same": "no"}, {"flag": "True"}):
            assert not probe.matches(text(**bad)), bad
        assert not probe.matches(text().replace(b"count", b"flag")) and not probe.matches(text(unknown="1").replace(b"free", b"fre"))

    @tap.case
    def what_cannot_be_kept_is_refused():
        def refused(words, parameters, form="qwen3_coder"):
            tools = json.dumps([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
            try:
                probe.compile("tags", probe.answer_tags(formats[form][0], choice=REQUIRED, tools=tools))
            except Refused as e:
                assert words in str(e), (words, str(e))
            else:
                raise AssertionError("not refused: %s" % parameters)

        def one(schema, **more):
            return {"type": "object", "properties": {"x": schema}, **more}
        for form in ELEMENTS:
            refused("f: #/properties/x/format", one({"type": "string", "format": "date"}), form)
        refused("f: #/properties/x/not", one({"not": {"const": "a"}}))
        refused("f: #/properties/x: #/allOf/0/not", one({"type": "integer", "not": {"const": 1}}))
        refused("f: #/properties/x", one({"anyOf": [{"type": "string"}, {"type": "null"}], "minLength": 3}))
        refused("f: #/properties/x: #/allOf/0/$ref", one({"$ref": "#/properties/x"}))
        refused("f: #/properties/x: no value is possible", one(False))
        refused("f: #/properties/x/minLength", one({"type": "string", "minLength": 1000000}))
        refused("f: #/properties/x/allOf", one({"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 2}]}))
        refused("f: #/patternProperties", one({"type": "string"}, patternProperties={"a": {}}))
        refused("f: #/required", one({"type": "string"}, required=["y"]))
        refused("f: #/type", {"type": "array"})
        refused("cannot be written in an element", {"type": "object", "properties": {"a<b": {"type": "string"}}})
        refused("look-around", one({"type": "string", "pattern": "(?=a)"}))
        refused("no text can satisfy", one({"const": "a</parameter>"}, required=["x"]))


if __name__ == "__main__":
    with Probe() as probe:
        main_cases(probe, formats(probe))
        tap.main()
