"""--max-answer and --max-answer-memory: an answer that takes more memory ends with an error in its API's form, and its request
ends at the coordinator; small ones beside it go on."""
import contextlib
import json

from client_setup import tap
from api import Api
from gateway_process import Gateway
from scrape import scrape, value
from scripted_worker import ScriptedCluster

TEXT = "It is sunny."
LONG = "once upon a time there was a fox and " * 80  # 2960 bytes
SCRIPTS = {"text": TEXT, "long": LONG, "quotes": '"' * 1500, "think": "<think>" + LONG + "</think>" + TEXT,
           "call": '<tool_call>{"name": "f", "arguments": {"x": "' + LONG + '"}}</tool_call>'}
TEMPLATE = ("{#- <tool_call> <think> </think> -#}{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + "
            "m['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SAYS = "(--max-answer)"
cluster = None


def stats():
    return cluster.clients[0].call("Stats")[1]


def asks(script):
    """Path, body and where its text is in the answer, for each API."""
    prompt = f"Please. [script:{script}]"
    messages = [{"role": "user", "content": prompt}]
    return {"/v1/chat/completions": ({"messages": messages}, lambda a: a["choices"][0]["message"]["content"]),
            "/v1/completions": ({"prompt": prompt, "max_tokens": 3000}, lambda a: a["choices"][0]["text"]),
            "/v1/responses": ({"input": prompt}, lambda a: a["output"][-1]["content"][0]["text"]),
            "/v1/messages": ({"messages": messages, "max_tokens": 3000}, lambda a: a["content"][-1]["text"]),
            "/api/chat": ({"messages": messages, "stream": False}, lambda a: a["message"]["content"]),
            "/api/generate": ({"prompt": prompt, "stream": False}, lambda a: a["response"])}


def check_error(path, status, a):
    assert status == 400, (path, status, a)
    e = a["error"]
    if path.startswith("/api/"):
        assert list(a) == ["error"] and isinstance(e, str) and SAYS in e, a
        return
    assert SAYS in e["message"] and "4096" in e["message"] and e["type"] == "invalid_request_error", a
    if path == "/v1/messages":
        assert a["type"] == "error"
    else:
        assert e["code"] == 400 and not e["param"], a


def all_is_free(gateway):
    def free():
        s, f = stats(), scrape(gateway)
        return (s.running + s.waiting == 0 and s.blocks_free + s.blocks_cached == s.blocks_total
                and value(f, "ingot_answer_bytes") == value(f, "ingot_http_output_bytes") == 0)
    tap.wait_for(free, "its memory and blocks are free")


@contextlib.contextmanager
def gateway_with(*args):
    with Gateway("--connect", cluster.endpoint, *args) as g:
        yield Api(g.wait_ready())
        all_is_free(g)


@tap.case
def each_form_says_that_an_answer_is_too_large():
    with gateway_with("--max-answer", "4096") as api:
        for path, (body, text_of) in asks("long").items():
            def attempt():
                """Too late if the worker has written all before the gateway sees the first half."""
                before = stats().requests_cancelled
                check_error(path, *api.post(path, **body))
                tap.wait_for(lambda: (s := stats()).running + s.waiting == 0, "its request has ended")
                return stats().requests_cancelled == before + 1
            tap.race(attempt)
        for path, (body, text_of) in asks("text").items():
            assert text_of(api.ok(path, **body)) == TEXT, path


@tap.case
def all_that_is_held_counts():
    """The JSON besides the text, all choices, thinking, calls, log probabilities; what is streamed is not held."""
    chat = "/v1/chat/completions"
    with gateway_with("--max-answer", "4096") as api:
        for path in (chat, "/v1/messages", "/api/generate"):
            check_error(path, *api.post(path, **asks("quotes")[path][0]))
        for script, more in {"text": {"n": 16, "logprobs": True, "top_logprobs": 5}, "think": {}, "call": {"tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}}.items():
            check_error(chat, *api.post(chat, **asks(script)[chat][0], **more))
        events = api.stream("/v1/completions", **asks("long")["/v1/completions"][0])[:-2].split("\n\n")
        assert events[-1] == "data: [DONE]"
        assert "".join(json.loads(e[len("data: "):])["choices"][0]["text"] for e in events[:-1]) == LONG
    with gateway_with("--max-answer", "64K") as api:
        for script, want, paths in (("long", LONG, (chat,)), ("quotes", SCRIPTS["quotes"], ("/v1/completions", "/api/generate")),
                                    ("think", TEXT, ("/v1/messages",))):
            for path in paths:
                body, text_of = asks(script)[path]
                assert text_of(api.ok(path, **body)) == want, (path, script)


@tap.case
def all_answers_together_are_bounded():
    """Eight answers of which four have room: some end with 503, the others and a small one are whole."""
    path = "/v1/chat/completions"
    with gateway_with("--max-answer-memory", "128K") as api:
        large = {**asks("long")[path][0], "n": 8}
        clients = [api.gateway.connect() for _ in range(9)]
        with cluster.held():
            for c, body in zip(clients, [large] * 8 + [asks("text")[path][0]]):
                c.request(path, method="POST", body=json.dumps(body).encode())
            tap.wait_for(lambda: (s := stats()).running + s.waiting >= 65, "all are there")
        answers = [c.answer() for c in clients]
        for c in clients:
            c.close()
        small = answers.pop()
        assert small.status == 200 and json.loads(small.body)["choices"][0]["message"]["content"] == TEXT
        assert {a.status for a in answers} == {200, 503}, [a.status for a in answers]
        for a in answers:
            body = json.loads(a.body)
            if a.status == 200:
                assert [c["message"]["content"] for c in body["choices"]] == [LONG] * 8
            else:
                assert "(--max-answer-memory)" in body["error"]["message"] and a.headers["retry-after"] == "1", a
        assert api.ok(path, **large)["choices"][7]["message"]["content"] == LONG


if __name__ == "__main__":
    with ScriptedCluster(SCRIPTS, TEMPLATE) as cluster:
        tap.main()
