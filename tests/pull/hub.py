"""A stand-in for the hub: repositories with revisions, a list of files, large files by redirects to another address
(the store), ranges, tokens; and faults that a test orders.

    with Hub() as hub:
        hub.add("org/name", {"config.json": b"{}", "model.safetensors": bytes})
        hub.fault("store", Cut(1000), times=2)   # the next two answers of the store end after 1000 bytes
"""
import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import urllib.parse

LARGE = 4096  # bytes: from there on a file is a large one (LFS)


class Fault:
    pass


class Cut(Fault):
    """The connection breaks after that many bytes of the body; -1: in the middle of the headers, None: before them."""

    def __init__(self, after):
        self.after = after


class Status(Fault):
    def __init__(self, status, **headers):
        self.status, self.headers = status, headers


class Damage(Fault):
    """A byte of the body is another one."""


class Hold(Fault):
    """The body stops after that many bytes until release() is called."""

    def __init__(self, after):
        self.after, self.reached, self.gate = after, threading.Event(), threading.Event()

    def release(self):
        self.gate.set()


class NoRanges(Fault):
    """Answers a request for a range with the whole file."""


class Repo:
    def __init__(self, files, token, gated):
        self.files, self.token, self.gated = files, token, gated
        self.commit = hashlib.sha1(b"".join(sorted(p.encode() + b"\0" + d for p, d in files.items()))).hexdigest()
        self.listed = None  # another list of files than the true one


def digest(data):
    if len(data) >= LARGE:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, self.kind = self.server.hub, self.server.kind
        path = urllib.parse.unquote(self.path)
        if self.kind == "hub":
            self.kind = "api" if path.startswith("/api/") else "file"
        hub.requests.append((self.kind, self.command, path, dict(self.headers)))
        self.fault = hub.next_fault(self.kind, path)
        if isinstance(self.fault, Cut) and self.fault.after is None:
            return self.break_off()
        if isinstance(self.fault, Status):
            headers = {k.replace("_", "-"): str(v) for k, v in self.fault.headers.items()}
            return self.answer(self.fault.status, b"a refusal", headers)
        getattr(self, f"get_{self.kind}")(hub, path)

    def break_off(self):
        """A reset, as of a machine that went away."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def answer(self, status, body, headers=()):
        if isinstance(self.fault, Damage):
            body = bytes([body[0] ^ 1]) + body[1:]
        if isinstance(self.fault, Cut) and self.fault.after == -1:
            self.wfile.write(b"HTTP/1.1 206 Partial Content\r\nContent-")
            return self.break_off()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if not dict(headers).get("Content-Length"):
            self.send_header("Content-Length", len(body))
        self.end_headers()
        if self.command == "HEAD":
            return None
        try:
            if isinstance(self.fault, Cut):
                self.wfile.write(body[:self.fault.after])
                self.close_connection = True  # too early, but what was sent arrives
                return None
            if isinstance(self.fault, Hold):
                self.wfile.write(body[:self.fault.after])
                self.wfile.flush()
                self.fault.reached.set()
                self.fault.gate.wait()
                body = body[self.fault.after:]
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
        return None

    def ranged(self, data, headers=()):
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not m or isinstance(self.fault, NoRanges):
            return self.answer(200, data, headers)
        at, end = int(m[1]), min(int(m[2] or len(data)), len(data) - 1)
        return self.answer(206, data[at:end + 1], {**dict(headers), "Content-Range": f"bytes {at}-{end}/{len(data)}"})

    def repo_of(self, hub, name):
        """The repository, or None after a refusal."""
        repo = hub.repos.get(name)
        given = self.headers.get("Authorization")
        if repo is None or (repo.token and given != f"Bearer {repo.token}"):
            self.answer(401 if given is None else 404, b"no")
            return None
        return repo

    def get_api(self, hub, path):
        m = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^?]+))?(\?.*)?", path)
        repo = m and self.repo_of(hub, m[1])
        if not repo:
            return m or self.answer(404, b"no")
        if (m[2] or "main") not in ("main", "v1/x", repo.commit):
            return self.answer(404, b"no such revision")
        listed = repo.listed
        if listed is None:
            listed = []
            for name, data in repo.files.items():
                listed.append({"rfilename": name, "size": len(data), "blobId": hashlib.sha1(data).hexdigest()})
                if len(data) >= LARGE:
                    listed[-1]["lfs"] = {"sha256": digest(data), "size": len(data), "pointerSize": 132}
                else:
                    listed[-1]["blobId"] = digest(data)
        body = {"id": m[1], "modelId": m[1], "sha": repo.commit, "private": False, "tags": [], "downloads": 0,
                "siblings": listed}
        return self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def get_file(self, hub, path):
        m = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        repo = m and self.repo_of(hub, m[1])
        if not repo:
            return m or self.answer(404, b"no")
        data = repo.files.get(m[3])
        if data is None:
            return self.answer(404, b"no such file")
        if repo.gated and m[3].endswith((".safetensors", ".gguf")):
            return self.answer(403, b"gated")
        about = {"X-Repo-Commit": repo.commit, "ETag": f'"{digest(data)}"', "Accept-Ranges": "bytes"}
        if len(data) < LARGE:
            return self.ranged(data, about)
        where = f"{hub.store_url}/{digest(data)}?signature=1"
        return self.answer(302, b"", {**about, "X-Linked-ETag": f'"{hub.says.get(m[3], digest(data))}"',
                                      "X-Linked-Size": len(data), "Location": where})

    def get_store(self, hub, path):
        data = hub.blobs.get(path[1:].split("?")[0])
        return self.ranged(data, {"ETag": '"of-the-store"'}) if data is not None else self.answer(404, b"no")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub, kind):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.kind = hub, kind
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # the client has gone


class Hub:
    def __init__(self):
        self.repos, self.blobs, self.requests, self.faults, self.says = {}, {}, [], [], {}
        self.lock = threading.Lock()

    def add(self, name, files, token=None, gated=False):
        repo = self.repos[name] = Repo(files, token, gated)
        self.blobs.update({digest(d): d for d in files.values()})
        return repo

    def fault(self, kind, fault, times=1, match=""):
        """For the next answers of that kind: "api", "file" or "store"."""
        with self.lock:
            self.faults.append([kind, fault, times, match])
        return fault

    def next_fault(self, kind, path):
        with self.lock:
            for f in self.faults:
                if f[0] == kind and f[2] > 0 and f[3] in path:
                    f[2] -= 1
                    return f[1]
        return None

    def asked(self, kind):
        return [r for r in self.requests if r[0] == kind]

    def __enter__(self):
        self.servers = [Server(self, "hub"), Server(self, "store")]
        self.url, self.store_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)
        return self

    def __exit__(self, *exc):
        for f in self.faults:
            if isinstance(f[1], Hold):
                f[1].release()
        for s in self.servers:
            s.shutdown()
            s.server_close()
