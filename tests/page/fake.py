"""A gateway whose answers a test writes: it serves the page's files, and for a question the events that say() gives."""
import http.server
import json
import pathlib
import queue
import threading

PAGE = pathlib.Path(__file__).resolve().parents[2] / "client/gateway/page"
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", len(body))
        self.send_header("Content-Security-Policy", self.server.policy)
        self.end_headers()
        self.wfile.write(body)

    def allowed(self):
        key = self.server.key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.send(401, "application/json", b'{"error": {"message": "the API key is missing or wrong"}}')
        return False

    def do_GET(self):
        name = self.path.strip("/") or "index.html"
        if (PAGE / name).is_file():
            self.send(200, TYPES[name.rsplit(".", 1)[1]], (PAGE / name).read_bytes())
        elif self.allowed():
            self.send(200, "application/json", b'{"data": [{"id": "a <b>model</b>"}]}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.allowed():
            return
        self.server.asked.append(json.loads(body))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while (event := self.server.events.get()) is not None:
                self.wfile.write(f"data: {event}\n\n".encode())
                self.wfile.flush()
        except OSError:
            self.server.gone.set()


class Fake(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, policy, key=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.policy, self.key = policy, key
        self.events, self.asked, self.gone = queue.Queue(), [], threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def say(self, reason=None, **delta):
        self.events.put(json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))

    def done(self):
        self.events.put("[DONE]")
        self.events.put(None)

    def cut(self):
        """The connection ends before the answer does."""
        self.events.put(None)
