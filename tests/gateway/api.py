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


def joined(events):
    """Anthropic's message as a client puts it together from the events, whose order is checked."""
    names = [name for name, _ in events]
    assert all(name == data["type"] for name, data in events)
    assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"], names
    message = events[0][1]["message"]
    assert message["content"] == [] and message["stop_reason"] is None and message["role"] == "assistant"
    assert message["type"] == "message" and message["id"].startswith("msg_") and message["usage"]["output_tokens"] == 0
    blocks, open_at = [], None
    for name, data in events[1:-2]:
        if name == "content_block_start":
            assert open_at is None and data["index"] == len(blocks)
            open_at = data["index"]
            blocks.append(dict(data["content_block"]))
            if blocks[-1]["type"] == "tool_use":
                assert blocks[-1]["input"] == {}
                blocks[-1]["input"] = ""
        elif name == "content_block_delta":
            assert data["index"] == open_at
            d = data["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
                   "input_json_delta": "partial_json"}[d["type"]]
            blocks[-1]["input" if key == "partial_json" else key] += d[key]
        else:
            assert name == "content_block_stop" and data["index"] == open_at
            open_at = None
            if blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads(blocks[-1]["input"])
    assert open_at is None
    end = events[-2][1]
    return {**message, "content": blocks, **end["delta"], "usage": {**message["usage"], **end["usage"]}}


def checked(events):
    """The response at the end of the events of /v1/responses, whose order, ids and indices are checked."""
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    names = [name for name, data in events]
    assert names == [data["type"] for _, data in events]
    assert names[:2] == ["response.created", "response.in_progress"], names
    assert names[-1] in ("response.completed", "response.incomplete"), names
    first, last = events[0][1]["response"], events[-1][1]["response"]
    assert first["status"] == "in_progress" and first["output"] == [] and first["usage"] is None
    assert first["id"] == last["id"] and first["id"].startswith("resp_")
    assert [n for n in names if n.startswith("response.output_item.")] == \
        ["response.output_item.added", "response.output_item.done"] * len(last["output"])
    for i, item in enumerate(last["output"]):
        mine = [d for _, d in events if d.get("output_index") == i]
        assert mine[0]["item"]["id"] == item["id"] and mine[0]["item"]["status"] == "in_progress"
        assert mine[-1]["item"] == item
        cut = last["status"] == "incomplete" and item is last["output"][-1]
        assert item["status"] == "completed" or cut and item["status"] == "incomplete"
        assert all(d["item_id"] == item["id"] for d in mine[1:-1])
    return last
