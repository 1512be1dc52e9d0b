"""Who may ask the HTTP server: Host, CORS, TLS."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap
import temp_dir
from http_client import Client, Server, is_last, trusting


# ---- Host and Origin ----

@tap.case
def hosts():
    with Server("host=ingot.example") as s:
        for host, status in [("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1:80", 200), ("127.9.9.9", 200),
                             ("[::1]:8080", 200), ("a.localhost", 200), ("localhost.", 200), ("", 200),
                             ("ingot.example", 200), ("Ingot.Example:8080", 200), ("evil.example", 403),
                             ("192.0.2.1", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403),
                             ("notlocalhost", 403), ("[2001:db8::1]", 403), ("x" * 300, 403)]:
            with s.connect() as c:
                c.send(f"GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n")
                assert c.answer().status == status, host
        with s.connect() as c:
            c.send("GET http://evil.example/echo HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert c.answer().status == 403, "the target's host counts"
    with Server("0.0.0.0:0") as s:
        for host, status in [("192.0.2.1:80", 200), ("evil.example", 403), ("[2001:db8::1]", 200)]:
            with Client(("127.0.0.1", int(s.addresses[0].split(":")[1]))) as c:
                c.send(f"GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n")
                assert c.answer().status == status, host
    with Server("host=*") as s, s.connect() as c:
        c.send("GET /echo HTTP/1.1\r\nHost: anything.example\r\n\r\n")
        assert c.answer().status == 200


@tap.case
def origins():
    with Server("origin=https://app.example") as s:
        for origin, allowed in [("http://localhost:3000", True), ("https://127.0.0.1", True), ("http://[::1]:5173", True),
                                ("http://x.localhost", True), ("https://app.example", True),
                                ("https://APP.example", True), ("http://app.example", False),
                                ("https://app.example:8443", False), ("https://evil.example", False),
                                ("http://localhost.evil.example", False), ("http://localhost@evil.example", False),
                                ("http://evil.example/localhost", False), ("null", False), ("", False),
                                ("file://", False), ("chrome-extension://localhost", False)]:
            with s.connect() as c:
                a = c.get("/echo", f"Origin: {origin}")
                assert a.status == (200 if allowed else 403), (origin, a)
                assert a.headers.get("access-control-allow-origin") == (origin if allowed else None), a
                if allowed:
                    assert a.headers["vary"] == "Origin"
                    a = c.get("/events?1", f"Origin: {origin}")
                    assert a.headers["access-control-allow-origin"] == origin, a
        with s.connect() as c:
            assert "access-control-allow-origin" not in c.get("/echo").headers
            c.send("GET /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n\r\n")
            assert c.answer().status == 200
    with Server("host=ingot.example") as s, s.connect() as c:
        c.send("GET /echo HTTP/1.1\r\nHost: ingot.example:80\r\nOrigin: http://ingot.example:80\r\n\r\n")
        assert c.answer().status == 200, "a page of this server's own"
    with Server("origin=*") as s, s.connect() as c:
        assert c.get("/echo", "Origin: https://any.example").headers["access-control-allow-origin"] == "https://any.example"
        assert c.get("/echo", "Origin: null").headers["access-control-allow-origin"] == "null"


@tap.case
def compressed_bodies():
    with Server() as s:
        for coding, status in (("identity", 200), ("Identity", 200), ("gzip", 415), ("br, gzip", 415)):
            with s.connect() as c:
                c.send(f"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\nContent-Length: 2\r\n\r\n{{}}")
                assert c.answer().status == status, coding


@tap.case
def preflight():
    with Server() as s, s.connect() as c:
        a = c.get("/v1/chat", "Origin: http://localhost:3000", "Access-Control-Request-Method: POST",
                  "Access-Control-Request-Headers: authorization, content-type", method="OPTIONS")
        assert a.status == 200 and a.body == b"", a
        assert a.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "POST" in a.headers["access-control-allow-methods"]
        assert a.headers["access-control-allow-headers"] == "authorization, content-type"
        a = c.get("*", method="OPTIONS")
        assert a.status == 200 and "GET" in a.headers["allow"] and "access-control-allow-methods" not in a.headers
        a = c.get("/v1/chat", "Origin: https://evil.example", "Access-Control-Request-Method: POST", method="OPTIONS")
        assert a.status == 403 and "access-control-allow-origin" not in a.headers


@tap.case
def a_header_cannot_be_split():
    with Server() as s, s.connect() as c:
        a = c.get("/echo?a%0d%0aX-Evil:1")
        assert a.headers["x-echo"] == "a%0d%0aX-Evil:1" and "x-evil" not in a.headers


# ---- TLS ----

def certificate(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    except FileNotFoundError:
        raise tap.Skip("needs the openssl command")
    return cert, key


@tap.case
def tls():
    with temp_dir.folder() as folder:
        cert, key = certificate(folder)
        with Server(f"cert={cert}", f"key={key}", "stall_ms=2000", "max_output=100000", context=trusting(cert)) as s:
            with s.connect() as c:
                assert c.sock.version() in ("TLSv1.2", "TLSv1.3")
                for i in range(3):
                    assert c.get(f"/echo?{i}").headers["x-echo"] == str(i)
                big = b"x" * 1000000
                assert c.post("/echo", big).body.endswith(big)
                assert c.get("/events?3").body == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
                c.send("".join(f"GET /echo?{i} HTTP/1.1\r\nHost: localhost\r\n\r\n" for i in range(50)))
                assert [c.answer().headers["x-echo"] for _ in range(50)] == [str(i) for i in range(50)]
                assert is_last(c, c.get("/echo", "Connection: close"))
            for n, path in enumerate(("/wait", "/events")):
                c = s.connect()
                c.request(path)
                s.until(lambda x: x["pending"] == 2)
                c.close()
                s.until(lambda x: x["gone"] == n + 1)
            with s.connect() as c:  # a slow reader: told to pause, then dropped
                c.request("/flood")
                for _ in range(500):
                    assert c.take(10000)
                s.until(lambda x: x["gone"] == 3)


@tap.case
def a_silent_tls_connection_is_not_a_stalled_one():
    with temp_dir.folder() as folder:
        cert, key = certificate(folder)
        with Server(f"cert={cert}", f"key={key}", "stall_ms=500", "idle_ms=2000", context=trusting(cert)) as s:
            with s.connect() as waiting, s.connect() as idle:
                assert idle.get("/echo").status == 200
                waiting.request("/wait")
                assert idle.is_closed()  # after idle_ms, not stall_ms: 4 times as long
                assert s.get("/release").status == 200
                assert waiting.answer().body == b"released\n"


@tap.case
def strangers_to_tls():
    with temp_dir.folder() as folder:
        cert, key = certificate(folder)
        other = os.path.join(folder, "other")
        os.mkdir(other)
        _, other_key = certificate(other)
        with Server("127.0.0.1:0", f"cert={cert}", f"key={other_key}") as s:
            assert s.line.startswith("io: "), s.line
        with Server(f"cert={cert}", f"key={key}", "head_ms=200", context=trusting(cert)) as s:
            host, port = s.addresses[0].split(":")
            with Client((host, int(port))) as plain:
                plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                try:
                    plain.rest()
                except ConnectionResetError:
                    pass
            with Client((host, int(port))) as silent:
                assert silent.is_closed()  # the handshake has a time limit
            assert s.get("/echo").status == 200


if __name__ == "__main__":
    tap.main()
