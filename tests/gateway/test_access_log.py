"""The access log: one line of JSON a request, whatever the requests hold and whatever becomes of the file."""
import json
import os
import signal
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap
import temp_dir
from gateway_process import GATEWAY, Gateway

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, "rb") as f:
        return [json.loads(line) for line in f.read().split(b"\n")[:-1]]


def wait_lines(path, n):
    tap.wait_for(lambda: len(lines(path)) >= n, f"{n} lines in the log")
    found = lines(path)
    assert len(found) == n, found
    return found


@tap.case
def one_line_a_request():
    with temp_dir.folder() as folder:
        path = os.path.join(folder, "log")
        with Gateway("--access-log", path, "--api-key", "very-secret") as g, g.connect() as c:
            key = "Authorization: Bearer very-secret"
            assert c.get("/health", "X-Request-Id: my-1", f"traceparent: {TRACE}").status == 200
            c.request("/v1/chat/completions", key, method="POST", body=b'{"messages": "private words"}')
            assert c.answer().status == 503
            assert c.get("/v1/models").status == 401
            assert c.get("/nothing", key).status == 404
            with g.connect() as bad:
                bad.send("GET / HTTP/7.1\r\n\r\n")
                assert bad.answer().status == 505
            a, b, refused, none, broken = wait_lines(path, 5)
            raw = open(path).read()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert a["id"] == "my-1" and a["trace"] == TRACE[3:35] and a["route"] == "/health" and a["status"] == 200, a
        assert a["method"] == "GET" and a["peer"].startswith("127.0.0.1:") and a["whole"] and a["time"].endswith("Z"), a
        assert b["status"] == 503 and b["bytes_in"] == 29 and b["bytes_out"] > 200 and b["total_ms"] >= 0, b
        assert "body" not in b and "private" not in raw and "very-secret" not in raw
        assert refused["status"] == 401 and refused["key"] is None and refused["route"] == "/v1/models", refused
        assert none["route"] == "other", none
        assert broken["status"] == 505 and "id" not in broken, broken


@tap.case
def request_ids_and_traces():
    with Gateway() as g, g.connect() as c:
        for good in ("x", "9" * 128, "a-b_c.d:e/f", "~!\"\\{}"):
            assert c.get("/health", f"X-Request-Id: {good}").headers["x-request-id"] == good
        made = set()
        for bad in ("", "a b", "a\tb", "9" * 129, "\xe9", "n\xc2\x85"):
            made.add(c.get("/health", f"X-Request-Id: {bad}").headers["x-request-id"])
        made.add(c.get("/health").headers["x-request-id"])
        assert len(made) == 7 and all(len(m) == 32 for m in made), made
        for good in (TRACE, "01-" + TRACE[3:] + "-more", "cc-" + TRACE[3:]):
            assert c.get("/health", f"traceparent: {good}").headers["traceparent"] == good[:55], good
        for bad in ("", "00", TRACE[:-1], TRACE + "0", TRACE + "-more", "ff-" + TRACE[3:], TRACE.upper(),
                    "00-" + "0" * 32 + TRACE[35:], TRACE[:36] + "0" * 16 + TRACE[52:], TRACE.replace("-", "_"),
                    "0g-" + TRACE[3:], "00-" + "g" * 32 + TRACE[35:]):
            assert "traceparent" not in c.get("/health", f"traceparent: {bad}").headers, bad


@tap.case
def prompts_only_when_asked_and_nothing_breaks_a_line():
    with temp_dir.folder() as folder:
        path = os.path.join(folder, "log")
        body = b'{"a":"\\n\x7f\x1b[31m\x00 \xc2\x9b \xff \xe2\x80\xa8"}\n{"forged": 1}'
        with Gateway("--access-log", path, "--log-prompts") as g, g.connect() as c:
            c.request("/v1/completions", method="POST", body=body)
            assert c.answer().status == 503
            c.request("/v1/completions", method="POST", body=b"x" * 100000)
            assert c.answer().status == 503
            first, second = wait_lines(path, 2)
            raw = open(path, "rb").read()
        assert first["body"] == body.decode(errors="replace"), first
        assert second["body"] == "x" * 65536 and second["bytes_in"] == 100000
        assert not [x for x in raw.replace(b"\n", b"") if x < 0x20 or x == 0x7f] and b"\xc2\x9b" not in raw


@tap.case
def hangup_opens_the_file_again():
    with temp_dir.folder() as folder:
        path = os.path.join(folder, "log")
        with Gateway("--access-log", path) as g, g.connect() as c:
            assert c.get("/health").status == 200
            wait_lines(path, 1)
            os.rename(path, path + ".1")
            g.process.send_signal(signal.SIGHUP)
            tap.wait_for(lambda: os.path.exists(path), "a new file")
            assert c.get("/health").status == 200
            wait_lines(path, 1)
            assert len(lines(path + ".1")) == 1
            os.rename(path, path + ".2")
            os.mkdir(path)  # it cannot be opened: the old file goes on
            g.process.send_signal(signal.SIGHUP)
            while "goes on" not in (line := g.process.stderr.readline()):
                assert line
            assert c.get("/health").status == 200
            wait_lines(path + ".2", 2)


@tap.case
def a_full_disk_harms_no_request():
    if not os.path.exists("/dev/full"):
        raise tap.Skip("needs /dev/full")
    with Gateway("--access-log", "/dev/full") as g, g.connect() as c:
        for _ in range(50):
            assert c.get("/health").status == 200
        while "could not be written" not in (line := g.process.stderr.readline()):
            assert line


@tap.case
def a_pipe_without_a_reader_harms_no_request():
    """One whose reader has gone, and one whose reader sleeps: the log's buffer fills, requests are served."""
    for reader_goes in (True, False):
        read, write = os.pipe()
        with Gateway("--access-log", "-", stdout=write) as g, g.connect() as c:
            os.close(write)
            if reader_goes:
                os.close(read)
            for _ in range(600):  # more than a pipe holds
                assert c.get("/health", "X-Request-Id: " + "i" * 128).status == 200
            c.close()
            g.process.send_signal(signal.SIGTERM)
            assert g.process.wait(timeout=tap.LIMIT) == 0
        if not reader_goes:
            os.close(read)


@tap.case
def what_cannot_be_opened_is_said():
    p = subprocess.run([GATEWAY, "--http", "127.0.0.1:0", "--access-log", "/nonexistent/log"], capture_output=True,
                       text=True, timeout=tap.LIMIT)
    assert p.returncode == 1 and "--access-log /nonexistent/log" in p.stderr, p


if __name__ == "__main__":
    tap.main()
