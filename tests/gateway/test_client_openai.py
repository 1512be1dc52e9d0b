"""More of OpenAI's own Python client against the gateway: stream helpers of both kinds, retries, timeouts."""
import asyncio
import json
import threading

from client_setup import KEY, STORY, Setup, load, raised, tap

openai = load("openai")
setup = None
ASK = {"model": "demo-model", "messages": STORY, "max_tokens": 24, "seed": 3}


def settings(**kw):
    if openai is None:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    return {"base_url": f"{setup.url}/v1", "api_key": KEY, "max_retries": 0, "timeout": tap.LIMIT, **kw}


def client(**kw):
    return openai.OpenAI(**settings(**kw))


@tap.case
def stream_helpers():
    async def helped(ask):
        async with openai.AsyncOpenAI(**settings()) as c:
            async with c.chat.completions.stream(**ask) as s:
                deltas = [e.delta async for e in s if e.type == "content.delta"]
                return deltas, await s.get_final_completion()

    with client() as c:
        sentence = {"model": "demo-model", "messages": STORY, "stop": "."}  # the helper takes no answer that is cut off
        for ask in ({**sentence, "seed": 1}, {**sentence, "n": 2, "seed": 2, "stream_options": {"include_usage": True}}):
            whole = c.chat.completions.create(**{k: v for k, v in ask.items() if k != "stream_options"})
            deltas, final = asyncio.run(helped(ask))
            assert [x.message.content for x in final.choices] == [x.message.content for x in whole.choices]
            assert [x.finish_reason for x in final.choices] == [x.finish_reason for x in whole.choices]
            assert sum(map(len, deltas)) == sum(len(x.message.content) for x in whole.choices)
            if "stream_options" in ask:
                assert final.usage.completion_tokens == whole.usage.completion_tokens
            with c.chat.completions.stream(**ask) as s:
                assert s.until_done().get_final_completion().choices[0].message.content == whole.choices[0].message.content


SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0,
                                                                                               "maximum": 9}},
          "required": ["city", "days"], "additionalProperties": False}


def check_calls(calls, names):
    assert calls, "no call"
    for c in calls:
        arguments = json.loads(c.function.arguments)
        assert c.function.name in names and set(arguments) == {"city", "days"}, c
        assert len(arguments["city"]) <= 8 and 0 <= arguments["days"] <= 9, c


@tap.case
def tools_that_must_be_called():
    tools = [{"type": "function", "function": {"name": n, "parameters": SCHEMA, "strict": n == "time"}} for n in ("weather", "time")]
    ask = {"model": "demo-model", "messages": STORY, "max_tokens": 300, "temperature": 1.5, "tools": tools}
    named = {"type": "function", "function": {"name": "time"}}
    with client() as c:
        for seed in range(3):
            for choice, names, parallel in (("required", ("weather", "time"), True), ("required", ("weather", "time"), False),
                                            (named, ("time",), True)):
                given = {**ask, "tool_choice": choice, "parallel_tool_calls": parallel, "seed": seed}
                whole = c.chat.completions.create(**given).choices[0]
                check_calls(whole.message.tool_calls, names)
                assert whole.finish_reason == "tool_calls" and not whole.message.content, whole
                assert parallel or len(whole.message.tool_calls) == 1
                with c.chat.completions.stream(**given) as s:
                    streamed = s.until_done().get_final_completion().choices[0].message
                assert [x.function.arguments for x in streamed.tool_calls] == [
                    x.function.arguments for x in whole.message.tool_calls]
        free = c.chat.completions.create(**ask, seed=1).choices[0].message  # strict: text, or calls that are valid
        if free.tool_calls:
            check_calls(free.tool_calls, ("weather", "time"))
        bad = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"properties": {"x": {"not": {}}}}}}]
        e = raised(openai.BadRequestError, c.chat.completions.create, **{**ask, "tools": bad})
        assert "#/properties/x/not" in str(e) and "f:" in str(e), e


@tap.case
def a_timeout_ends_the_request():
    with client() as c:
        before = setup.stats().requests_cancelled
        with setup.cluster.held():
            raised(openai.APITimeoutError, c.with_options(timeout=0.3).chat.completions.create, **ASK)
            tap.wait_for(lambda: setup.stats().requests_cancelled == before + 1, "it is cancelled")
        assert c.chat.completions.create(**ASK).choices


@tap.case
def what_may_be_retried_is():
    """Without a worker group the gateway answers 503 with the time after which to come again."""
    with client(max_retries=1000) as c, Setup() as other:
        mine = c.with_options(base_url=f"{other.url}/v1")
        want = mine.chat.completions.create(**ASK).choices[0].message.content
        other.cluster.procs[1].terminate()
        other.gateway.wait_ready(503)
        group = threading.Timer(1, other.cluster.group)
        group.start()
        answer = mine.chat.completions.with_raw_response.create(**ASK)
        group.join()
        assert answer.parse().choices[0].message.content == want


@tap.case
def unknown_paths():
    with client() as c:
        e = raised(openai.NotFoundError, c.moderations.create, model="demo-model", input="x")
        assert e.type == "not_found_error"
        e = raised(openai.BadRequestError, c.embeddings.create, model="demo-model", input="x")
        assert "gives no embeddings" in e.message


if __name__ == "__main__":
    with Setup() as setup:
        tap.main()
