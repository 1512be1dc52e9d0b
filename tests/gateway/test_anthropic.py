"""Anthropic's API of the gateway before a coordinator and a worker: requests, events, errors; Claude Code's shape."""
import contextlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from api import Api, joined  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

MESSAGES, COUNT, CHAT = "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"
QUESTION = "Tell me a short story about a fox."
STORY = [{"role": "user", "content": QUESTION}]
PLAIN = {"temperature": 0, "max_tokens": 12}
TOOL = {"name": "weather", "description": "The weather.", "input_schema": {"type": "object"}}
cluster = gateway = api = None


def ask(**body):
    return api.ok(MESSAGES, **{"model": "demo-model", "messages": STORY, "max_tokens": 12, **body})


def text_of(answer):
    assert all(b["type"] == "text" for b in answer["content"]) and len(answer["content"]) <= 1
    return "".join(b["text"] for b in answer["content"])


def refused(path, said, status=400, kind="invalid_request_error", **body):
    got, a = api.post(path, **body)
    assert got == status and a["type"] == "error" and a["error"]["type"] == kind, (body, got, a)
    assert said in a["error"]["message"], (said, a)


def bad(said, **body):
    refused(MESSAGES, said, **{"messages": STORY, "max_tokens": 2, **body})


def rendered(**body):
    """The prompt that the request comes to: what the tokens that are counted for it could not show."""
    names = {"messages", "system", "tools"}
    assert set(body) <= names
    return api.ok(COUNT, **{"messages": STORY, **body})["input_tokens"]


def openai_tokens(messages, **more):
    return api.ok("/tokenize", messages=messages, **more)["count"]


@tap.case
def a_whole_message():
    a = ask(temperature=0)
    assert a["type"] == "message" and a["role"] == "assistant" and a["id"].startswith("msg_")
    assert a["model"] == "demo-model" and a["stop_reason"] == "max_tokens" and a["stop_sequence"] is None
    want = api.ok(CHAT, messages=STORY, **PLAIN)
    assert text_of(a) == want["choices"][0]["message"]["content"]
    u = a["usage"]
    assert u["input_tokens"] + u["cache_read_input_tokens"] == want["usage"]["prompt_tokens"] and u["output_tokens"] == 12
    hello = ask(messages=[{"role": "user", "content": "Hello"}], temperature=0, max_tokens=200)
    assert hello["stop_reason"] == "end_turn"


@tap.case
def streamed_is_whole():
    for seed in range(3):
        body = {"messages": STORY, "max_tokens": 24, "seed": seed}
        whole = ask(**body)
        streamed = joined(api.events(MESSAGES, **body))
        assert streamed["content"] == whole["content"] and streamed["stop_reason"] == whole["stop_reason"]
        assert streamed["usage"]["output_tokens"] == whole["usage"]["output_tokens"] == 24
        assert sum(streamed["usage"][k] for k in ("input_tokens", "cache_read_input_tokens")) == \
            sum(whole["usage"][k] for k in ("input_tokens", "cache_read_input_tokens"))


@tap.case
def stop_sequences():
    text = text_of(ask(temperature=0, max_tokens=30))
    word = text.split()[3]
    body = {"messages": STORY, "temperature": 0, "max_tokens": 30, "stop_sequences": ["no such text", word]}
    for a in (ask(**body), joined(api.events(MESSAGES, **body))):
        assert text_of(a) == text[:text.index(word)] and a["stop_reason"] == "stop_sequence", a
        assert a["stop_sequence"] == word
    assert ask(stop_sequences=[])["stop_reason"] in ("max_tokens", "end_turn")
    bad("stop_sequences", stop_sequences="x")
    bad("stop_sequences[0]", stop_sequences=[""])


@tap.case
def system_and_content():
    def blocks(*texts):
        return [{"type": "text", "text": t, "cache_control": {"type": "ephemeral"}} for t in texts]
    want = openai_tokens([{"role": "system", "content": "Be kind."}, *STORY])
    for system in ("Be kind.", blocks("Be kind."), blocks("Be ", "kind.")):
        assert rendered(system=system) == want, system
    assert want > rendered() == openai_tokens(STORY)
    assert rendered(messages=[{"role": "user", "content": blocks(QUESTION[:9], QUESTION[9:])}]) == rendered()
    assert rendered(system="") == rendered(system=[]) == rendered()
    talk = [*STORY, {"role": "assistant", "content": blocks("Once")}, {"role": "user", "content": "More."}]
    assert rendered(messages=talk) == openai_tokens([*STORY, {"role": "assistant", "content": "Once"},
                                                     {"role": "user", "content": "More."}])


@tap.case
def a_billing_block_does_not_change_the_prompt():
    def system(n):
        return [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.0.{n}; cch={n}{n};"},
                {"type": "text", "text": "You tell stories. " * 20}]
    first = ask(system=system(1), max_tokens=1)["usage"]
    again = ask(system=system(2), max_tokens=1)["usage"]
    assert sum(first[k] for k in ("input_tokens", "cache_read_input_tokens")) == \
        sum(again[k] for k in ("input_tokens", "cache_read_input_tokens"))
    assert again["cache_read_input_tokens"] >= 64, (first, again)
    assert rendered(system=system(1)) == rendered(system="You tell stories. " * 20)


@tap.case
def the_beginning_of_the_answer():
    """A last message of the assistant is continued."""
    whole = text_of(ask(temperature=0, max_tokens=20))
    begin = " ".join(whole.split(" ")[:4])
    a = ask(temperature=0, max_tokens=8, messages=[*STORY, {"role": "assistant", "content": begin}])
    assert whole.startswith(begin + text_of(a)[:10]), (whole, begin, a)


@tap.case
def tools_and_their_results():
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome", "days": 2 ** 60}}
    call = {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments":
                                                              '{"city": "Rome", "days": 1152921504606846976}'}}
    tools = [{"type": "function", "function": {"name": "weather", "description": "The weather.",
                                               "parameters": {"type": "object"}}}]
    assert rendered(tools=[TOOL]) == openai_tokens(STORY, tools=tools)
    for result in ("sunny", [{"type": "text", "text": "sun"}, {"type": "text", "text": "ny"}]):
        talk = [*STORY, {"role": "assistant", "content": [{"type": "text", "text": "Wait."}, use]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": result},
                                             {"type": "text", "text": "And now?"}]}]
        want = [*STORY, {"role": "assistant", "content": "Wait.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"}, {"role": "user", "content": "And now?"}]
        assert rendered(messages=talk, tools=[TOOL]) == openai_tokens(want, tools=tools), result
    error = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True}
    assert ask(max_tokens=1, tools=[TOOL], messages=[*STORY, {"role": "assistant", "content": [use]},
                                                     {"role": "user", "content": [error]}])
    for choice in ({"type": "auto"}, {"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}, None):
        assert text_of(ask(temperature=0, tools=[TOOL], tool_choice=choice)) == text_of(ask(temperature=0))
    assert ask(tools=[], max_tokens=1)
    schema = {"type": "object", "properties": {"c": {"const": "x"}}, "required": ["c"], "additionalProperties": False}
    (call,) = ask(tools=[{"name": "n" * 128, "input_schema": schema}], tool_choice={"type": "tool", "name": "n" * 128},
                  max_tokens=400)["content"]
    assert call["name"] == "n" * 128 and call["input"] == {"c": "x"}, call
    bad("", tools=[{**TOOL, "name": "n" * 129}])
    bad("tool_choice.type", tools=[TOOL], tool_choice={"type": "some"})
    bad("tool_choice", tools=[TOOL], tool_choice={"type": "tool", "name": "other"})
    bad("tool_choice", tools=[TOOL], tool_choice={"type": "tool"})
    bad("tool_choice", tool_choice={"type": "any"})
    bad("tool_choice.disable_parallel_tool_use", tools=[TOOL], tool_choice={"type": "auto",
                                                                            "disable_parallel_tool_use": 1})
    bad("tools[0]", tools=[{"name": "x"}])
    bad("tools[0].type", tools=[{"type": "web_search_20250305", "name": "web_search"}])
    bad("tools[0].input_schema", tools=[{"name": "x", "input_schema": "y"}])
    bad("messages[0].content[0].input", messages=[{"role": "assistant", "content": [{**use, "input": "{}"}]}])
    bad("messages[0].content[0]", messages=[{"role": "user", "content": [{"type": "tool_result"}]}])
    bad("messages[0].content[0].type", messages=[{"role": "user", "content": [use]}])


@tap.case
def thinking_in_the_history():
    think = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    talk = [*STORY, {"role": "assistant", "content": [think, {"type": "redacted_thinking", "data": "x"},
                                                      {"type": "text", "text": "Once."}]}, *STORY]
    assert ask(messages=talk, max_tokens=1)
    for option in ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"},
                   {"type": "adaptive", "display": "omitted"}):
        assert ask(thinking=option, max_tokens=1)
    bad("thinking.type", thinking={"type": "sometimes"})
    bad("thinking", thinking={})
    bad("thinking.budget_tokens", thinking={"type": "enabled", "budget_tokens": 0})
    bad("messages[0].content[0].type", messages=[{"role": "user", "content": [think]}])


@tap.case
def fields():
    plain = ask(seed=1)
    assert ask(seed=1, metadata={"user_id": "u"}, service_tier="auto", top_k=None, stop_sequences=None, mcp_servers=[],
               context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
               cache_control={"type": "ephemeral"}, tool_choice=None)["content"] == plain["content"]
    assert text_of(ask(top_k=1, temperature=1)) == text_of(ask(temperature=0))
    assert ask(seed=1, top_p=0.9, min_p=0.05, max_tokens=3, ignore_eos=True)["usage"]["output_tokens"] == 3
    for field, value in {"temperature": -1, "top_p": 0, "top_k": -2, "max_tokens": 0, "stop": ["x"], "n": 2,
                         "unheard_of": 1, "container": "c", "stream": "yes", "messages": [], "system": 5}.items():
        bad(field, **{field: value})
    bad("output_config.format", output_config={"format": {"type": "json_schema"}})
    bad("output_config.format.type", output_config={"format": {"type": "yaml", "schema": {}}})
    bad("output_config.shape", output_config={"shape": "round"})
    bad("#/not", output_config={"format": {"type": "json_schema", "schema": {"type": "object", "not": {}}}})
    bad("context_management.edits[0].type", context_management={"edits": [{"type": "clear_tool_uses_20250919"}]})
    bad("mcp_servers", mcp_servers=[{"type": "url", "url": "http://localhost"}])
    assert ask(output_config={"effort": "low"}, max_tokens=1)
    refused(MESSAGES, "max_tokens", messages=STORY)
    refused(MESSAGES, "messages", max_tokens=1)
    bad("messages[0].content[0].type", messages=[{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}])
    bad("messages[0].content", messages=[{"role": "user", "content": 5}])
    bad("messages[0].content", messages=[{"role": "user", "content": None}])
    bad("messages[0]", messages=[{"role": "user"}])
    bad("messages[0]", messages=[{"content": "x"}])
    bad("messages[0].role", messages=[{"role": "tool", "content": "x"}])
    bad("messages[1]", messages=[*STORY, 5])
    refused(MESSAGES, "model 'other'", 404, "not_found_error", model="other", messages=STORY, max_tokens=1)
    refused(MESSAGES, "priority", 403, "permission_error", messages=STORY, max_tokens=1, priority=1)
    refused(MESSAGES, "max_tokens", messages=STORY, max_tokens=100000)
    status, _, data = api.send(MESSAGES, b'{"messages": [')
    assert status == 400 and json.loads(data)["error"]["type"] == "invalid_request_error"


@tap.case
def tokens_are_counted():
    used = ask(max_tokens=1, system="Be kind.", tools=[TOOL])["usage"]
    want = used["input_tokens"] + used["cache_read_input_tokens"]
    assert api.ok(COUNT, messages=STORY, system="Be kind.", tools=[TOOL], model="demo-model") == {"input_tokens": want}
    refused(COUNT, "messages")
    refused(COUNT, "model 'other'", 404, "not_found_error", model="other", messages=STORY)


@tap.case
def the_query_string_is_ignored():
    status, a = api.post(MESSAGES + "?beta=true", messages=STORY, max_tokens=2)
    assert status == 200 and a["type"] == "message"
    assert api.post(COUNT + "?beta=true", messages=STORY)[0] == 200


@tap.case
def models_for_its_clients():
    ours = Api(gateway, {"anthropic-version": "2023-06-01"})
    status, a = ours.get("/v1/models")
    assert status == 200 and a["has_more"] is False and a["first_id"] == a["last_id"] == "demo-model"
    (m,) = a["data"]
    assert m["type"] == "model" and m["id"] == m["display_name"] == "demo-model" and m["created_at"].endswith("Z")
    assert ours.get("/v1/models/demo-model") == (200, m)
    assert ours.get("/v1/models/")[0] == 404
    status, a = ours.get("/v1/models/other")
    assert status == 404 and a["error"]["type"] == "not_found_error" and a["type"] == "error"
    assert api.get("/v1/models")[1]["object"] == "list"


@tap.case
def keys():
    with Gateway("--connect", cluster.endpoint, "--api-key", "secret") as g:
        g.wait_ready()
        for headers in ({}, {"x-api-key": "wrong"}, {"Authorization": "Bearer wrong"}):
            for path in (MESSAGES, COUNT, "/v1/messages/batches"):
                status, a = Api(g, headers).post(path, messages=STORY, max_tokens=1)
                assert status == 401 and a["type"] == "error" and a["error"]["type"] == "authentication_error", a
        for headers in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"}):
            assert Api(g, headers).ok(MESSAGES, messages=STORY, max_tokens=1)
        status, a = Api(g, {"x-api-key": "secret"}).post("/v1/messages/batches")
        assert status == 404 and a["error"]["type"] == "not_found_error"


@tap.case
def errors_in_a_stream():
    def attempt():
        events = api.events(MESSAGES, messages=STORY, max_tokens=900, ignore_eos=True, deadline_ms=1)
        assert events[0][0] == "message_start"
        name, error = events[-1]
        if name == "message_stop":  # the answer was quicker
            return False
        assert name == "error" and error["type"] == "error" and error["error"]["type"] == "timeout_error", error
        assert "deadline" in error["error"]["message"]
        return True

    tap.race(attempt)


@tap.case
def an_abandoned_stream_is_cancelled():
    before = cluster.clients[0].call("Stats")[1].requests_cancelled
    with cluster.held():
        with gateway.connect() as c:
            c.request(MESSAGES, method="POST", body=json.dumps({"messages": STORY, "max_tokens": 500, "stream": True,
                                                                "ignore_eos": True}).encode())
            assert c.head().status == 200
        tap.wait_for(lambda: cluster.clients[0].call("Stats")[1].requests_cancelled == before + 1, "it is cancelled")
    assert ask(max_tokens=1)


@tap.case
def claude_code():
    """The fields and headers that Claude Code sends: the request of a turn after a tool was used, and its small ones."""
    ephemeral = {"type": "ephemeral"}
    body = {
        "model": "demo-model", "max_tokens": 32, "stream": True, "temperature": 1,
        "metadata": {"user_id": "user_0_account__session_0"},
        "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.9.f3a; cc_entrypoint=cli; cch=0;"},
                   {"type": "text", "text": "You are a coding agent.", "cache_control": ephemeral},
                   {"type": "text", "text": "Use the tools.\n# Tone\nBe short.", "cache_control": ephemeral}],
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "tools": [{"name": name, "description": f"{name} something", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {
                "path": {"type": "string", "description": "an absolute path"}}, "required": ["path"],
            "additionalProperties": False}, "eager_input_streaming": True} for name in ("Read", "Write", "Bash")],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nToday is a day.\n</system-reminder>"},
                                         {"type": "text", "text": "Read a.txt"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "I read it.", "signature": "abc="},
                                              {"type": "text", "text": "I read it."},
                                              {"type": "tool_use", "id": "toolu_01", "name": "Read",
                                               "input": {"path": "/a.txt"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "is_error": False,
                                          "content": [{"type": "text", "text": "1\tHello"}],
                                          "cache_control": ephemeral}]}]}
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
               "x-app": "cli", "User-Agent": "claude-cli/2.1.9 (external, cli)", "x-stainless-retry-count": "0",
               "anthropic-dangerous-direct-browser-access": "true", "Authorization": "Bearer anything"}
    agent = Api(gateway, headers)
    a = joined(agent.events(MESSAGES + "?beta=true", **body))
    assert a["usage"]["output_tokens"] > 0 and a["stop_reason"] in ("end_turn", "max_tokens")
    count = {k: body[k] for k in ("model", "system", "tools", "messages", "thinking")}
    assert agent.ok(COUNT + "?beta=true", **count)["input_tokens"] == \
        a["usage"]["input_tokens"] + a["usage"]["cache_read_input_tokens"]
    body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=2.1.9.f3a; cc_entrypoint=cli; cch=1;"
    again = joined(agent.events(MESSAGES + "?beta=true", **body))
    assert again["usage"]["cache_read_input_tokens"] > 64
    # its probe of the quota, and the title of a session
    assert agent.ok(MESSAGES + "?beta=true", model="demo-model", max_tokens=1, messages=[{"role": "user", "content": "quota"}],
                    metadata={"user_id": "u"})
    assert agent.ok(MESSAGES + "?beta=true", model="demo-model", max_tokens=32000 // 1000, tools=[], temperature=1,
                    system=[{"type": "text", "text": "Write a title."}], messages=[{"role": "user", "content": [
                        {"type": "text", "text": "Read a.txt"}]}], metadata={"user_id": "u"}, stream=False)


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
