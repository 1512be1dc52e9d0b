"""/v1/responses of OpenAI's API before a coordinator and a worker: items, events, and OpenAI's own client."""
from client_setup import KEY, QUESTION, STORY, Setup, load, raised, tap
from api import Api, checked

openai = load("openai")
setup = api = None
PATH, CHAT = "/v1/responses", "/v1/chat/completions"
TOOL = {"type": "function", "name": "weather", "description": "The weather.", "parameters": {"type": "object"}}
CHAT_TOOL = {"type": "function", "function": {k: TOOL[k] for k in ("name", "description", "parameters")}}
EXACT = {"temperature": 0, "max_output_tokens": 12}


def ask(**body):
    return api.ok(PATH, **{"model": "demo-model", "input": QUESTION, **EXACT, **body})


def text_of(a):
    return "".join(p["text"] for item in a["output"] for p in item["content"])


def bad(param, status=400, **body):
    return api.refused(PATH, param, status, **{"input": QUESTION, **body})


def chat_tokens(messages, **more):
    return api.ok("/tokenize", messages=messages, **more)["count"]


def tokens(**body):
    return ask(**{**body, "max_output_tokens": 1})["usage"]["input_tokens"]


@tap.case
def a_whole_response():
    a = ask()
    want = api.ok(CHAT, messages=STORY, temperature=0, max_tokens=12)
    (item,) = a["output"]
    (part,) = item["content"]
    assert item["type"] == "message" and item["role"] == "assistant" and item["id"].startswith("msg_")
    assert part == {"type": "output_text", "text": want["choices"][0]["message"]["content"], "annotations": [],
                    "logprobs": []}
    assert a["object"] == "response" and a["status"] == "incomplete" and a["model"] == "demo-model"
    assert a["incomplete_details"] == {"reason": "max_output_tokens"} and a["error"] is None
    assert a["max_output_tokens"] == 12 and a["temperature"] == 0 and a["store"] is False and a["tools"] == []
    assert a["instructions"] is None and a["metadata"] == {} and a["parallel_tool_calls"] is True
    u = a["usage"]
    assert u["input_tokens"] == want["usage"]["prompt_tokens"] and u["output_tokens"] == 12
    assert u["total_tokens"] == u["input_tokens"] + 12 and u["output_tokens_details"] == {"reasoning_tokens": 0}
    assert 0 <= u["input_tokens_details"]["cached_tokens"] < u["input_tokens"]
    hello = api.ok(PATH, input="Hello", temperature=0)
    assert hello["status"] == "completed" and hello["incomplete_details"] is None


@tap.case
def streamed_is_whole():
    for seed in range(3):
        body = {"input": QUESTION, "max_output_tokens": 24, "seed": seed, "metadata": {"a": "b"}, "tools": [TOOL],
                "instructions": "Be\nkind."}
        whole = api.ok(PATH, **body)
        events = api.events(PATH, **body)
        last = checked(events)
        deltas = "".join(d["delta"] for n, d in events if n == "response.output_text.delta")
        (done,) = (d for n, d in events if n == "response.output_text.done")
        assert deltas == done["text"] == text_of(last) == text_of(whole) and len(deltas) > 20
        for key in whole:
            if key not in ("id", "created_at", "output", "usage"):
                assert whole[key] == last[key], key
        assert last["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
        assert whole["metadata"] == {"a": "b"} and whole["tools"] == [TOOL] and whole["instructions"] == "Be\nkind."


@tap.case
def input_items():
    def parts(kind, *texts):
        return [{"type": kind, "text": t} for t in texts]
    want = tokens()
    for given in (STORY, [{"type": "message", "role": "user", "content": parts("input_text", QUESTION[:9], QUESTION[9:])}]):
        assert tokens(input=given) == want == chat_tokens(STORY)
    system = chat_tokens([{"role": "system", "content": "Be kind."}, *STORY])
    assert tokens(instructions="Be kind.") == tokens(input=[{"role": "developer", "content": "Be kind."}, *STORY]) == system
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_12345", "name": "weather", "status": "completed",
            "arguments": '{"city": "Rome"}'}
    items = [*STORY,
             {"type": "reasoning", "id": "rs_1", "summary": [], "content": parts("reasoning_text", "Hm.")},
             {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                 {"type": "output_text", "text": "Wait.", "annotations": []}]},
             call, {**call, "call_id": "call_67890"},
             {"type": "function_call_output", "call_id": "call_12345", "output": "sunny"},
             {"type": "function_call_output", "call_id": "call_67890", "output": parts("input_text", "sun", "ny")},
             {"role": "user", "content": "And now?"}]
    def use(i):
        return {"id": i, "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    chat = [*STORY, {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm.",
                     "tool_calls": [use("call_12345"), use("call_67890")]},
            {"role": "tool", "tool_call_id": "call_12345", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_67890", "content": "sunny"}, {"role": "user", "content": "And now?"}]
    assert tokens(input=items, tools=[TOOL]) == chat_tokens(chat, tools=[CHAT_TOOL])
    two = [*STORY, {"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Two."}]
    assert tokens(input=two) == chat_tokens(two)


@tap.case
def fields():
    plain = ask()["output"][0]["content"]
    assert ask(store=False, user="u", service_tier="auto", truncation="disabled", background=False, include=[],
               text={"format": {"type": "text"}, "verbosity": "low"}, reasoning={"effort": "low", "summary": "auto"},
               tool_choice="auto", tools=[], parallel_tool_calls=True, top_logprobs=0, prompt_cache_key="k",
               previous_response_id=None)["output"][0]["content"] == plain
    assert ask(include=["reasoning.encrypted_content"], stream=False)["output"]
    assert ask(tools=[TOOL], tool_choice="none", parallel_tool_calls=False)["parallel_tool_calls"] is False
    for field, value in {"store": True, "previous_response_id": "resp_1", "conversation": "c", "background": True,
                         "truncation": "auto", "top_logprobs": 2, "tool_choice": "required", "max_tool_calls": 1,
                         "prompt": {"id": "p"}, "n": 2, "max_tokens": 5, "unheard_of": 1, "max_output_tokens": 0,
                         "temperature": -1, "input": [], "instructions": ["x"]}.items():
        bad(field, **{field: value})
    bad("include[0]", include=["file_search_call.results"])
    bad("text.format", text={"format": {"type": "json_schema", "name": "x"}})
    bad("tool_choice", tools=[TOOL], tool_choice={"type": "function", "name": "other"})
    bad("tool_choice.type", tools=[TOOL], tool_choice={"type": "web_search"})
    bad("tools[0].type", tools=[{"type": "web_search"}])
    bad("tools[0].strict", tools=[{**TOOL, "strict": 1}])
    bad("tools[0]", tools=[{"type": "function"}])
    bad("input[0].type", input=[{"type": "item_reference", "id": "msg_1"}])
    bad("input[0].content[0].type", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}])
    bad("input[0].content", input=[{"role": "user", "content": 5}])
    bad("input[0]", input=[{"role": "user"}])
    bad("input[0]", input=[{"content": "x"}])
    bad("input[0]", input=["x"])
    bad("input", input=5)
    bad("input[0].arguments", input=[{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}])
    bad("input[0]", input=[{"type": "function_call_output", "call_id": "c"}])
    bad("max_output_tokens", max_output_tokens=100000)
    bad("model", 404, model="other")
    api.refused(PATH, "input", model="demo-model")


@tap.case
def a_failure_in_a_stream():
    def attempt():
        events = api.events(PATH, input=QUESTION, ignore_eos=True, deadline_ms=1)
        name, last = events[-1]
        assert [d["sequence_number"] for _, d in events] == list(range(len(events)))
        if name == "response.incomplete":  # the answer was quicker
            return False
        assert name == "response.failed" and last["response"]["status"] == "failed", last
        assert "deadline" in last["response"]["error"]["message"]
        return True

    tap.race(attempt)


def client(**kw):
    if openai is None:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    return openai.OpenAI(**{"base_url": f"{setup.url}/v1", "api_key": KEY, "max_retries": 0, "timeout": tap.LIMIT, **kw})


@tap.case
def its_client():
    with client() as c:
        body = {"model": "demo-model", "input": QUESTION, "max_output_tokens": 24, "extra_body": {"seed": 5}}
        whole = c.responses.create(**body)
        assert whole.status == "incomplete" and len(whole.output_text) > 20
        with c.responses.stream(**body) as s:
            deltas = [e.delta for e in s if e.type == "response.output_text.delta"]
        assert "".join(deltas) == whole.output_text
        sentence = {"model": "demo-model", "input": QUESTION, "extra_body": {"seed": 5, "stop": "."}}
        with c.responses.stream(**sentence) as s:
            final = s.until_done().get_final_response()
        assert final.status == "completed" and final.output_text == c.responses.create(**sentence).output_text
        assert final.usage.output_tokens > 0 and final.usage.input_tokens_details.cached_tokens >= 0
        e = raised(openai.BadRequestError, c.responses.create, **{**body, "previous_response_id": "resp_x"})
        assert e.param == "previous_response_id"
    with client(api_key="wrong") as c:
        raised(openai.AuthenticationError, c.responses.create, model="demo-model", input="x")


@tap.case
def an_abandoned_stream():
    def begin():
        with client() as c, c.responses.create(model="demo-model", input=QUESTION, stream=True,
                                               extra_body={"ignore_eos": True}) as s:
            assert next(iter(s)).type == "response.created"
    client().close()
    setup.abandoned(begin)
    assert ask()


if __name__ == "__main__":
    with Setup() as setup:
        api = Api(setup.gateway, {"Authorization": f"Bearer {KEY}"})
        tap.main()
