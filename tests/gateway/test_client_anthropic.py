"""Anthropic's own Python client against the gateway, synchronous and asynchronous."""
import asyncio

from client_setup import KEY, STORY, Setup, load, raised, tap

anthropic = load("anthropic")
setup = None
ASK = {"model": "demo-model", "messages": STORY, "max_tokens": 24}
EXACT = {**ASK, "extra_body": {"temperature": 0}}


def settings(**kw):
    if anthropic is None:
        raise tap.Skip("the Python package anthropic is not installed (tests/requirements.txt)")
    return {"base_url": setup.url, "api_key": KEY, "max_retries": 0, "timeout": tap.LIMIT, **kw}


def client(**kw):
    return anthropic.Anthropic(**settings(**kw))


def seeded(seed):
    return {**ASK, "extra_body": {"seed": seed}}


@tap.case
def models():
    with client() as c:
        (m,) = c.models.list()
        assert m.id == "demo-model" and m.type == "model" and m.created_at.year > 2000
        assert c.models.retrieve("demo-model").display_name == "demo-model"
        raised(anthropic.NotFoundError, c.models.retrieve, "other")


@tap.case
def streamed_is_whole():
    with client() as c:
        for seed in range(3):
            whole = c.messages.create(**seeded(seed))
            assert whole.role == "assistant" and whole.stop_reason in ("max_tokens", "end_turn") and whole.id.startswith("msg_")
            with c.messages.stream(**seeded(seed)) as s:
                text = "".join(s.text_stream)
                final = s.get_final_message()
            assert text == whole.content[0].text == final.content[0].text and len(text) > 20
            assert final.stop_reason == whole.stop_reason and final.usage.output_tokens == whole.usage.output_tokens == 24
            assert final.usage.input_tokens + final.usage.cache_read_input_tokens == \
                whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 8
            raw = list(c.messages.create(**seeded(seed), stream=True))
            assert [e.type for e in raw[:2] + raw[-3:]] == ["message_start", "content_block_start", "content_block_stop",
                                                           "message_delta", "message_stop"]
            assert "".join(e.delta.text for e in raw if e.type == "content_block_delta") == text


@tap.case
def counted_tokens():
    with client() as c:
        count = c.messages.count_tokens(model="demo-model", messages=STORY, system="Be kind.")
        usage = c.messages.create(**ASK, system="Be kind.").usage
        assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


@tap.case
def stop_sequences():
    with client() as c:
        text = c.messages.create(**EXACT).content[0].text
        word = text.split()[3]
        a = c.messages.create(**EXACT, stop_sequences=[word])
        assert a.content[0].text == text[:text.index(word)]
        assert a.stop_reason == "stop_sequence" and a.stop_sequence == word


@tap.case
def tools_that_must_be_called():
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"],
              "additionalProperties": False}
    tools = [{"name": n, "input_schema": schema} for n in ("weather", "time")]
    with client() as c:
        for choice, names in (({"type": "any"}, ("weather", "time")), ({"type": "tool", "name": "time"}, ("time",)),
                              ({"type": "tool", "name": "time", "disable_parallel_tool_use": True}, ("time",))):
            ask = {**ASK, "max_tokens": 200, "tools": tools, "tool_choice": choice}
            whole = c.messages.create(**ask)
            with c.messages.stream(**ask) as s:
                streamed = s.get_final_message()
            for m in (whole, streamed):
                assert m.stop_reason == "tool_use" and m.content, m
                for use in m.content:
                    assert use.type == "tool_use" and use.name in names and set(use.input) == {"city"}, m
                    assert len(use.input["city"]) <= 8, m


@tap.case
def answers_of_a_schema():
    import typing

    import pydantic  # the client's own

    class Person(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        name: typing.Literal["Ann", "Bob"]  # the client does not send lengths
        old: bool

    schema = {"type": "json_schema", "schema": Person.model_json_schema()}
    with client() as c:
        for seed in range(4):
            ask = {**ASK, "max_tokens": 200, "extra_body": {"seed": seed}}
            complete = 0
            for fields in ({"output_config": {"format": schema}}, {"extra_body": {"seed": seed, "output_format": schema}}):
                m = c.messages.create(**{**ask, **fields})
                if m.stop_reason == "end_turn":
                    Person.model_validate_json(m.content[0].text)
                    complete += 1
            with c.messages.stream(**ask, output_config={"format": schema}) as s:
                text = s.get_final_text()
            assert text == m.content[0].text, (text, m)
            if complete:
                parsed = c.messages.parse(**ask, output_format=Person)
                assert isinstance(parsed.parsed_output, Person), parsed
                return
    assert False, "no answer was complete"


@tap.case
def refused_fields():
    tool = {"name": "f", "input_schema": {"type": "object"}}
    with client() as c:
        for field, value in {"tool_choice": {"type": "some"}, "temperature": -1, "container": "c",
                             "output_config": {"format": {"type": "json_schema"}}}.items():
            e = raised(anthropic.BadRequestError, c.messages.create, **{**ASK, "tools": [tool], "extra_body": {field: value}})
            assert field in e.body["error"]["message"] and e.body["error"]["type"] == "invalid_request_error", e
        image = {"type": "image", "source": {"type": "url", "url": "http://localhost/x.png"}}
        e = raised(anthropic.BadRequestError, c.messages.create, **{**ASK, "messages": [{"role": "user", "content": [image]}]})
        assert "messages[0].content[0].type" in str(e)
        raised(anthropic.NotFoundError, c.messages.create, **{**ASK, "model": "other"})
        assert c.messages.create(**ASK, tools=[tool], tool_choice={"type": "auto"}).content


@tap.case
def keys():
    with client(api_key="wrong") as c:
        e = raised(anthropic.AuthenticationError, c.messages.create, **ASK)
        assert e.status_code == 401 and e.body["error"]["type"] == "authentication_error"
        raised(anthropic.AuthenticationError, lambda: list(c.models.list()))
    with client(api_key=None, auth_token=KEY) as c:
        assert c.messages.create(**ASK).content


@tap.case
def an_abandoned_stream():
    def begin():
        with client() as c, c.messages.create(**{**ASK, "max_tokens": 500, "stream": True,
                                                 "extra_body": {"ignore_eos": True}}) as s:
            assert next(iter(s)).type == "message_start"
    client().close()
    setup.abandoned(begin)
    with client() as c:
        assert c.messages.create(**ASK).content


@tap.case
def asynchronous():
    async def story(c, seed, stream):
        if not stream:
            return (await c.messages.create(**seeded(seed))).content[0].text
        async with c.messages.stream(**seeded(seed)) as s:
            return "".join([text async for text in s.text_stream])

    async def run():
        async with anthropic.AsyncAnthropic(**settings()) as c:
            texts = await asyncio.gather(*(story(c, i // 2, i % 2) for i in range(12)))
            assert texts[::2] == texts[1::2] and len(set(texts)) > 3
            assert await story(c, 0, True) == texts[0]

    settings()
    asyncio.run(run())


if __name__ == "__main__":
    with Setup() as setup:
        tap.main()
