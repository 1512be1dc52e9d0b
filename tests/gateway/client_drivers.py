"""The clients of test_client_matrix.py, each behind the same few calls.

A driver asks in its client's own terms and gives an Answer; everything that the matrix asserts is in the test.  Clients are in
their default configuration, but for the address, the key, the limit of time and that they do not try again."""
import asyncio
import dataclasses
import json
import os

from client_setup import KEY, load, tap

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network


@dataclasses.dataclass
class Answer:
    text: str
    finish: str  # stop, length, tool_calls, in OpenAI's words
    n_prompt: int
    n_completion: int
    reasoning: str = ""
    calls: list = dataclasses.field(default_factory=list)  # (name, arguments)


def openai_tools(tools):
    return [{"type": "function", "function": t} for t in tools]


def given(**fields):
    return {k: v for k, v in fields.items() if v is not None}


def parts_joined(parts):
    return "".join(p or "" for p in parts)


class Driver:
    package = name = None
    part = {}  # column: the table's word where the client does less than all of it

    def __init__(self, url):
        self.url = url
        self.library = load(self.package)
        if self.library is None:
            return
        self.prepare()

    def prepare(self):
        pass

    # Of a driver:
    #   models(key) -> ids        ask(messages, stream, tools, stop, temperature, key) -> Answer
    #   abandon(messages): begins a stream, waits for its first event, gives it up
    #   bad_request, unauthorized: its exceptions


def of_openai_choice(choice, usage):
    m = choice.message
    return Answer(m.content or "", choice.finish_reason, usage.prompt_tokens, usage.completion_tokens,
                  getattr(m, "reasoning_content", None) or "",
                  [(c.function.name, json.loads(c.function.arguments)) for c in m.tool_calls or []])


def of_openai_chunks(chunks):
    """Put together by hand: what a program that reads chunks sees."""
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    calls = {}
    for d in deltas:
        for t in d.tool_calls or []:
            name, arguments = calls.get(t.index, ("", ""))
            calls[t.index] = (name + (t.function.name or ""), arguments + (t.function.arguments or ""))
    (finish,) = (c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason)
    usage = [c.usage for c in chunks if getattr(c, "usage", None)][-1]
    return Answer(parts_joined(d.content for d in deltas), finish, usage.prompt_tokens, usage.completion_tokens,
                  parts_joined(getattr(d, "reasoning_content", None) for d in deltas),
                  [(name, json.loads(arguments)) for _, (name, arguments) in sorted(calls.items())])


def openai_ask(messages, stream, tools, stop, temperature):
    return {"model": "model", "messages": messages, **given(tools=tools and openai_tools(tools), stop=stop, temperature=temperature),
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {})}


class OpenaiSync(Driver):
    name, package = "openai sync", "openai"

    def prepare(self):
        self.bad_request, self.unauthorized = self.library.BadRequestError, self.library.AuthenticationError

    def settings(self, key):
        return {"base_url": self.url + "/v1", "api_key": key, "max_retries": 0, "timeout": tap.LIMIT}

    def models(self, key=KEY):
        with self.library.OpenAI(**self.settings(key)) as c:
            return [m.id for m in c.models.list()]

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        with self.library.OpenAI(**self.settings(key)) as c:
            a = c.chat.completions.create(**openai_ask(messages, stream, tools, stop, temperature))
            return of_openai_chunks(list(a)) if stream else of_openai_choice(a.choices[0], a.usage)

    def abandon(self, messages):
        with self.library.OpenAI(**self.settings(KEY)) as c:
            s = c.chat.completions.create(model="model", messages=messages, stream=True)
            assert next(iter(s)).choices[0].delta.role == "assistant"
            s.close()


class OpenaiAsync(OpenaiSync):
    name = "openai async"

    def models(self, key=KEY):
        async def run():
            async with self.library.AsyncOpenAI(**self.settings(key)) as c:
                return [m.id async for m in c.models.list()]
        return asyncio.run(run())

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        async def run():
            async with self.library.AsyncOpenAI(**self.settings(key)) as c:
                a = await c.chat.completions.create(**openai_ask(messages, stream, tools, stop, temperature))
                return of_openai_chunks([x async for x in a]) if stream else of_openai_choice(a.choices[0], a.usage)
        return asyncio.run(run())

    def abandon(self, messages):
        async def run():
            async with self.library.AsyncOpenAI(**self.settings(KEY)) as c:
                async with await c.chat.completions.create(model="model", messages=messages, stream=True) as s:
                    assert (await anext(aiter(s))).choices[0].delta.role == "assistant"
        asyncio.run(run())


class Anthropic(Driver):
    name = package = "anthropic"

    def prepare(self):
        self.bad_request, self.unauthorized = self.library.BadRequestError, self.library.AuthenticationError

    def client(self, key):
        return self.library.Anthropic(base_url=self.url, api_key=key, max_retries=0, timeout=tap.LIMIT)

    def models(self, key=KEY):
        with self.client(key) as c:
            return [m.id for m in c.models.list()]

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        tools = tools and [{"name": t["name"], "input_schema": t["parameters"]} for t in tools]
        body = {"model": "model", "messages": messages, "max_tokens": 1000, **given(tools=tools, stop_sequences=stop),
                "extra_body": given(temperature=temperature)}
        with self.client(key) as c:
            if stream:
                with c.messages.stream(**body) as s:
                    m = s.get_final_message()
            else:
                m = c.messages.create(**body)
        kinds = {kind: [b for b in m.content if b.type == kind] for kind in ("text", "thinking", "tool_use")}
        finish = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}[m.stop_reason]
        return Answer(parts_joined(b.text for b in kinds["text"]), finish,
                      m.usage.input_tokens + (m.usage.cache_read_input_tokens or 0), m.usage.output_tokens,
                      parts_joined(b.thinking for b in kinds["thinking"]), [(b.name, b.input) for b in kinds["tool_use"]])

    def abandon(self, messages):
        with self.client(KEY) as c, c.messages.create(model="model", messages=messages, max_tokens=3000, stream=True) as s:
            assert next(iter(s)).type == "message_start"


class Langchain(Driver):
    name, package = "langchain-openai", "langchain_openai"
    part = {"reasoning": "whole only"}

    def prepare(self):
        openai = load("openai")
        self.bad_request, self.unauthorized = openai.BadRequestError, openai.AuthenticationError

    def model(self, key=KEY, **kw):
        return self.library.ChatOpenAI(**{"model": "model", "base_url": self.url + "/v1", "api_key": key, "max_retries": 0,
                                          "timeout": tap.LIMIT, "stream_usage": True, **kw})

    def models(self, key=KEY):
        """It has no call of its own: through the client that it keeps."""
        return [m.id for m in self.model(key).root_client.models.list()]

    def run(self, runnable, messages, stream):
        if not stream:
            return runnable.invoke(messages)
        first, *rest = runnable.stream(messages)
        for c in rest:
            first += c
        return first

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        m = self.model(key, **given(stop=stop, temperature=temperature))
        m = self.run(m.bind_tools(openai_tools(tools)) if tools else m, messages, stream)
        return Answer(m.text, m.response_metadata["finish_reason"], m.usage_metadata["input_tokens"],
                      m.usage_metadata["output_tokens"], calls=[(c["name"], c["args"]) for c in m.tool_calls])

    def think(self, messages, stream):
        """It reads reasoning from /v1/responses only; of a stream's it takes summaries alone."""
        m = self.run(self.model(use_responses_api=True, output_version="responses/v1"), messages, stream)
        thoughts = [p["text"] for b in m.content if b["type"] == "reasoning" for p in b.get("content", [])]
        return Answer(m.text, "stop", m.usage_metadata["input_tokens"], m.usage_metadata["output_tokens"], parts_joined(thoughts))

    def abandon(self, messages):
        stream = self.model().stream(messages)
        assert next(stream).content == ""
        stream.close()


class Litellm(Driver):
    name = package = "litellm"

    def prepare(self):
        self.library.suppress_debug_info = True  # it prints advice on each exception
        self.bad_request, self.unauthorized = self.library.BadRequestError, self.library.AuthenticationError

    def at(self, key):
        return {"model": "openai/model", "api_base": self.url + "/v1", "api_key": key}

    def models(self, key=KEY):
        found = self.library.get_valid_models(check_provider_endpoint=True, custom_llm_provider="openai", api_key=key,
                                              api_base=self.url)
        return [m.removeprefix("openai/") for m in found]

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        a = self.library.completion(**{**openai_ask(messages, stream, tools, stop, temperature), **self.at(key)})
        return of_openai_chunks(list(a)) if stream else of_openai_choice(a.choices[0], a.usage)

    def abandon(self, messages):
        s = self.library.completion(messages=messages, stream=True, **self.at(KEY))
        next(iter(s))
        s.completion_stream.close()


class Ollama(Driver):
    name = package = "ollama"

    def prepare(self):
        self.bad_request = self.unauthorized = self.library.ResponseError

    def client(self, key):
        return self.library.Client(host=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=tap.LIMIT)

    def models(self, key=KEY):
        return [m.model.removesuffix(":latest") for m in self.client(key).list().models]

    def ask(self, messages, stream=False, tools=None, stop=None, temperature=None, key=KEY):
        a = self.client(key).chat("model", messages, stream=stream, tools=tools and openai_tools(tools),
                                  options=given(stop=stop, temperature=temperature))
        chunks = list(a) if stream else [a]
        calls = [(c.function.name, c.function.arguments) for x in chunks for c in x.message.tool_calls or []]
        last = chunks[-1]
        assert last.done and not any(x.done for x in chunks[:-1])
        return Answer(parts_joined(x.message.content for x in chunks), "tool_calls" if calls else last.done_reason,
                      last.prompt_eval_count, last.eval_count, parts_joined(x.message.thinking for x in chunks), calls)

    def abandon(self, messages):
        stream = self.client(KEY).chat("model", messages, stream=True)
        next(stream)
        stream.close()


DRIVERS = (OpenaiSync, OpenaiAsync, Anthropic, Langchain, Litellm, Ollama)
