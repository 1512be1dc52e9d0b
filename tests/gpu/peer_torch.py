#!/usr/bin/env python3
"""What PyTorch makes of the measurements of bench_gpu: the same model shapes in bf16 with random weights, a
static KV cache, scaled_dot_product_attention, the decode step as one CUDA graph.  Prints and writes
(--json FILE) the fields of bench_gpu.  --tiny: a small shape on the CPU, to test the script itself: one step
with the cache must give the logits of the whole sequence without it."""
import argparse
import json
import statistics
import sys

import torch
import torch.nn.functional as F

SHAPES = {  # layers, hidden, ffn, query heads, KV heads, head size, vocabulary
    "llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256),
    "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256),
    "tiny": (2, 64, 96, 4, 2, 16, 101),
}
SAMPLES, WARM_UPS = 7, 3


class Model:
    def __init__(self, name, device, dtype, max_batch, max_ctx):
        self.L, self.D, self.ffn, self.n_q, self.n_kv, self.d, self.V = SHAPES[name]
        self.name, self.device, self.dtype = name, device, dtype
        q, kv = self.n_q * self.d, self.n_kv * self.d

        def matrix(rows, cols):
            return torch.empty(rows, cols, device=device, dtype=dtype).normal_(0, 0.02)

        self.embed = matrix(self.V, self.D)
        self.head = self.embed if name == "llama-3.2-1b" else matrix(self.V, self.D)
        self.layers = [(matrix(q + 2 * kv, self.D), matrix(self.D, q), matrix(2 * self.ffn, self.D),
                        matrix(self.D, self.ffn)) for _ in range(self.L)]
        self.norm = torch.ones(self.D, device=device, dtype=dtype)
        self.take_cache(max_batch, max_ctx)

    def take_cache(self, max_batch, max_ctx):
        self.cache = None  # the old one is freed first
        self.cache = torch.zeros(self.L, 2, max_batch, self.n_kv, max_ctx, self.d, device=self.device,
                                 dtype=self.dtype)
        at = torch.arange(max_ctx, device=self.device).float()
        angle = at[:, None] * 500000.0 ** (-torch.arange(0, self.d, 2, device=self.device).float() / self.d)
        self.cos, self.sin = angle.cos(), angle.sin()

    def weight_bytes(self):
        """Of a step: all matrices, the embedding only as the head."""
        return sum(w.numel() * w.element_size() for layer in self.layers for w in layer) + \
            self.head.numel() * self.head.element_size()

    def linear_flops(self):
        """Of one token without the head."""
        return 2 * sum(w.numel() for layer in self.layers for w in layer)

    def rope(self, x, pos):
        a, b = x.float().chunk(2, -1)
        cos, sin = self.cos[pos], self.sin[pos]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def forward(self, ids, pos, ctx, full=False):
        """ids [B, T] at positions pos [T]; attends to the first ctx places of the cache.  full: they are all in
        the past, so a single token needs no mask (and the fastest attention is chosen).  Logits [B, V] of the
        last token."""
        B, T = ids.shape
        x = F.embedding(ids, self.embed)
        mask = None if T > 1 or full else (torch.arange(ctx, device=self.device) <= pos[-1])[None, None, None, :]
        for i, (qkv, o, gate_up, down) in enumerate(self.layers):
            h = F.rms_norm(x, (self.D,), self.norm, 1e-5)
            y = F.linear(h, qkv).view(B, T, -1, self.d).transpose(1, 2)
            q, k, v = y.split((self.n_q, self.n_kv, self.n_kv), 1)
            k_cache, v_cache = self.cache[i, 0, :B], self.cache[i, 1, :B]
            k_cache.index_copy_(2, pos, self.rope(k, pos))
            v_cache.index_copy_(2, pos, v)
            a = F.scaled_dot_product_attention(self.rope(q, pos), k_cache[:, :, :ctx], v_cache[:, :, :ctx],
                                               attn_mask=mask, is_causal=T > 1, enable_gqa=True)
            x = x + F.linear(a.transpose(1, 2).reshape(B, T, -1), o)
            gate, up = F.linear(F.rms_norm(x, (self.D,), self.norm, 1e-5), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(F.rms_norm(x[:, -1], (self.D,), self.norm, 1e-5), self.head)


def sample_ms(run):
    """Milliseconds of SAMPLES calls, each between two events."""
    for _ in range(WARM_UPS):
        run()
    times = []
    for _ in range(SAMPLES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def ceilings():
    n = 1 << 30
    a, b = torch.randint(0, 255, (n,), dtype=torch.uint8, device="cuda"), torch.empty(n, dtype=torch.uint8, device="cuda")
    copy = 2 * n / statistics.median(sample_ms(lambda: b.copy_(a))) / 1e6
    del a, b
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    gemm = 2 * 8192**3 / statistics.median(sample_ms(lambda: x @ y)) / 1e9
    return {"copy_gbs": round(copy, 1), "gemm_tflops": round(gemm, 1)}


def record(model, kind, mode, batch, tokens, ctx, times, limits):
    ms = statistics.median(times)
    kv = 2 * model.L * model.n_kv * model.d * model.cache.element_size() * batch * ctx
    n_bytes = model.weight_bytes() + (kv if kind == "decode" else 0)
    flops = batch * (tokens * model.linear_flops() + 2 * model.V * model.D +
                     2 * model.L * model.n_q * model.d * tokens * (tokens if kind == "prefill" else 2 * ctx))
    floor = max(n_bytes / limits["copy_gbs"] / 1e6, flops / limits["gemm_tflops"] / 1e9)
    row = {"engine": "torch", "model": model.name, "kind": kind, "numerics": "torch", "mode": mode, "batch": batch,
           "tokens": tokens, "ctx": ctx, "ms": round(ms, 4), "min_ms": round(min(times), 4),
           "max_ms": round(max(times), 4), "tok_s": round(batch * tokens / ms * 1e3, 1), "bytes": n_bytes,
           "flops": flops, "roofline_pct": round(100 * floor / ms, 1), "kernels": None}
    print(f"torch  {model.name:13} {kind:8} {mode:6} batch {batch:<4} tokens {tokens:<5} ctx {ctx:<5} "
          f"{ms:9.3f} ms {row['tok_s']:10.1f} tok/s {row['roofline_pct']:5.1f} % of roofline", flush=True)
    return row


def measure(name, limits):
    rows = []
    model = Model(name, "cuda", torch.bfloat16, 256, 160)
    for batch, ctx in ((1, 128), (8, 128), (64, 128), (256, 128)):
        rows.append(measure_decode(model, batch, ctx, limits))
    model.take_cache(1, 8192)
    rows.append(measure_decode(model, 1, 4096, limits))
    for tokens in (512, 2048, 8192):
        ids = torch.randint(0, model.V, (1, tokens), device="cuda")
        pos = torch.arange(tokens, device="cuda")
        times = sample_ms(lambda: model.forward(ids, pos, tokens))
        rows.append(record(model, "prefill", "eager", 1, tokens, 0, times, limits))
    return rows


def measure_decode(model, batch, ctx, limits):
    ids = torch.randint(0, model.V, (batch, 1), device="cuda")
    pos = torch.tensor([ctx - 1], device="cuda")
    times = sample_ms(captured(lambda: model.forward(ids, pos, ctx, full=True)))
    return record(model, "decode", "graph", batch, 1, ctx, times, limits)


def test_itself():
    """With the cache, token by token and after a prefill, against the whole sequence at once."""
    torch.manual_seed(1)
    model = Model("tiny", "cpu", torch.float32, 2, 16)
    ids = torch.randint(0, model.V, (2, 9))
    with torch.inference_mode():
        whole = model.forward(ids, torch.arange(9), 9)
        model.cache.zero_()
        model.forward(ids[:, :5], torch.arange(5), 5)
        for t in range(5, 9):
            step = model.forward(ids[:, t:t + 1], torch.tensor([t]), 16)
        full = model.forward(ids[:, 8:], torch.tensor([8]), 9, full=True)
        other = model.forward(ids[:, 7:8], torch.tensor([8]), 16)
    close = torch.allclose(whole, step, rtol=1e-4, atol=1e-6) and torch.allclose(whole, full, rtol=1e-4, atol=1e-6)
    differs = not torch.allclose(whole, other, rtol=1e-2, atol=1e-4)
    limits = {"copy_gbs": 1.0, "gemm_tflops": 1.0}
    row = record(model, "decode", "graph", 1, 1, 8, [1.0, 2.0, 3.0], limits)
    by_hand = 4 * (2 * ((64 + 2 * 32) * 64 + 64 * 64 + 2 * 96 * 64 + 64 * 96) + 101 * 64) + 2 * 2 * 2 * 16 * 4 * 8
    counted = row["bytes"] == by_hand and row["ms"] == 2.0
    print(f"cache agrees: {close}, another token does not: {differs}, bytes: {counted}")
    return 0 if close and differs and counted else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--model", action="append", choices=[n for n in SHAPES if n != "tiny"])
    args = parser.parse_args()
    if args.tiny:
        return test_itself()
    if not torch.cuda.is_available():
        print("peer_torch: torch sees no GPU", file=sys.stderr)
        return 1
    limits = ceilings()
    print(f"torch {torch.__version__}: copy {limits['copy_gbs']} GB/s, bf16 8192^3 {limits['gemm_tflops']} TFLOP/s")
    rows = []
    with torch.inference_mode():
        for name in args.model or ("llama-3.2-1b", "llama-3.1-8b"):
            rows += measure(name, limits)
            torch.cuda.empty_cache()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"engine": f"torch {torch.__version__}", "device": torch.cuda.get_device_name(),
                       "ceilings": limits, "memory_bytes": torch.cuda.max_memory_allocated(), "runs": rows}, f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
