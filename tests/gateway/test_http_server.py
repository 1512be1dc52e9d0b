"""The HTTP server over sockets: keep-alive, pipelining, bodies, time limits, abandoned and slow clients, draining,
many connections.  Nothing here depends on how fast the machine is."""
import json
import os
import random
import re
import resource
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap
from http_client import PATIENCE, Closed, Deadline, Server, is_last


def error_of(answer):
    assert answer.headers["content-type"] == "application/json", answer
    error = json.loads(answer.body)["error"]
    assert error["code"] == answer.status and error["param"] is None and error["message"], error
    return error


# ---- connections ----

@tap.case
def keep_alive():
    with Server() as s, s.connect() as c:
        for i in range(20):
            a = c.get(f"/echo?{i}")
            assert (a.status, a.reason) == (200, "OK") and a.headers["x-echo"] == str(i), a
            assert "connection" not in a.headers and a.headers["date"].endswith(" GMT"), a
        assert s.counts()["accepted"] == 2


@tap.case
def connection_close():
    with Server() as s:
        with s.connect() as c:
            assert is_last(c, c.get("/echo", "Connection: close"))
        with s.connect() as c:
            assert is_last(c, c.get("/echo", version="1.0"))
        with s.connect() as c:
            for _ in range(3):
                a = c.get("/echo", "Connection: keep-alive", version="1.0")
                assert a.headers["connection"] == "keep-alive", a


@tap.case
def head_has_no_body():
    with Server() as s, s.connect() as c:
        whole = c.get("/echo")
        a = c.get("/echo", method="HEAD")
        assert a.headers["content-length"] == str(len(whole.body) + 1), a  # "HEAD" for "GET"
        a = c.get("/stream?3", method="HEAD")
        assert a.headers["transfer-encoding"] == "chunked", a
        assert c.get("/echo").body == whole.body


@tap.case
def pipelined_requests_are_answered_in_order():
    n = 300
    with Server() as s, s.connect() as c:
        c.send("".join(f"GET /echo?{i} HTTP/1.1\r\nHost: localhost\r\n\r\n" for i in range(n)))
        for i in range(n):
            assert c.answer().headers["x-echo"] == str(i)


@tap.case
def a_pipelined_request_waits_for_the_answer_before_it():
    with Server() as s, s.connect() as c:
        c.request("/wait")
        c.request("/echo?second")
        c.request("/events?2")
        assert s.until(lambda n: n["pending"] == 2)["served"] == s.counts()["served"] - 1  # /wait and /counts alone
        assert s.get("/release").status == 200
        assert c.answer().body == b"released\n"
        assert c.answer().headers["x-echo"] == "second"
        assert c.answer().body == b"data: 0\n\ndata: 1\n\n"


@tap.case
def a_pipeline_without_a_reader_is_bounded():
    with Server("max_output=20000") as s, s.connect() as c:
        c.sock.settimeout(0.5)
        sent = 0
        try:
            while sent < 1 << 28:
                sent += c.sock.send(b"GET /bytes?10000 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        except TimeoutError:
            pass
        assert sent < 1 << 28, "the server reads requests whose answers are not taken"
        c.sock.settimeout(PATIENCE)
        assert len(c.answer().body) == 10000
        assert s.get("/echo").status == 200


@tap.case
def requests_before_a_half_close_are_answered():
    with Server() as s, s.connect() as c:
        c.request("/echo?1")
        c.request("/echo?2")
        c.request("/stream?3")
        c.sock.shutdown(socket.SHUT_WR)
        assert [c.answer().headers["x-echo"] for _ in range(2)] == ["1", "2"]
        assert c.answer().body == b"0\n1\n2\n"
        assert c.is_closed()


@tap.case
def a_half_request_then_close():
    with Server() as s:
        for data in ("GET", "GET / HTTP/1.1\r\nHost: a\r\n", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"):
            with s.connect() as c:
                c.send(data)
                c.sock.shutdown(socket.SHUT_WR)
                assert c.is_closed()
        s.until(lambda n: n["connections"] == 1)


# ---- bodies ----

@tap.case
def bodies():
    with Server() as s, s.connect() as c:
        assert c.post("/echo", b"hello", "X-Test: a b", "Content-Type: text/x").body == \
            b"POST /echo? host=localhost\nx-test: a b\ncontent-type: text/x\nhello"
        big = bytes(range(256)) * 20000
        assert c.post("/echo", big).body.endswith(big)
        c.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"ab", b"c" * 70000, b"\r\n"):
            c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        c.send("0\r\nX-Trailer: 1\r\n\r\n")
        assert c.answer().body.endswith(b"\nab" + b"c" * 70000 + b"\r\n")
        for byte in b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nxyz":
            c.send(bytes([byte]))
        assert c.answer().body.endswith(b"\nxyz")


@tap.case
def expect_100_continue():
    with Server("max_body=10") as s:
        with s.connect() as c:
            c.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            assert c.answer().status == 100
            c.send("abc")
            assert c.answer().body.endswith(b"\nabc")
            c.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
            a = c.answer()  # the body was there: no need for 100
            assert a.status in (100, 200)
            if a.status == 100:
                a = c.answer()
            assert a.body.endswith(b"\nabc")
        for header in ("Expect: 100-continue\r\nContent-Length: 11", "Expect: tea\r\nContent-Length: 1"):
            with s.connect() as c:
                c.send(f"POST /echo HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n")
                a = c.answer()
                assert a.status in (413, 417) and is_last(c, a), a


@tap.case
def a_refused_body_does_not_take_the_answer_with_it():
    with Server("max_body=1000") as s, s.connect() as c:
        c.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n")
        try:
            for _ in range(100):
                c.send(b"x" * 50000)
        except OSError:
            raise AssertionError("the server reset the connection while the body was on its way")
        a = c.answer()
        assert a.status == 413 and error_of(a)["type"] == "invalid_request_error"
        assert is_last(c, a)


@tap.case
def all_bodies_together_are_bounded():
    with Server("max_body_memory=1000000", "max_body=2000000") as s, s.connect() as first, s.connect() as second:
        assert first.post("/echo", b"x" * 400000).status == 200
        first.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n" + "x" * 500000)
        s.until(lambda n: n["connections"] == 3)
        second.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n")
        try:
            second.send(b"x" * 2000000)
        except OSError:
            pass
        a = second.answer()
        assert a.status == 503 and a.headers["retry-after"] == "1" and is_last(second, a), a
        assert s.get("/echo").status == 200


@tap.case
def malformed_requests_are_answered_and_end_the_connection():
    rows = [("nonsense\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/2.0\r\n\r\n", 505),
            ("BREW / HTTP/1.1\r\n", 501), ("GET /" + "a" * 9000, 414), ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 411),
            ("GET / HTTP/1.1\r\n" + "A: b\r\n" * 101, 431), ("GET / HTTP/1.1\r\nA: " + "b" * 70000, 431),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
            ("GET /echo?1 HTTP/1.1\r\nHost: localhost\r\n\r\nnonsense\r\n", 400)]
    with Server() as s:
        for data, status in rows:
            with s.connect() as c:
                c.send(data)
                a = c.answer()
                if "echo" in data:
                    assert a.headers["x-echo"] == "1"
                    a = c.answer()
                assert a.status == status, (data[:60], a)
                error_of(a)
                assert is_last(c, a)


@tap.case
def an_unknown_path_is_not_the_end():
    with Server() as s, s.connect() as c:
        assert error_of(c.get("/nowhere"))["type"] == "not_found_error"
        assert c.get("/echo").status == 200


@tap.case
def hostile_bytes_do_not_disturb_a_stream():
    r = random.Random(5)
    bases = [b"GET /echo?x HTTP/1.1\r\nHost: localhost\r\n\r\n",
             b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
             b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
             b"HEAD /stream?3 HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
             b"GET /events?2 HTTP/1.0\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"]
    pieces = [b"\r", b"\n", b"\r\n", b"\0", b" ", b":", b"\t", b"\xff", b"%00", b"Content-Length: 3\r\n", b"9" * 30,
              b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"chunked", b"HTTP/1.1", b"a" * 9000, b"/"]
    statuses = set()
    with Server("comment_ms=0") as s, s.connect() as stream:
        stream.request("/events")
        stream.head()
        for _ in range(3000):
            data = b"".join(r.choice(bases) for _ in range(r.choice([1, 1, 2, 5])))
            for _ in range(r.choice([1, 2, 4])):
                at = r.randrange(len(data) + 1)
                data = data[:at] + r.choice(pieces + [b""]) + data[at + r.choice([0, 1, 5]):]
            with s.connect() as c:
                try:
                    c.send(data)
                    c.sock.shutdown(socket.SHUT_WR)
                    answer = c.rest()
                except OSError:
                    continue  # it has been refused and closed meanwhile
            statuses.add(answer[9:12])
            assert not answer or re.match(rb"HTTP/1\.1 [1-5]\d\d ", answer), (data, answer)
        assert {b"200", b"400", b"414"} <= statuses, statuses
        assert s.until(lambda x: x["connections"] == 2)["pending"] == 2
        s.get("/release")
        assert stream.chunk() == b""


# ---- streams ----

@tap.case
def event_streams():
    with Server() as s, s.connect() as c:
        a = c.get("/events?3")
        assert a.chunks == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"], a
        assert a.headers["content-type"] == "text/event-stream" and a.headers["cache-control"] == "no-cache", a
        assert a.headers["x-accel-buffering"] == "no"
        assert c.get("/events?0").body == b""
        assert c.get("/echo").status == 200


@tap.case
def a_stream_in_http_1_0_ends_with_its_connection():
    with Server() as s, s.connect() as c:
        a = c.get("/stream?3", "Connection: keep-alive", version="1.0")
        assert a.body == b"0\n1\n2\n" and "transfer-encoding" not in a.headers, a
        assert a.headers["connection"] == "close"


@tap.case
def comments_fill_silences():
    with Server("comment_ms=20") as s, s.connect() as c, s.connect() as plain:
        c.request("/events")
        plain.request("/stream")
        assert c.head().status == 200 and plain.head().status == 200
        for _ in range(3):
            assert c.chunk() == b": keep-alive\n\n"
        s.get("/release")
        while (piece := c.chunk()) == b": keep-alive\n\n":
            pass
        assert piece == b""
        assert plain.chunk() == b"", "plain streams have no comments"


@tap.case
def a_cut_answer_is_seen_to_be_cut():
    with Server() as s:
        for version in ("1.1", "1.0"):
            with s.connect() as c:
                c.request("/abort", version=version)
                try:
                    c.answer()
                    raise AssertionError("the answer looks whole")
                except (Closed, ConnectionResetError):
                    pass
        assert s.get("/echo").status == 200


# ---- clients that go away or do not read ----

@tap.case
def a_client_that_goes_is_noticed():
    with Server() as s:
        n = 0
        for path in ("/wait", "/events"):
            for leave in ("close", "reset", "half", "pipelined", "much"):
                c = s.connect()
                c.request(path)
                if path == "/events":
                    c.head()
                s.until(lambda x: x["pending"] == 2)
                if leave == "pipelined":
                    c.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
                if leave == "much":  # more than the server reads ahead: the end waits in its kernel
                    c.send(b"x" * 100000)
                if leave == "half":
                    c.sock.shutdown(socket.SHUT_WR)
                elif leave == "reset":
                    c.reset()
                else:
                    c.close()
                n += 1
                s.until(lambda x: x["gone"] == n and x["pending"] == 1)
                c.close()
        s.until(lambda x: x["connections"] == 1)


@tap.case
def two_hundred_abandoned_streams():
    with Server() as s:
        clients = [s.connect() for _ in range(200)]
        for c in clients:
            c.request("/events")
        for c in clients:
            c.head()
        assert s.counts()["pending"] == 201
        for c in clients:
            c.close()
        s.until(lambda x: x["gone"] == 200 and x["connections"] == 1)


@tap.case
def a_slow_reader_costs_bounded_memory():
    with Server("max_output=100000") as s, s.connect() as c:
        c.request("/flood")
        s.until(lambda x: x["pending"] == 2)
        for _ in range(50):
            assert s.get("/echo").status == 200  # the others do not wait
        assert s.counts()["sent"] < 32 << 20  # the buffers of two kernels, and max_output
        for _ in range(5000):  # the flood goes on when the client reads
            assert c.take(10000)
        counts = s.counts()
        assert 50000000 < counts["sent"] < 50000000 + (32 << 20), counts


def resident(s):
    with open(f"/proc/{s.process.pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


@tap.case
def a_client_that_takes_nothing_is_dropped():
    with Server("stall_ms=2000", "max_output=100000") as s:
        with s.connect() as c, s.connect() as whole:
            c.request("/flood")
            whole.request("/bytes?50000000")
            s.until(lambda x: x["gone"] == 1 and x["connections"] == 1)


@tap.case
def what_waits_for_all_clients_is_bounded():
    """The connection for which most waits is cut; an answer that is large and read arrives whole, small ones at once."""
    with Server("max_output_memory=40000000") as s, s.connect() as slow, s.connect() as slowest, s.connect() as reader:
        for n in (0, 1, 65535, 65536, 1000000):
            assert reader.get(f"/bytes?{n}").body == (b"0123456789" * (n // 10 + 1))[:n], n
        slow.request("/bytes?25000000")
        s.until(lambda n: n["output"] > 10000000)
        slowest.request("/bytes?60000000")
        s.until(lambda n: n["connections"] == 3)  # slow, reader and the one that asks
        assert 10000000 < s.counts()["output"] < 25000000
        try:
            assert len(slowest.rest()) < 60000000
        except ConnectionResetError:
            pass
        assert reader.get("/bytes?100000").status == 200
        assert slow.answer().body == b"0123456789" * 2500000
        s.until(lambda n: n["output"] == 0)


# ---- time limits ----

@tap.case
def slow_heads_and_bodies():
    with Server("head_ms=1000", "body_ms=1000") as s:
        for data in ("G", "GET / HTTP/1.1\r\nHost:", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n"):
            with s.connect() as c:
                c.send(data)
                a = c.answer()
                assert a.status == 408 and is_last(c, a), a


@tap.case
def a_trickle_does_not_help():
    """One byte now and then: the head has one time limit for all of it."""
    with Server("head_ms=1000") as s, s.connect() as c:
        c.sock.settimeout(0.01)
        deadline = Deadline()
        c.send("GET / HTTP/1.1\r\nX: ")
        while True:
            try:
                c.send("x")
                c.fill()
                break
            except TimeoutError:
                deadline.check("the server waits for ever")
        c.sock.settimeout(PATIENCE)
        assert c.answer().status == 408


@tap.case
def idle_connections_end():
    with Server("idle_ms=1000") as s, s.connect() as c, s.connect() as used:
        assert used.get("/echo").status == 200
        assert c.is_closed() and used.is_closed()


@tap.case
def a_pending_answer_has_no_time_limit():
    with Server("idle_ms=500", "head_ms=500", "body_ms=500", "stall_ms=500", "comment_ms=0") as s, s.connect() as c, s.connect() as d:
        c.request("/wait")
        d.request("/events")
        d.head()
        with s.connect() as idle:
            assert idle.is_closed()
        with s.connect() as idle:
            assert idle.is_closed()
        assert s.get("/release").status == 200
        assert c.answer().body == b"released\n" and d.chunk() == b""


# ---- limits ----

@tap.case
def too_many_connections_are_told():
    with Server("max_connections=3") as s:
        clients = [s.connect() for _ in range(3)]
        for c in clients:
            assert c.get("/echo").status == 200
        with s.connect() as c:
            a = c.get("/echo")
            assert a.status == 503 and a.headers["retry-after"] == "1" and is_last(c, a), a
        clients.pop().close()
        deadline = Deadline()
        while True:
            with s.connect() as c:
                if c.get("/echo").status == 200:
                    break
            deadline.check("the place is not free again")
        for c in clients:
            assert c.get("/echo").status == 200
            c.close()


@tap.case
def two_thousand_idle_connections():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        raise tap.Skip("the limit of open files is too low")
    with Server() as s:  # with the soft limit of before: the server raises its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        before = resident(s)
        clients = [s.connect() for _ in range(2000)]
        s.until(lambda x: x["connections"] == 2001)
        each = (resident(s) - before) // 2000
        print(f"   {each} bytes resident for an idle connection")
        assert each < 8192
        for c in clients[::100]:
            assert c.get("/echo").status == 200
        for c in clients:
            c.close()
        s.until(lambda x: x["connections"] == 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@tap.case
def bad_options():
    rows = [(["127.0.0.1"], "range"), (["127.0.0.1:99999"], "range"), ([":80"], "range"), (["::1:80"], "range"),
            (["127.0.0.1:http"], "range"), (["256.0.0.1:0"], "io"), (["127.0.0.1:0", "cert=x"], "range"),
            (["127.0.0.1:0", "cert=/nonexistent", "key=/nonexistent"], "io"), (["[127.0.0.1:0"], "range")]
    for args, kind in rows:
        with Server(*args) as s:
            assert s.line.startswith(kind + ": "), (args, s.line)
    with Server() as first, Server(first.addresses[0]) as second:
        assert second.line.startswith(f"busy: {first.addresses[0]}: Address already in use"), second.line


@tap.case
def several_addresses():
    if not socket.has_ipv6:
        raise tap.Skip("no IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        raise tap.Skip("no IPv6 on loopback")
    with Server("127.0.0.1:0", "[::1]:0") as s:
        assert s.addresses[0].startswith("127.0.0.1:") and s.addresses[1].startswith("[::1]:")
        for i in range(2):
            with s.connect(i) as c:
                assert c.get("/echo").status == 200


# ---- draining ----

@tap.case
def drain():
    with Server("comment_ms=0") as s:
        idle, used, waiting, stream, half = (s.connect() for _ in range(5))
        used.get("/echo")
        waiting.request("/wait")
        stream.request("/events")
        assert stream.head().status == 200
        half.send("GET /release HTTP/1.1\r\nHost: local")
        s.until(lambda x: x["pending"] == 3)
        assert s.get("/drain").headers["connection"] == "close"
        assert idle.is_closed() and used.is_closed()
        try:
            s.connect().close()
            raise AssertionError("it still listens")
        except ConnectionRefusedError:
            pass
        half.send("host\r\n\r\n")  # what has begun is served
        a = half.answer()
        assert a.status == 200 and is_last(half, a)
        a = waiting.answer()
        assert a.body == b"released\n" and is_last(waiting, a)
        assert stream.chunk() == b"" and stream.is_closed()
        for c in (idle, used, waiting, stream, half):
            c.close()
        assert s.ended() == "ended\n"


@tap.case
def drain_without_connections():
    with Server() as s:
        with s.connect() as c:
            c.request("/drain", "Connection: close")
            c.answer()
        assert s.ended() == "ended\n"


if __name__ == "__main__":
    tap.main()
