"""Many idle connections and many streams at once at one gateway: each stream's text is right, and its memory and descriptors
stay below bounds that are stated here."""
import contextlib
import json
import os
import pathlib
import re
import resource
import socket

from client_setup import KEY, STORY, Setup, tap
from api import Api
from http_client import Client
from scrape import scrape, value

IDLE, STREAMS, SEEDS = 10000, 256, 16
LEAST_IDLE = 1000  # with fewer the bounds would tell nothing
OWN_FILES = 192  # the gateway keeps some for all but connections, and so does this process
IDLE_BYTES, STREAM_BYTES = 4096, 64 << 10  # of the gateway's memory for each
setup = None


def raised_limit():
    """The soft limit of open files, raised to the hard one; children have what it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def memory_of(field):
    """VmRSS: now; VmHWM: the most that it was."""
    status = pathlib.Path(f"/proc/{setup.gateway.process.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024


def n_files():
    return len(os.listdir(f"/proc/{setup.gateway.process.pid}/fd"))


def n_connections():
    """Besides the one that asks."""
    return value(scrape(setup.gateway, f"Authorization: Bearer {KEY}"), "ingot_http_connections") - 1


def ask(seed):
    return {"messages": STORY, "max_tokens": 24, "temperature": 1, "seed": seed}


def text_of(body):
    events = body.decode()[:-2].split("\n\n")
    assert events[-1] == "data: [DONE]", events[-1]
    return "".join(json.loads(e[len("data: "):])["choices"][0]["delta"].get("content", "") for e in events[:-1])


@tap.case
def ten_thousand_idle_connections_and_streams():
    limit = raised_limit()
    n_idle = min(IDLE, limit - STREAMS - OWN_FILES)
    if n_idle < LEAST_IDLE:
        raise tap.Skip(f"the limit of open files is {limit}: too few for {LEAST_IDLE} connections and {STREAMS} streams")
    api = Api(setup.gateway, {"Authorization": f"Bearer {KEY}"})
    want = [api.ok("/v1/chat/completions", **ask(seed))["choices"][0]["message"]["content"] for seed in range(SEEDS)]
    assert len(set(want)) > SEEDS // 2
    memory, files = memory_of("VmRSS"), n_files()
    with contextlib.ExitStack() as stack:
        idle = []
        for _ in range(n_idle):
            s = socket.create_connection(("127.0.0.1", setup.gateway.port), timeout=tap.LIMIT)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no TIME_WAIT: other tests need ports
            idle.append(stack.enter_context(s))
        tap.wait_for(lambda: n_connections() == n_idle, "all idle connections are there")
        for_idle = memory_of("VmRSS") - memory
        with setup.cluster.held():  # no stream ends before all have begun
            streams = [stack.enter_context(setup.gateway.connect()) for _ in range(STREAMS)]
            for i, c in enumerate(streams):
                c.request("/v1/chat/completions", f"Authorization: Bearer {KEY}", method="POST",
                          body=json.dumps({**ask(i % SEEDS), "stream": True}).encode())
            tap.wait_for(lambda: n_connections() == n_idle + STREAMS, "all streams are there")
            tap.wait_for(lambda: (s := setup.stats()).running + s.waiting == STREAMS, "all of them run or wait")
            assert n_files() <= files + n_idle + STREAMS + 1, (files, n_files())
        texts = [text_of(c.answer().body) for c in streams]
        for_streams = memory_of("VmHWM") - memory - for_idle
        print(f"   {n_idle} idle connections: {for_idle // n_idle} bytes each; {STREAMS} streams: {for_streams // STREAMS} bytes each")
        assert texts == [want[i % SEEDS] for i in range(STREAMS)]
        assert for_idle <= n_idle * IDLE_BYTES and for_streams <= STREAMS * STREAM_BYTES
        for s in idle[::n_idle // 20]:  # they still serve
            assert Client.of(s).get("/health").status == 200
    tap.wait_for(lambda: n_connections() == 0 and n_files() <= files, "all descriptors are free again")
    assert api.ok("/v1/chat/completions", **ask(0))["choices"][0]["message"]["content"] == want[0]


if __name__ == "__main__":
    with Setup("--idle-ms", "86400000") as setup:
        tap.main()
