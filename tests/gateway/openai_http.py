"""Requests of OpenAI's API over plain HTTP, and the rules that hold for every stream.  Set gateway first."""
import http.client
import json

from http_client import PATIENCE

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
STORY = [{"role": "user", "content": "Tell me a short story about a fox."}]
gateway = None


def ask(path, headers=None, port=None, **body):
    """Status, headers and the answer's JSON."""
    return send(path, json.dumps(body), headers, port)


def send(path, body, headers=None, port=None, method="POST"):
    c = http.client.HTTPConnection("127.0.0.1", port or gateway.port, timeout=PATIENCE)
    try:
        c.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        return r.status, r.headers, json.loads(r.read())
    finally:
        c.close()


def chat(**body):
    status, _, a = ask(CHAT, **{"messages": STORY, **body})
    assert status == 200, a
    return a


def complete(**body):
    status, _, a = ask(COMPLETIONS, **{"prompt": "Once upon a time", **body})
    assert status == 200, a
    return a


def refused(path, param, status=400, **body):
    got, _, a = ask(path, **body)
    e = a["error"]
    assert got == status and e["code"] == status and e["param"] == param and e["message"], (param, got, a)
    return e


def stream(path, **body):
    """All events of a stream, checked against the rules that hold for every one."""
    with gateway.connect() as c:
        a = c.post(path, json.dumps({**body, "stream": True}).encode())
        assert a.status == 200 and a.headers["content-type"] == "text/event-stream", a
        assert a.headers["cache-control"] == "no-cache"
        assert c.get("/health").status == 200, "the connection serves on after [DONE]"
    text = a.body.decode()
    assert text.endswith("\n\n")
    events = text[:-2].split("\n\n")
    assert all(e.startswith("data: ") and "\n" not in e for e in events), events
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(e[len("data: "):]) for e in events[:-1]]
    assert len({c["id"] for c in chunks}) == 1 and len({c["created"] for c in chunks}) == 1
    return chunks


def joined(chunks, index=0):
    """What a client puts together for one choice: its text and finish reason."""
    text, finish = "", []
    for c in chunks:
        for choice in c["choices"]:
            if choice["index"] != index:
                continue
            assert not finish, "nothing of a choice follows its finish chunk"
            text += choice.get("text", "") + (choice.get("delta", {}).get("content") or "")
            if choice["finish_reason"]:
                finish.append(choice["finish_reason"])
    assert len(finish) == 1
    return text, finish[0]
