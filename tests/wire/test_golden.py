"""The golden bytes, decoded by protobuf's own Python library from the same .proto files."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
import ingot_client as ic  # noqa: E402

GOLDEN = ic.PROTO / "golden"
WORKER, WORKER_TYPES = ic.load("worker")
WORKER_CLASS = {n: "".join(w.capitalize() for w in k.split("_")) for k, n in WORKER_TYPES.items()}


def read(name):
    data = (GOLDEN / f"{name}.bin").read_bytes()
    magic, major, minor, number, flags = struct.unpack_from("<4sBBHI", data)
    assert (magic, major, minor, flags) == (b"INGT", 1, 1, 0), name
    classes, of = (WORKER, WORKER_CLASS) if number >= 128 else (ic.CLASSES, ic.CLASS_OF)
    m = classes[of[number]].FromString(data[12:])
    assert m.SerializeToString(deterministic=True) == data[12:], f"{name}: other bytes from Python"
    return m


m = read("generate_text")
assert m.text == b"na\xc3\xafve\0text" and m.request_id == "req-1" and m.n == 4
assert m.sampling.seed == 0x0123456789ABCDEF and list(m.sampling.stop_token_id) == [2, 3]
assert [(b.id, b.bias) for b in m.sampling.logit_bias] == [(5, -100.0), (9, 2.5)]
assert m.want_prompt_text and m.want_token_text and m.keep_marks
assert list(m.stop) == [b"\n\n", b"END"] and m.priority == -7 and not m.skip_special and m.tenant == b"acme"
assert m.tenant_limits.max_samples == 8 and m.tenant_limits.tokens_per_minute == 100000
assert m.grammar.kind == 3 and m.grammar.source == b"[a-z]+"
assert m.grace_ms == 10000 and m.client_digest == b"\1\2\3"
assert m.resume.accepted.numerics == "1/cpu/strict" and m.resume.accepted.sampling.top_k == 40
assert [list(s.id) for s in m.resume.sample] == [[1, 300, 70000], [], [1], [1, 300]]
assert [s.prompt_logprobs for s in m.resume.sample] == [17, 0, 0, 0]
assert [s.text_bytes for s in m.resume.sample] == [7, 0, 0, 9] and m.resume.elapsed_ms == 2500
m = read("generate_chat")
assert m.chat.clock_s == 1700000000 and m.chat.zone_s == -12600
assert m.chat.turn[0].content == b"Be brief." and m.chat.turn[1].json.startswith(b"{") and m.thinking_budget == 300
assert read("detokenize").id[2] == 70000
assert read("tokenize").want_token_text
m = read("tokenize_chat")
assert m.chat.clock_s == 1700000000 and m.chat.turn[0].content == b"Be brief." and not m.HasField("text")
assert m.HasField("add_special") and not m.add_special
m = read("tokens")
assert list(m.id) == [5, 70000] and list(m.token_text) == [b"a", b" b"] and m.spelling[1].decode() == "\u0120b"
m = read("welcome")
assert m.models[0].name == "demo" and m.limits.max_samples == 16 and m.tenant == b"a\0b\xff!" and m.any_tenant
assert m.models[0].weights_digest == bytes([1, 2, 3] + [0] * 29) and m.models[0].weights_from == "own"
assert m.models[0].text_digest[:3] == bytes([4, 5, 6])
assert (m.models[0].tool_format, m.models[0].think_open, m.models[0].think_close) == ("hermes", b"<think>", b"</think>")
m = read("accepted")
assert m.seed == 0xFEDCBA9876543210 and list(m.prompt_id) == [1, 300, 70000] and m.zone_s == -12600
assert len(m.prompt_digest) == 32 and m.prompt_digest.endswith(b"e\xff") and m.clock_s == 1700000000
assert m.starts_in_reasoning and m.prompt_text == b"pro\0mpt"
assert m.max_tokens == 100 and list(m.stop_token_id) == [2, 3] and m.sampling.top_k == 40
assert m.weights_digest == b"weights-------------------------" and m.numerics == "1/cpu/strict"
assert m.text_digest == b"text----------------------------"
m = read("delta")
assert m.text.decode() == "h\u00e9llo" and list(m.logprob) == [-0.5, -1.0, -1.5]
assert [len(t.entry) for t in m.top] == [1, 0, 2] and m.top[2].entry[1].logprob == -1.75
assert list(m.token_text) == [b"h", b"", "\u00e9llo".encode()]
assert [[e.text for e in t.entry] for t in m.top] == [[b"a"], [], [b"\xff", b""]]
m = read("delta_prompt")
assert list(m.prompt_logprob) == [0, -0.25, -3.5] and list(m.prompt_rank) == [0, 1, 300] and not m.id and not m.logprob
assert list(m.prompt_token_text) == [b"<s>", b"", "\u00e9".encode()]
assert [[(e.id, e.logprob, e.text) for e in t.entry] for t in m.prompt_top] == \
    [[], [(300, -0.25, b"a\xff")], [(4, -0.125, b"!"), (70000, -2.5, b"")]]
m = read("finish")
assert m.sample[0].matched_stop == b"END" and m.sample[1].stop_id == 2 and m.recoveries == 2
assert read("rejected").retry_after_ms == 1000 and read("rejected").draining
m = read("error")
assert m.code == 4 and m.request == ic.TYPES["CANCEL"] and m.field == "tenant"
m = read("hello")
assert m.client == "test" and m.tenant == b"a\0b\xff!" and m.tenants_secret == b"0123456789abcdef"
m = read("cancel")
assert m.request_id == "req-1" and m.tenant == b"acme"
assert read("cancel_reply").result == 2
m = read("step_plan")
assert list(m.seq_id) == [0x100000010, 7] and list(m.token) == [1, 300, 70000, -1]
assert list(m.keep) == [3, 0] and list(m.restore) == [0, 200]
assert list(m.open[0].history) == [8, 9] and list(m.close) == [3, 4] and m.epoch == 99
m = read("step_result")
assert list(m.n_top) == [2, 0, 0] and list(m.top_id) == [11, 12]
assert list(m.place) == ["#/properties/a"] and (m.masks, m.masks_cached, m.mask_us, m.mask_wait_us) == (4, 3, 120, 7)
m = read("worker_hello")
assert m.n_blocks == 640 and m.weights_digest == bytes([1, 2, 3] + [0] * 29)
assert m.text_digest[:3] == bytes([4, 5, 6]) and m.numerics.startswith("1/cpu/strict/")
assert m.hosts == "w1 0, w2 1" and m.n_snapshots == 128
m = read("weights")
assert m.epoch == 99 and m.digest == bytes([7, 8, 9] + [0] * 29)
m = read("stats_reply")
assert m.requests_rejected == 303 == sum(m.rejected_by_code) and m.rejected_by_code[6] == 300
assert list(m.samples_ended) == [0, 4, 5, 6, 7, 8, 9] and m.block_tokens == 16 and m.prefix_hits == 5000
histograms = [(f.name, v) for f, v in m.ListFields() if f.message_type and f.message_type.name == "Histogram"]
assert len(histograms) == 17 and all(len(h.count) == len(h.bound) + 1 for _, h in histograms)
assert sorted(h.sum for _, h in histograms) == list(range(1000, 1017))
assert [m.grammars_compiled, m.grammars_known, m.grammars_refused, m.grammars_dropped] == [21, 22, 23, 24]
assert (m.masks, m.masks_cached, m.mask_us, m.mask_wait_us) == (1025, 1026, 1027, 1028)
assert list(m.first_token_us.bound) == [1] and m.step_tokens.sum == 1015 and m.total_us.sum == 1003
assert list(m.step_tokens.count[:7]) == [3, 0, 1, 0, 0, 70000, 9] and m.per_token_us.sum == 1002
assert m.pauses == 31 and (m.snapshots_total, m.snapshots_known) == (64, 9)
g = m.group[0]
assert list(g.step_us.count) == [3, 0, 1, 0] and g.collective_us.sum == 7 and g.slot == 3
assert g.hosts == "w1 0, w2 1-2" and g.address == "10.77.0.2"
assert (g.running, g.waiting, g.tokens_generated) == (5, 6, 70001)
assert (g.blocks_total, g.blocks_free, g.blocks_cached) == (320, 300, 15)
assert list(g.rank_steps) == [40, 41] and list(g.rank_step_us) == [5000, 300]
assert list(g.rank_collective_us) == [70, 0] and list(g.rank_kv_bytes) == [1 << 20, 1 << 40]
m = read("figures")
assert m.epoch == 99 and list(m.steps) == [40, 41] and list(m.step_us) == [5000, 300]
assert list(m.collective_us) == [70, 0] and list(m.kv_bytes) == [1 << 20, 1 << 40]
m = read("grammar_ready")
assert (m.epoch, m.id) == (99, 0x1234)
names = {p.stem for p in GOLDEN.glob("*.bin")}
assert read("watch").epoch == 99
assert len(names) == 24, names
print(f"golden: {len(names)} messages agree")
