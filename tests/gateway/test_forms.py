"""Tool calls and thinking in the forms of Anthropic, Ollama and /v1/responses: a scripted worker answers with recorded
texts (scripted_worker.py).  The template writes every member of every message, so that equal prompts mean equal messages."""
import contextlib
import json

from client_setup import load, tap
from api import Api, checked, joined
from gateway_process import Gateway
from scripted_worker import ScriptedCluster

anthropic, ollama, openai = load("anthropic"), load("ollama"), load("openai")
cluster = gateway = api = None
prompts = []
ROME, OSLO = {"city": "Rome"}, {"city": "Oslo", "days": [1, 2, {"half": 0.5}]}
FILE = {"path": "a.py", "text": "".join(f"line {i}: \"quoted\" \\ \u00e9 \U0001f98a\n" for i in range(10))}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TEMPLATE = ("{#- <tool_call> <think> </think> -#}{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}"
            "{{ enable_thinking }}/{{ reasoning_effort }}"
            "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + (m | tojson) + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def call(name, arguments, indent=None):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, indent=indent) + "\n</tool_call>"


CALLS = {"one": [("weather", ROME)], "two": [("weather", ROME), ("weather", OSLO)], "file": [("write_file", FILE)],
         "none": [("weather", {})], "both": [("weather", OSLO)], "lines": [("weather", OSLO)],
         "thought": [("weather", ROME)]}
SCRIPTS = {"one": call("weather", ROME), "two": call("weather", ROME) + "\n" + call("weather", OSLO),
           "file": call("write_file", FILE), "none": call("weather", {}), "both": "Let me look. " + call("weather", OSLO),
           "lines": call("weather", OSLO, indent=2), "thought": "<think>Rome?</think>" + call("weather", ROME),
           "text": "It is sunny.", "many": "once upon a time there was a fox and " * 200, "think": "<think>Let me see.\nYes.</think>It is sunny."}
CONTENT = {"both": "Let me look.", "text": "It is sunny.", "think": "It is sunny."}
REASONING = {"thought": "Rome?", "think": "Let me see.\nYes."}


def question(script):
    return f"Please. [script:{script}]"


def tools_of(api_name):
    names = ("weather", "write_file")
    if api_name == "anthropic":
        return [{"name": n, "description": "d", "input_schema": SCHEMA} for n in names]
    if api_name == "responses":
        return [{"type": "function", "name": n, "description": "d", "parameters": SCHEMA} for n in names]
    return [{"type": "function", "function": {"name": n, "description": "d", "parameters": SCHEMA}} for n in names]


def messages_api(script, **body):
    ask = {"messages": [{"role": "user", "content": question(script)}], "max_tokens": 500, "tools": tools_of("anthropic"), **body}
    return api.ok("/v1/messages", **ask), joined(api.events("/v1/messages", **ask))


def ollama_api(script, **body):
    ask = {"messages": [{"role": "user", "content": question(script)}], "tools": tools_of("ollama"), **body}
    whole = api.ok("/api/chat", stream=False, **ask)
    lines = api.lines("/api/chat", **ask)
    message = {"role": "assistant", "content": "".join(x["message"]["content"] for x in lines)}
    if thinking := "".join(x["message"].get("thinking", "") for x in lines):
        message["thinking"] = thinking
    if calls := [c for x in lines for c in x["message"].get("tool_calls", [])]:
        message["tool_calls"] = calls
    return whole, {**lines[-1], "message": message}


def responses_api(script, **body):
    ask = {"input": question(script), "tools": tools_of("responses"), **body}
    events = api.events("/v1/responses", **ask)
    for name, data in events:
        if name == "response.function_call_arguments.done":
            pieces = [d["delta"] for n, d in events if n == "response.function_call_arguments.delta"
                      and d["item_id"] == data["item_id"]]
            assert "".join(pieces) == data["arguments"]
    return api.ok("/v1/responses", **ask), checked(events)


@tap.case
def anthropic_calls():
    for script, want in CALLS.items():
        whole, streamed = messages_api(script)
        for a in (whole, streamed):
            uses = [b for b in a["content"] if b["type"] == "tool_use"]
            assert [(u["name"], u["input"]) for u in uses] == want, (script, a)
            assert len({u["id"] for u in uses}) == len(uses) and all(len(u["id"]) >= 9 for u in uses)
            assert a["stop_reason"] == "tool_use" and a["stop_sequence"] is None
            texts = [b["text"] for b in a["content"] if b["type"] == "text"]
            assert "".join(texts).strip() == CONTENT.get(script, ""), (script, a)
            assert [b["type"] for b in a["content"]] == (["thinking"] if script in REASONING else []) + \
                (["text"] if script in CONTENT else []) + ["tool_use"] * len(want), (script, a)
    whole, streamed = messages_api("two", tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    for a in (whole, streamed):
        assert [b["input"] for b in a["content"] if b["type"] == "tool_use"] == [ROME]


@tap.case
def anthropic_thinking():
    for script, want in REASONING.items():
        for display in ("summarized", "omitted"):
            for a in messages_api(script, thinking={"type": "adaptive", "display": display}):
                b = a["content"][0]
                assert b["type"] == "thinking" and b["signature"], a
                assert b["thinking"] == (want if display == "summarized" else ""), a
    for a in messages_api("think"):
        assert [b["type"] for b in a["content"]] == ["thinking", "text"] and a["content"][1]["text"] == "It is sunny."
        assert a["stop_reason"] == "end_turn"


@tap.case
def ollama_calls():
    for script, want in CALLS.items():
        for a in ollama_api(script):
            m = a["message"]
            assert [(c["function"]["name"], c["function"]["arguments"]) for c in m["tool_calls"]] == want, (script, a)
            assert [c["function"]["index"] for c in m["tool_calls"]] == list(range(len(want)))
            assert m["content"].strip() == CONTENT.get(script, "") and a["done_reason"] == "stop"
            assert m.get("thinking") == REASONING.get(script)


@tap.case
def ollama_thinking():
    assert api.ok("/api/show", model="model")["capabilities"] == ["completion", "tools", "thinking"]
    for think in (True, "high", None):
        for a in ollama_api("think", think=think):
            assert a["message"] == {"role": "assistant", "content": "It is sunny.", "thinking": "Let me see.\nYes."}, a
    ask = {"prompt": question("think"), "think": True}
    whole, lines = api.ok("/api/generate", stream=False, **ask), api.lines("/api/generate", **ask)
    assert whole["response"] == "".join(x["response"] for x in lines) == "It is sunny."
    assert whole["thinking"] == "".join(x.get("thinking", "") for x in lines) == "Let me see.\nYes."


@tap.case
def responses_calls():
    for script, want in CALLS.items():
        for a in responses_api(script):
            calls = [i for i in a["output"] if i["type"] == "function_call"]
            assert [(c["name"], json.loads(c["arguments"])) for c in calls] == want, (script, a)
            assert len({c["call_id"] for c in calls}) == len(calls) and a["status"] == "completed"
            texts = [p["text"] for i in a["output"] if i["type"] == "message" for p in i["content"]]
            assert "".join(texts).strip() == CONTENT.get(script, "")
            thoughts = [p["text"] for i in a["output"] if i["type"] == "reasoning" for p in i["content"]]
            assert "".join(thoughts) == REASONING.get(script, "")
    whole, streamed = responses_api("think")
    for a in (whole, streamed):
        assert [i["type"] for i in a["output"]] == ["reasoning", "message"]
        assert 0 < a["usage"]["output_tokens_details"]["reasoning_tokens"] < a["usage"]["output_tokens"]


@tap.case
def a_call_that_is_cut_off():
    """The answer's end comes in the middle of the arguments: nothing of them is lost, and nothing is broken JSON."""
    ask = {"messages": [{"role": "user", "content": question("file")}], "max_tokens": 60, "tools": tools_of("anthropic")}
    a = api.ok("/v1/messages", **ask)
    (use,) = (b for b in a["content"] if b["type"] == "tool_use")
    assert a["stop_reason"] == "max_tokens" and list(use["input"]) == ["INVALID_JSON"], a
    assert use["input"]["INVALID_JSON"].startswith('{"path": "a.py"')
    events = api.events("/v1/messages", **ask)
    pieces = [d["delta"]["partial_json"] for n, d in events if n == "content_block_delta" and "partial_json" in d["delta"]]
    assert "".join(pieces) == use["input"]["INVALID_JSON"] and len(pieces) > 3, "arguments come while they are written"
    for a in ollama_api("file", options={"num_predict": 60}):
        (c,) = a["message"]["tool_calls"]
        assert c["function"]["arguments"] == use["input"] and a["done_reason"] == "length"
    for a in responses_api("file", max_output_tokens=60):
        (c,) = (i for i in a["output"] if i["type"] == "function_call")
        assert c["arguments"] == use["input"]["INVALID_JSON"] and a["status"] == c["status"] == "incomplete"
    for a in responses_api("two", max_output_tokens=len(cluster.worker.ids[SCRIPTS["two"]]) - 12):
        assert [i["status"] for i in a["output"]] == ["completed", "incomplete"] and a["status"] == "incomplete", a
    for a in responses_api("think", max_output_tokens=6):
        assert [(i["type"], i["status"]) for i in a["output"]] == [("reasoning", "incomplete")], a


@tap.case
def without_tools_nothing_is_a_call():
    for tools in ({}, {"tools": []}):
        ask = {"messages": [{"role": "user", "content": question("one")}], **tools}
        (b,) = api.ok("/v1/messages", max_tokens=500, **ask)["content"]
        assert b == {"type": "text", "text": SCRIPTS["one"]}
        assert api.ok("/api/chat", stream=False, **ask)["message"]["content"] == SCRIPTS["one"]
    none = {"tools": tools_of("anthropic"), "tool_choice": {"type": "none"}}
    (b,) = api.ok("/v1/messages", max_tokens=500, messages=[{"role": "user", "content": question("one")}], **none)["content"]
    assert b["text"] == SCRIPTS["one"]
    (item,) = api.ok("/v1/responses", input=question("one"), tools=tools_of("responses"), tool_choice="none")["output"]
    assert item["content"][0]["text"] == SCRIPTS["one"]


@tap.case
def a_stream_that_is_not_read_ends():
    """The gateway keeps 8 MiB for a client that does not read; then the stream ends with an error and its requests too."""
    ask = {"prompt": [question("many")] * 4, "n": 16, "logprobs": 20, "max_tokens": 500, "stream": True}
    client = cluster.clients[0]

    def attempt():  # too late if all is computed before the gateway has 8 MiB of it
        before = client.call("Stats")[1].requests_cancelled
        with gateway.connect() as c:
            c.request("/v1/completions", method="POST", body=json.dumps(ask).encode())
            assert c.head().status == 200
            tap.wait_for(lambda: not (m := client.call("Stats")[1]).running + m.waiting, "its requests have ended")
            if client.call("Stats")[1].requests_cancelled == before:
                return False
            assert api.ok("/v1/completions", prompt=question("text"))["choices"][0]["text"] == SCRIPTS["text"]
            tail = b""
            while piece := c.chunk():
                tail = (tail + piece)[-1000:]
        assert b'"message":"the client reads too slowly"' in tail and tail.endswith(b"data: [DONE]\n\n"), tail
        return True

    tap.race(attempt)
    tap.wait_for(lambda: cluster.clients[0].call("Stats")[1].running == 0, "nothing is left")


def prompt_of(path, **body):
    """The text of the prompt that the worker got."""
    del prompts[:]
    api.ok(path, **body)
    (ids,) = prompts
    return cluster.clients[0].call("Detokenize", id=ids)[1].text.decode()


@tap.case
def the_same_conversation_is_the_same_prompt():
    ask = question("text")
    use = {"id": "call_12345", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm.", "tool_calls": [use]},
            {"role": "tool", "tool_call_id": "call_12345", "content": "sunny"}, {"role": "user", "content": ask}]
    as_string = {**use, "function": {**use["function"], "arguments": '{"city": "Rome"}'}}
    openai_chat = [{**m, "tool_calls": [as_string]} if "tool_calls" in m else m for m in chat]
    want = prompt_of("/v1/chat/completions", messages=openai_chat, tools=tools_of("openai"), reasoning_effort="low",
                     chat_template_kwargs={"enable_thinking": True})
    assert "sunny" in want and "True/low" in want and '"d"' in want, want
    anthropic_chat = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"},
                                          {"type": "text", "text": "Wait."},
                                          {"type": "tool_use", "id": "call_12345", "name": "weather", "input": {"city": "Rome"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_12345", "content": "sunny"},
                                     {"type": "text", "text": ask}]}]
    got = prompt_of("/v1/messages", system="Be kind.", messages=anthropic_chat, tools=tools_of("anthropic"), max_tokens=9,
                    thinking={"type": "enabled", "budget_tokens": 1024}, output_config={"effort": "low"})
    assert got == want, (got, want)
    items = [{"role": "user", "content": "Hi."},
             {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
             {"role": "assistant", "content": "Wait."},
             {"type": "function_call", "call_id": "call_12345", "name": "weather", "arguments": '{"city": "Rome"}'},
             {"type": "function_call_output", "call_id": "call_12345", "output": "sunny"}, {"role": "user", "content": ask}]
    got = prompt_of("/v1/responses", instructions="Be kind.", input=items, tools=tools_of("responses"),
                    reasoning={"effort": "low"}, chat_template_kwargs={"enable_thinking": True})
    assert got == want, (got, want)
    ollama_use = {"id": "call_12345", "function": use["function"]}
    ollama_chat = [{k: [ollama_use] if k == "tool_calls" else v for k, v in m.items()} for m in chat]
    for m in ollama_chat:
        if "reasoning_content" in m:
            m["thinking"] = m.pop("reasoning_content")
            m["tool_calls"] = m.pop("tool_calls")
    got = prompt_of("/api/chat", stream=False, messages=ollama_chat, tools=tools_of("ollama"), think="low")
    assert got == want.replace('"id": "call_12345", "type": "function"', '"type": "function", "id": "call_12345"'), (got, want)
    assert prompt_of("/v1/messages", messages=[{"role": "user", "content": ask}], max_tokens=9, thinking={"type": "disabled"}) \
        == prompt_of("/api/chat", stream=False, messages=[{"role": "user", "content": ask}], think=False) \
        == prompt_of("/api/generate", stream=False, prompt=ask, think=False)
    error = [*anthropic_chat[:2], {"role": "user", "content": [
        {**anthropic_chat[2]["content"][0], "is_error": True}, {"type": "text", "text": ask}]}]
    assert '"is_error": true' in prompt_of("/v1/messages", messages=error, max_tokens=9)


@tap.case
def its_clients_put_calls_together():
    if not (anthropic and ollama and openai):
        raise tap.Skip("the Python packages are not installed (tests/requirements.txt)")
    url = f"http://127.0.0.1:{gateway.port}"
    with anthropic.Anthropic(base_url=url, api_key="none", timeout=tap.LIMIT) as c:
        for script in ("two", "file", "thought"):
            with c.messages.stream(model="model", max_tokens=500, tools=tools_of("anthropic"),
                                   messages=[{"role": "user", "content": question(script)}]) as s:
                final = s.get_final_message()
            assert [(b.name, b.input) for b in final.content if b.type == "tool_use"] == CALLS[script]
            if script == "thought":
                assert final.content[0].type == "thinking" and final.content[0].thinking == "Rome?"
    c = ollama.Client(host=url, timeout=tap.LIMIT)
    for script in ("two", "file", "thought"):
        m = c.chat("model", [{"role": "user", "content": question(script)}], tools=tools_of("ollama")).message
        assert [(x.function.name, x.function.arguments) for x in m.tool_calls] == CALLS[script]
        assert m.thinking == REASONING.get(script)
    with openai.OpenAI(base_url=url + "/v1", api_key="none", timeout=tap.LIMIT) as c:
        for script in ("two", "file", "thought"):
            with c.responses.stream(model="model", input=question(script), tools=tools_of("responses")) as s:
                final = s.until_done().get_final_response()
            assert [(x.name, json.loads(x.arguments)) for x in final.output if x.type == "function_call"] == CALLS[script]


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ScriptedCluster(SCRIPTS, TEMPLATE, masks=True))
        script_of = cluster.worker.script_of

        def recording(seq_id, ids):
            prompts.append(list(ids))
            return script_of(seq_id, ids)

        cluster.worker.script_of = recording
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
