"""Frames that are nearly right: messages of clients and of workers, and what changes them."""
import ingot_client as ic

WORKER, WORKER_TYPES = ic.load("worker")


def client_seeds():
    turn = {"role": "user", "content": b"x"}
    fields = [("Hello", dict(major_min=1, major_max=1, client="c", tenant=b"t" * 16, token=b"k" * 32)),
              ("Generate", dict(request_id="r", text=b"Once", max_tokens=2)),
              ("Generate", dict(request_id="s", chat={"turn": [turn]}, max_tokens=2, n=2, stop=[b"a", b"b"])),
              ("Generate", dict(request_id="t", tokens={"id": [1, 2, 3]}, max_tokens=1,
                                sampling={"temperature": 0.5, "logit_bias": [{"id": 1, "bias": 1}]})),
              ("Generate", dict(request_id="u", text=b"Once", max_tokens=2, grammar={"kind": 1, "source": b"{}"})),
              ("Cancel", dict(request_id="r")), ("Tokenize", dict(request_id="k", text=b"Once upon")),
              ("Detokenize", dict(request_id="d", id=[1, 2])), ("ApplyTemplate", dict(request_id="a", chat={"turn": [turn]})),
              ("Models", dict(request_id="m")), ("Stats", dict(request_id="z")), ("Ping", dict(request_id="p"))]
    return [ic.pack(name, **f) for name, f in fields]


def worker_seeds(hello):
    fields = [("HELLO", hello), ("HEARTBEAT", dict(epoch=1)), ("FAULT", dict(epoch=1, rank=0, detail="x")),
              ("GOODBYE", dict(epoch=1)), ("STEP_RESULT", dict(epoch=1)), ("WEIGHTS", dict(epoch=1)),
              ("FIGURES", dict(epoch=1, steps=[1], step_us=[2], collective_us=[3], kv_bytes=[4]))]
    out = []
    for name, f in fields:
        cls = WORKER["".join(w.capitalize() for w in name.split("_"))]
        known = {k: v for k, v in f.items() if k in cls.DESCRIPTOR.fields_by_name}
        out.append(ic.HEADER.pack(b"INGT", 1, 1, WORKER_TYPES[name], 0) + cls(**known).SerializePartialToString())
    return out


def mutate(rng, seed):
    """Bytes that are changed, taken out, doubled or appended, mostly behind the header."""
    b = bytearray(seed)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(b)) if not b or rng.random() < 0.1 else rng.randrange(min(12, len(b) - 1), len(b))
        kind = rng.randrange(5)
        if kind == 0:
            b[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            b[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff))
        elif kind == 2 and len(b) > 13:
            del b[at:at + rng.randint(1, 8)]
        elif kind == 3:
            b[at:at] = b[at:at + rng.randint(1, 8)]
        else:
            b += rng.randbytes(rng.randint(1, 16))
        if len(b) < 2:
            return bytes(seed[:1])
    return bytes(b)
