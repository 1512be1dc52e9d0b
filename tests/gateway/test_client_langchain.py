"""LangChain's chat model of OpenAI's API against the gateway."""
import asyncio

from client_setup import KEY, QUESTION, STORY, Setup, load, raised, tap

openai, langchain_openai = load("openai"), load("langchain_openai")
setup = None


def model(**kw):
    if langchain_openai is None:
        raise tap.Skip("the Python package langchain-openai is not installed (tests/requirements.txt)")
    return langchain_openai.ChatOpenAI(**{"model": "demo-model", "base_url": setup.url + "/v1", "api_key": KEY, "max_retries": 0,
                                          "timeout": tap.LIMIT, "max_tokens": 24, "seed": 3, **kw})


@tap.case
def streamed_is_whole():
    for seed in range(3):
        m = model(seed=seed, stream_usage=True)
        whole = m.invoke(QUESTION)
        chunks = list(m.stream(QUESTION))
        total = chunks[0]
        for c in chunks[1:]:
            total += c
        assert total.content == whole.content and len(whole.content) > 20
        assert total.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]
        for count in ("input_tokens", "output_tokens", "total_tokens"):
            assert total.usage_metadata[count] == whole.usage_metadata[count] > 0
        assert "cache_read" in whole.usage_metadata["input_token_details"]


@tap.case
def messages_and_stop():
    m = model(temperature=0)
    text = m.invoke([("system", "Be kind."), ("human", QUESTION)]).content
    word = text.split()[3]
    a = m.bind(stop=[word]).invoke([("system", "Be kind."), ("human", QUESTION)])
    assert a.content == text[:text.index(word)] and a.response_metadata["finish_reason"] == "stop"


@tap.case
def tools_are_bound():
    def weather(city: str) -> str:
        """The weather of a city."""
        return "sunny"
    m = model(temperature=0)
    assert m.bind_tools([weather]).invoke(QUESTION).content == m.invoke(QUESTION).content
    for choice in ("required", "weather"):
        calls = model(temperature=1, max_tokens=300).bind_tools([weather], tool_choice=choice).invoke(QUESTION).tool_calls
        assert calls and all(c["name"] == "weather" and isinstance(c["args"]["city"], str) for c in calls), calls
    e = raised(openai.BadRequestError, m.bind_tools([weather], tool_choice={"type": "function", "function": {"name": "x"}}).invoke,
               QUESTION)
    assert e.param == "tool_choice"


@tap.case
def refused_fields():
    e = raised(openai.BadRequestError, model().with_structured_output({"title": "x", "type": "object", "properties": {"a": {"not": {}}}},
                                                                     method="json_schema").invoke, QUESTION)
    assert "#/properties/a/not" in str(e)
    raised(openai.NotFoundError, model(model="other").invoke, QUESTION)
    e = raised(openai.AuthenticationError, model(api_key="wrong").invoke, QUESTION)
    assert e.status_code == 401


@tap.case
def an_abandoned_stream():
    def begin():
        m = model(max_tokens=None, extra_body={"ignore_eos": True})
        stream = m.stream(QUESTION)
        assert next(stream).content == ""
        stream.close()
    model()
    setup.abandoned(begin)
    assert model().invoke(STORY).content


@tap.case
def asynchronous():
    async def run():
        texts = await asyncio.gather(*(model(seed=i // 2).ainvoke(QUESTION) for i in range(6)))
        texts = [t.content for t in texts]
        assert texts[::2] == texts[1::2] and len(set(texts)) > 1
        parts = [c.content async for c in model(seed=0).astream(QUESTION)]
        assert "".join(parts) == texts[0]
    model()
    asyncio.run(run())


if __name__ == "__main__":
    with Setup() as setup:
        tap.main()
