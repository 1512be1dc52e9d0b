"""The demo model's corpus: conversations and plain stories, drawn without end from a seed.

`stream(seed, held)` gives samples {"kind", "messages"} or {"kind", "text"}; with held=False the
training samples, with held=True those that hold a held-out wording, combination, number pair or
name (see wording.py), each with the set of what is held out in it.
Run as a program it prints samples: python3 corpus.py [N [SEED]].
"""

import random
import sys

import facts
import stories
import tasks
from wording import Draw, roughen

SYSTEMS = ["You are a helpful assistant.", "You are the demo model of Ingot.", "You are a friendly assistant.", "Answer the user.",
           "You are a helpful, small language model.", "Be kind and helpful.", "You are Ingot's demo assistant. Answer truthfully.",
           "Please help the user.", "You are a concise assistant."]
# Share of each kind among the exchanges of all conversations.
KINDS = [("story", 12), ("facts", 17), ("sum", 41), ("order", 3), ("json", 20), ("talk", 7)]


def exchange(draw, kind):
    """-> [(user, assistant)] of one kind."""
    if kind == "story":
        prompt, story, follow = stories.tell(draw)
        n_follow = draw.one([0, 0, 0, 1, 2])
        return [(roughen(draw, prompt), story)] + follow[:n_follow]
    if kind == "facts":
        question, answer = facts.explain(draw)
        return [(roughen(draw, question), answer)]
    if kind == "talk":
        return tasks.small_talk(draw)
    turns = {"sum": tasks.arithmetic, "order": tasks.ordering, "json": tasks.extraction}[kind](draw)
    return [(roughen(draw, turns[0][0]) if kind != "json" else turns[0][0], turns[0][1])]


def sample(rng, kinds):
    """One conversation of one to twelve exchanges, or a story as plain text."""
    draw = Draw(rng)
    if rng.random() < 0.03 and "story" in kinds:
        return {"kind": "plain", "text": stories.tell(draw)[1], "held": draw.held}
    n = draw.one([1] * 14 + [2] * 3 + [3] * 2 + [4]) if draw.chance(0.98) else rng.randrange(5, 13)
    chosen = [draw.one(kinds) for _ in range(n)]
    messages = []
    if draw.chance(0.3):
        messages.append({"role": "system", "content": draw.one(SYSTEMS)})
    for kind in chosen:
        for user, assistant in exchange(draw, kind):
            messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return {"kind": chosen[0] if n == 1 else "several", "messages": messages, "held": draw.held}


def stream(seed, held=False, only=None):
    rng = random.Random(seed)
    kinds = [only] if only else [kind for kind, share in KINDS for _ in range(share)]
    while True:
        s = sample(rng, kinds)
        if bool(s["held"]) == held:
            yield s


if __name__ == "__main__":
    source = stream(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        s = next(source)
        print(f"--- {s['kind']}")
        for m in s.get("messages", [{"role": "text", "content": s.get("text")}]):
            print(f"{m['role']}: {m['content']}")
