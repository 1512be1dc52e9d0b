"""Trains Ingot's demo model from nothing: writes its corpus, trains the tokenizer, then the model.

    python3 train.py --minutes 60 --threads 1 --out .

The result is a LlamaForCausalLM of about two million weights in HuggingFace layout. The corpus is
drawn from a seed (corpus.py); held-out wordings, combinations, sums and names never reach training.
The learning rate follows the clock, so the run ends when --minutes are over. Needs torch,
transformers, tokenizers, safetensors. Nothing here is needed to serve the model.

Sources of the techniques: byte-level BPE (Radford et al. 2019), ChatML (OpenAI), Muon (Jordan 2024).
"""

import argparse
import ctypes
import itertools
import json
import math
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import corpus

SPECIALS = ["<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
PAD, BOS, EOS, IM_START, IM_END = range(5)
V, D, FFN, N_LAYERS, HQ, HKV, HEAD_DIM, MAX_POSITIONS = 2048, 192, 384, 5, 8, 4, 32, 1024
# Words with one leading blank, single digits, punctuation, blanks: the split Qwen2 publishes.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def train_tokenizer(seed, n_samples):
    """Byte-level BPE over the training stream; a text gets <|bos|> in front, as Llama 3 has it."""
    def texts():
        for s in itertools.islice(corpus.stream(seed), n_samples):
            yield from ([m["role"] + "\n" + m["content"] for m in s["messages"]] if "messages" in s else [s["text"]])

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=V, special_tokens=[AddedToken(s, special=True) for s in SPECIALS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tok.train_from_iterator(texts(), trainer)
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|bos|> $A", pair="<|bos|> $A <|bos|>:1 $B:1",
                                      special_tokens=[("<|bos|>", BOS)])])
    assert tok.get_vocab_size() == V
    return tok


def save_tokenizer(tok, out):
    tok.save(str(out / "tokenizer.json"))
    added = {str(i): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                      "special": True} for i, s in enumerate(SPECIALS)}
    config = {"added_tokens_decoder": added, "bos_token": "<|bos|>", "chat_template": CHAT_TEMPLATE,
              "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "model_max_length": MAX_POSITIONS,
              "pad_token": "<|pad|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encode_samples(tok, samples):
    """-> [(ids, supervised)]: uint16 ids and which of them the model must predict.

    In a conversation these are the assistant's words and the <|im_end|> after them."""
    texts = [t for s in samples for t in ([m["content"] for m in s["messages"]] if "messages" in s else [s["text"]])]
    encoded = iter([e.ids for e in tok.encode_batch(texts, add_special_tokens=False)])
    head = {r: [IM_START] + tok.encode(r + "\n", add_special_tokens=False).ids for r in ("system", "user", "assistant")}
    newline = tok.encode("\n", add_special_tokens=False).ids
    out = []
    for s in samples:
        ids, said = [BOS], [False]
        for m in s.get("messages", []):
            body = next(encoded) + [IM_END]
            ids += head[m["role"]] + body + newline
            said += [False] * len(head[m["role"]]) + [m["role"] == "assistant"] * len(body) + [False] * len(newline)
        if "text" in s:
            body = next(encoded) + [EOS]
            ids += body
            said += [True] * len(body)
        if len(ids) <= MAX_POSITIONS:
            out.append((np.array(ids, dtype=np.uint16), np.array(said)))
    return out


def encode_stream(tok, seed, n_samples):
    source = corpus.stream(seed)
    encoded = []
    while len(encoded) < n_samples:
        encoded += encode_samples(tok, list(itertools.islice(source, min(20000, n_samples))))
    return encoded[:n_samples]


def batches(encoded, n_tokens, rng):
    """Endless batches of samples of like length, at most n_tokens padded tokens each.

    -> ids [B, T], rows to predict from (flat indices into B*T), their targets."""
    while True:
        noise = rng.random(len(encoded)) * 8
        order = np.argsort([len(ids) + x for (ids, _), x in zip(encoded, noise)], kind="stable")
        groups, group = [], []
        for i in order:
            if (len(group) + 1) * len(encoded[i][0]) > n_tokens and len(group) > 1:
                groups.append(group)
                group = []
            group.append(i)
        groups.append(group)
        for g in rng.permutation(len(groups)):
            yield pad_batch([encoded[i] for i in groups[g]])


def pad_batch(rows):
    T = max(len(ids) for ids, _ in rows)
    ids = np.full((len(rows), T), PAD, dtype=np.int64)
    said = np.zeros((len(rows), T), dtype=bool)
    for r, (row, s) in enumerate(rows):
        ids[r, :len(row)] = row
        said[r, :len(row)] = s
    where = np.flatnonzero(np.roll(said, -1, axis=1) & (np.arange(T) < T - 1))
    return torch.from_numpy(ids), torch.from_numpy(where), torch.from_numpy(ids.reshape(-1)[where + 1])


def build_model():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=V, hidden_size=D, intermediate_size=FFN, num_hidden_layers=N_LAYERS, num_attention_heads=HQ,
        num_key_value_heads=HKV, head_dim=HEAD_DIM, max_position_embeddings=MAX_POSITIONS, rms_norm_eps=1e-5,
        tie_word_embeddings=True, bos_token_id=BOS, eos_token_id=[IM_END, EOS], pad_token_id=PAD,
        attn_implementation="sdpa"))


def rope(x, cos, sin):
    """x [B, T, heads, HEAD_DIM], half-split pairs; cos, sin [T, 1, HEAD_DIM / 2]"""
    lo, hi = x.chunk(2, -1)
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], -1)


def run_layer(layer, x, cos, sin, mask, B, T):
    """x [B*T, D]; mask [1, 2*T, T]: the two query heads of a key/value head are stacked. dtype as x has it."""
    def rows(*linears):
        return torch.cat([l.weight for l in linears]).to(x.dtype)

    def norm(x, n):
        return F.rms_norm(x, (D,), n.weight.to(x.dtype), n.variance_epsilon)

    att, mlp, group = layer.self_attn, layer.mlp, HQ // HKV
    h = F.linear(norm(x, layer.input_layernorm), rows(att.q_proj, att.k_proj, att.v_proj))
    q, k, v = h.view(B, T, HQ + 2 * HKV, HEAD_DIM).split([HQ, HKV, HKV], 2)
    q = rope(q, cos, sin).view(B, T, HKV, group, HEAD_DIM).permute(0, 2, 3, 1, 4).reshape(B * HKV, group * T, HEAD_DIM)
    k = rope(k, cos, sin).permute(0, 2, 3, 1).reshape(B * HKV, HEAD_DIM, T)
    v = v.permute(0, 2, 1, 3).reshape(B * HKV, T, HEAD_DIM)
    probs = torch.baddbmm(mask, q, k, alpha=HEAD_DIM ** -0.5).softmax(-1)
    h = (probs @ v).view(B, HKV, group, T, HEAD_DIM).permute(0, 3, 1, 2, 4).reshape(B * T, HQ * HEAD_DIM)
    x = x + F.linear(h, rows(att.o_proj))
    gate, up = F.linear(norm(x, layer.post_attention_layernorm), rows(mlp.gate_proj, mlp.up_proj)).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, rows(mlp.down_proj))


def loss_sum(model, ids, where, targets, dtype=torch.bfloat16):
    """Summed negative log likelihood in nats over the rows to predict.

    The same function as the model's own forward pass, with fewer and larger operations: on one core it
    trains about half as fast again. Padding is on the right, so causality alone keeps it out."""
    B, T = ids.shape
    angle = torch.arange(T)[:, None, None] * 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    mask = torch.full((T, T), -math.inf, dtype=dtype).triu(1).repeat(HQ // HKV, 1)[None]
    embedding = model.model.embed_tokens.weight.to(dtype)
    x = F.embedding(ids.view(-1), embedding)
    for layer in model.model.layers:
        x = run_layer(layer, x, cos, sin, mask, B, T)
    norm = model.model.norm
    h = F.rms_norm(x[where], (D,), norm.weight.to(dtype), norm.variance_epsilon)
    return F.cross_entropy(F.linear(h, embedding).float(), targets, reduction="sum")


def check_forward(model, encoded):
    """The lean forward pass must be that of LlamaForCausalLM."""
    ids, where, targets = pad_batch(encoded[:4])
    with torch.no_grad():
        logits = model(input_ids=ids).logits.reshape(-1, V)[where]
        ours = loss_sum(model, ids, where, targets, torch.float32)
    assert torch.isclose(F.cross_entropy(logits, targets, reduction="sum"), ours, rtol=1e-5), "forward passes differ"


def save_model(model, out):
    """bf16 weights, round to nearest even; the tied head is not stored."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.detach().to(torch.bfloat16).contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(tensors, out / "model.safetensors.tmp", metadata={"format": "pt"})
    os.chmod(out / "model.safetensors.tmp", 0o644)
    os.replace(out / "model.safetensors.tmp", out / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": D, "intermediate_size": FFN,
              "num_hidden_layers": N_LAYERS, "num_attention_heads": HQ, "num_key_value_heads": HKV, "head_dim": HEAD_DIM,
              "vocab_size": V, "max_position_embeddings": MAX_POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "rope_scaling": None, "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
              "mlp_bias": False, "initializer_range": 0.02, "tie_word_embeddings": True, "use_cache": True,
              "bos_token_id": BOS, "eos_token_id": [IM_END, EOS], "pad_token_id": PAD, "torch_dtype": "bfloat16"}
    generation = {"bos_token_id": BOS, "eos_token_id": [IM_END, EOS], "pad_token_id": PAD, "do_sample": True,
                  "temperature": 0.7}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def optimizers(model, args):
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "layers" in n]
    others = [p for n, p in model.named_parameters() if not (p.ndim == 2 and "layers" in n)]
    muon = torch.optim.Muon(matrices, lr=args.muon_lr, weight_decay=0.05, momentum=0.95, adjust_lr_fn="original")
    adam = torch.optim.AdamW(others, lr=args.lr, betas=(0.9, 0.97), weight_decay=0.0)
    return [muon, adam]


def schedule(progress):
    """Learning rate factor: a short warm-up, flat, then a cosine down to 2 % over the last 60 %."""
    if progress < 0.01:
        return progress / 0.01
    return 1.0 if progress < 0.4 else 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (progress - 0.4) / 0.6))


@torch.no_grad()
def held_out_loss(model, encoded):
    """Nats per supervised token."""
    nats, n = 0.0, 0
    ordered = sorted(encoded, key=lambda e: len(e[0]))
    for i in range(0, len(ordered), 32):
        ids, where, targets = pad_batch(ordered[i:i + 32])
        nats += loss_sum(model, ids, where, targets, torch.float32).item()
        n += len(targets)
    return nats / n


def train(model, encoded, held, args):
    opts = optimizers(model, args)
    base = [o.param_groups[0]["lr"] for o in opts]
    source = batches(encoded, args.batch_tokens, np.random.default_rng(args.seed))
    start, step, n_seen, mean, last_save = time.time(), 0, 0, None, time.time()
    while (progress := (time.time() - start) / (60 * args.minutes)) < 1:
        for o, lr in zip(opts, base):
            o.param_groups[0]["lr"] = lr * schedule(progress)
        parts = [next(source) for _ in range(args.parts)]
        n_targets, nats = sum(len(targets) for _, _, targets in parts), 0.0
        for ids, where, targets in parts:
            loss = loss_sum(model, ids, where, targets) / n_targets
            loss.backward()
            nats += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        step, n_seen = step + 1, n_seen + sum(ids.numel() for ids, _, _ in parts)
        mean = nats if mean is None else 0.98 * mean + 0.02 * nats
        if step % 100 == 0:
            print(f"step {step} {100 * progress:.1f} % loss {mean:.4f} tokens/s {n_seen / (time.time() - start):.0f}", flush=True)
        if time.time() - last_save > 300:
            save_model(model, args.out)
            print(f"saved; held-out loss {held_out_loss(model, held):.4f} nats per token", flush=True)
            last_save = time.time()
    save_model(model, args.out)
    print(f"done: {step} steps, {n_seen} tokens, held-out loss {held_out_loss(model, held):.4f} nats per token")


def keep_freed_memory():
    """glibc would give each large tensor back to the kernel and get it again, zeroed: half of the run time."""
    if sys.platform == "linux":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD, bytes
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD, bytes


def main():
    p = argparse.ArgumentParser(description="Train the demo model.")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    p.add_argument("--minutes", type=float, default=60.0, help="wall time of the training itself")
    p.add_argument("--samples", type=int, default=400000, help="training samples drawn from the corpus")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch-tokens", type=int, default=1024, help="padded tokens in one part of a step")
    p.add_argument("--parts", type=int, default=2, help="parts of a step; each has samples of another length, so of other kinds")
    p.add_argument("--lr", type=float, default=3e-3, help="of AdamW")
    p.add_argument("--muon-lr", type=float, default=0.02)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--resume", action="store_true", help="go on from the tokenizer and weights in --out; take another --seed")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    keep_freed_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.resume:
        tok = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    else:
        tok = train_tokenizer(args.seed, 30000)
        save_tokenizer(tok, args.out)
    encoded = encode_stream(tok, args.seed, args.samples)
    held = encode_samples(tok, list(itertools.islice(corpus.stream(args.seed + 1, held=True), 400)))
    print(f"{len(encoded)} samples, {sum(len(i) for i, _ in encoded)} tokens, "
          f"{sum(s.sum() for _, s in encoded)} of them supervised", flush=True)
    model = build_model()
    print(f"{sum(p.numel() for p in model.parameters())} weights", flush=True)
    if args.resume:
        model.load_state_dict(load_file(args.out / "model.safetensors"), strict=False)
    check_forward(model, encoded)
    train(model, encoded, held, args)


if __name__ == "__main__":
    main()
