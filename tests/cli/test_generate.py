"""generate, chat, run, bench and the questions, against a server on the demo model."""
import glob
import json
import os
import pathlib
import re
import signal
import subprocess

from cli_tools import BIN, INGOT, PROMPT, Terminal, ingot, lines, ok, rest, wait_until
import tap
import temp_dir
from cluster import DEMO, Cluster, Parts, children, command_of

GREEDY = ["--temperature", "0"]
MESSAGE = ["--message", "What is Ingot?"]


def ask(c, *args, **kw):
    return lines(ok("generate", "--connect", c.endpoint, "--json", *args, **kw))


def check_shape(out, samples=1):
    assert out[0]["type"] == "accepted" and out[-1]["type"] == "finish", out
    assert all(m["type"] == "delta" for m in out[1:-1]), out
    a, f = out[0], out[-1]
    assert isinstance(a["request_id"], str) and a["prompt_tokens"] > 0 and isinstance(a["seed"], int)
    for key in ("prompt_tokens", "cached_tokens", "completion_tokens"):
        assert isinstance(f[key], int), key
    assert set(f["timings"]) == {"queue_ms", "first_token_ms", "total_ms"}
    assert f["reason"] in ("eos", "stop", "length") and len(f["samples"]) == samples
    assert sum(len(m["ids"]) for m in out[1:-1]) == f["completion_tokens"]
    assert all(("sample" in m) == (samples > 1) for m in out[1:-1])
    return "".join(m["text"] for m in out[1:-1])


def all_ids(out):
    """How many tokens a delta brings depends on time."""
    return [i for m in out[1:-1] for i in m["ids"]]


@tap.case
def json_lines():
    with Cluster(DEMO) as c:
        out = ask(c, *MESSAGE, *GREEDY, "--max-tokens", "40")
        text = check_shape(out)
        assert len(text) > 20 and "logprobs" not in out[1]
        # the same request as a chat, in a file and as JSON on the command line; plain output is the same text
        chat = '[ {"role": "user", "content": "What is Ingot?"} ]'
        assert check_shape(ask(c, "--chat", chat, *GREEDY, "--max-tokens", "40")) == text
        assert check_shape(ask(c, "--chat", "-", *GREEDY, "--max-tokens", "40", stdin=chat)) == text
        plain = ok("generate", "--connect", c.endpoint, *MESSAGE, *GREEDY, "--max-tokens", "40")
        assert plain.rstrip("\n") == text.rstrip("\n"), (plain, text)
        # ids in, ids out
        ids = ok("tokenize", DEMO, "--text", "Once upon a time")
        by_ids = ask(c, "--tokens", ids, *GREEDY, "--max-tokens", "8")
        by_text = ask(c, "--prompt", "Once upon a time", *GREEDY, "--max-tokens", "8")
        assert all_ids(by_ids) == all_ids(by_text)
        assert by_ids[-1]["reason"] == "length" and by_ids[-1]["completion_tokens"] == 8


def prompt_scores(out):
    """The members of all deltas, in order."""
    return [sum((m.get(key, []) for m in out[1:-1]), []) for key in ("prompt_logprobs", "prompt_top_logprobs")]


@tap.case
def prompt_logprobs():
    with Cluster(DEMO) as c:
        ids = [int(i) for i in ok("tokenize", DEMO, "--text", "Once upon a time").split()]
        args = ["--tokens", " ".join(map(str, ids)), *GREEDY, "--max-tokens", "3"]
        out = ask(c, *args, "--prompt-logprobs", "20")
        scores, top = prompt_scores(out)
        assert len(scores) == len(top) == len(ids) == out[0]["prompt_tokens"], scores
        assert scores[0] is None and top[0] == [] and all(p <= 0 for p in scores[1:])
        for token, score, best in zip(ids[1:], scores[1:], top[1:]):
            assert len(best) == 20 and [b["logprob"] for b in best] == sorted((b["logprob"] for b in best), reverse=True)
            assert {b["id"]: b["logprob"] for b in best}.get(token, score) == score
        want = c.client().generate(tokens={"id": ids}, max_tokens=3, sampling={
            "temperature": 0.0, "prompt_logprobs": True, "prompt_top": 20})
        assert [round(p, 5) for p, _, _ in want.prompt[1:]] == [round(p, 5) for p in scores[1:]]
        assert [[i for i, _ in best] for _, _, best in want.prompt] == [[b["id"] for b in best] for best in top]
        alone = ask(c, *args, "--prompt-logprobs", "0")
        assert prompt_scores(alone) == [scores, []] and all_ids(alone) == all_ids(out)
        assert prompt_scores(ask(c, *args)) == [[], []]
    for bad in "21", "-2", "x":
        r = ingot("generate", "--connect", "ipc:///nowhere", "--prompt", "a", "--prompt-logprobs", bad)
        assert r.returncode and "prompt-logprobs" in r.stderr, r


@tap.case
def sampling_options():
    with Cluster(DEMO) as c:
        out = ask(c, *MESSAGE, *GREEDY, "--max-tokens", "5", "--top-logprobs", "3")
        for m in out[1:-1]:
            assert len(m["logprobs"]) == len(m["ids"]) == len(m["top_logprobs"])
            for i, lp, top in zip(m["ids"], m["logprobs"], m["top_logprobs"]):
                assert len(top) == 3 and top[0]["id"] == i and top[0]["logprob"] == lp and lp <= 0
        twice = [ask(c, *MESSAGE, "--seed", "18446744073709551615", "--max-tokens", "12") for _ in range(2)]
        assert all_ids(twice[0]) == all_ids(twice[1])
        assert twice[0][0]["seed"] == 18446744073709551615
        many = ask(c, *MESSAGE, "--seed", "1", "--n", "3", "--max-tokens", "6")
        check_shape(many, samples=3)
        assert {m["sample"] for m in many[1:-1]} == {0, 1, 2}
        shown = ok("generate", "--connect", c.endpoint, *MESSAGE, "--seed", "1", "--n", "3",
                   "--max-tokens", "6").splitlines()
        assert [line[:4] for line in shown] == ["[0] ", "[1] ", "[2] "], shown
        full = check_shape(ask(c, *MESSAGE, *GREEDY))
        word = full.split()[4]
        cut = ask(c, *MESSAGE, *GREEDY, "--stop", word)
        assert check_shape(cut) == full[:full.index(word)] and cut[-1]["reason"] == "stop"
        assert cut[-1]["samples"][0]["stop"] == word
        first = ask(c, *MESSAGE, *GREEDY, "--max-tokens", "1")[1]["ids"][0]
        other = ask(c, *MESSAGE, *GREEDY, "--max-tokens", "1", "--logit-bias", f"{first}=-100")[1]["ids"][0]
        assert other != first
        ended = ask(c, *MESSAGE, *GREEDY, "--stop-id", str(first))
        assert ended[-1]["reason"] == "stop" and ended[-1]["samples"][0]["stop_id"] == first


@tap.case
def runs_of_one_tenant_share_the_prefix_cache():
    with Cluster(DEMO, 1) as c:
        prompt = ["--prompt", "Ingot is a serving cluster. " * 12, "--max-tokens", "2"]
        mine, stranger = ({"XDG_STATE_HOME": f"{c.dir}/{user}"} for user in ("me", "stranger"))
        cached = [ask(c, *prompt, *more, env=user)[-1]["cached_tokens"]
                  for more, user in (([], mine), ([], mine), (["--tenant", "me"], mine), (["--tenant", "me"], mine),
                                     (["--tenant", "you"], mine), (["--tenant", "me"], stranger))]
        assert cached[:3] == [0, 0, 0] and cached[3] >= 48 and cached[4:] == [0, 0], cached
        token = pathlib.Path(c.dir) / "me" / "ingot" / "token"
        assert token.stat().st_mode & 0o777 == 0o600 and token.stat().st_size == 32
        token.chmod(0o640)
        p = ingot("generate", "--connect", c.endpoint, "--tenant", "me", *prompt, env=mine)
        assert p.returncode == 1 and "others may read" in p.stderr, p
        p = ingot("generate", "--connect", c.endpoint, "--tenant", "x" * 65, *prompt)
        assert p.returncode == 2 and "64" in p.stderr, p


@tap.case
def refusals():
    with Cluster(DEMO) as c:
        p = ingot("generate", "--connect", c.endpoint, "--prompt", "a", "--priority", "101")
        assert p.returncode == 2 and "between -100 and 100" in p.stderr, p
        for args, word in [(["--top-p", "7"], "top_p"), (["--temperature", "-2"], "temperature"),
                           (["--n", "17"], "n"), (["--max-tokens", "100000"], "context"),
                           (["--model", "other"], "model"),
                           (["--logit-bias", "2047000=1"], "logit_bias")]:
            p = ingot("generate", "--connect", c.endpoint, "--prompt", "a", "--json", *args)
            assert p.returncode == 4, (args, p)
            out = lines(p.stdout)
            assert [m["type"] for m in out] == ["error"], (args, out)
            assert out[0]["retryable"] is False and word in out[0]["detail"] + out[0].get("field", ""), out
            assert len(p.stderr.splitlines()) == 1, p.stderr
        deadline = ingot("generate", "--connect", c.endpoint, "--prompt", "a", "--ignore-eos", "--deadline-ms",
                         "1", "--json")
        assert deadline.returncode == 4, deadline
        last = lines(deadline.stdout)[-1]
        assert last.get("reason") == "deadline" or last.get("code") == "timeout", last


@tap.case
def waits_for_workers():
    c = Parts(DEMO)
    try:
        c.coordinator = c.spawn(BIN / "ingot-coordinator", "--model", DEMO, "--listen", c.endpoint,
                                "--workers", c.workers)
        p = ingot("generate", "--connect", c.endpoint, "--prompt", "a", "--json", "--wait-ms", "0")
        assert p.returncode == 4 and lines(p.stdout)[0]["code"] == "busy", p
        waiting = subprocess.Popen([INGOT, "generate", "--connect", c.endpoint, "--prompt", "a",
                                    "--max-tokens", "3", "--json", "--wait-ms", str(1000 * tap.LIMIT)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "waiting" in waiting.stderr.readline()
        c.group()
        out, err = waiting.communicate(timeout=tap.LIMIT)
        assert waiting.returncode == 0 and lines(out)[-1]["completion_tokens"] == 3, (out, err)
    finally:
        c.__exit__()


@tap.case
def waits_for_a_stopped_server():
    """A first connection that is not answered at once is waited for as well."""
    with Parts(DEMO) as c:
        c.coordinator.send_signal(signal.SIGSTOP)
        try:
            p = subprocess.Popen([INGOT, "generate", "--connect", c.endpoint, "--prompt", "a", "--max-tokens", "3", "--json",
                                  "--wait-ms", str(1000 * tap.LIMIT)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert "no answer from" in p.stderr.readline()
        finally:
            c.coordinator.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=tap.LIMIT)
        assert p.returncode == 0 and lines(out)[-1]["completion_tokens"] == 3, (out, err)


@tap.case
def ctrl_c_cancels():
    with Cluster(DEMO) as c:
        def cancelled():
            p = subprocess.Popen([INGOT, "generate", "--connect", c.endpoint, "--prompt", "a", "--ignore-eos",
                                  "--json", "--max-tokens", "1000"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
            assert json.loads(p.stdout.readline())["type"] == "accepted"
            assert json.loads(p.stdout.readline())["type"] == "delta"
            p.send_signal(signal.SIGINT)
            out, _ = rest(p)
            last = json.loads(out.splitlines()[-1])
            if last["reason"] == "length":
                return False
            assert last["type"] == "finish" and last["reason"] == "cancelled", last
            assert p.returncode == 130
            return True
        tap.race(cancelled)
        assert json.loads(ok("status", "--connect", c.endpoint, "--json"))["cancelled"] == 1


@tap.case
def chat_over_a_pipe():
    with Cluster(DEMO) as c:
        say = "What is Ingot?\n/params max-tokens=3\nTell me a story.\n/nonsense\n/params top-q=1\n" \
              "/params\n/reset\n/quit\nnot asked\n"
        out = ok("chat", "--connect", c.endpoint, *GREEDY, stdin=say).splitlines()
        one = ok("generate", "--connect", c.endpoint, *MESSAGE, *GREEDY).splitlines()
        assert out[:len(one)] == one, out
        assert "there is no command /nonsense; /help lists them" in out
        assert "there is no parameter 'top-q'; /params lists them" in out
        assert "max-tokens = 3" in out and "temperature = 0" in out
        assert out[-1] == "the conversation is forgotten"
        # the history counts: the second turn sees the first
        two = "What is Ingot?\nTell me a story.\n"
        with_history = ok("chat", "--connect", c.endpoint, *GREEDY, "--max-tokens", "20", stdin=two)
        stats = json.loads(ok("status", "--connect", c.endpoint, "--json"))
        assert stats["cached_tokens"] > 0 and len(with_history.splitlines()) >= 2


@tap.case
def chat_on_a_terminal():
    with Cluster(DEMO) as c:
        t = Terminal("chat", "--connect", c.endpoint, "--temperature", "0", "--ignore-eos")
        assert "/help" in t.until(PROMPT)
        with c.held():
            t.type("Tell me a story.\n")
            t.until("story.")
            tap.wait_for(lambda: json.loads(ok("status", "--connect", c.endpoint, "--json"))["running"], "the request runs")
            t.type("\x03")
        t.until(PROMPT)
        stats = json.loads(ok("status", "--connect", c.endpoint, "--json"))
        assert stats["cancelled"] == 1 and stats["running"] == 0, stats
        t.type("/params max-tokens=4\n")
        t.until(PROMPT)
        t.type("Go on.\n")
        t.until(PROMPT)
        t.type("\x04")
        assert t.wait() == 0
        # Ctrl-C twice at the prompt ends the conversation, and the server it was started with
        t = Terminal("chat", DEMO)
        t.until(PROMPT)
        kids = children(t.pid)
        assert len(kids) >= 2, kids
        t.type("\x03")
        t.until("once more")
        t.until(PROMPT)
        t.type("\x03")
        assert t.wait() == 0
        tap.wait_for(lambda: not any(command_of(k) for k in kids), "the server has ended")


@tap.case
def run_loads_and_ends():
    def shared():
        return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    before = shared()
    args = [*MESSAGE, *GREEDY, "--max-tokens", "12", "--json"]
    one = lines(ok("run", DEMO, *args))
    two = lines(ok("run", DEMO, "--tp", "2", "--threads", "1", *args))
    assert check_shape(one) == check_shape(two)
    assert all_ids(one) == all_ids(two), "other ids on two ranks"
    new = {d for d in shared() - before if d.startswith("ingot-serve-")}  # other tests' servers end too
    tap.wait_for(lambda: not new & shared(), "the folders are gone")
    talk = ok("chat", DEMO, *GREEDY, "--max-tokens", "12", stdin="What is Ingot?\n")
    assert talk.rstrip("\n") == check_shape(one).rstrip("\n")


@tap.case
def questions():
    with Cluster(DEMO) as c:
        at = ["--connect", c.endpoint]
        ping = json.loads(ok("ping", *at, "--json"))
        assert ping["ready"] is True and ping["rtt_ms"] > 0
        model = json.loads(ok("models", *at, "--json"))
        assert model["name"] == "demo-model" and model["world"] == 1 and model["chat"] is True
        assert "demo-model" in ok("models", *at) and "ready" in ok("status", *at)
        assert len(ok("ping", *at, "--count", "3").splitlines()) == 3
        text = "Zwölf Bären"
        ids = json.loads(ok("tokenize", *at, "--text", text, "--json"))
        assert ids == json.loads(ok("tokenize", DEMO, "--text", text, "--json"))
        plain = ok("tokenize", *at, "--text", text, "--no-special")
        assert ok("detokenize", *at, "--ids", plain) == text
        assert ok("detokenize", *at, *plain.split()) == text
        assert ok("detokenize", *at, "--ids-file", "-", stdin=plain) == text
        p = ingot("detokenize", *at, "--ids-file", "-", stdin="1\0 2")
        assert p.returncode != 0 and "NUL" in p.stderr, p
        p = ingot("detokenize", *at, "--ids", "123456789")
        assert p.returncode == 4 and "123456789" in p.stderr, p
        p = ingot("detokenize", *at, "--ids", "1 x")
        assert p.returncode == 4 or p.returncode == 2, p
        out = ok("drain", *at, "--wait")
        assert "0 requests are still running" in out and c.serve.wait(tap.LIMIT) == 0


@tap.case
def status_names_the_groups():
    with Cluster(DEMO, extra=["--groups", "2"]) as c:
        at = ["status", "--connect", c.endpoint]

        def groups_when(holds):
            groups = json.loads(ok(*at, "--json"))["groups"]
            return groups if holds(groups) else None

        both = wait_until(lambda: groups_when(lambda g: len(g) == 2))
        both = wait_until(lambda: groups_when(lambda g: len(g) == 2 and all(x["active"] for x in g)))
        assert all((g["running"], g["waiting"], g["tokens_generated"]) == (0, 0, 0) for g in both), both
        text = ok(*at)
        assert len(re.findall(r"^workers +1 rank, cpu, local, active; 0 running, 0 waiting, 0 tokens$", text, re.M)) == 2, text
        assert re.match(r"demo-model  ready, up (\d+ min )?\d+ s, \d+ clients?\nserver +ingot \d.*\n", text), text
        assert json.loads(ok(*at, "--json"))["server"].startswith("ingot "), text
        # the lost one is replaced, and serves too
        for pid in c.worker_pids()[:1]:
            os.kill(pid, signal.SIGKILL)
        now = wait_until(lambda: groups_when(
            lambda g: len(g) == 2 and {x["epoch"] for x in g} != {x["epoch"] for x in both}))
        assert wait_until(lambda: groups_when(lambda g: len(g) == 2 and all(x["active"] for x in g))), now


@tap.case
def bench_counts():
    with Cluster(DEMO, tp=2, threads=1) as c:
        at = ["bench", "--connect", c.endpoint, "--json"]
        r = json.loads(ok(*at, "--concurrency", "64", "--requests", "128", "--max-tokens", "16"))
        assert (r["finished"], r["failed"], r["lost"], r["doubled"], r["gaps"]) == (128, 0, 0, 0, 0), r
        assert r["completion_tokens"] == 128 * 16 and r["prompt_tokens"] == 128 * 32
        assert r["ttft_ms"]["count"] == 128 and r["inter_token_ms"]["count"] == 128 * 15
        assert 0 < r["ttft_ms"]["p50"] <= r["ttft_ms"]["p99"] <= r["ttft_ms"]["max"]
        r = json.loads(ok(*at, "--requests", "6", "--concurrency", "1", "--prompt-tokens", "64",
                          "--shared-tokens", "64", "--max-tokens", "2"))
        assert r["cached_tokens"] >= 5 * 48, r
        text = ok("bench", "--connect", c.endpoint, "--requests", "4", "--max-tokens", "4")
        assert "4 of 4 requests finished" in text and "0 lost, 0 doubled" in text
        p = ingot("bench", "--connect", c.endpoint, "--prompt-tokens", "5000")
        assert p.returncode == 2 and "context" in p.stderr, p


@tap.case
def journal_replays():
    with temp_dir.folder() as d:
        with Cluster(DEMO, extra=["--journal", d]) as c:
            ok("generate", "--connect", c.endpoint, *MESSAGE, "--max-tokens", "5", "--request-id", "mine")
        files = glob.glob(f"{d}/*")  # as a shell does
        assert files
        ok("replay", "verify", *files)
        assert "mine" in "".join(ok("replay", "list", f) for f in files)


tap.main()
