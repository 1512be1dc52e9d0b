"""docs/ops.md, the ops of backends/backend.h and the backends that have them, is what the backends' tables say.

    ops_table.py           compares (ctest: ops_table)
    ops_table.py --write   writes it anew"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import tap  # noqa: E402

TABLE = ROOT / "docs/ops.md"
BACKENDS = ["cpu", "cuda", "metal"]
# Of ops that a backend lacks: why, and what is done in their place.
WHY = {
    "reserve part used": "the CPU's memory is the system's: `alloc` asks it",
    "prepare": "CUDA has nothing to make: its kernels are in the program",
    "upload": "where memory is the host's, `copy` is as good",
    "host_ptr": "CUDA's memory is not the host's",
    "linear_bytes": "a GPU's products need no working memory of their own",
    "pack_id packed load_packed load_packed_stack": "files of packed weights (--pack-cache): CUDA packs them when they are loaded",
    "map_packed": "CUDA keeps no files of packed weights",
    "reads_operand linear_act_mul": "fused forms, with the bits of the ops that they join",
    "moe_hidden moe_down": "where ranks share groups of inputs: CUDA refuses such checkpoints, Metal has one rank",
    "graph_begin graph_end graph_launch graph_free": "steps that are launched as one: without them ops are enqueued",
}


def ops():
    text = (ROOT / "backends/backend.h").read_text()
    body = text[text.index("struct backend_ops {"):]
    return re.findall(r"\(\*(\w+)\)\(", body[:body.index("\n};")])


def has(backend):
    text = (ROOT / f"backends/{backend}/{backend}.c").read_text()
    body = text[text.index(f"const struct backend_ops {backend}_ops = {{"):]
    return {op for op, f in re.findall(r"\.(\w+) = (\w+)", body[:body.index("\n};")]) if f != "NULL"}


def table():
    sets = {b: has(b) for b in BACKENDS}
    why = {op: text for names, text in WHY.items() for op in names.split()}
    lines = ["# Ops and backends", "",
             "backends/backend.h says what each does. The kernels of CUDA have run on a host emulator, those of Metal on the tests'",
             "double of Metal; neither on a GPU. tests/ops/ops_table.py makes this table of the backends' own.", "",
             "| op | CPU | CUDA (emulated) | Metal (emulated) | where it is missing |", "|---|---|---|---|---|"]
    for op in ops():
        lines.append(f"| {op} | " + " | ".join("yes" if op in sets[b] else "no" for b in BACKENDS) + f" | {why.get(op, '')} |")
    return "\n".join(lines) + "\n"


@tap.case
def the_table_is_that_of_the_backends():
    assert TABLE.read_text() == table(), "tests/ops/ops_table.py --write"


@tap.case
def every_op_that_is_missing_has_a_reason():
    sets = [has(b) for b in BACKENDS]
    lacking = {op for op in ops() if not all(op in s for s in sets)}
    assert lacking == {op for names in WHY for op in names.split()}, lacking
    assert len(ops()) > 60 and all(len(s) > 50 and s <= set(ops()) for s in sets)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        TABLE.write_text(table())
    else:
        tap.main()
