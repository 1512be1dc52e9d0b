"""Adds up what main.py --record wrote, into record.md.

    record.py FILE...      takes the lines of the files into record.jsonl, and writes record.md
    record.py              writes record.md again

Who mends a failure writes the commit into its line of record.jsonl ("mended").
"""
import collections
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
LINES, TABLE = HERE / "record.jsonl", HERE / "record.md"
TITLE = """# Record of the campaign

Written by `tests/chaos/record.py` from record.jsonl, which `tests/chaos/main.py --record` wrote; tests/chaos/README.md explains
the words. In all rounds that are counted each answer had the bytes of the undisturbed run, each request had one terminal
message, and nothing was left. Rounds that failed are listed at the end, and not counted.

Times in ms, upper bounds: other programs used the same two cores (AMD EPYC, Zen 3 to Zen 5, virtual), and the clients of a round are
threads of one Python program. *All*: no stream got anything for so long. *One*: the longest wait of a single stream, which may
have waited for its turn or for a gateway too.
"""


def short(line):
    """A line of the record with its faults by kind: steps, and silences of all and of one."""
    faults = collections.defaultdict(list)
    for r in line["rounds"]:
        for kind, step, every, one in r["faults"]:
            faults[kind].append([step, every, one])
    return {"commit": line["commit"], "seeds": line["seeds"], "options": line["options"], "rounds": len(line["rounds"]),
            "streams": sum(r["streams"] for r in line["rounds"]), "faults": faults, "failed": line.get("failed"), "mended": None}


def told(values):
    values = [v for v in values if v is not None]
    return f"{statistics.median(values):.0f} | {max(values)}" if values else "- | -"


def table(lines):
    kinds = collections.defaultdict(list)
    for line in lines:
        for kind, faults in line["faults"].items():
            kinds[kind] += faults
    out = [TITLE, f"{sum(len(f) for f in kinds.values())} faults in {sum(line['rounds'] for line in lines)} rounds with "
           f"{sum(line['streams'] for line in lines)} streams.\n",
           "| fault | times | at a named step | all: median | greatest | one: median | greatest |", "|---|---|---|---|---|---|---|"]
    for kind, faults in sorted(kinds.items()):
        out.append(f"| {kind} | {len(faults)} | {sum(bool(step) for step, _, _ in faults)} | {told([e for _, e, _ in faults])} | "
                   f"{told([o for _, _, o in faults])} |")
    out += ["\n| commit | seeds | options | rounds | faults |", "|---|---|---|---|---|"]
    for line in (x for x in lines if x["rounds"]):
        first, last = line["seeds"]
        out.append(f"| {line['commit']} | {first} to {last} | {line['options']} | {line['rounds']} | "
                   f"{sum(len(f) for f in line['faults'].values())} |")
    out += ["\n## Rounds that failed\n", "| commit | seed | options | what was wrong | mended in |", "|---|---|---|---|---|"]
    for line in lines:
        if line.get("failed"):
            text = line["failed"].replace("|", "\\|").replace("\n", " ")
            out.append(f"| {line['commit']} | {line['seeds'][1]} | {line['options']} | {text} | {line['mended'] or 'open'} |")
    return "\n".join(out) + "\n"


def main():
    lines = [json.loads(text) for text in LINES.read_text().splitlines()] if LINES.exists() else []
    for name in sys.argv[1:]:
        lines += [short(json.loads(text)) for text in pathlib.Path(name).read_text().splitlines()]
    LINES.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    TABLE.write_text(table(lines))


if __name__ == "__main__":
    main()
