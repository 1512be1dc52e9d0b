"""LiteLLM against the gateway, as three providers: OpenAI's API, Anthropic's, Ollama's.  Its packages are large, so
tests/run.sh installs it with --all only (tests/requirements-all.txt)."""
import os

from client_setup import KEY, STORY, Setup, load, raised, tap

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network
litellm = load("litellm")
setup = None


def providers():
    if litellm is None:
        raise tap.Skip("the Python package litellm is not installed (tests/run.sh --all installs it)")
    litellm.suppress_debug_info = True
    return {"openai/demo-model": f"{setup.url}/v1", "anthropic/demo-model": setup.url, "ollama_chat/demo-model": setup.url}


def ask(model, key=KEY, **kw):
    return litellm.completion(**{"model": model, "api_base": providers()[model], "api_key": key, "messages": STORY,
                                 "max_tokens": 24, "temperature": 0, "num_retries": 0, "timeout": tap.LIMIT, **kw})


@tap.case
def streamed_is_whole():
    texts = set()
    for model in providers():
        whole = ask(model)
        text = whole.choices[0].message.content
        chunks = list(ask(model, stream=True, stream_options={"include_usage": True}))
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text and len(text) > 20, model
        assert whole.choices[0].finish_reason == "length", (model, whole)
        usage = [c.usage for c in chunks if getattr(c, "usage", None)][-1]
        assert usage.completion_tokens == whole.usage.completion_tokens == 24, model
        assert usage.prompt_tokens == whole.usage.prompt_tokens > 8, model
        texts.add(text)
    assert len(texts) == 1, "one text through three APIs"


@tap.case
def stop_strings():
    for model in providers():
        text = ask(model).choices[0].message.content
        word = text.split()[3]
        a = ask(model, stop=[word]).choices[0]
        assert a.message.content == text[:text.index(word)] and a.finish_reason == "stop", (model, a)


@tap.case
def refused():
    for model in providers():
        e = raised(litellm.BadRequestError, ask, model, temperature=-1)
        assert e.status_code == 400 and "temperature" in str(e), (model, e)
        e = raised(litellm.AuthenticationError, ask, model, key="wrong")
        assert e.status_code == 401, (model, e)


@tap.case
def an_abandoned_stream():
    def begin():
        stream = ask("openai/demo-model", stream=True, max_tokens=None, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.completion_stream.close()
    providers()
    setup.abandoned(begin)
    assert ask("openai/demo-model").choices


if __name__ == "__main__":
    with Setup() as setup:
        tap.main()
