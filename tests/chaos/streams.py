"""The streams that run while faults happen, as a catalogue: each has a kind, a door (the Python package, the CLI, HTTP) and
always the same answer, whatever happens to the cluster."""
import json
from dataclasses import dataclass

KINDS = ["greedy", "sampled", "penalties", "stop", "samples", "logprobs", "tools", "grammar"]
DOORS = ["package", "cli", "http"]
PROMPTS = ["Once upon a time", "The little dog", "A cat and a bird", "One day, " * 40]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 60},
                                           "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 6,
                                                    "maxItems": 12}},
          "required": ["name", "tags"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}]
QUESTION = [{"role": "user", "content": "Tell me about a fox."}]


@dataclass(frozen=True)
class Spec:
    kind: str
    door: str
    number: int
    ask: dict  # of the package: options; cli: args; http: path, body

    @property
    def name(self):
        return f"{self.kind}-{self.door}-{self.number}"


def package_options(kind, i):
    """Keyword arguments of Client.generate; message: fields that it has no option for."""
    base = {"prompt": PROMPTS[i % 4], "max_tokens": (350, 600, 450, 500)[i % 4], "seed": 100 + i, "temperature": 0.9}
    more = {
        "greedy": {"temperature": 0, "ignore_eos": True},
        "sampled": {"top_k": (0, 40, 0, 5)[i % 4], "top_p": (0.9, 1, 1, 1)[i % 4], "ignore_eos": True},
        "penalties": {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.25 * (i % 3), "min_tokens": 300},
        "stop": {"stop": (["the", "ing"], ["."], ["little girl", "!"], ["\n", "qq"])[i % 4], "include_stop": i % 2 == 1,
                 "min_tokens": 250},
        "samples": {"n": 2 + i % 3, "stop": ["zebra"], "max_tokens": 240},
        "logprobs": {"logprobs": True, "top_logprobs": (0, 2, 5, 1)[i % 4], "ignore_eos": True, "top_k": (0, 40)[i % 2]},
        "tools": {"message": {"tools": TOOLS, "required": True}, "max_tokens": 300},
        "grammar": {"message": {"grammar": (1, json.dumps(SCHEMA)) if i % 2 else (3, "([a-z ]{3,20}[.!] ){4,9}")},
                    "max_tokens": 250},
    }
    return {**base, **more[kind]}


def cli_args(kind, i):
    base = ["--seed", 200 + i, "--max-tokens", (300, 500)[i % 2]]
    prompt = ["--prompt", PROMPTS[i % 3]]
    more = {
        "greedy": [*prompt, "--temperature", 0, "--ignore-eos"],
        "sampled": [*prompt, "--top-k", 30, "--temperature", 1.1, "--ignore-eos"],
        "penalties": [*prompt, "--repetition-penalty", 1.2, "--min-tokens", 250],
        "stop": [*prompt, "--stop", "the", "--stop", "ing", "--min-tokens", 200],
        "samples": [*prompt, "--n", 3],
        "logprobs": [*prompt, "--top-logprobs", 3, "--ignore-eos"],
        "tools": ["--message", "Tell me about a fox.", "--tools", json.dumps(TOOLS), "--tool-choice", "required"],
        "grammar": [*prompt, "--json-schema", json.dumps(SCHEMA)],
    }
    return [str(a) for a in base + more[kind]]


def http_body(kind, i):
    base = {"seed": 300 + i, "max_tokens": (300, 500)[i % 2], "temperature": 0.9, "stream": True}
    text = {"prompt": PROMPTS[i % 3]}
    talk = {"messages": QUESTION}
    more = {
        "greedy": {**text, "temperature": 0, "ignore_eos": True},
        "sampled": {**text, "top_p": 0.9, "ignore_eos": True},
        "penalties": {**text, "presence_penalty": 0.6, "min_tokens": 250},
        "stop": {**text, "stop": ["the", "ing"], "min_tokens": 200},
        "samples": {**text, "n": 3},
        "logprobs": {**talk, "logprobs": True, "top_logprobs": 2, "ignore_eos": True},
        "tools": {**talk, "tools": TOOLS, "tool_choice": "required"},
        "grammar": {**talk, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    }
    body = {**base, **more[kind]}
    return {"path": "/v1/chat/completions" if "messages" in body else "/v1/completions", "body": body}


def catalogue():
    out = []
    for kind in KINDS:
        out += [Spec(kind, "package", i, package_options(kind, i)) for i in range(4)]
        out += [Spec(kind, "cli", i, {"args": cli_args(kind, i)}) for i in range(2)]
        out += [Spec(kind, "http", i, http_body(kind, i)) for i in range(2)]
    return out


def choose(rng, n):
    """n streams, of each kind at least a tenth, most of them over the package."""
    specs = catalogue()
    kinds = [KINDS[i % len(KINDS)] for i in range(n)]
    doors = rng.choices(DOORS, (6, 1, 1), k=n)
    return [rng.choice([s for s in specs if (s.kind, s.door) == (k, d)]) for k, d in zip(kinds, doors)]
