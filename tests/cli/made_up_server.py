"""A server of the client protocol whose answers a test makes up."""
import threading

import zmq

import ingot_client
import temp_dir

EOS, CANCELLED = 1, 4


def prompt_of(chat):
    return b"".join(b"|" + t.content for t in chat.turn)


def turns_of(request):
    return [(t.role, t.content.decode()) for t in request.chat.turn]


class Held(list):
    """Pieces of an answer that does not end by itself: Cancel ends it, or (deaf) nothing does."""

    def __init__(self, pieces, deaf=False):
        super().__init__(pieces)
        self.deaf = deaf


class Server:
    """Answers the i-th request with the i-th list of pieces (a dict: that message alone), or with answer(request),
    and keeps the requests. A token is a byte; the prompt of a conversation is its contents, each after a byte."""

    def __init__(self, *answers, answer=None, name="made-up", max_ctx=99, model=None, accepted=None):
        self.answers, self.requests, self.cancelled = list(answers), [], []
        self.answer, self.name, self.version, self.max_ctx = answer, name, "made up", max_ctx
        self.held = None
        self.more_of_model, self.more_of_accepted = model or {}, accepted or {}  # further fields

    def __enter__(self):
        self.folder = temp_dir.make()
        self.endpoint = f"ipc://{self.folder}/clients"
        self.sock = zmq.Context.instance().socket(zmq.ROUTER)
        self.sock.setsockopt(zmq.LINGER, 0)
        self.sock.bind(self.endpoint)
        self.over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over = True
        self.thread.join()
        self.sock.close()

    def run(self):
        while not self.over:
            if self.sock.poll(50):
                who, frame = self.sock.recv_multipart()
                for reply in self.replies(*ingot_client.unpack(frame)):
                    self.sock.send_multipart([who, ingot_client.pack(reply.pop("is"), **reply)])

    def model(self):
        return {"name": self.name, "vocab": 9, "max_ctx": self.max_ctx, "chat": True, "world": 1,
                **self.more_of_model}

    def replies(self, name, m):
        if name == "Hello":
            yield {"is": "Welcome", "major": 1, "minor": 0, "epoch": 1, "server": self.version,
                   "models": [self.model()],
                   "limits": {"max_message_bytes": 1 << 20, "max_prompt_tokens": 99, "max_queued": 9,
                              "max_samples": 1, "heartbeat_ms": 1000}}
        elif name == "Models":
            yield {"is": "ModelList", "request_id": m.request_id, "model": [self.model()]}
        elif name == "Stats":
            yield {"is": "StatsReply", "request_id": m.request_id, "ready": True, "group": [
                {"epoch": 1, "world": 1, "backend": self.name, "coll": self.name, "active": True}]}
        elif name == "Ping":
            yield {"is": "Pong", "request_id": m.request_id, "ready": True, "epoch": 1}
        elif name == "Generate":
            pieces = self.answer(m) if self.answer else self.answers[len(self.requests)]
            self.requests.append(m)
            rid = {"request_id": m.request_id}
            if isinstance(pieces, dict):
                yield {**pieces, **rid}
                return
            yield {"is": "Accepted", "prompt_tokens": 3, "seed": 1, **self.more_of_accepted, **rid}
            for i, piece in enumerate(pieces):
                yield {"is": "Delta", "seq": i, "id": [i], "text": piece, **rid}
            self.held = pieces if isinstance(pieces, Held) else None
            if self.held is None:
                yield self.finish(EOS, pieces, rid)
        elif name == "Cancel":
            self.cancelled.append(m.request_id)
            if self.held is not None and not self.held.deaf:
                yield self.finish(CANCELLED, self.held, {"request_id": m.request_id})
        elif name == "ApplyTemplate":
            yield {"is": "Text", "request_id": m.request_id, "text": prompt_of(m.chat)}
        elif name == "Tokenize":
            yield {"is": "Tokens", "request_id": m.request_id, "id": [1] * len(m.text)}

    def finish(self, reason, pieces, rid):
        return {"is": "Finish", "sample": [{"sample": 0, "reason": reason, "completion_tokens": len(pieces)}],
                "prompt_tokens": 3, "completion_tokens": len(pieces), **rid}
