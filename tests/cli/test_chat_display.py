"""What `ingot chat` shows of reasoning and tool calls, on a terminal and in a pipe: against a server made up here,
which answers with given pieces of text."""
import os

from cli_tools import PROMPT, Terminal, ingot, ok
from made_up_server import Server
import tap

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def bytes_of(text):
    """Each byte a piece of its own."""
    data = text.encode()
    return [data[i:i + 1] for i in range(len(data))]


def show(*pieces, env=None, **server):
    """What a terminal gets between the message and the next prompt."""
    with Server([p.encode() if isinstance(p, str) else p for p in pieces], **server) as s:
        t = Terminal("chat", "--connect", s.endpoint, env=env)
        prompt = "> " if env else PROMPT
        t.until(prompt)
        t.type("Hello\n")
        t.until("Hello\r\n")
        seen = t.until(prompt)[:-len(prompt)].replace("\r\n", "\n")
        seen = seen.replace("\x1b[?2004l", "").replace("\x1b[?2004h", "")  # the terminal marks pasted text
        t.type("\x04")
        assert t.wait() == 0
        return seen


def runs(seen):
    """Text by the attribute that it is shown with: joins neighbours with the same one, drops empty ones."""
    out, attribute = [], "0"
    for i, part in enumerate(seen.split("\x1b[")):
        if i:
            attribute, part = part.split("m", 1)
        if not part:
            continue
        if out and out[-1][0] == attribute:
            out[-1] = (attribute, out[-1][1] + part)
        else:
            out.append((attribute, part))
    return out


@tap.case
def reasoning_is_dim():
    want = [("2", "Two and two."), ("0", "It is 4.\n")]
    text = "<think>Two and two.</think>It is 4."
    assert runs(show(text)) == want
    assert runs(show(*bytes_of(text))) == want


@tap.case
def reasoning_that_never_ends_is_dim():
    assert runs(show("<think>", "Hm", "m.")) == [("2", "Hmm."), ("0", "\n")]


@tap.case
def the_server_says_how_its_model_writes():
    """Its marks, where the answer begins, its format of tool calls: nothing else is taken for one of them."""
    model = {"tool_format": "mistral", "think_open": b"[THINK]", "think_close": b"[/THINK]"}
    for text in ("[THINK]Hmm.[/THINK]So.", "Hmm.[/THINK]So."):
        accepted = {"prompt_digest": bytes(32), "sampling": {}, "starts_in_reasoning": not text.startswith("[")}
        assert runs(show(*bytes_of(text), model=model, accepted=accepted)) == [("2", "Hmm."), ("0", "So.\n")]
    got = runs(show("<think>x</think>", CALL, model=model))
    assert [a for a, _ in got] == ["0"] and "<think>x</think>" in got[0][1] and "<tool_call>" in got[0][1], got
    assert ("36", '[calls f {"a": 1}]') in runs(show('[TOOL_CALLS]f[ARGS]{"a": 1}', model=model))
    plain = {"tool_format": "auto"}
    assert runs(show("<think>x</think>y", model=plain)) == [("0", "<think>x</think>y\n")]


@tap.case
def tool_calls_are_lines():
    call = '[calls get_weather {"city": "Paris"}]'
    for pieces in ([CALL], bytes_of(CALL)):
        assert runs(show(*pieces))[-2:] == [("36", call), ("0", "\n")], runs(show(*pieces))
    got = runs(show("I will look.", *bytes_of(CALL)))
    assert got[0] == ("0", "I will look.\n") and got[1] == ("36", call) and got[-1] == ("0", "\n"), got


@tap.case
def reasoning_then_a_call():
    got = runs(show("<think>The weather.</think>", CALL))
    assert got[0][0] == "2" and got[0][1].strip() == "The weather.", got
    assert ("36", '[calls get_weather {"city": "Paris"}]') in got, got


@tap.case
def the_model_cannot_steer_the_terminal():
    evil = "a\x1b[31mb\x07c\u009b32m"
    call = '<tool_call>\n{"name": "f", "arguments": {"x": "\\u001b]0;t\\u0007"}}\n</tool_call>'
    raw = '<tool_call>\n{"name": "f\x1b[5m", "arguments": {"x": "\x1b[31m"}}\n</tool_call>'
    named = "<tool_call>\n<function=f\x1b[5m>\n<parameter=x>\n1\x07\n</parameter>\n</function>\n</tool_call>"
    escaped = '<tool_call>\n{"name": "f\\u001b[5m", "arguments": {"x": 1}}\n</tool_call>'
    for pieces in ([evil], [f"<think>{evil}</think>ok"], [call], [raw], [named], [escaped]):
        seen = show(*pieces)
        assert "\x1b[31m" not in seen and "\x1b[5m" not in seen and "\x1b]" not in seen, seen
        assert "\x07" not in seen and "\u009b" not in seen, seen


@tap.case
def a_server_cannot_steer_the_terminal_by_names():
    name = "x\x1b[5m\ny\x7f\u009b"
    shown = "x\\x1b[5m\\ny\\x7f\\u009b"
    refusal = {"is": "Rejected", "code": 4, "detail": name, "field": "n"}
    with Server(refusal, refusal, name=name) as s:
        s.version = name
        at = ["--connect", s.endpoint]
        for args in (["status", *at], ["models", *at]):
            t = Terminal(*args)
            t.until(shown)
            seen = t.rest()
            assert "\x1b[5m" not in seen and "\u009b" not in seen, (args, seen)
            text = ok(*args)
            assert shown in text and "\x1b" not in text, (args, text)
        assert ok("status", *at).count(shown) == 4
        p = ingot("generate", *at, "--prompt", "a")
        assert p.returncode == 4 and p.stderr == f"ingot generate: n: {shown}\n", p
        t = Terminal("chat", *at)
        seen = t.until(shown) + t.until(PROMPT)
        t.type("Hello\n")
        seen += t.until(shown) + t.until(PROMPT)
        assert "\x1b[5m" not in seen and "\u009b" not in seen, seen
        t.type("\x04")
        assert t.wait() == 0


@tap.case
def without_colours():
    seen = show("<think>Two.</think>", "Four.", CALL, env={"NO_COLOR": "1"})
    assert "\x1b" not in seen, seen
    assert "Two." in seen and "Four." in seen and '[calls get_weather {"city": "Paris"}]' in seen, seen
    assert "<think>" not in seen and "tool_call" not in seen, seen


@tap.case
def a_pipe_gets_the_text_as_it_is():
    text = "<think>Two.</think>Four." + CALL
    with Server(bytes_of(text)) as s:
        assert text in ok("chat", "--connect", s.endpoint, stdin="Hello\n")


@tap.case
def the_model_is_told_what_it_wrote():
    first = "<think>Two.</think>Four."
    with Server([first.encode()], [b"Yes."]) as s:
        t = Terminal("chat", "--connect", s.endpoint, "--system", "Be brief.")
        t.until(PROMPT)
        t.type("2 + 2?\n")
        t.until(PROMPT)
        t.type("Sure?\n")
        t.until("Yes.")
        t.type("\x04")
        assert t.wait() == 0
        turns = [(x.role, x.content.decode()) for x in s.requests[1].chat.turn]
    assert turns == [("system", "Be brief."), ("user", "2 + 2?"), ("assistant", first), ("user", "Sure?")], turns


os.environ.pop("NO_COLOR", None)
tap.main()
