#!/usr/bin/env python3
"""Calls that must be made, in every format of calls: random walks over the masks give answers that the output parser
reads as calls of the tools, with arguments that Python's jsonschema finds valid."""
import json
import os
import random
import sys

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402

AUTO, REQUIRED, NAMED = 0, 1, 2
NO_THINKING, MAY_THINK, INSIDE = 0, 1, 2
REASONING, CONTENT, BEGIN, ARGUMENTS, END = range(5)
SCHEMAS = {
    "get_weather": {"type": "object", "properties": {"city": {"type": "string", "minLength": 1, "maxLength": 12},
                                                     "days": {"type": "integer", "minimum": 1, "maximum": 14}},
                    "required": ["city"], "additionalProperties": False},
    "set-mode.2": {"type": "object", "properties": {"mode": {"enum": ["on", "off", 3]}, "tags": {
        "type": "array", "items": {"type": "string", "pattern": "^[a-z<>{}]+$"}, "maxItems": 3}},
        "required": ["mode", "tags"], "additionalProperties": False},
    "put": {"type": "object", "properties": {"to": {"type": "object", "properties": {
        "Zip": {"type": ["integer", "null"]}, "a": {"const": "a \"b\"\n"}, "the name": {"type": "boolean"}},
        "required": ["a", "the name"], "additionalProperties": {"type": "boolean"}, "maxProperties": 4}, "at": {
            "type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}}, "required": ["to", "at"], "additionalProperties": False},
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": s, "strict": True}} for n, s in SCHEMAS.items()]
del TOOLS[3]["function"]["parameters"]
HARMONY = "<|channel|>analysis<|message|>\n<|end|>"
# format: template texts that choose among its forms
ELEMENTS = {"qwen3_coder": ["", "<seed:tool_call>"], "glm45": ["", "</arg_key>\n<arg_value>"], "minimax_m2": [""]}
FORMS = {"hermes": [""], "llama3": [""], "llama4": [""], "mistral": ["", "[ARGS]"], "deepseek": ["", "```json"], "granite": ["", "<|/tool_call|>"],
         "kimi": [""], "glm4": [""], "harmony": [""], "json": [""], "auto": [""], "gemma4": [""], **ELEMENTS}
NO_FORM = ["none"]
PIECES = ['{"', '": "', '", "', '"}', "arguments", "name", "\n", "\n\n", "<", "tool", "é", "assistant", "json", "analysis", "final"]
walks = 0


def formats(probe):
    out, i = {}, 0
    while i < len(FORMS) + len(NO_FORM):
        out[probe.format(i)[0]] = (i, probe.format(i)[1])
        i += 1
    return out


def marks_of(source):
    """Tokens of a walk: the special tokens in a source, and its texts."""
    found = set()

    def look(node):
        if isinstance(node, dict):
            for member in "special", "special_quote":
                if member in node:
                    found.add(b"\xff" + node[member].encode())
            for member in "text", "quote":
                if member in node:
                    found.add(node[member].encode())
            for key, v in node.items():
                if key != "schema":
                    look(v)
        elif isinstance(node, list):
            for v in node:
                look(v)
    look(json.loads(source))
    return sorted(found)


def walk(probe, source, rng, most=2500):
    """The bytes of an answer over the masks; None: it did not end by itself."""
    marks = marks_of(source)
    tokens = [bytes([b]) for b in range(255)] + [p.encode() for p in PIECES] + marks
    tokens += [b"{\"name\": \"now\"", b"now\n{}"]
    probe.vocabulary(tokens)
    probe.compile("tags", source)
    text, ends = b"", False
    for i in range(most):
        mask = probe.mask()[0]
        allowed = [t for t in range(len(tokens)) if mask >> t & 1]
        if ends and (not allowed or i > 60 or rng.random() < 0.1):
            return text
        assert allowed, "a dead end after %r at %s" % (text, probe.place())
        closing = [t for t in allowed if tokens[t] in marks or tokens[t] in (b'"', b"}", b"]", b'"}')]
        pick = rng.choice(closing if closing and (i > 40 or rng.random() < 0.3) else allowed)
        text += tokens[pick]
        taken, ends = probe.consume(tokens[pick])
        assert taken, (text, tokens[pick])
    return None


def calls_of(events):
    calls, content = [], b""
    for kind, text in events:
        if kind == BEGIN:
            calls.append([text.decode(), b""])
        elif kind == ARGUMENTS:
            calls[-1][1] += text
        elif kind == CONTENT:
            content += text
    return calls, content


def check(probe, form, seed, **ask):
    """Walks until an answer ends by itself; returns its calls and content."""
    global walks
    rng = random.Random(seed)
    think = ask.get("think", "")
    source = probe.answer_tags(form, tools=json.dumps(TOOLS), **ask).decode()
    for _ in range(6):
        text = walk(probe, source, rng)
        if text is not None:
            break
    assert text is not None, "no walk ended"
    walks += 1
    plain = text.replace(b"\xff", b"")
    calls, content = calls_of(probe.output(form, plain, thinking=ask.get("thinking", 0), think=think, tools=json.dumps(TOOLS)))
    for name, arguments in calls:
        try:
            jsonschema.Draft202012Validator(SCHEMAS[name]).validate(json.loads(arguments))
        except (KeyError, ValueError, jsonschema.ValidationError) as e:
            raise AssertionError("%r gave call %r %r: %s" % (plain, name, arguments, e)) from e
    return calls, content, plain


def each(formats):
    for name, templates in FORMS.items():
        for template in templates:
            for special in (False, True):
                think = HARMONY if name == "harmony" else "<think>\n</think>"
                yield name, formats[name][0], {"template": template, "special": special}, think


def main_cases(probe, formats):
    @tap.case
    def every_format_is_here():
        assert sorted(formats) == sorted([*FORMS, *NO_FORM]), sorted(formats)

    @tap.case
    def required_calls_are_calls():
        for name, form, ask, think in each(formats):
            for seed in range(3):
                calls, content, text = check(probe, form, seed, choice=REQUIRED, think=HARMONY if name == "harmony" else "", **ask)
                assert calls and not content.strip(), (name, text, calls, content)

    @tap.case
    def a_named_tool_alone_and_once():
        for name, form, ask, _ in each(formats):
            calls, content, text = check(probe, form, 7, choice=NAMED, name="set-mode.2", one_call=True,
                                         think=HARMONY if name == "harmony" else "", **ask)
            assert [c[0] for c in calls] == ["set-mode.2"] and not content.strip(), (name, text, calls)

    @tap.case
    def behind_the_thinking():
        for name, form, ask, think in each(formats):
            for thinking in (MAY_THINK, INSIDE):
                calls, content, text = check(probe, form, 11 + thinking, choice=REQUIRED, thinking=thinking, think=think, **ask)
                assert calls and not content.strip(), (name, text, calls, content)

    @tap.case
    def strict_tools_in_free_text():
        seen = 0
        for i, (name, form, ask, _) in enumerate(each(formats)):
            for one in (False, True):
                calls, content, text = check(probe, form, 20 + 2 * i + one, one_call=one, think=HARMONY if name == "harmony" else "", **ask)
                seen += len(calls)
                assert not one or len(calls) <= 1, (name, text)
        assert seen > 5, "only %d calls in free text" % seen

    @tap.case
    def a_form_or_a_call():
        schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"],
                  "additionalProperties": False}
        forms = 0
        for name, form, ask, _ in each(formats):
            for seed in range(3):
                calls, content, text = check(probe, form, seed, kind="schema", source=json.dumps(schema),
                                             think=HARMONY if name == "harmony" else "", **ask)
                if not calls:
                    jsonschema.validate(json.loads(content), schema)
                    forms += 1
        assert forms > 5, forms

    @tap.case
    def a_form_behind_the_thinking():
        source = probe.answer_tags(1, thinking=INSIDE, think="<think>\n</think>", kind="choice", source='["yes","no"]').decode()
        probe.compile("tags", source)
        assert probe.matches(b"hm</think>\n\nyes") and probe.matches(b"</think>no") and not probe.matches(b"yes")
        assert not probe.matches(b"hm</think>maybe") and not probe.matches(b"a</think>b</think>yes")
        assert probe.answer_tags(1, thinking=NO_THINKING, think="<think>\n</think>", kind="choice", source='["yes"]') == b""

    @tap.case
    def refusals():
        def refused(words, form=1, **ask):
            try:
                probe.compile("tags", probe.answer_tags(form, **{"tools": json.dumps(TOOLS), "choice": REQUIRED, **ask}))
            except Refused as e:
                assert words in str(e), (words, e)
            else:
                raise AssertionError("not refused: %s" % words)

        def tool(**function):
            return json.dumps([{"type": "function", "function": function}])
        for name in NO_FORM:
            refused("format of calls, " + name, form=formats[name][0])
        refused("no tool of that name", choice=NAMED, name="other")
        refused("no tools", tools="[]")
        refused("needs a name", tools=tool(name="a b"))
        refused("f: #/properties/x/not", tools=tool(name="f", parameters={"properties": {"x": {"not": {}}}}))
        refused("tags are nested", kind="tags", source='{"seq":[' * 40 + "]}" * 40, choice=AUTO)


QUOTED = {"type": "object", "properties": {"Key": {"type": "string"}, "b": {"type": "number"}, "a b": {"type": "boolean"},
                                           "z": {"type": "array", "items": {"type": ["string", "null"]}}},
          "required": ["Key", "b"], "additionalProperties": False}
TEXTS = [  # source, texts of it, texts that are none
    ({"seq": [{"text": "a"}, {"special": "<x>"}, {"text": "b"}]}, [b"a\xff<x>b"], [b"a<x>b", b"ab"]),
    ({"repeat": {"text": "ab"}, "min": 1, "max": 2, "between": {"text": ","}}, [b"ab", b"ab,ab"], [b"", b"ab,", b"abab", b"ab,ab,ab"]),
    ({"repeat": {"text": "a"}, "between": {"text": ","}}, [b"", b"a", b"a,a,a,a"], [b",", b"aa"]),
    ({"repeat": {"text": "a"}, "max": 0, "between": {"text": ","}}, [b""], [b"a"]),
    ({"free": {}}, [b"", "é\n".encode(), b"<x>"], [b"\xff", b"\xc3"]),
    ({"free": {"without": ["<x>", "yy"]}}, [b"<x", b"y<x<x", b"<x<yx>"], [b"<x>", b"a<<x>", b"ayy"]),
    ({"free": {"not_begin": ["{", "ab\n"]}}, [b"", b"a{", b"  ab", b" \n"], [b"{", b" \n{a", b"\tab\n"]),
    ({"any_of": [{"choice": ["x", ""]}, {"regex": "[0-9]+"}, {"schema": False, "of": "never"}, {"json_object": True}]},
     [b"", b"x", b"77", b"{}"], [b"x7", b"[]"]),
    ({"schema": QUOTED, "special_quote": "<q>"},
     [b"{b:1,Key:\xff<q>x\xff<q>}", b'{b:-2.5,Key:\xff<q>\xff<q>,z:[\xff<q>a"b\\\xff<q>,null]}',
      b"{\xff<q>a b\xff<q>:true,b:1,Key:\xff<q>y\xff<q>}"],
     [b'{"b":1,"Key":"x"}', b"{Key:\xff<q>x\xff<q>,b:1}", b"{b:1,Key:\xff<q>a<q>b\xff<q>}", b"{b:1,Key:<q>x<q>}", b"{b:1}",
      b"{\xff<q>b\xff<q>:1,Key:\xff<q>x\xff<q>}"]),
    ({"schema": {"enum": ["a", 1, ["b", {"c d": None}]]}, "quote": "''"}, [b"''a''", b"1", b"[''b'',{''c d'':null}]"],
     [b"a", b'"a"', b"''1''"]),
    ({"schema": {"type": "string", "pattern": "^a.*b$", "minLength": 3}, "quote": "''"}, [b"''acb''", b"''a'b''", b"''a\"b''"],
     [b"''ab''", b"''a''b''", b"''acb'"]),
    ({"schema": {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1}, "quote": "''"},
     [b"{''x'':null}", b"{''x'':null,''y z'':null}"], [b"{}", b"{x:null}"]),
    ({"schema": {"patternProperties": {"^n": {"type": "integer"}}, "properties": {"n1": {"minimum": 3}, "o": {"type": "null"}},
                 "required": ["n1"], "type": "object"}, "quote": "''"}, [b"{n1:3}", b"{n1:4,o:null,''n2'':1}"], [b"{n1:2}", b"{n1:3,''n2'':true}"]),
]
BAD = [({}, "must be an object with a kind"), ({"text": "a", "seq": []}, "no member"), ({"text": 1}, "#/text"), ([], "#"),
       ({"any_of": []}, "not empty"), ({"repeat": {"text": "a"}, "min": 2, "max": 1}, "greater"), ({"json_object": False}, "json_object"),
       ({"repeat": {"text": "a"}, "max": 5000}, "at most"), ({"repeat": {"free": {}}}, "may be empty"), ({"free": {"x": 1}}, "without"),
       ({"seq": [{"schema": {"not": {}}}]}, "#/seq/0/schema: #/not"), ({"schema": {"not": {}}, "of": "tool f"}, "tool f: #/not"),
       ({"free": {"without": [""]}}, "at least one byte"), ({"schema": True, "quote": "a", "special_quote": "b"}, "two kinds of quotes"),
       ({"schema": True, "quote": ""}, "at least one byte"), ({"json_object": True, "quote": "a"}, "no member"),
       ({"schema": {"enum": ["x", "a''b"]}, "quote": "''"}, "#/enum/1: it has the mark"),
       ({"schema": {"properties": {"a''b": True}}, "quote": "''"}, "a name has the mark"), ({"regex": "(?=a)"}, "look-around")]


def tag_cases(probe):
    @tap.case
    def texts_of_tags():
        for source, good, bad in TEXTS:
            probe.compile("tags", json.dumps(source))
            for text in good:
                assert probe.matches(text), (source, text)
            for text in bad:
                assert not probe.matches(text), (source, text)

    @tap.case
    def bad_tags_are_refused():
        for source, words in BAD:
            try:
                probe.compile("tags", json.dumps(source))
            except Refused as e:
                assert words in str(e), (source, words, e)
            else:
                raise AssertionError("compiled: %s" % source)


if __name__ == "__main__":
    with Probe() as probe:
        tag_cases(probe)
        main_cases(probe, formats(probe))
        tap.main()
