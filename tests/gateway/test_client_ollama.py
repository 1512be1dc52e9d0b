"""Ollama's own Python client against the gateway, synchronous and asynchronous."""
import asyncio

from client_setup import KEY, QUESTION, STORY, Setup, load, raised, tap

ollama = load("ollama")
setup = None
OPTIONS = {"num_predict": 24, "seed": 3}


def settings(key=KEY):
    if ollama is None:
        raise tap.Skip("the Python package ollama is not installed (tests/requirements.txt)")
    return {"host": setup.url, "headers": {"Authorization": f"Bearer {key}"}, "timeout": tap.LIMIT}


def client(**kw):
    return ollama.Client(**settings(**kw))


@tap.case
def models():
    c = client()
    (m,) = c.list().models
    assert m.model == "demo-model:latest" and m.modified_at.year > 2000 and m.details.families == []
    show = c.show("demo-model")
    assert show.modelinfo["ingot.context_length"] == 1024 and "completion" in show.capabilities
    (running,) = c.ps().models
    assert running.model == "demo-model:latest" and running.context_length == 1024
    assert raised(ollama.ResponseError, c.show, "other").status_code == 404


@tap.case
def streamed_is_whole():
    c = client()
    for seed in range(3):
        options = {**OPTIONS, "seed": seed}
        whole = c.chat("demo-model", STORY, options=options)
        chunks = list(c.chat("demo-model", STORY, options=options, stream=True))
        assert "".join(x.message.content for x in chunks) == whole.message.content and len(whole.message.content) > 20
        assert all(not x.done for x in chunks[:-1]) and chunks[-1].done and chunks[-1].done_reason == whole.done_reason
        for count in ("prompt_eval_count", "eval_count"):
            assert getattr(chunks[-1], count) == getattr(whole, count) > 0
        assert whole.total_duration >= whole.prompt_eval_duration > 0
        made = c.generate("demo-model", QUESTION, options=options)
        assert made.response == whole.message.content
        assert "".join(x.response for x in c.generate("demo-model", QUESTION, options=options, stream=True)) == made.response


@tap.case
def stop_strings():
    c = client()
    text = c.generate("demo-model", "Once upon a time", raw=True, options={**OPTIONS, "temperature": 0}).response
    word = text.split()[3]
    a = c.generate("demo-model", "Once upon a time", raw=True, options={**OPTIONS, "temperature": 0, "stop": [word]})
    assert a.response == text[:text.index(word)] and a.done_reason == "stop"


@tap.case
def refused_fields():
    c = client()
    for said, ask in {"#/not": {"format": {"not": {}}}, "options.num_ctx": {"options": {"num_ctx": 1 << 20}},
                      "options.mirostat": {"options": {"mirostat": 2}}}.items():
        e = raised(ollama.ResponseError, c.chat, "demo-model", STORY, **ask)
        assert e.status_code == 400 and said in e.error, e
    assert raised(ollama.ResponseError, c.chat, "other", STORY).status_code == 404
    assert raised(ollama.ResponseError, c.generate, "demo-model", "a", suffix="b").status_code == 400
    e = raised(ollama.ResponseError, c.embed, "demo-model", "a")
    assert e.status_code == 400 and "no modules.json" in e.error, e
    assert raised(ollama.ResponseError, c.pull, "demo-model").status_code == 501
    assert raised(ollama.ResponseError, c.delete, "demo-model").status_code == 501

    def weather(city: str) -> str:
        """The weather.

        Args:
          city: its name
        """
    assert c.chat("demo-model", STORY, tools=[weather], options=OPTIONS).message.content


@tap.case
def keys():
    e = raised(ollama.ResponseError, client(key="wrong").chat, "demo-model", STORY)
    assert e.status_code == 401 and "key" in e.error
    assert raised(ollama.ResponseError, client(key="wrong").list).status_code == 401


@tap.case
def an_abandoned_stream():
    async def begin():
        c = ollama.AsyncClient(**settings())
        stream = await c.chat("demo-model", STORY, options={"ignore_eos": True}, stream=True)
        task = asyncio.ensure_future(stream.__anext__())
        await asyncio.sleep(0)
        while setup.stats().running + setup.stats().waiting == 0:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stream.aclose()
        await c._client.aclose()
    settings()
    setup.abandoned(lambda: asyncio.run(begin()))
    assert client().chat("demo-model", STORY, options=OPTIONS).message.content


@tap.case
def asynchronous():
    async def story(c, seed, stream):
        options = {**OPTIONS, "seed": seed}
        if not stream:
            return (await c.chat("demo-model", STORY, options=options)).message.content
        return "".join([x.message.content async for x in await c.chat("demo-model", STORY, options=options, stream=True)])

    async def run():
        c = ollama.AsyncClient(**settings())
        texts = await asyncio.gather(*(story(c, i // 2, i % 2) for i in range(12)))
        assert texts[::2] == texts[1::2] and len(set(texts)) > 3

    settings()
    asyncio.run(run())


if __name__ == "__main__":
    with Setup() as setup:
        tap.main()
