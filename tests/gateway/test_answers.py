"""Tool calls and reasoning from a model's tokens to openai-python: a scripted worker answers with recorded texts, one
set for each way that models write; detokenizer, parser, gateway and client are real."""
import contextlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from gateway_process import Gateway  # noqa: E402
import openai_http  # noqa: E402
from openai_http import CHAT, chat, refused, stream  # noqa: E402
from scripted_worker import ScriptedCluster  # noqa: E402

try:
    import openai
except ImportError:  # a Python other than that of tests/run.sh
    openai = None

ROME, OSLO = {"city": "Rome"}, {"city": "Oslo", "days": [1, 2, {"half": 0.5}]}
FILE = {"path": "a.py", "text": "".join(f"line {i}: \"quoted\" \\ \u00e9 \U0001f98a\n" for i in range(10))}
PROPERTIES = {"city": {"type": "string"}, "days": {"type": "array"}, "path": {"type": "string"}, "text": {"type": "string"}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}}}
         for name in ("weather", "write_file")]


THINK = [("<think>", "</think>"), ("[THINK]", "[/THINK]")]


def template(mark):
    """A template that names these marks, and writes the thinking marks where they are among them."""
    think, end = next((pair for pair in THINK if pair[0] in mark), ("", ""))
    thought = "{% if m['reasoning_content'] %}{{ '" + think + "' + m['reasoning_content'] + '" + end + "' }}{% endif %}"
    opened = "{% if open_thinking %}{{ '" + think + "\n' }}{% endif %}"
    return ("{#- answers have " + mark + " -#}{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}"
            "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}" + (thought if think else "") +
            "{{ (m['content'] or '') + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}" + (opened if think else "") + "{% endif %}")


def ds(word):
    return f"<\uff5ctool\u2581{word}\uff5c>"


DS = [ds(w) for w in ("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep")]


def hermes(calls):
    return "\n".join("<tool_call>\n" + json.dumps({"name": n, "arguments": a}) + "\n</tool_call>" for n, a in calls)


def llama3(calls):
    return "; ".join(json.dumps({"name": n, "parameters": a}) for n, a in calls)


def tagged(calls):
    return "<|python_tag|>" + llama3(calls)


def mistral_list(calls):
    return "[TOOL_CALLS]" + json.dumps([{"name": n, "arguments": a} for n, a in calls])


def mistral(calls):
    return "".join(f"[TOOL_CALLS]{n}[ARGS]" + json.dumps(a) for n, a in calls)


def deepseek(calls):
    inner = "\n".join(f"{DS[2]}function{DS[4]}{n}\n```json\n{json.dumps(a)}\n```{DS[3]}" for n, a in calls)
    return DS[0] + inner + DS[1]


def deepseek31(calls):
    return DS[0] + "".join(f"{DS[2]}{n}{DS[4]}{json.dumps(a)}{DS[3]}" for n, a in calls) + DS[1]


def text_of_value(v, python=False):
    return v if isinstance(v, str) else str(v) if python and isinstance(v, bool) else json.dumps(v, ensure_ascii=False)


def qwen3_coder(calls):
    def parameters(a):
        return "".join(f"<parameter={k}>\n{text_of_value(v, True)}\n</parameter>\n" for k, v in a.items())
    return "\n".join(f"<tool_call>\n<function={n}>\n{parameters(a)}</function>\n</tool_call>" for n, a in calls)


def seed_oss(calls):
    def parameters(a):
        return "".join(f"<parameter={k}>{text_of_value(v)}</parameter>\n" for k, v in a.items())
    return "\n".join(f"<seed:tool_call>\n<function={n}>\n{parameters(a)}</function>\n</seed:tool_call>" for n, a in calls)


def glm(calls, between="\n"):
    def parameters(a):
        return "".join(f"{between}<arg_key>{k}</arg_key>{between}<arg_value>{text_of_value(v)}</arg_value>"
                       for k, v in a.items())
    return "\n".join(f"<tool_call>{n}{parameters(a)}{between}</tool_call>" for n, a in calls)


def glm47(calls):
    return glm(calls, "")


def minimax(calls):
    def parameters(a):
        return "".join(f'<parameter name="{k}">{text_of_value(v)}</parameter>\n' for k, v in a.items())
    inner = "".join(f'<invoke name="{n}">\n{parameters(a)}</invoke>\n' for n, a in calls)
    return f"<minimax:tool_call>\n{inner}</minimax:tool_call>"


def gemma(calls):
    def value(v):
        if isinstance(v, dict):
            return "{" + ",".join(f"{k}:{value(x)}" for k, x in v.items()) + "}"
        if isinstance(v, list):
            return "[" + ",".join(map(value, v)) + "]"
        return f'<|"|>{v}<|"|>' if isinstance(v, str) else json.dumps(v)
    return "".join(f"<|tool_call>call:{n}{value(a)}<tool_call|>" for n, a in calls)


def granite(calls):
    return "<|tool_call|>" + json.dumps([{"name": n, "arguments": a} for n, a in calls])


def phi4(calls):
    return "functools" + json.dumps([{"name": n, "arguments": a} for n, a in calls])


def pythonic(calls):
    return "[" + ", ".join(f"{n}({', '.join(f'{k}={v!r}' for k, v in a.items())})" for n, a in calls) + "]"


def marked_pythonic(calls):
    return "<|python_start|>" + pythonic(calls) + "<|python_end|>"


def llama4(calls):
    return "".join(json.dumps({"name": n, "parameters": a}) for n, a in calls)


KIMI = ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
        "<|tool_calls_section_end|>"]


def kimi(calls):
    return KIMI[0] + "".join(f"{KIMI[1]}functions.{n}:{i}{KIMI[2]}{json.dumps(a)}{KIMI[3]}"
                             for i, (n, a) in enumerate(calls)) + KIMI[4]


HARMONY = ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]


def harmony(calls):
    return "<|call|>".join(f"<|start|>assistant<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>"
                           + json.dumps(a) for n, a in calls)


def plain_json(calls):
    listed = [{"name": n, "arguments": a} for n, a in calls]
    return json.dumps(listed if len(listed) > 1 else listed[0])


# format in ModelInfo, what names it in a template, special tokens, writers, may content come before calls
FORMATS = [
    ("hermes", "<tool_call> and <think>", [], [hermes], True),
    ("hermes", "<tool_call> and <think>", ["<tool_call>", "</tool_call>", "<think>", "</think>"], [hermes], True),
    ("llama3", "<|python_tag|>", ["<|python_tag|>"], [tagged, llama3], False),
    ("llama4", "<|header_start|>", ["<|python_start|>", "<|python_end|>"], [marked_pythonic, pythonic, llama4], False),
    ("mistral", "[TOOL_CALLS] and [THINK]", ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"], [mistral, mistral_list], True),
    ("deepseek", DS[2] + " and <think>", DS, [deepseek, deepseek31], True),
    ("qwen3_coder", "<tool_call> <function= <parameter= and <think>", [], [qwen3_coder, seed_oss], True),
    ("qwen3_coder", "<tool_call> <function= <parameter= and <think>",
     ["<tool_call>", "</tool_call>", "<think>", "</think>"], [qwen3_coder], True),
    ("glm45", "<tool_call> <arg_key> <arg_value> and <think>",
     ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"], [glm, glm47], True),
    ("minimax_m2", "<minimax:tool_call> and <think>", ["<minimax:tool_call>", "</minimax:tool_call>"], [minimax], True),
    ("gemma4", "<|tool_call>call: <|channel>thought\n <channel|>",
     ["<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"], [gemma], True),
    ("granite", "<|tool_call|>", ["<|tool_call|>"], [granite, phi4], True),
    ("kimi", KIMI[1], KIMI, [kimi], True),
    ("harmony", "<|channel|>analysis<|message|>", HARMONY, [harmony], True),
    ("auto", "nothing of its own", [], [plain_json, qwen3_coder, glm], False),
]
cluster = gateway = None


def user(script):
    return [{"role": "user", "content": f"Please. [script:{script}]"}]


def scripts_of(writers, before):
    scripts = {"text": "No tool is needed.", "variants": ["It is sunny.", writers[0]([("weather", ROME)])]}
    for i, write in enumerate(writers):
        scripts |= {f"one{i}": write([("weather", ROME)]), f"file{i}": write([("write_file", FILE)]),
                    f"two{i}": write([("weather", ROME), ("weather", OSLO)]), f"none{i}": write([("weather", {})])}
        if before:
            scripts[f"both{i}"] = "Let me look. " + write([("weather", ROME)])
    return scripts


@contextlib.contextmanager
def serving(scripts, mark="", specials=(), name=None):
    """A coordinator, a gateway and a client; ModelInfo names that format."""
    global cluster, gateway
    if openai is None:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    with ScriptedCluster(scripts, template(mark), specials) as cluster, \
            Gateway("--connect", cluster.endpoint) as gateway:
        openai_http.gateway = gateway.wait_ready()
        if name:
            assert cluster.clients[0].welcome.models[0].tool_format == name
        with openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0,
                           timeout=tap.LIMIT) as client:
            yield client


def calls_of(message):
    return [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]


class Streamed:
    """What a stream says, put together by hand and by openai-python's own helper."""

    def __init__(self, client, **body):
        with client.chat.completions.stream(model="model", **body) as s:
            events = list(s)
            self.final = s.get_final_completion()
        self.pieces = {}  # arguments of call i
        self.choices = {}
        for e in events:
            if e.type != "chunk":
                continue
            for choice in e.chunk.choices:
                d = choice.delta
                self.choices.setdefault(choice.index, {"content": "", "reasoning": ""})
                self.choices[choice.index]["content"] += d.content or ""
                self.choices[choice.index]["reasoning"] += getattr(d, "reasoning_content", None) or ""
                assert getattr(d, "reasoning", None) == getattr(d, "reasoning_content", None)
                for t in d.tool_calls or []:
                    first = (choice.index, t.index) not in self.pieces
                    assert bool(t.id) == bool(t.function.name) == bool(t.type) == first, t
                    self.pieces.setdefault((choice.index, t.index), []).append(t.function.arguments)


def check_calls(client, script, want, content=None, least=1, **more):
    body = {"messages": user(script), "tools": TOOLS, **more}
    whole = client.chat.completions.create(model="model", **body)
    (choice,) = whole.choices
    assert calls_of(choice.message) == want and choice.finish_reason == "tool_calls", (script, choice)
    assert choice.message.content == content, (script, choice)
    ids = [c.id for c in choice.message.tool_calls]
    assert len(set(ids)) == len(ids) and all(len(i) >= 9 for i in ids)
    s = Streamed(client, **body)
    (streamed,) = s.final.choices
    assert calls_of(streamed.message) == want and streamed.finish_reason == "tool_calls", (script, streamed)
    assert (s.choices[0]["content"] or None) == content
    assert [c.function.arguments for c in streamed.message.tool_calls] == \
        [c.function.arguments for c in choice.message.tool_calls]
    assert all(len([p for p in pieces if p]) >= least for pieces in s.pieces.values()), (script, s.pieces)
    return choice


def every_call(number):
    name, mark, specials, writers, before = FORMATS[number]
    with serving(scripts_of(writers, before), mark, specials, name) as client:
        for i in range(len(writers)):
            for script, want in {f"one{i}": [("weather", ROME)], f"none{i}": [("weather", {})],
                                 f"two{i}": [("weather", ROME), ("weather", OSLO)]}.items():
                choice = check_calls(client, script, want)
                if name == "mistral":
                    assert all(len(c.id) == 9 and c.id.isalnum() for c in choice.message.tool_calls)
            # a whole file in one call: its arguments come in many pieces
            check_calls(client, f"file{i}", [("write_file", FILE)], least=20)
            if before:
                check_calls(client, f"both{i}", [("weather", ROME)], "Let me look. ")
            check_calls(client, f"two{i}", [("weather", ROME)], parallel_tool_calls=False)
            nothing_is_parsed(client, f"one{i}", writers[i]([("weather", ROME)]), specials)
        plain = client.chat.completions.create(model="model", messages=user("text"), tools=TOOLS).choices[0]
        assert plain.message.content == "No tool is needed." and plain.finish_reason == "stop"
        assert plain.message.tool_calls is None
        samples(client)


def nothing_is_parsed(client, script, text, specials):
    """Without tools, or with tool_choice none, a call is text; its special tokens are left out as others are."""
    for s in specials:
        text = text.replace(s, "")
    for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        if specials and cluster.clients[0].welcome.models[0].think_open:
            continue  # the marks are kept for its thinking
        c = client.chat.completions.create(model="model", messages=user(script), **more).choices[0]
        assert c.message.content == text and c.message.tool_calls is None and c.finish_reason == "stop", (c, text)


def samples(client):
    """Choices of one request are parsed apart."""
    body = {"messages": user("variants"), "tools": TOOLS, "n": 4}
    whole = client.chat.completions.create(model="model", **body).choices
    streamed = Streamed(client, **body)
    for i in range(4):
        for c in (whole[i], streamed.final.choices[i]):
            assert c.index == i and c.finish_reason == ("tool_calls" if i % 2 else "stop")
            assert calls_of(c.message) == ([("weather", ROME)] if i % 2 else [])
            assert (c.message.content or "") == ("" if i % 2 else "It is sunny.")


for i, row in enumerate(FORMATS):
    def case(i=i):
        every_call(i)
    case.__name__ = f"calls_of_{row[0]}{'_in_special_tokens' if row[0] in ('hermes', 'qwen3_coder') and row[2] else ''}"
    tap.case(case)


@tap.case
def calls_of_glm4():
    """One call, without a mark: the name on a line of its own."""
    scripts = {"one": "weather\n" + json.dumps(ROME), "file": "write_file\n" + json.dumps(FILE),
               "text": "Sunny\n{\"a\": 1}"}
    with serving(scripts, "Json \u683c\u5f0f\u8868\u793a\u8c03\u7528\u7684\u53c2\u6570", [], "glm4") as client:
        check_calls(client, "one", [("weather", ROME)])
        check_calls(client, "file", [("write_file", FILE)], least=20)
        plain = client.chat.completions.create(model="model", messages=user("text"), tools=TOOLS).choices[0]
        assert plain.message.content == scripts["text"] and plain.message.tool_calls is None


@tap.case
def channels():
    """gpt-oss's messages: thinking, content before a call, the answer; with tools and without."""
    says = "<|start|>assistant<|channel|>"
    think = "<|channel|>analysis<|message|>" + THOUGHT + "<|end|>"
    scripts = {"think": think + says + "final<|message|>It is sunny.", "only": think[:-7],
               "call": think + says + "commentary<|message|>I look.<|end|>" + harmony([("weather", ROME)])}
    with serving(scripts, "<|channel|>analysis<|message|>", HARMONY, "harmony") as client:
        check_reasoning(client, "think", THOUGHT, "It is sunny.")
        check_reasoning(client, "only", THOUGHT, None)
        choice = check_calls(client, "call", [("weather", ROME)], "I look.")
        assert choice.message.reasoning_content == THOUGHT


@tap.case
def a_choice_of_tools_that_cannot_be_honoured():
    with serving({}, "<tool_call>"):  # its workers have no masks
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            refused(CHAT, "tools", messages=user("x"), tools=TOOLS, tool_choice=choice)
            refused(CHAT, "tool_choice", messages=user("x"), tool_choice=choice)
        refused(CHAT, "tool_choice", messages=user("x"), tool_choice="auto")


@tap.case
def calls_that_break_off():
    """What was given of a call stays given; the rest is content, and no byte is lost."""
    head = '<tool_call>{"name": "weather", "arguments": '
    scripts = {"cut": head + '{"city": "Ro', "wrong": head + '{"city": tru!}}</tool_call> so', "brace": head +
               '{"city": "Rome"}</tool_call>', "name": '<tool_call>{"nom": "weather"}</tool_call>'}
    with serving(scripts, "<tool_call>") as client:
        def both(script, **more):
            body = {"messages": user(script), "tools": TOOLS, **more}
            whole = client.chat.completions.create(model="model", **body).choices[0]
            s = Streamed(client, **body)
            arguments = [c.function.arguments for c in whole.message.tool_calls or []]
            assert ["".join(p) for p in s.pieces.values()] == arguments
            assert s.choices[0]["content"] == (whole.message.content or "")
            return arguments, whole.message.content, whole.finish_reason
        assert both("cut") == (['{"city": "Ro'], None, "tool_calls")
        assert both("wrong") == (['{"city": tru'], "!}}</tool_call> so", "tool_calls")
        assert both("brace") == (['{"city": "Rome"}'], None, "tool_calls")
        assert both("name") == ([], scripts["name"], "stop")
        # a length that ends within the arguments
        body = {"messages": user("brace"), "tools": TOOLS,
                "max_tokens": len(cluster.worker.tokens_of(scripts["brace"])) - 12}
        whole = chat(**body)["choices"][0]
        (call,) = whole["message"]["tool_calls"]
        assert whole["finish_reason"] == "length" and whole["message"]["content"] is None
        assert '{"city": "Rome"}'.startswith(call["function"]["arguments"]) and len(call["function"]["arguments"]) > 1
        pieces = [t["function"]["arguments"] for c in stream(CHAT, **body) for x in c["choices"]
                  for t in x["delta"].get("tool_calls", [])]
        assert "".join(pieces) == call["function"]["arguments"]


THOUGHT = "I think of Rome.\nIs it 2 < 3?"


@tap.case
def reasoning():
    for open_mark, close_mark, specials in (("<think>", "</think>", []), ("<think>", "</think>", ["<think>", "</think>"]),
                                            ("[THINK]", "[/THINK]", ["[THINK]", "[/THINK]"])):
        thought = open_mark + THOUGHT + close_mark
        scripts = {"think": thought + "It is sunny.", "open": THOUGHT + close_mark + "It is sunny.",
                   "call": thought + hermes([("weather", ROME)]), "only": open_mark + THOUGHT, "text": "Sunny."}
        with serving(scripts, open_mark + " <tool_call>", specials) as client:
            model = cluster.clients[0].welcome.models[0]
            assert (model.think_open, model.think_close) == (open_mark.encode(), close_mark.encode())
            a = check_reasoning(client, "think", THOUGHT, "It is sunny.")
            # the marks are reasoning: as many tokens as the text up to the closing mark has
            n = sum(1 for end in ends_of(scripts["think"]) if end <= len(thought.encode()))
            assert n - 1 <= a.usage.completion_tokens_details.reasoning_tokens <= n + 1 < a.usage.completion_tokens
            check_reasoning(client, "only", THOUGHT, None)
            assert check_reasoning(client, "text", None, "Sunny.").usage.completion_tokens_details.reasoning_tokens == 0
            choice = check_calls(client, "call", [("weather", ROME)])
            assert choice.message.reasoning_content == THOUGHT == choice.message.reasoning
            hidden = client.chat.completions.create(model="model", messages=user("think"),
                                                    extra_body={"include_reasoning": False}).choices[0].message
            assert hidden.content == "It is sunny." and not hasattr(hidden, "reasoning_content")
            if open_mark == "<think>":
                more = {"extra_body": {"chat_template_kwargs": {"open_thinking": True}}}
                check_reasoning(client, "open", THOUGHT, "It is sunny.", **more)
                thinking_is_told(client)


def ends_of(text):
    """Where the tokens of a script end in its text, in bytes."""
    ids, at, ends = cluster.worker.tokens_of(text), 0, []
    for i in range(len(ids)):
        _, m = cluster.clients[0].call("Detokenize", id=ids[:i + 1])
        at = len(m.text.decode(errors="ignore").rstrip("\ufffd").encode())
        ends.append(at)
    return ends


def check_reasoning(client, script, thought, content, **more):
    a = client.chat.completions.create(model="model", messages=user(script), **more)
    m = a.choices[0].message
    assert getattr(m, "reasoning_content", None) == getattr(m, "reasoning", None) == thought, m
    assert (m.content or None) == content
    s = Streamed(client, messages=user(script), stream_options={"include_usage": True}, **more)
    assert s.choices[0] == {"content": content or "", "reasoning": thought or ""}
    assert s.final.usage.completion_tokens_details == a.usage.completion_tokens_details
    return a


def thinking_is_told(client):
    """Accepted says that the prompt ends inside thinking, and earlier thoughts reach the template by either name."""
    for open_thinking in (False, True):
        accepted = cluster.clients[0].generate(chat={
            "turn": [{"role": "user", "content": b"<think> [script:open]"}],
            "variables_json": json.dumps({"open_thinking": open_thinking}).encode()}).accepted
        assert accepted.starts_in_reasoning == open_thinking
    texts = []
    for name in ("reasoning_content", "reasoning"):
        turn = {"role": "assistant", "content": "Yes.", name: "An old thought."}
        a = chat(messages=[*user("text"), turn, *user("text")], return_token_ids=True)
        texts.append(cluster.clients[0].call("Detokenize", id=a["prompt_token_ids"])[1].text.decode())
    assert texts[0] == texts[1] and "An old thought." in texts[0]


@tap.case
def without_marks_thinking_is_content():
    with serving({"think": "<think>x</think>y"}, "nothing of its own"):
        assert not cluster.clients[0].welcome.models[0].think_open
        message = chat(messages=user("think"))["choices"][0]["message"]
        assert message["content"] == "<think>x</think>y" and "reasoning" not in message


@tap.case
def logprobs_of_parsed_answers():
    """All tokens of the answer are listed, also those of thinking and calls."""
    text = "<think>" + THOUGHT + "</think>Well. " + hermes([("weather", ROME)])
    with serving({"all": text}, "<tool_call> <think>"):
        body = {"messages": user("all"), "tools": TOOLS, "logprobs": True, "top_logprobs": 2}
        entries = chat(**body)["choices"][0]["logprobs"]["content"]
        assert b"".join(bytes(e["bytes"]) for e in entries).decode() == text
        streamed = [x for c in stream(CHAT, **body) for x in c["choices"]]
        assert sum(((x["logprobs"] or {"content": []})["content"] for x in streamed), []) == entries


@tap.case
def the_protocol_tells_token_texts():
    """Token texts, also of others, and the prompt's text; a client that attaches gets all of them again."""
    with serving({"text": "Na\u00efve \U0001f98a text"}, "<tool_call> <think>", ["<tool_call>"]):
        c = cluster.clients[0]
        fields = {"text": b"x [script:text]", "want_token_text": True, "want_prompt_text": True,
                  "sampling": {"top_logprobs": 3}}
        heard = []
        for _ in range(2):  # the second one attaches
            c.send("Generate", request_id="again", **fields)
            texts, tops, text = [], [], b""
            while (m := c.recv())[0] != "Finish":
                if m[0] == "Accepted":
                    assert m[1].prompt_text == fields["text"] and m[1].attached == bool(heard)
                    continue
                assert m[0] == "Delta" and len(m[1].token_text) == len(m[1].id) == len(m[1].top)
                texts += m[1].token_text
                tops += [[e.text for e in t.entry] for t in m[1].top]
                text += m[1].text
            assert b"".join(texts) == text == "Na\u00efve \U0001f98a text".encode() and texts[-1] == b""
            assert [t[0] for t in tops[:-1]] == texts[:-1] and tops[-1][0] == b"<|im_end|>"
            assert all(len(t) == 3 for t in tops)
            heard.append((texts, tops))
        assert heard[0] == heard[1]
        # a client that does not ask gets none
        c.send("Generate", request_id="plain", text=b"x [script:text]", sampling={"top_logprobs": 3})
        while (m := c.recv())[0] != "Finish":
            if m[0] == "Accepted":
                assert not m[1].HasField("prompt_text")
            else:
                assert not m[1].token_text and not any(e.HasField("text") for t in m[1].top for e in t.entry)


if __name__ == "__main__":
    tap.main()
