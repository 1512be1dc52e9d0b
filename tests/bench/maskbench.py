#!/usr/bin/env python3
"""The schemas of MaskBench (github.com/guidance-ai/jsonschemabench, maskbench/data; not part of this repository) here and in
llguidance's wheel: how many compile, which instances are taken, and why schemas are refused.

    INGOT_BIN=build/release/bin build/venv/bin/python tests/bench/maskbench.py DIR [--every N] [--names]

A file has a schema and instances with a verdict.  Instances are written compactly, in the order in which the file has their
properties; a valid one that is refused may break the schema's order, an invalid one that is taken is a fault.  llguidance
gets the same bytes.  --every N: every Nth file.  --names: also prints which files."""
import argparse
import collections
import json
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "grammar"), str(pathlib.Path(__file__).resolve().parents[1])]
import packages  # noqa: E402
from probe import Probe, Refused  # noqa: E402


class Peer:
    """llguidance on a vocabulary of the 256 bytes."""

    def __init__(self):
        self.lib = packages.llguidance()
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                 "fuse_unk": False, "byte_fallback": True, "vocab": {"<0x%02X>" % i: i for i in range(256)}, "merges": []}
        special = [{"id": 256, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                    "special": True}]
        self.tokenizer = self.lib.LLTokenizer(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}, "model": model}),
            eos_token=256)

    def compile(self, schema):
        """None, or the words of the refusal."""
        self.matcher = self.lib.LLMatcher(self.tokenizer, self.lib.LLMatcher.grammar_from_json_schema(
            schema, defaults={"whitespace_flexible": False}), log_level=0)
        return self.matcher.get_error() if self.matcher.is_error() else None

    def matches(self, data):
        self.matcher.reset()
        return self.matcher.try_consume_tokens(list(data)) == len(data) and self.matcher.is_accepting()


def reason(words):
    """Without what differs from file to file."""
    found = re.search(r"#([^ ]*): (.*)", words)
    words = "%s: %s" % (found[1].rsplit("/", 1)[-1], found[2]) if found and "this" in found[2] else words
    return re.sub(r"'[^']*'|\"[^\"]*\"|[0-9]+", "_", words)[:90]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--names", action="store_true")
    p.add_argument("--alone", action="store_true", help="without llguidance")
    a = p.parse_args()
    peer, probe = None if a.alone else Peer(), Probe()
    count, reasons, example = collections.Counter(), collections.Counter(), {}
    for path in sorted(a.dir.glob("*.json"))[::a.every]:
        case = json.loads(path.read_text())
        if "schema" not in case:
            continue
        text = json.dumps(case["schema"])
        theirs = peer.compile(text) if peer else None
        try:
            probe.compile("schema", text)
            ours = None
        except Refused as e:
            ours = str(e)
        count["files"] += 1
        count["ours" if ours is None else "ours refused"] += 1
        count["llguidance" if theirs is None else "llguidance refused"] += 1
        if ours is not None:
            why = reason(ours) + (" (llguidance compiles it)" if theirs is None else "")
            reasons[why] += 1
            example.setdefault(why, []).append((path.name, ours))
            count["ours refused, llguidance not"] += theirs is None
        elif theirs is not None:
            count["llguidance refused, ours not"] += 1
        for test in case.get("tests", []):
            data = json.dumps(test["data"], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
            for who, refused, takes in ("ours", ours, probe.matches), ("llguidance", theirs, peer and peer.matches):
                if refused is None and takes:
                    verdict = "valid" if test["valid"] else "invalid"
                    taken = takes(data)
                    count["%s: %s %s" % (who, verdict, "taken" if taken else "refused")] += 1
                    if a.names and who == "ours" and taken != test["valid"]:
                        print("%s: %s instance %s: %s" % (path.name, verdict, "taken" if taken else "refused", data[:300]))
    for name in sorted(count):
        print("%-36s %7d" % (name, count[name]))
    for why, n in reasons.most_common():
        print("%6d  %-90s  %s: %s" % (n, why, *example[why][0]))
        for name, words in example[why][1:] if a.names else ():
            print("        %s: %s" % (name, words))


main()
