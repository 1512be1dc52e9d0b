"""OpenAI's own Python client against the gateway, synchronous and asynchronous: it needs to know nothing of Ingot."""
import asyncio
import contextlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

try:
    import openai
except ImportError:  # a Python other than that of tests/run.sh
    openai = None

STORY = [{"role": "user", "content": "Tell me a short story about a fox."}]
cluster = gateway = None


def settings(key="secret"):
    if openai is None:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    return {"base_url": f"http://127.0.0.1:{gateway.port}/v1", "api_key": key, "max_retries": 0,
            "timeout": tap.LIMIT}


def client(**kw):
    return openai.OpenAI(**settings(**kw))


def stats():
    return cluster.clients[0].call("Stats")[1]


@tap.case
def models():
    with client() as c:
        assert [m.id for m in c.models.list()] == ["demo-model"]
        assert c.models.retrieve("demo-model").object == "model"
        try:
            c.models.retrieve("other")
            raise AssertionError("an unknown model was found")
        except openai.NotFoundError as e:
            assert e.param == "model" and e.type == "not_found_error"


@tap.case
def streamed_is_whole():
    ask = {"model": "demo-model", "messages": STORY, "max_tokens": 30, "seed": 11}
    with client() as c:
        whole = c.chat.completions.create(**ask)
        assert whole.choices[0].finish_reason in ("stop", "length") and whole.choices[0].message.role == "assistant"
        text, usage = "", None
        with c.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}) as s:
            for chunk in s:
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
                usage = chunk.usage or usage
        assert text == whole.choices[0].message.content and len(text) > 20
        for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert getattr(usage, field) == getattr(whole.usage, field) > 0
        assert usage.prompt_tokens_details.cached_tokens >= 0
        again = c.chat.completions.create(**ask)
        assert again.choices[0].message.content == text and again.id != whole.id


@tap.case
def the_stream_helper():
    with client() as c:
        ask = {"model": "demo-model", "messages": STORY, "seed": 4, "n": 2, "stop": "."}
        whole = c.chat.completions.create(**ask)
        with c.chat.completions.stream(**ask) as s:
            deltas = [e.delta for e in s if e.type == "content.delta"]
            final = s.get_final_completion()
        assert [x.message.content for x in final.choices] == [x.message.content for x in whole.choices]
        assert deltas and [x.finish_reason for x in final.choices] == [x.finish_reason for x in whole.choices]
        assert final.choices[0].message.role == "assistant"


@tap.case
def completions():
    with client() as c:
        ask = {"model": "demo-model", "prompt": "Once upon a time", "temperature": 0}
        whole = c.completions.create(**ask)
        assert whole.usage.completion_tokens <= 16 and whole.choices[0].text
        assert "".join(x.choices[0].text for x in c.completions.create(**ask, stream=True)) == whole.choices[0].text
        both = c.completions.create(model="demo-model", prompt=["One day", "The fox"], max_tokens=4)
        assert [x.index for x in both.choices] == [0, 1]


@tap.case
def stop():
    with client() as c:
        ask = {"model": "demo-model", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 24}
        text = c.completions.create(**ask).choices[0].text
        word = text.split()[3]
        choice = c.completions.create(**ask, stop=[word]).choices[0]
        assert choice.text == text[:text.index(word)] and choice.finish_reason == "stop"


@tap.case
def logprobs():
    with client() as c:
        ask = {"model": "demo-model", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0,
               "logprobs": True, "top_logprobs": 2}
        choice = c.chat.completions.create(**ask).choices[0]
        entries = choice.logprobs.content
        assert choice.finish_reason == "stop" and entries and "".join(e.token for e in entries) == choice.message.content
        assert all(len(e.top_logprobs) == 2 and e.top_logprobs[0].token == e.token for e in entries)
        with c.chat.completions.stream(**ask) as s:
            seen = list(s)
            assert s.get_final_completion().choices[0].logprobs.content == entries
        assert "".join(t.token for e in seen if e.type == "logprobs.content.delta" for t in e.content) == \
            choice.message.content
        legacy = c.completions.create(model="demo-model", prompt="Once", max_tokens=4, logprobs=1, echo=False).choices[0]
        assert "".join(legacy.logprobs.tokens) == legacy.text and len(legacy.logprobs.top_logprobs) == 4
        assert c.completions.create(model="demo-model", prompt="Once", max_tokens=1, echo=True).choices[0].text[:4] == "Once"


@tap.case
def extras():
    with client() as c:
        answer = c.chat.completions.create(model="demo-model", messages=STORY, max_tokens=6,
                                           extra_body={"ignore_eos": True, "top_k": 1, "min_p": 0.1, "priority": 1,
                                                       "repetition_penalty": 1.1, "deadline_ms": 10 ** 6})
        assert answer.usage.completion_tokens == 6


@tap.case
def errors():
    with client() as c:
        for field, value in {"response_format": {"type": "xml"}, "temperature": -1, "store": True,
                             "tool_choice": "required", "audio": {"voice": "alloy", "format": "mp3"}}.items():
            try:
                c.chat.completions.create(model="demo-model", messages=STORY, **{field: value})
                raise AssertionError(f"{field} was taken")
            except openai.BadRequestError as e:
                assert e.param.split(".")[0] == field and e.type == "invalid_request_error", (field, e)
        try:
            c.chat.completions.create(model="other", messages=STORY)
            raise AssertionError("another model was served")
        except openai.NotFoundError as e:
            assert e.param == "model"
    with client(key="wrong") as c:
        try:
            c.chat.completions.create(model="demo-model", messages=STORY)
            raise AssertionError("a wrong key was taken")
        except openai.AuthenticationError as e:
            assert e.status_code == 401 and e.type == "authentication_error"


@tap.case
def an_abandoned_stream():
    with client() as c:
        before = stats().requests_cancelled
        with cluster.held():
            s = c.chat.completions.create(model="demo-model", messages=STORY, stream=True,
                                          extra_body={"ignore_eos": True})
            assert next(iter(s)).choices[0].delta.role == "assistant"
            s.close()
            tap.wait_for(lambda: stats().requests_cancelled == before + 1, "it is cancelled")
        tap.wait_for(lambda: stats().running == 0, "nothing runs")
        assert c.chat.completions.create(model="demo-model", messages=STORY, max_tokens=1).choices


@tap.case
def asynchronous():
    async def story(c, seed, stream):
        ask = {"model": "demo-model", "messages": STORY, "max_tokens": 24, "seed": seed}
        if not stream:
            return (await c.chat.completions.create(**ask)).choices[0].message.content
        return "".join([x.choices[0].delta.content or "" async for x in
                        await c.chat.completions.create(**ask, stream=True)])

    async def run():
        async with openai.AsyncOpenAI(**settings()) as c:
            assert [m.id async for m in c.models.list()] == ["demo-model"]
            texts = await asyncio.gather(*(story(c, i // 2, i % 2) for i in range(16)))
            assert texts[::2] == texts[1::2] and len(set(texts)) > 4
            # the connection serves on after [DONE]: the client reads to the end of the body
            assert await story(c, 0, True) == texts[0]
            try:
                await c.chat.completions.create(model="demo-model", messages=STORY, logprobs=False, top_logprobs=1)
                raise AssertionError("top_logprobs were taken")
            except openai.BadRequestError as e:
                assert e.param == "top_logprobs"
        async with openai.AsyncOpenAI(**settings("wrong")) as c:
            try:
                await c.models.list()
                raise AssertionError("a wrong key was taken")
            except openai.AuthenticationError:
                pass

    asyncio.run(run())


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint, "--api-key", "secret")).wait_ready()
        tap.main()
