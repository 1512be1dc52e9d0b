"""JSON requests to a gateway, for the tests of its APIs."""
import http.client
import json

from http_client import PATIENCE


class Api:
    def __init__(self, gateway, headers=None):
        self.gateway, self.headers = gateway, headers or {}

    def send(self, path, body=None, method="POST", headers=None):
        """Status, headers and the answer's bytes."""
        c = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=PATIENCE)
        try:
            c.request(method, path, body, {"Content-Type": "application/json", **self.headers, **(headers or {})})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def post(self, path, **body):
        """Status and the answer's JSON."""
        status, _, data = self.send(path, json.dumps(body).encode())
        return status, json.loads(data)

    def get(self, path):
        status, _, data = self.send(path, method="GET")
        return status, json.loads(data)

    def ok(self, path, **body):
        status, answer = self.post(path, **body)
        assert status == 200, (path, status, answer)
        return answer

    def refused(self, path, param, status=400, **body):
        """In OpenAI's shape, with the field at fault; the error."""
        got, answer = self.post(path, **body)
        e = answer["error"]
        assert got == status and (e["param"] or "") == param and e["message"], (path, body, got, answer)
        return e

    def stream(self, path, kind="text/event-stream", **body):
        """The text of a streamed answer; the connection must serve on after it."""
        with self.gateway.connect() as c:
            lines = [f"{k}: {v}" for k, v in self.headers.items()]
            a = c.post(path, json.dumps({**body, "stream": True}).encode(), *lines)
            assert a.status == 200 and a.headers["content-type"] == kind, a
            assert c.get("/health").status == 200
        return a.body.decode()

    def events(self, path, **body):
        """[(name, JSON)] of a stream whose events all have an "event:" line."""
        text = self.stream(path, **body)
        assert text.endswith("\n\n"), text[-100:]
        found = []
        for event in text[:-2].split("\n\n"):
            name, data = event.split("\n")
            assert name.startswith("event: ") and data.startswith("data: "), event
            found.append((name[len("event: "):], json.loads(data[len("data: "):])))
        return found

    def lines(self, path, **body):
        """The objects of a stream of lines."""
        text = self.stream(path, "application/x-ndjson", **body)
        assert text.endswith("\n")
        return [json.loads(line) for line in text[:-1].split("\n")]

    def together(self, path, bodies):
        """The answers to several requests that are there at once."""
        clients = [self.gateway.connect() for _ in bodies]
        for c, body in zip(clients, bodies):
            c.request(path, *[f"{k}: {v}" for k, v in self.headers.items()], method="POST",
                      body=json.dumps(body).encode())
        answers = []
        for c in clients:
            a = c.answer()
            assert a.status == 200, a
            answers.append(json.loads(a.body))
            c.close()
        return answers
