"""A worker group that computes nothing: it speaks proto/worker.proto and answers with the ids of recorded texts, so
that everything between a model's tokens and a client's screen is real.

    with ScriptedCluster(model_dir, {"weather": "<tool_call>..."}) as c:
        ...  a prompt with [script:weather] is answered by that text, then the end-of-sequence id

A script that is a list of texts gives sample i text i.  The last [script:NAME] of a prompt counts."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import threading
import time

import ingot_client as ic
import zmq
from cluster import _Base, BIN, DEMO, PATIENT

CLASSES, TYPES = ic.load("worker")
NAMES = {n: "".join(w.capitalize() for w in k.split("_")) for k, n in TYPES.items()}
NUMBERS = {name: n for n, name in NAMES.items()}
BLOCK, SAMPLE_BITS = 16, 0xF
OTHER_ID = 300  # beside the drawn token in lists of log probabilities


class ScriptedWorker(threading.Thread):
    def __init__(self, endpoint, clients, scripts, vocab, max_ctx, masks):
        super().__init__(daemon=True)
        self.endpoint, self.scripts, self.vocab, self.max_ctx = endpoint, scripts, vocab, max_ctx
        self.clients, self.masks = clients, masks
        self.go = threading.Event()  # cleared: steps wait
        self.go.set()
        self.ended = threading.Event()
        self.steps = 0

    # ---- messages ----

    def send(self, name, **fields):
        head = ic.HEADER.pack(b"INGT", 1, 1, NUMBERS[name], 0)
        self.sock.send(head + CLASSES[name](**fields).SerializeToString())

    def run(self):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.setsockopt(zmq.LINGER, 500)
        self.sock.connect(self.endpoint)
        self.client = ic.Client(self.clients)
        self.kv, self.seqs, self.ids = {}, {}, {}
        self.epoch = beat_s = None
        self.send("Hello", wire_version=3, model="scripted", world=1, backend="test", coll="local", vocab=self.vocab,
                  max_ctx=self.max_ctx, block_len=BLOCK, n_blocks=4096, max_step_tokens=2048, max_seqs=256,
                  launch=int.from_bytes(os.urandom(8), "little"), pid=os.getpid(), numerics="1/test", masks=self.masks)
        while not self.ended.is_set():
            if self.epoch is not None and time.monotonic() >= beat_s:
                self.send("Heartbeat", epoch=self.epoch, last_step=self.steps)
                beat_s = time.monotonic() + 0.1
            if not self.sock.poll(20):
                continue
            frame = self.sock.recv()
            name = NAMES[ic.HEADER.unpack_from(frame)[3]]
            m = CLASSES[name].FromString(frame[ic.HEADER.size:])
            if name == "Welcome":
                self.epoch, beat_s = m.epoch, 0.0
            elif name == "StepPlan":
                while not self.go.wait(0.1):
                    self.send("Heartbeat", epoch=self.epoch, last_step=self.steps)
                self.step(m)
            elif name == "Reset":
                self.seqs, self.kv, self.epoch = {}, {}, m.epoch or self.epoch
            elif name == "Grammar" and m.kind:  # its texts are taken to follow it
                self.send("GrammarReady", epoch=self.epoch, id=m.id)
            elif name == "Refused":
                raise AssertionError(m.detail)
            elif name == "Shutdown":
                self.ended.set()
        self.send("Goodbye", epoch=self.epoch or 0)
        self.client.close()
        self.sock.close()

    # ---- steps ----

    def tokens_of(self, text):
        if text not in self.ids:
            _, m = self.client.call("Tokenize", text=text.encode(), add_special=False)
            self.ids[text] = list(m.id)
        return self.ids[text]

    def script_of(self, seq_id, prompt):
        _, m = self.client.call("Detokenize", id=prompt)
        names = re.findall(r"\[script:([\w-]+)\]", m.text.decode(errors="replace"))
        text = self.scripts.get(names[-1] if names else "", "There is no such script.")
        return self.tokens_of(text if isinstance(text, str) else text[(seq_id & SAMPLE_BITS) % len(text)])

    def next_token(self, seq_id, s, length):
        if s["script"] is None:
            prompt = [self.kv[s["blocks"][i // BLOCK]][i % BLOCK] for i in range(s["n_prompt"])]
            s["script"] = self.script_of(seq_id, prompt)
        at = length - s["n_prompt"]
        return s["script"][at] if at < len(s["script"]) else s["eos"]

    def step(self, plan):
        for seq_id in plan.close:
            self.seqs.pop(seq_id, None)
        for o in plan.open:
            self.seqs[o.seq_id] = {"n_prompt": o.n_prompt, "blocks": [], "script": None, "last": None, "eos": 4,
                                   "n_top": o.top_logprobs, "logprobs": o.logprobs}
        tokens, blocks = iter(plan.token), iter(plan.block)
        result = {"seq_id": [], "token": [], "logprob": [], "n_top": [], "top_id": [], "top_logprob": []}
        for seq_id, pos, n, n_blocks, want in zip(plan.seq_id, plan.pos, plan.n_tokens, plan.n_blocks, plan.want,
                                                  strict=True):
            s = self.seqs[seq_id]
            s["blocks"] += [next(blocks) for _ in range(n_blocks)]
            for i in range(pos, pos + n):
                token = next(tokens)
                self.kv.setdefault(s["blocks"][i // BLOCK], {})[i % BLOCK] = s["last"] if token < 0 else token
            if want:
                s["last"] = self.next_token(seq_id, s, pos + n)
                top = [s["last"], *range(OTHER_ID, OTHER_ID + 20)][:s["n_top"]]
                result["seq_id"].append(seq_id)
                result["token"].append(s["last"])
                result["logprob"].append(-0.5)
                result["n_top"].append(len(top))
                result["top_id"] += top
                result["top_logprob"] += [-0.5 - i for i in range(len(top))]
        self.steps = plan.step_id
        self.send("StepResult", step_id=plan.step_id, epoch=plan.epoch, compute_us=1, comm_us=0, **result)


def make_model(folder, template, specials=()):
    """The demo model's text side in a folder of its own, with that chat template and further special tokens."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    for name in ("generation_config.json", "model.safetensors"):
        (folder / name).symlink_to(DEMO / name)
    load = {name: json.loads((DEMO / name).read_text())
            for name in ("config.json", "tokenizer.json", "tokenizer_config.json")}
    for content in specials:
        load["tokenizer.json"]["added_tokens"].append(
            {"id": load["config.json"]["vocab_size"], "content": content, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True})
        load["config.json"]["vocab_size"] += 1
    load["config.json"]["max_position_embeddings"] = 4096
    load["tokenizer_config.json"]["chat_template"] = template
    for name, data in load.items():
        (folder / name).write_text(json.dumps(data))
    return folder


class ScriptedCluster(_Base):
    """A coordinator with a ScriptedWorker.  template None: the demo model's.  masks: requests may have grammars, which the
    scripts must follow by themselves."""

    def __init__(self, scripts, template=None, specials=(), coordinator=(), masks=False):
        super().__init__()
        self.masks = masks
        self.coordinator_args = list(coordinator)
        self.scripts = scripts
        plain = ("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + "
                 "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
        self.model = make_model(pathlib.Path(self.dir) / "model", template or plain, specials)
        self.vocab = 2048 + len(specials)

    def start(self):
        self.coordinator = self.spawn(BIN / "ingot-coordinator", "--model", self.model, "--listen", self.endpoint,
                                      "--workers", self.workers, *PATIENT, *self.coordinator_args)
        self.worker = ScriptedWorker(self.workers, self.endpoint, self.scripts, self.vocab, 4096, self.masks)
        self.worker.start()

    @contextlib.contextmanager
    def held(self):
        """No token comes inside the block, however long it takes: the worker goes on to send heartbeats."""
        self.worker.go.clear()
        try:
            yield
        finally:
            self.worker.go.set()

    def __exit__(self, *exc):
        self.worker.go.set()
        self.worker.ended.set()
        self.worker.join(30)
        super().__exit__(*exc)
        shutil.rmtree(self.dir, ignore_errors=True)
