"""API keys of a file, quotas that several gateways share, and Idempotency-Key."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from http_client import Client  # noqa: E402

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PROMPT = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
stack = contextlib.ExitStack()
cluster = folder = secret = None


def api_key(*args, rc=0):
    p = subprocess.run([BIN / "ingot", "api-key", *args], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == rc, p
    return p.stdout.strip() if rc == 0 else p.stderr


def key_file(name, *keys):
    """A file with these keys (options of `api-key add`), and "Authorization" for each."""
    path = os.path.join(folder, name)
    return path, [f"Authorization: Bearer {api_key('add', path, *options)}" for options in keys]


def serve(*args):
    return Gateway("--connect", cluster.endpoint, "--tenants-secret", secret, *args)


def post(g, headers=(), path=COMPLETIONS, **body):
    with g.connect() as c:
        a = c.post(path, json.dumps({**PROMPT, **body}).encode(), *headers)
    a.json = json.loads(a.body) if a.headers.get("content-type") == "application/json" else None
    return a


def begin(g, headers=(), path=COMPLETIONS, **body):
    """A connection that waits for its answer."""
    c = g.connect()
    c.request(path, *headers, method="POST", body=json.dumps({**PROMPT, **body}).encode())
    return c


def stats():
    return cluster.clients[0].call("Stats")[1]


def in_flight():
    s = stats()
    return s.running + s.waiting


def is_error(a, status, kind, word=""):
    e = a.json["error"]
    assert a.status == status and e["type"] == kind and word in e["message"], a
    return e


# ---- keys ----

@tap.case
def the_command():
    path, (one, two) = key_file("command", ["--for", "alice", "--requests", "8"],
                                ["--for", "bob", "--tenant", "acme", "--priority", "5", "--tokens-per-minute", "100"])
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and one != two
    text = open(path).read()
    for key in (one, two):
        assert key.split("-")[-1] not in text and key.split()[-1].count("-") == 2
    lines = api_key("list", path).splitlines()
    rows = sorted(line.split()[1:] for line in lines[1:])
    assert rows == [["alice", "alice", "8", "-", "0"], ["bob", "acme", "-", "100", "5"]], lines
    key_id = lines[1].split()[0]
    api_key("remove", path, key_id)
    assert len(api_key("list", path).splitlines()) == 2
    assert key_id in api_key("remove", path, key_id, rc=1)
    assert "--for: not 1 to 64" in api_key("add", path, "--for", "a b", rc=2)
    for bad in (["add", path], ["add", path, "--for", "a b"], ["add", path, "x", "--for", "a"], ["remove", path],
                ["frob", path], ["add", path, "--for", "a", "--priority", "101"], ["list"]):
        api_key(*bad, rc=2)
    before = open(path).read()
    with open(path, "a") as f:
        f.write('{"id": 7}\n')
    assert f"{path}:2: id" in api_key("add", path, "--for", "x", rc=1)
    assert open(path).read() == before + '{"id": 7}\n', "a file with a mistake is left alone"
    assert os.listdir(os.path.dirname(path)).count("command") == 1
    assert not [name for name in os.listdir(folder) if name.startswith("command.")], "no temporary file stays"


@tap.case
def many_commands_at_once_lose_no_key():
    path = os.path.join(folder, "many")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda i: api_key("add", path, "--for", f"n{i}"), range(24)))
    assert len(set(keys)) == 24 and len(api_key("list", path).splitlines()) == 25


@tap.case
def broken_files():
    path, _ = key_file("broken", ["--for", "alice"])
    good = open(path).read()
    for bad, word, rc in [(good + good, "two keys have the id", 1), (good[:-1], "not whole", 1), ("x\n", ":1: ", 1),
                          (good.replace('"requests":0', '"requests":-1'), "requests", 2),
                          (good.replace('"name"', '"nane"'), "not known", 1),
                          (good.replace('"priority":0', '"priority":101'), "priority", 2),
                          (good.replace(',"priority":0', ""), "priority", 1),
                          (good.replace('"salt":"', '"salt":"0'), "salt", 1),
                          ('{"a":"' + "x" * 5000 + '"}\n', "not whole", 1),
                          ("\n" + good + "\n\n" + "[]\n", ":5: ", 1)]:
        with open(path, "w") as f:
            f.write(bad)
        assert word in api_key("list", path, rc=rc), bad
    p = subprocess.run([BIN / "ingot-gateway", "--http", "127.0.0.1:0", "--api-keys", path], capture_output=True,
                       text=True, timeout=tap.LIMIT)
    assert p.returncode == 1 and f"{path}:5: " in p.stderr, p
    with open(path, "w") as f:  # a file without keys admits none
        f.write("\n")
    with Gateway("--api-keys", path) as g:
        assert g.get("/v1/models").status == 401 and g.get("/health").status == 200


@tap.case
def keys_of_a_file_open_the_gateway():
    path, (alice, bob) = key_file("open", ["--for", "alice"], ["--for", "bob", "--priority", "5"])
    log = os.path.join(folder, "open.log")
    with serve("--api-keys", path, "--api-key", "plain", "--access-log", log, "--http", "0.0.0.0:0") as g:
        g.wait_ready()
        for header in (alice, bob, alice.replace("Authorization: Bearer", "X-Api-Key:"), "Authorization: Bearer plain"):
            assert post(g, [header]).status == 200, header
        key = alice.split()[-1]
        for bad in (key[:-1], key + "0", key[:-1] + "g", key.upper(), "ingot-000000000000" + key[18:], "", "plai",
                    key.replace("ingot-", "ingot_"), "\xe9"):
            is_error(post(g, [f"Authorization: Bearer {bad}"]), 401, "authentication_error")
        assert is_error(post(g, [alice], priority=1), 403, "permission_error")["param"] == "priority"
        assert post(g, [alice], priority=-1).status == 200
        assert post(g, [bob], priority=5).status == 200 and post(g, [bob], priority=6).status == 403
        assert post(g, ["Authorization: Bearer plain"], priority=100).status == 200

        more = f"Authorization: Bearer {api_key('add', path, '--for', 'carol')}"  # without a restart
        tap.wait_for(lambda: post(g, [more]).status == 200, "the new key is known")
        api_key("remove", path, key.split("-")[1])
        tap.wait_for(lambda: post(g, [alice]).status == 401, "the key is gone")
        with open(path, "a") as f:  # a mistake changes nothing
            f.write("nonsense\n")
        while "stay in force" not in (line := g.process.stderr.readline()):
            assert line
        assert post(g, [more]).status == 200 and post(g, [alice]).status == 401
    entries = [json.loads(line) for line in open(log)]
    assert {e["key"] for e in entries} >= {None, "key1", key.split("-")[1]}
    assert key not in open(log).read() and "plain" not in open(log).read()
    done = next(e for e in entries if e["status"] == 200 and e["route"] == COMPLETIONS)
    assert done["prompt_tokens"] > 0 and done["completion_tokens"] == 4 and done["finish"] == {"length": 1}, done
    assert done["first_token_ms"] >= done["queue_ms"] >= 0 and done["total_ms"] >= done["first_token_ms"], done
    assert done["preemptions"] == done["recoveries"] == 0 and done["cached_tokens"] >= 0


@tap.case
def an_unknown_key_is_refused_before_the_body():
    path, _ = key_file("early", ["--for", "alice"])
    with Gateway("--api-keys", path, "--stall-ms", "600000") as g, g.connect() as c:
        c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
               "Content-Length: 30000000\r\n\r\n")
        a = c.answer()
        assert a.status == 401 and a.headers["connection"] == "close" and c.is_closed(), a
    with Gateway("--api-keys", path) as g, g.connect() as c:  # bytes of the body that come are no next request
        c.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\nGET /health HTTP/1.1\r\n")
        assert c.answer().status == 401
        assert c.is_closed()


@tap.case
def a_coordinator_without_the_secret():
    path, (alice,) = key_file("no-secret", ["--for", "alice"])
    with Gateway("--connect", cluster.endpoint, "--api-keys", path) as g:
        g.wait_ready()
        e = is_error(post(g, [alice]), 503, "unavailable_error", "--tenants-secret")
        assert e["param"] is None and any("--tenants-secret" in line for line in
                                          [g.process.stderr.readline() for _ in range(2)])
    wrong = os.path.join(folder, "wrong")
    with open(wrong, "w") as f:
        f.write("another secret, long enough\n")
    with Gateway("--connect", cluster.endpoint, "--tenants-secret", wrong) as g:
        assert g.get("/ready").status == 503
        while "tenants secret" not in (line := g.process.stderr.readline()):
            assert line


@tap.case
def secrets_that_are_none():
    short = os.path.join(folder, "short")
    with open(short, "w") as f:
        f.write("fifteen bytes..\n")
    programs = (["ingot-gateway", "--http", "127.0.0.1:0"], ["ingot-coordinator", "--model", DEMO, "--listen",
                                                              f"ipc://{folder}/x", "--workers", f"ipc://{folder}/y"])
    for program, *args in programs:
        for path, env, code, word in ((short, "", 2, "16 to 256 bytes"), ("/nonexistent", "", 1, "/nonexistent"),
                                      (None, "x" * 257, 2, "16 to 256 bytes")):
            p = subprocess.run([BIN / program, *args, *(["--tenants-secret", path] if path else [])], capture_output=True,
                               text=True, timeout=tap.LIMIT, env={**os.environ, "INGOT_TENANTS_SECRET": env})
            assert p.returncode == code and word in p.stderr, p


# ---- quotas ----

@tap.case
def gateways_share_the_places_of_a_key():
    path, (two, free) = key_file("places", ["--for", "two", "--requests", "2"], ["--for", "free"])
    with serve("--api-keys", path) as g1, serve("--api-keys", path) as g2:
        g1.wait_ready()
        g2.wait_ready()
        with cluster.held():
            waiting = [begin(g, [two], stream=True) for g in (g1, g2)]
            assert [c.head().status for c in waiting] == [200, 200]
            for g in (g1, g2):
                a = post(g, [two])
                is_error(a, 429, "rate_limit_error", "in flight")
                assert int(a.headers["retry-after-ms"]) > 0 and int(a.headers["retry-after"]) >= 1
                assert a.json["error"]["param"] is None
            others = [begin(g, [free], stream=True) for _ in range(8) for g in (g1, g2)]
            assert all(c.head().status == 200 for c in others), "another key has places of its own"
            waiting[0].close()
            tap.wait_for(lambda: in_flight() == 17, "the place is free")
            is_error(post(g2, [two], n=2), 429, "rate_limit_error", "would be in flight")
            is_error(post(g1, [two], n=3), 400, "invalid_request_error", "this tenant may have 2")
            again = begin(g2, [two], stream=True)
            assert again.head().status == 200
        for c in [again, waiting[1], *others]:
            c.close()
    tap.wait_for(lambda: in_flight() == 0, "all has ended")


@tap.case
def gateways_share_the_tokens_of_a_key():
    path, (few, other) = key_file("tokens", ["--for", "few", "--tokens-per-minute", "30"], ["--for", "other"])
    with serve("--api-keys", path) as g1, serve("--api-keys", path) as g2:
        g1.wait_ready()
        g2.wait_ready()
        assert post(g1, [few], max_tokens=60, ignore_eos=True).status == 200
        for g in (g1, g2):
            a = post(g, [few])
            is_error(a, 429, "rate_limit_error", "tokens a minute")
            assert 30000 < int(a.headers["retry-after-ms"]) < 120000, a.headers
        assert post(g2, [other]).status == 200


@tap.case
def openai_python_waits_and_tries_again():
    try:
        import openai
    except ImportError:
        raise tap.Skip("the Python package openai is not installed (tests/requirements.txt)")
    path, (one,) = key_file("retry", ["--for", "one", "--requests", "1"])
    with serve("--api-keys", path) as g:
        g.wait_ready()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{g.port}/v1", api_key=one.split()[-1], max_retries=0,
                               timeout=tap.LIMIT)
        with cluster.held():
            held = begin(g, [one], stream=True)
            assert held.head().status == 200
            try:
                client.completions.create(model="demo-model", prompt="x", max_tokens=1)
                raise AssertionError("a second request was taken")
            except openai.RateLimitError as e:
                assert e.status_code == 429 and e.type == "rate_limit_error"
            held.close()
            tap.wait_for(lambda: in_flight() == 0, "its place is free")
        assert client.with_options(max_retries=5).completions.create(model="demo-model", prompt="x", max_tokens=1).choices


# ---- Idempotency-Key ----

def same_answer(a, b):
    assert a.status == b.status == 200, (a, b)
    return a.json["choices"] == b.json["choices"] and a.json["usage"] == b.json["usage"]


def events_of(body):
    assert body.endswith("data: [DONE]\n\n"), body[-200:]
    return [json.loads(e[6:]) for e in body[:-2].split("\n\n")[:-1] if e.startswith("data: ")]


def text_of(body):
    events = events_of(body)
    assert not [e for e in events if "error" in e], body
    return "".join(e["choices"][0]["text"] for e in events if e["choices"])


@tap.case
def a_finished_answer_comes_again():
    path, (alice, bob) = key_file("again", ["--for", "alice"], ["--for", "bob"])
    with serve("--api-keys", path) as g1, serve("--api-keys", path) as g2:
        g1.wait_ready()
        g2.wait_ready()
        mine = "Idempotency-Key: order 17"
        before = stats().requests_finished
        long = {"temperature": 1, "max_tokens": 32}
        first = post(g1, [alice, mine], **long)
        for g in (g1, g2, g1):
            assert same_answer(first, post(g, [alice, mine], **long))
        assert stats().requests_finished == before + 1, "it was computed once"
        assert not same_answer(first, post(g1, [bob, mine], **long)), "another tenant, another name space"
        assert stats().requests_finished == before + 2
        for g in (g1, g2):
            is_error(post(g, [alice, mine], **{**long, "temperature": 0.5}), 422, "invalid_request_error", "in use")
            is_error(post(g, [alice, mine], **long, stream=False), 422, "invalid_request_error")
        assert same_answer(first, post(g1, [alice, mine], **long))
        streamed = post(g1, [alice, "Idempotency-Key: s"], stream=True)
        again = post(g2, [alice, "Idempotency-Key: s"], stream=True)
        assert text_of(streamed.body.decode()) == text_of(again.body.decode()) != ""
        several = post(g1, [alice, "Idempotency-Key: list"], prompt=["One day", "The fox"], n=2)
        assert len(several.json["choices"]) == 4
        assert same_answer(several, post(g2, [alice, "Idempotency-Key: list"], prompt=["One day", "The fox"], n=2))
        for bad in ("", "x" * 256, "a\tb"):
            is_error(post(g1, [alice, f"Idempotency-Key: {bad}"]), 400, "invalid_request_error", "Idempotency-Key")


@tap.case
def a_request_outlives_its_connection():
    ask = {"stream": True, "max_tokens": 40, "ignore_eos": True, "seed": 5, "temperature": 1}
    with serve("--resume-grace-ms", "600000") as g, serve() as other:
        g.wait_ready()
        other.wait_ready()
        want = text_of(post(g, **ask).body.decode())
        before = stats().requests_cancelled
        with cluster.held():
            c = begin(g, ["Idempotency-Key: life"], **ask)
            assert c.head().status == 200
            c.close()
            plain = begin(g, **ask)  # its cancel comes after the other's
            assert plain.head().status == 200
            plain.close()
            tap.wait_for(lambda: stats().requests_cancelled == before + 1, "the plain one is cancelled")
            assert in_flight() == 1, "the named one goes on"
            is_error(post(g, ["Idempotency-Key: life"], **{**ask, "seed": 6}), 422, "invalid_request_error")
            again = begin(g, ["Idempotency-Key: life"], **ask)
            assert again.head().status == 200
        body = b""
        while piece := again.chunk():
            body += piece
        assert text_of(body.decode()) == want
        assert stats().requests_cancelled == before + 1


@tap.case
def a_repetition_takes_the_answer_over():
    ask = {"stream": True, "max_tokens": 40, "ignore_eos": True, "seed": 5, "temperature": 1}
    with serve() as g:
        g.wait_ready()
        want = text_of(post(g, **ask).body.decode())
        with cluster.held():
            first = begin(g, ["Idempotency-Key: over"], **ask)
            assert first.head().status == 200
            second = begin(g, ["Idempotency-Key: over"], **ask)
            assert second.head().status == 200
            body = b""
            while piece := first.chunk():
                body += piece
            last = events_of(body.decode())[-1]
            assert last["error"]["code"] == 409 and "sent again" in last["error"]["message"], last
            wrong = post(g, ["Idempotency-Key: over"], **{**ask, "max_tokens": 41})
            is_error(wrong, 422, "invalid_request_error")
        body = b""
        while piece := second.chunk():
            body += piece
        assert text_of(body.decode()) == want


@tap.case
def the_grace_ends():
    with serve("--resume-grace-ms", "50") as g:
        g.wait_ready()
        before = stats().requests_cancelled
        with cluster.held():
            c = begin(g, ["Idempotency-Key: short"], stream=True, ignore_eos=True)
            assert c.head().status == 200
            c.close()
            tap.wait_for(lambda: stats().requests_cancelled == before + 1, "it is cancelled after the grace")


@tap.case
def another_gateway_without_keys():
    """The same POST gets the same answer, though no seed was given: also when the first gateway has ended."""
    for args, other, same in (([], [], True), (["--api-key", "one"], ["--api-key", "one"], True),
                              (["--api-key", "one"], ["--api-key", "two"], False), ([], ["--api-key", "one"], False)):
        key, texts = f"Idempotency-Key: {args}{other}", []
        for options in (args, other):
            with serve(*options) as g:
                g.wait_ready()
                texts.append(post(g, [key, f"Authorization: Bearer {options[-1] if options else 'none'}"], temperature=1,
                                  max_tokens=40, ignore_eos=True).json["choices"][0]["text"])
        assert (texts[0] == texts[1]) == same, (args, other, texts)


def own_address():
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
        except OSError:
            raise tap.Skip("needs a network address besides loopback")
        return s.getsockname()[0]


@tap.case
def without_keys_only_from_this_machine():
    with serve("--http", "0.0.0.0:0", "--allow-remote", "--host", "*") as g:
        g.wait_ready()
        assert post(g, ["Idempotency-Key: here"]).status == 200
        assert post(g, ["X-Request-Id: here"]).status == 200
        is_error(post(g, priority=1), 403, "permission_error")
    address = own_address()
    with Gateway("--connect", cluster.endpoint, "--http", f"{address}:0", "--allow-remote") as g:
        port = int(g.process.stderr.readline().strip().rsplit(":", 1)[1])  # the line of the second address
        g.wait_ready()
        with Client((address, port)) as c:
            body = json.dumps(PROMPT).encode()
            for extra, status in (("", 200), ("Idempotency-Key: there\r\n", 403)):
                c.send(f"POST {COMPLETIONS} HTTP/1.1\r\nHost: {address}\r\n{extra}"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                a = c.answer()
                assert a.status == status, a
            assert "this machine" in json.loads(a.body)["error"]["message"]


# ---- ingot serve ----

@tap.case
def serve_shares_the_secret():
    path, (alice,) = key_file("served", ["--for", "alice", "--requests", "1"])
    with Cluster(DEMO, http="127.0.0.1:0", extra=["--api-keys", path]) as c:
        def port():
            found = [line for line in c.log().splitlines() if "HTTP at http://" in line]
            return found and int(found[0].split("/v1")[0].rsplit(":", 1)[1])
        with Client(("127.0.0.1", tap.wait_for(port, "the address"))) as http:
            tap.wait_for(lambda: http.get("/ready").status == 200, "the gateway's connection to the coordinator")
            a = http.post(COMPLETIONS, json.dumps(PROMPT).encode(), alice)
            assert a.status == 200, a
            assert http.post(COMPLETIONS, json.dumps(PROMPT).encode()).status == 401


if __name__ == "__main__":
    with stack:
        folder = stack.enter_context(temp_dir.folder())
        secret = os.path.join(folder, "secret")
        with open(secret, "w") as f:
            f.write("the secret of this test\n")
        cluster = stack.enter_context(Parts(DEMO, coordinator=["--tenants-secret", secret]))
        tap.main()
