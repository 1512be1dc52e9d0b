"""Every client does everything that the matrix of README.md says, asserted on values: a scripted worker answers with recorded
texts (scripted_worker.py), so texts, counts, calls and thoughts are known.  The last case compares the matrix with what ran.
LiteLLM is installed by tests/run.sh --all only; without it its row is skipped."""
import contextlib
import json
import pathlib
import re
import sys
import time

from client_setup import KEY, raised, tap
from client_drivers import DRIVERS
from gateway_process import Gateway
from scripted_worker import ScriptedCluster

HERE = pathlib.Path(__file__).resolve().parent
ROME, OSLO = {"city": "Rome"}, {"city": "Oslo", "days": [1, 2, {"half": 0.5}]}
THOUGHT = "I think of Rome.\nIs it 2 < 3?"
TOOLS = [{"name": name, "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
         for name in ("weather", "time")]
TEMPLATE = ("{#- <tool_call> <think> </think> -#}{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}"
            "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + (m['content'] or '') + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def call(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


SCRIPTS = {"fox": "Once upon a time there was a fox.", "signs": "Na\u00efve \U0001f98a:\n\t\"two\" \\ lines",
           "calls": call("weather", ROME) + "\n" + call("time", OSLO), "long": "one fox and " * 400,
           "think": f"<think>{THOUGHT}</think>It is sunny."}
cluster = url = None
drivers, ran, absent = {}, set(), set()


def messages(script):
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"Please. [script:{script}]"}]


def stats():
    return cluster.clients[0].call("Stats")[1]


def n_prompt(script):
    """As the coordinator counts it."""
    turns = [{"role": m["role"], "content": m["content"].encode()} for m in messages(script)]
    return cluster.clients[0].generate(chat={"turn": turns}, max_tokens=1).accepted.prompt_tokens


def both(d, script, **kw):
    return d.ask(messages(script), **kw), d.ask(messages(script), stream=True, **kw)


# ---- the columns; the order is the table's ----

def model_list(d):
    assert d.models() == ["model"]


def whole_answer(d):
    for script in ("fox", "signs"):
        a = d.ask(messages(script))
        assert (a.text, a.finish, a.reasoning, a.calls) == (SCRIPTS[script], "stop", "", []), a


def streamed_equals_whole(d):
    for script in ("fox", "signs"):
        whole, streamed = both(d, script)
        assert streamed == whole and whole.text == SCRIPTS[script], (whole, streamed)


def usage(d):
    for script in ("fox", "signs"):
        n = len(cluster.worker.tokens_of(SCRIPTS[script])) + 1  # and the end of the sequence
        for a in both(d, script):
            assert (a.n_prompt, a.n_completion) == (n_prompt(script), n), (a, n)


def stop_string(d):
    for a in both(d, "fox", stop=["there"]):
        assert (a.text, a.finish) == ("Once upon a time ", "stop"), a


def refused_field(d):
    for stream in (False, True):
        e = raised(d.bad_request, d.ask, messages("fox"), stream=stream, temperature=-1)
        assert e.status_code == 400 and "temperature" in str(e), e


def abandoned_stream(d):
    def attempt():
        """Too late if the answer ended before, or if this machine had no time for us."""
        before = stats()
        d.abandon(messages("long"))
        since = time.monotonic()
        after = tap.wait_for(lambda: not (s := stats()).running + s.waiting and s, "it has ended")
        assert after.blocks_free + after.blocks_cached == after.blocks_total, after
        return after.requests_cancelled == before.requests_cancelled + 1 and time.monotonic() - since < 1
    tap.race(attempt, 10)
    assert d.ask(messages("fox")).text == SCRIPTS["fox"]


def unauthorized(d):
    e = raised(d.unauthorized, d.ask, messages("fox"), key="wrong")
    assert e.status_code == 401 and "key" in str(e), e


def tool_calls(d):
    for a in both(d, "calls", tools=TOOLS):
        assert (a.calls, a.finish, a.text.strip()) == ([("weather", ROME), ("time", OSLO)], "tool_calls", ""), a


def reasoning(d):
    ask = getattr(d, "think", None) or (lambda m, stream: d.ask(m, stream=stream))
    for stream in (False, True):
        a = ask(messages("think"), stream)
        thought = "" if stream and d.part.get("reasoning") == "whole only" else THOUGHT
        assert (a.reasoning, a.text, a.finish) == (thought, "It is sunny.", "stop"), a


COLUMNS = {"list": model_list, "whole": whole_answer, "streamed = whole": streamed_equals_whole, "usage": usage,
           "stop string": stop_string, "refused field": refused_field, "abandoned stream": abandoned_stream,
           "401": unauthorized, "tool calls": tool_calls, "reasoning": reasoning}


def cell(kind, column):
    def case():
        d = drivers[kind.name] = drivers.get(kind.name) or kind(url)
        if d.library is None:
            absent.add(kind.name)
            raise tap.Skip(f"the Python package {kind.package} is not installed (tests/requirements.txt, requirements-all.txt)")
        COLUMNS[column](d)
        ran.add((kind.name, column))
    case.__name__ = re.sub(r"\W+", "_", f"{kind.name}_{COLUMNS[column].__name__}")
    return tap.case(case)


for each in DRIVERS:
    for name in COLUMNS:
        cell(each, name)


def table():
    """{client: {column: cell}} of README.md."""
    lines = (HERE / "README.md").read_text().split("## Clients and behaviours\n", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, body = rows[0], rows[2:]
    assert head == ["client", *COLUMNS], head
    return {r[0]: dict(zip(head[1:], r[1:], strict=True)) for r in body}


@tap.case
def the_table_is_what_ran():
    if len(sys.argv) > 1:
        raise tap.Skip("only some cases were asked for")
    said = table()
    assert list(said) == [d.name for d in DRIVERS], list(said)
    for d in DRIVERS:
        for column, text in said[d.name].items():
            assert text == d.part.get(column, "yes"), (d.name, column, text)
            assert (d.name, column) in ran or d.name in absent, f"README.md: {d.name}, {column}: the case did not pass"


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ScriptedCluster(SCRIPTS, TEMPLATE))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint, "--api-key", KEY)).wait_ready()
        url = f"http://127.0.0.1:{gateway.port}"
        tap.main()
