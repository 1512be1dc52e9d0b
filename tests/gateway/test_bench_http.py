"""ingot bench --http: its figures agree with the server's, and answers that break a rule are errors."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from scrape import one_histogram, scrape, value  # noqa: E402

INGOT = os.path.join(os.environ["INGOT_BIN"], "ingot")


def bench(url, *args):
    p = subprocess.run([INGOT, "bench", "--http", url, "--json", *map(str, args)], capture_output=True, text=True,
                       timeout=tap.LIMIT)
    return p.returncode, json.loads(p.stdout) if p.stdout else None, p.stderr


@tap.case
def the_figures_are_the_servers():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint, "--api-key", "secret") as g:
        g.wait_ready()
        args = ["--concurrency", 5, "--requests", 20, "--max-tokens", 30, "--prompt-tokens", 40]
        rc, r, err = bench(f"http://127.0.0.1:{g.port}/", *args, "--api-key", "secret", "--model-name", "demo-model")
        assert rc == 0 and (r["finished"], r["failed"], r["lost"], r["doubled"], r["gaps"]) == (20, 0, 0, 0, 0), (r, err)
        assert r["completion_tokens"] == 600 and r["prompt_tokens"] == 800
        f = scrape(g)
        assert value(f, "ingot_generation_tokens") == 600
        assert one_histogram(f, "ingot_time_to_first_token_seconds")["count"] == r["ttft_ms"]["count"] == 20
        assert value(f, "ingot_http_accepted") < 5 + 20, "connections are used again"
        rc, r, _ = bench(f"http://127.0.0.1:{g.port}", *args)
        assert rc == 4 and r["failed"] == 20 and r["first_error"].startswith("HTTP status 401: "), r


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = b'data: {"choices":[{"index":0,"text":"Hi","finish_reason":null}]}\n\n'
LAST = (b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\n')
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"
GOOD = HEAD + chunk(b": keep-alive\n\n" + TEXT) + chunk(LAST + DONE) + END


def against(*answers):
    """The bench before a server that gives these answers, one a request on one connection."""
    def serve():
        with listener, listener.accept()[0] as s:
            for answer in answers:
                got = b""
                while b"\r\n\r\n" not in got or not got.endswith(b"}"):
                    data = s.recv(65536)
                    if not data:
                        return
                    got += data
                s.sendall(answer)
            while s.recv(65536):
                pass

    listener = socket.create_server(("127.0.0.1", 0))
    t = threading.Thread(target=serve)
    t.start()
    result = bench(f"http://127.0.0.1:{listener.getsockname()[1]}", "--concurrency", 1, "--requests", 2,
                   "--max-tokens", 3, "--prompt-tokens", 2)
    t.join()
    return result


@tap.case
def good_answers_in_any_pieces():
    bytewise = HEAD + b"".join(chunk(bytes([b])) for b in TEXT + LAST + DONE) + END
    for first in (GOOD, bytewise):
        rc, r, err = against(first, GOOD)
        assert rc == 0 and r["finished"] == 2 and r["completion_tokens"] == 6, (r, err)
    rc, r, err = against(BUSY, GOOD, GOOD)
    assert rc == 0 and r["finished"] == 2 and r["retried"] == 1, (r, err)


@tap.case
def what_breaks_a_rule_is_an_error():
    rows = {
        "without [DONE]": HEAD + chunk(TEXT + LAST) + END,
        "comes after [DONE]": HEAD + chunk(TEXT + LAST + DONE + TEXT) + END,
        "not one line": HEAD + chunk(b"data: {}\ndata: {}\n\n") + END,
        "no event stream": HEAD.replace(b"text/event-stream", b"text/html") + END,
        "not chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "no answer of HTTP/1.1": b"HTTP/1.0 200 OK\r\n\r\n",
        "a chunk of size": HEAD + b"zz\r\n",
        "does not end with CRLF": HEAD + b"2\r\nabcd\r\n",
        "bytes after an answer": GOOD + b"more",
        "second one of an answer": HEAD + chunk(LAST + LAST + DONE) + END,
        "unexpected": HEAD + chunk(b"data: {]\n\n") + END,
    }
    for text, answer in rows.items():
        rc, r, err = against(answer, b"")
        assert rc not in (0, 130) and (text in err or text == "unexpected"), (text, rc, r, err)
    rc, r, err = against(HEAD + chunk(b'data: {"error":{"message":"no more"}}\n\n' + DONE) + END, GOOD)
    assert rc == 4 and r["failed"] == 1 and r["finished"] == 1 and r["first_error"] == "no more", (r, err)
    few = HEAD + chunk(TEXT + LAST.replace(b'"completion_tokens":3', b'"completion_tokens":2') + DONE) + END
    rc, r, _ = against(few, GOOD)
    assert rc == 4 and r["gaps"] == 1, r


@tap.case
def bad_urls_are_named():
    for url in ("https://localhost:1", "localhost:80", "http://", "http://:80", "http://h:123456", "http://[::1:80"):
        rc, _, err = bench(url)
        assert rc == 2 and url in err, (url, rc, err)
    rc, _, err = bench("http://127.0.0.1:1")
    assert rc in (1, 3) and "cannot connect" in err, (rc, err)


if __name__ == "__main__":
    tap.main()
