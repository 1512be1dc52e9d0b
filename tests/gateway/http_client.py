"""The test server as a process, and a client of raw sockets that speaks HTTP one byte at a time if it must."""
import json
import os
import socket
import ssl
import subprocess
import time

BIN = os.path.join(os.environ["INGOT_BIN"], "http_test_server")
PATIENCE = 60  # seconds until a test gives up; nothing waits for it unless something is broken


class Server:
    """with Server("idle_ms=100") as s: s.connect() ...; listens at 127.0.0.1 unless addresses are given."""

    def __init__(self, *args, context=None):
        if not any("=" not in a for a in args):
            args = ("127.0.0.1:0",) + args
        self.context = context
        self.process = subprocess.Popen([BIN, *args], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.line = line.strip()
        self.addresses = self.line.split(" ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def connect(self, i=0):
        host, port = self.addresses[i].rsplit(":", 1)
        return Client((host.strip("[]"), int(port)), self.context)

    def get(self, path):
        with self.connect() as c:
            return c.get(path)

    def counts(self):
        return json.loads(self.get("/counts").body)

    def until(self, condition):
        """Asks for the counts until the condition holds."""
        deadline = Deadline()
        while not condition(counts := self.counts()):
            deadline.check(counts)
        return counts

    def ended(self):
        """Waits for the end of the process; its exit code must be 0."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.process.returncode
        return out


class Deadline:
    def __init__(self):
        self.end = time.monotonic() + PATIENCE

    def check(self, what):
        assert time.monotonic() < self.end, f"it took too long: {what}"
        time.sleep(0.01)


class Answer:
    def __init__(self, version, status, reason, headers):
        self.version, self.status, self.reason, self.headers = version, status, reason, headers
        self.body, self.chunks = b"", []

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:200]!r}"


class Closed(Exception):
    pass


class Client:
    def __init__(self, address, context=None):
        self.sock = socket.create_connection(address, timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        self.buffer = b""

    @classmethod
    def of(cls, sock):
        """Of a socket that is connected."""
        c = cls.__new__(cls)
        c.sock, c.buffer = sock, b""
        return c

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode()

    def take(self, n):
        while len(self.buffer) < n:
            self.fill()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def head(self):
        version, status, reason = self.line().split(" ", 2)
        headers = {}
        while line := self.line():
            name, value = line.split(": ", 1)
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value
        return Answer(version, int(status), reason, headers)

    def chunk(self):
        """The next chunk; b"" is the last."""
        data = self.take(int(self.line(), 16))
        assert self.line() == ""
        return data

    def answer(self, head_only=False):
        a = self.head()
        if head_only or a.status in (100, 204, 304):
            return a
        if a.headers.get("transfer-encoding") == "chunked":
            while data := self.chunk():
                a.chunks.append(data)
            a.body = b"".join(a.chunks)
        elif "content-length" in a.headers:
            a.body = self.take(int(a.headers["content-length"]))
        else:
            a.body = self.rest()
        return a

    def rest(self):
        """All until the server closes."""
        try:
            while True:
                self.fill()
        except Closed:
            data, self.buffer = self.buffer, b""
            return data

    def is_closed(self):
        """Waits for the end; nothing may come before it."""
        return self.rest() == b""

    def get(self, path, *headers, method="GET", version="1.1"):
        self.request(path, *headers, method=method, version=version)
        return self.answer(head_only=method == "HEAD")

    def request(self, path, *headers, method="GET", version="1.1", body=None):
        lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))

    def post(self, path, body, *headers):
        self.request(path, *headers, method="POST", body=body)
        return self.answer()


def trusting(cert):
    return ssl.create_default_context(cafile=cert)


def is_last(client, answer):
    """The answer says that the connection ends, and it does."""
    return answer.headers.get("connection") == "close" and client.is_closed()
