#!/usr/bin/env python3
"""Writes what Jinja2, set up as HuggingFace transformers sets it up, makes of tests/data/chat.

  python3 make_expected.py            (needs Jinja2 3.1)

features.txt holds small templates between lines "==="; features.expected one record for each.  TEMPLATE.expected
holds one record for each case of cases.json.  A record is a line "KIND LENGTH", LENGTH bytes and a newline; KIND
is text, refused (the bytes are the template's message) or failed (no bytes).
"""
import datetime
import json
import os

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "chat")
NOW = datetime.datetime(2025, 1, 15, 12, 0, 0)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class Refused(Exception):
    pass


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("body", []), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def refuse(message):
    raise Refused(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = (
        lambda v, ensure_ascii=False, indent=None, separators=None, sort_keys=False:
        json.dumps(v, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys))
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = NOW.strftime
    return env


def cut(text, messages):
    last = messages[-1]["content"]
    at = text.rindex(last.strip())
    whole = text[at:at + len(last.lstrip())] == last
    return text[:at + len(last.lstrip() if whole else last.strip())]


def record(make):
    try:
        kind, text = "text", make()
    except Refused as e:
        kind, text = "refused", str(e)
    except Exception:  # whatever the template provoked: that it fails is the expectation
        kind, text = "failed", ""
    data = text.encode()
    return b"%s %d\n%s\n" % (kind.encode(), len(data), data)


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as f:
        return f.read()


def write(name, records):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(b"".join(records))


def render_case(source, case):
    case = json.loads(json.dumps(case))
    text = environment().from_string(source).render(
        documents=None, **TOKENS, **case.get("variables", {}), messages=case["messages"], tools=case.get("tools"),
        add_generation_prompt=case.get("add_generation_prompt", True))
    return cut(text, case["messages"]) if case.get("continue_final_message") else text


def main():
    variables = read("variables.json")
    write("features.expected", [
        record(lambda: environment().from_string(source).render(
            documents=None, **json.loads(variables), messages=[], tools=None, add_generation_prompt=True))
        for source in read("features.txt").rstrip("\n").split("\n===\n")])
    for name in ("chatml", "llama3_like", "mistral_like"):
        source = read(name + ".jinja")
        write(name + ".expected", [record(lambda: render_case(source, case)) for case in json.loads(read("cases.json"))])


if __name__ == "__main__":
    main()
