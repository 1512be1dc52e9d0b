"""Forms of the answer over HTTP: response_format, structured_outputs, guided_*, Ollama's format, text.format of
Responses.  The same source gives the same text through each of them."""
import contextlib
import json
import pathlib
import re
import sys

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from api import Api  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
QUESTION = "Tell me about a fox."
STORY = [{"role": "user", "content": QUESTION}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "legs": {"enum": [2, 4]}},
          "required": ["name", "legs"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SUM = 'root ::= sum ";"\nsum ::= term ([-+] term){0,3}\nterm ::= [1-9] | "(" sum ")"'
SAMPLED = {"temperature": 1.3, "seed": 11, "max_tokens": 80}
api = None


def chat(**body):
    return api.ok(CHAT, **{"messages": STORY, **SAMPLED, **body})["choices"][0]


def refused(path, param, words="", **body):
    status, a = api.post(path, **{"messages": STORY, **body})
    assert status == 400 and a["error"]["param"] == param and words in a["error"]["message"], (param, a)


@tap.case
def schemas():
    a = chat(response_format=FORMAT)
    text = a["message"]["content"]
    jsonschema.validate(json.loads(text), SCHEMA)
    assert a["finish_reason"] == "stop"
    assert chat(structured_outputs={"json": SCHEMA})["message"]["content"] == text
    assert chat(guided_json=SCHEMA)["message"]["content"] == text
    assert chat(guided_json=json.dumps(SCHEMA))["message"]["content"] == text
    r = api.ok(RESPONSES, input=QUESTION, temperature=1.3, seed=11, max_output_tokens=80,
               text={"format": {"type": "json_schema", "name": "animal", "schema": SCHEMA}})
    assert r["output"][-1]["content"][0]["text"] == text, r
    o = api.ok("/api/chat", model="demo-model", messages=STORY, stream=False, format=SCHEMA,
               options={"temperature": 1.3, "seed": 11, "num_predict": 80, "top_p": 1, "top_k": 0, "min_p": 0,
                        "repeat_penalty": 1})
    assert o["message"]["content"] == text, o


@tap.case
def other_forms():
    text = chat(response_format={"type": "json_object"}, max_tokens=300)
    assert text["finish_reason"] == "length" or isinstance(json.loads(text["message"]["content"]), dict)
    assert chat(structured_outputs={"choice": ["yes", "no"]})["message"]["content"] in ("yes", "no")
    assert chat(guided_choice=["left"])["message"]["content"] == "left"
    assert re.fullmatch("[a-f]{3}-[0-9]", chat(guided_regex="[a-f]{3}-[0-9]")["message"]["content"])
    a = api.ok(COMPLETIONS, prompt="A", **{**SAMPLED, "guided_regex": "x{5}"})
    assert a["choices"][0]["text"] == "xxxxx"
    anything = chat(response_format={"type": "json_schema", "json_schema": {"name": "any", "schema": True}})
    assert anything["finish_reason"] == "length" or json.loads(anything["message"]["content"]) is not Ellipsis
    assert chat(response_format={"type": "text"}, guided_json=None)["message"]["content"]


@tap.case
def context_free_grammars():
    """vLLM's and llama.cpp's fields, the same text through each; beside tools; an empty one is none."""
    text = chat(grammar=SUM)["message"]["content"]
    assert re.fullmatch(r"[-+(0-9)]+;", text) and eval(text[:-1]) is not None, text
    assert chat(structured_outputs={"grammar": SUM})["message"]["content"] == text
    assert chat(guided_grammar=SUM)["message"]["content"] == text
    a = api.ok(COMPLETIONS, prompt="A", grammar='root ::= "x" more\nmore ::= "y"{2} ("(" more ")"){0}', **SAMPLED)
    assert a["choices"][0]["text"] == "xyy", a
    b = chat(tools=[{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}], grammar=SUM, max_tokens=200)["message"]
    assert b.get("tool_calls") or eval(b["content"][:-1]) is not None, b
    assert chat(grammar="")["message"]["content"]


@tap.case
def calls():
    tool = {"name": "look", "parameters": SCHEMA}
    tools = [{"type": "function", "function": tool}]
    a = chat(tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=200)
    assert a["finish_reason"] == "tool_calls" and len(a["message"]["tool_calls"]) == 1, a
    jsonschema.validate(json.loads(a["message"]["tool_calls"][0]["function"]["arguments"]), SCHEMA)
    r = api.ok(RESPONSES, input=QUESTION, temperature=1.3, seed=11, max_output_tokens=200, parallel_tool_calls=False,
               tools=[{"type": "function", **tool}], tool_choice={"type": "function", "name": "look"})
    assert r["output"][-1]["arguments"] == a["message"]["tool_calls"][0]["function"]["arguments"], (r, a)
    b = chat(tools=tools, response_format=FORMAT, max_tokens=200)  # an object of the form, or a call
    text = b["message"]["content"] or b["message"]["tool_calls"][0]["function"]["arguments"]
    jsonschema.validate(json.loads(text), SCHEMA)
    o = api.ok("/api/chat", model="demo-model", messages=STORY, stream=False, format=SCHEMA, tools=tools,
               options={"temperature": 1.3, "seed": 11, "num_predict": 200})
    text = o["message"]["content"] or json.dumps(o["message"]["tool_calls"][0]["function"]["arguments"])
    jsonschema.validate(json.loads(text), SCHEMA)


@tap.case
def refusals():
    refused(CHAT, "guided_json", "#/properties/a/not", guided_json={"properties": {"a": {"not": {}}}})
    refused(CHAT, "guided_regex", "look-around", guided_regex="(?=a)")
    refused(CHAT, "response_format", "#/not", response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}})
    refused(CHAT, "tools", "not", tool_choice="required",
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}])
    refused(CHAT, "guided_regex", "another field", guided_choice=["a"], guided_regex="a")
    refused(CHAT, "structured_outputs", "line 1, column 10: there is no rule x", structured_outputs={"grammar": "root ::= x"})
    refused(CHAT, "grammar", "left recursion", grammar='root ::= root "a" | "b"')
    refused(CHAT, "guided_grammar", "another field", grammar=SUM, guided_grammar=SUM)
    refused(CHAT, "guided_grammar", guided_grammar={})
    refused(CHAT, "structured_outputs.structural_tag", structured_outputs={"structural_tag": "{}"})
    refused(CHAT, "guided_choice", guided_choice="a")
    refused(CHAT, "response_format", "no schema", response_format={"type": "json_schema"})
    refused(CHAT, "response_format", "no type", response_format={})


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
