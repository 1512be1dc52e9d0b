#!/usr/bin/env python3
"""Jinja2 on the work of bench_chat: renders a second with templates compiled once and JSON parsed once.

  python3 bench_chat.py DATA_DIR [ROUNDS]        (DATA_DIR holds chat_templates/; needs Jinja2)
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "text_chat"))
import make_expected  # noqa: E402


def main():
    base = os.path.join(sys.argv[1], "chat_templates")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    env = make_expected.environment()
    with open(os.path.join(base, "cases.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    with open(os.path.join(base, "templates.json"), encoding="utf-8") as f:
        entries = json.load(f)
    jobs = []
    for entry in entries:
        with open(os.path.join(base, entry["file"]), encoding="utf-8", newline="") as f:
            template = env.from_string(f.read())
        for case in cases:
            args = {"documents": None, **entry["special_tokens"], **case["variables"], "messages": case["messages"],
                    "tools": case["tools"], "add_generation_prompt": case["add_generation_prompt"]}
            try:
                template.render(**args)
            except Exception:  # no text: not part of the work
                continue
            jobs.append((template, args))
    begin = time.process_time()
    for _ in range(rounds):
        for template, args in jobs:
            template.render(**args)
    seconds = time.process_time() - begin
    n = rounds * len(jobs)
    print(f"{len(jobs)} pairs, {rounds} rounds: {n / seconds:.0f} renders/s, {1e6 * seconds / n:.1f} us a render")


if __name__ == "__main__":
    main()
