"""The gateway program: options, keys, its own paths, exit codes."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap
from gateway_process import GATEWAY, Gateway
from http_client import PATIENCE

def run(*args, env=None):
    return subprocess.run([GATEWAY, *args], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **(env or {})})


@tap.case
def health_and_version():
    with Gateway() as g, g.connect() as c:
        a = c.get("/health")
        assert a.status == 200 and a.body == b"", a
        assert c.get("/health", method="HEAD").status == 200
        version = json.loads(c.get("/version?x").body)["version"]
        assert run("--version").stdout.splitlines()[0] == f"ingot-gateway {version}"
        assert c.get("/nothing").status == 404
        c.request("/health", method="POST", body=b"{}")
        a = c.answer()
        assert a.status == 405 and a.headers["allow"] == "GET, HEAD", a


@tap.case
def keys():
    with Gateway("--api-key", "one", "--api-key", "two", env={"INGOT_API_KEY": "three"}) as g, g.connect() as c:
        assert c.get("/health").status == 200 and c.get("/version").status == 200
        for header in ("Authorization: Bearer one", "authorization: bearer two", "X-Api-Key: three",
                       "Authorization: Bearer   one"):
            assert c.get("/nothing", header).status == 404, header
        for header in ("X-None: 1", "Authorization: Bearer on", "Authorization: Bearer onee", "Authorization: one",
                       "Authorization: Basic one", "X-Api-Key:", "Authorization: Bearer", "X-Api-Key: ONE"):
            a = c.get("/nothing", header)
            assert a.status == 401 and json.loads(a.body)["error"]["type"] == "authentication_error", (header, a)
            assert a.headers["www-authenticate"] == "Bearer"


@tap.case
def names_of_the_server():
    """Users of another host write its name in the URL.  Without keys a name may be a stranger's page (DNS rebinding)."""
    for args, path, status in ([["--api-key", "k"], "/health", 200], [["--api-key", "k"], "/nothing", 401],
                               [[], "/health", 403], [["--host", "head.example"], "/health", 200]):
        with Gateway(*args) as g, g.connect() as c:
            c.send(f"GET {path} HTTP/1.1\r\nHost: head.example:8080\r\n\r\n")
            a = c.answer()
            assert a.status == status and (status != 403 or b"--host" in a.body), (args, path, a)


@tap.case
def who_may_reach_it():
    p = run("--http", "0.0.0.0:0")
    assert p.returncode == 2 and "--api-key" in p.stderr and "--allow-remote" in p.stderr, p
    for address in ("[::]:0", "192.0.2.1:0", "localhost.example:0"):
        assert run("--http", address).returncode == 2, address
    for args in (["--allow-remote"], ["--api-key", "k"]):
        with Gateway("--http", "0.0.0.0:0", *args):
            pass


@tap.case
def exit_codes():
    with Gateway() as g:
        p = run("--http", f"127.0.0.1:{g.port}")
        assert p.returncode == 3 and f"127.0.0.1:{g.port}: Address already in use" in p.stderr, p
        with g.connect() as c:
            assert c.get("/health").status == 200
            g.process.send_signal(signal.SIGTERM)
            assert c.is_closed()
        assert g.process.wait(timeout=PATIENCE) == 0
    assert run("--http", "nonsense").returncode == 2
    assert run("--https", "x").returncode == 2
    assert run("--tls-cert", "/nonexistent", "--tls-key", "/nonexistent", "--http", "127.0.0.1:0").returncode == 1
    assert run("--tls-cert", "/nonexistent", "--http", "127.0.0.1:0").returncode == 2


@tap.case
def help_and_configuration():
    p = run("--help")
    assert p.returncode == 0 and p.stdout.lower().startswith("usage: ingot-gateway") and "Exit codes" in p.stdout
    p = run("--print-config", "--max-body", "1M", "--cors", "*")
    assert p.returncode == 0 and "max-body = 1" in p.stdout and "idle-ms = 120000 (default)" in p.stdout, p.stdout


if __name__ == "__main__":
    tap.main()
