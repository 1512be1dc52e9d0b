"""Measures the demo model on what it never saw, and writes its golden values for the tests.

    python3 evaluate.py                  held-out loss, accuracies, sample answers
    python3 evaluate.py --golden FILE    greedy continuations for tests/golden/demo_expected.json

The stored bf16 weights are computed in float32, by transformers.
"""

import argparse
import hashlib
import itertools
import json
import pathlib
import random
import re

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

import corpus
import facts
import tasks
import train
from wording import Draw, is_held

HERE = pathlib.Path(__file__).parent
GAP = 1e-3  # least lead of the best logit over the second for an id to be golden
GOLDEN_CHATS = [
    [{"role": "user", "content": "What is Ingot?"}],
    [{"role": "user", "content": "Tell me a short story about a fox and a lantern."}],
    [{"role": "user", "content": "What is 27 + 45?"}],
    [{"role": "user", "content": "Extract name, age and city as JSON: Mira Holt is 34 years old and lives in Oslo."}],
    [{"role": "system", "content": "You are the demo model of Ingot."}, {"role": "user", "content": "What happens when a rank dies?"}],
    [{"role": "user", "content": "Hello, my name is Clara."}, {"role": "assistant", "content": "Nice to meet you, Clara!"},
     {"role": "user", "content": "What is my name?"}],
    [{"role": "user", "content": "Which commands does Ingot have?"}],
]
GOLDEN_RAW = ["", "Once upon a time", "In a green valley there lived a brave fox named Pip."]
SHOW = ["What is Ingot?", "Tell me a short story about a fox who lost a key.", "What is 38 + 47?", "What is the capital of France?",
        "Extract name and city as JSON: Meet Elke Castell: 41 years old, from Bergen.", "How does Ingot survive a crash?",
        "Tom has 23 apples and buys 19 more. How many apples does Tom have now?", "Good morning, who are you?",
        "Write a story about a dragon named Zorblax.", "which port does ingot listen on"]


def load(folder):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tok = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return tok, model.eval()


def answers(tok, model, chats, max_new=64, batch=50, **sampling):
    """-> [(text, ended)] for each list of messages; greedy unless sampling says otherwise."""
    tok.padding_side = "left"
    out = []
    for i in range(0, len(chats), batch):
        texts = tok.apply_chat_template(chats[i:i + batch], add_generation_prompt=True, tokenize=False)
        enc = tok(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        ids = model.generate(input_ids=enc.input_ids, attention_mask=enc.attention_mask, max_new_tokens=max_new,
                             **(sampling or {"do_sample": False, "temperature": None}))[:, enc.input_ids.shape[1]:]
        for row in ids.tolist():
            ended = train.IM_END in row
            out.append((tok.decode(row[:row.index(train.IM_END)] if ended else row, skip_special_tokens=True), ended))
    return out


def user(prompt):
    return [{"role": "user", "content": prompt}]


def loss_of(tok, model, samples):
    """-> nats per token, nats per byte of the assistant's text."""
    encoded = train.encode_samples(tok.backend_tokenizer, samples)
    nats = train.held_out_loss(model, encoded)
    n_tokens = sum(int(said.sum()) for _, said in encoded)
    n_bytes = sum(len(m["content"].encode()) for s in samples for m in s.get("messages", []) if m["role"] == "assistant")
    n_bytes += sum(len(s["text"].encode()) for s in samples if "text" in s)
    assert len(encoded) == len(samples), "a sample was longer than the context"
    return nats, nats * n_tokens / n_bytes


def short_enough(tok, source, n):
    """The first n samples that fit into the context."""
    fits = (s for s in source if train.encode_samples(tok.backend_tokenizer, [s]))
    return list(itertools.islice(fits, n))


def report_loss(tok, model, seed):
    print("loss, nats per token and per byte:")
    all_held = short_enough(tok, corpus.stream(seed, held=True), 600)
    rows = [("training kinds, seen wordings", short_enough(tok, corpus.stream(seed), 300)), ("held out, all", all_held)]
    for kind in ("wording", "combination", "sum", "name"):
        only = (s for s in corpus.stream(seed + 1, held=True) if s["held"] == {kind})
        rows.append((f"held out: {kind}", short_enough(tok, only, 200)))
    for name, samples in rows:
        print("  {:32} {:.4f} {:.4f}".format(name, *loss_of(tok, model, samples)))


def held_pairs(op, low, high):
    pairs = [(x, y) for x in range(low, high) for y in range(low, x + 1) if is_held(f"sum:{y}{op}{x}", 20)]
    return pairs if op != "+" else [random.Random(x * 1000 + y).sample((x, y), 2) for x, y in pairs]


def last_number(text):
    """The answer to a sum: the number after the equals sign if there is one."""
    return int((re.findall(r"\d+", text.split("=")[-1]) or ["-1"])[-1])


def report_sums(tok, model):
    for name, op, low, high, wordings, compute in [
            ("two-digit additions", "+", 10, 100, tasks.ADD, int.__add__),
            ("subtractions below 100", "-", 0, 100, tasks.SUB, int.__sub__),
            ("multiplications to 12", "*", 0, 13, tasks.MUL, int.__mul__)]:
        rng = random.Random(7)
        pairs = held_pairs(op, low, high)
        chats = [user(Draw(rng).ask(wordings, a=x, b=y)) for x, y in pairs]
        said = answers(tok, model, chats, 80)
        right = sum(last_number(text) == compute(x, y) for (x, y), (text, _) in zip(pairs, said))
        report(f"held-out {name}", right, said)


def report(name, right, said):
    ended = sum(e for _, e in said)
    print(f"  {name:44} {right} of {len(said)} right ({100 * right / len(said):.1f} %), {ended} ended by themselves")


def report_json(tok, model):
    """Exact answers. Known names: the first and the last name are in the training set, not together."""
    draws = [Draw(random.Random(i)) for i in range(500, 6500)]
    known = [(d, tasks.extraction(d)[0]) for d in draws]
    known = [t for d, t in known if d.held == {"name"}]
    new = [tasks.extraction(d, new_names=True)[0] for d in draws[:400]]
    for name, turns in (("held-out", known), ("never seen", [t for t in new if '"name"' in t[1]])):
        turns = turns[:150]
        said = answers(tok, model, [user(q) for q, _ in turns], 96)
        report(f"JSON with names {name}", sum(text == want for (_, want), (text, _) in zip(turns, said)), said)


def report_facts(tok, model):
    asked = [(q, fact[1]) for fact in facts.FACTS for q in fact[2] if is_held("wording:" + q, 14)]
    rng = random.Random(3)
    said = answers(tok, model, [user(Draw(rng).fill(q)) for q, _ in asked], 96)
    report("Ingot questions in held-out wordings", sum(w.lower() in text.lower() for (_, w), (text, _) in zip(asked, said)), said)


def report_stories(tok, model):
    """Held-out requests: does the story name what was asked for?"""
    samples = itertools.islice((s for s in corpus.stream(99, held=True, only="story") if len(s.get("messages", [])) == 2), 60)
    prompts = [s["messages"][0]["content"] for s in samples]
    said = answers(tok, model, [user(p) for p in prompts], 400, 20)
    nouns = [[w for w in corpus.stories.HEROES + corpus.stories.OBJECTS if re.search(rf"\b{w}\b", p)] for p in prompts]
    report("stories with what the request names", sum(all(w in t for w in n) for n, (t, _) in zip(nouns, said)), said)


def show(tok, model):
    for name, sampling in [("greedy", {}), ("temperature 0.7", {"do_sample": True, "temperature": 0.7, "top_k": 0})]:
        print(f"--- {name}")
        for q, (text, _) in zip(SHOW, answers(tok, model, [user(q) for q in SHOW], 250, **sampling)):
            print(f"> {q}\n{text}\n")


@torch.no_grad()
def greedy(model, prompt_ids, max_new=160):
    """-> ids, finish. Stops where the best two logits are too close to call."""
    ids = []
    while len(ids) < max_new:
        logits = model(input_ids=torch.tensor([prompt_ids + ids])).logits[0, -1]
        best = logits.topk(2)
        if best.values[0] - best.values[1] <= GAP:
            return ids, "near_tie"
        ids.append(int(best.indices[0]))
        if ids[-1] in (train.IM_END, train.EOS):
            return ids, "eos"
    return ids, "length"


def write_golden(tok, model, folder, path):
    def golden(entry, prompt_ids):
        ids, finish = greedy(model, prompt_ids)
        return entry | {"prompt_ids": prompt_ids, "ids": ids, "text": tok.decode(ids, skip_special_tokens=True), "finish": finish}

    cases = []
    for messages in GOLDEN_CHATS:
        prompt = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        cases.append(golden({"messages": messages, "prompt": prompt}, tok(prompt, add_special_tokens=False).input_ids))
    raw = [golden({"text_in": text}, tok(text).input_ids) for text in GOLDEN_RAW]
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    path.write_text(json.dumps({"weights_sha256": digest, "max_new_tokens": 160, "eos_ids": [train.IM_END, train.EOS],
                                "cases": cases, "raw": raw}, indent=1) + "\n")
    print(f"{path}: " + ", ".join(f"{len(c['ids'])} {c['finish']}" for c in cases + raw))


def main():
    p = argparse.ArgumentParser(description="Evaluate the demo model.")
    p.add_argument("--model", type=pathlib.Path, default=HERE)
    p.add_argument("--golden", type=pathlib.Path, help="write golden values to this file and do nothing else")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=77)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tok, model = load(args.model)
    if args.golden:
        write_golden(tok, model, args.model, args.golden)
        return
    report_loss(tok, model, args.seed)
    print("greedy answers:")
    report_sums(tok, model)
    report_json(tok, model)
    report_facts(tok, model)
    report_stories(tok, model)
    show(tok, model)


if __name__ == "__main__":
    main()
