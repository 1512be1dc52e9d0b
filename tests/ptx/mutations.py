"""Plants mistakes in the kernels' PTX, one at a time, and asks which the PTX machine reports.

usage: mutations.py PTX_OPS PTX_LIST [NAME...]

Without names and without INGOT_ALL: the quick ones.

PTX_OPS is the program ptx_ops, PTX_LIST its list of PTX files.  A mistake is a replacement in the
text of the kernels whose names match; `which` says which of the places found (all: every one).
It counts as caught when ptx_ops fails; the first line of the failure is printed.  The same runs
without a mistake must pass.  Exit status 1: a mistake was missed, or none could be planted.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LINEAR, ATTENTION, TOPK, RANKS = "linear", "attention", "topk", "ranks"
STRICT, CODES = "linear rows 150 k 520 n 140 bf16", "linear rows 150 k 520 n 140 e4m3"
LEVELS, SORTED, SORTED_MANY = ("linear rows 150 k 520 n 140 nf4", "linear rows 7 k 257 n 96 int4-sorted",
                               "linear rows 33 k 300 n 200 int4-sorted")
STAGE = r"(mul\.lo\.s32 \t?(?:%r\d+), %r\d+, 3;\s+)(sub\.s32 \t?(%r\d+), %r\d+, %r\d+;)"  # of three: step mod 3

# name, kernels, what is found, what replaces it, which place, ops that run
MISTAKES = [
    ("mma: two registers of A exchanged", "tiles_kernel", r"(mma\.\S+ \{[^}]*\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, LINEAR),
    ("mma: the registers of B exchanged", "rows_kernel", r"(mma\.\S+ \{[^}]*\}, \{[^}]*\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, LINEAR),
    ("mma: sums in the wrong registers", "attention_prefill", r"(mma\.\S+) \{(%f\d+), (%f\d+)", r"\1 {\3, \2", 0, ATTENTION),
    ("mma: f16 in place of bf16", "rows_kernelI9elem_bf16", r"f32\.bf16\.bf16\.f32", "f32.f16.f16.f32", 0, LINEAR),
    ("ldmatrix without .trans", "attention", r"\.trans\.shared", ".shared", 0, ATTENTION),
    ("ldmatrix with .trans", "attention", r"x4\.shared", "x4.trans.shared", 0, ATTENTION),
    ("ldmatrix: two matrices exchanged", "attention", r"(ldmatrix\S+ \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, ATTENTION),
    ("cp.async of 8 bytes less", "tiles_kernel", r"(cp\.async\.cg\S+ \[%\w+\], \[%\w+\], 16), %r\d+", r"\1, 8", 0, LINEAR),
    ("cp.async: no zeros beyond the end", "attention", r"(cp\.async\.cg\S+ \[%\w+\], \[%\w+\], 16), %r\d+", r"\1, 16", "all", ATTENTION),
    ("cp.async.wait_group waits for one group less", "tiles_kernel", r"cp\.async\.wait_group (\d+)", lambda m: f"cp.async.wait_group {int(m[1]) + 1}", "all", LINEAR),
    ("cp.async.wait_group waits for two groups less", "attention", r"cp\.async\.wait_group (\d+)", lambda m: f"cp.async.wait_group {int(m[1]) + 2}", "all", ATTENTION),
    ("no cp.async.wait_group at the end", "attention", r"cp\.async\.wait_group 0;", "", "all", ATTENTION),
    ("no cp.async.commit_group", "tiles_kernel", r"cp\.async\.commit_group;", "", 0, LINEAR),
    ("first barrier missing", "tiles_kernel", r"bar\.sync \t?0;", "", 0, LINEAR),
    ("last barrier missing", "tiles_kernel", r"bar\.sync \t?0;", "", -1, LINEAR),
    ("no barrier in a sum over a block", "add_rms_norm", r"bar\.sync \t?0;", "", 1, "add_rms_norm"),
    ("barrier missing in topk", "topk_chunk", r"bar\.sync \t?0;", "", 1, TOPK),
    ("barrier missing in moe_group", "moe_group", r"bar\.sync \t?0;", "", 0, "moe_ffn"),
    ("no bar.warp.sync", "", r"bar\.warp\.sync \t?-1;", "", "all", ""),
    ("a barrier that not all threads reach", "add_rms_norm", r"bar\.sync \t?0;", "@%p1 bar.sync 0;", 0, "add_rms_norm"),
    ("shfl over half of a warp", "add_rms_norm", r"(shfl\.sync\.bfly\.b32 \t?%r\d+\|%p\d+, %r\d+, %r\d+, %r\d+), %r\d+", r"\1, 65535", 0, "add_rms_norm"),
    ("shfl: another distance", "attention", r"(shfl\.sync\.bfly\.b32 \t?%r\d+\|%p\d+, %r\d+), %r\d+", r"\1, 8", 0, ATTENTION),
    ("no griddepcontrol.wait", "11pack_kernel", r"griddepcontrol\.wait;", "", "all", "chain"),
    ("no griddepcontrol.wait before fragments are packed", "fragments_kernel", r"griddepcontrol\.wait;", "", "all", "chain"),
    ("no wait for the packed activations", "tiles_kernel", r"griddepcontrol\.wait;", "", "all", LINEAR),
    ("no wait before the merge of splits", "attention_merge", r"griddepcontrol\.wait;", "", "all", ATTENTION),
    ("no wait in the join of tiles", "join_kernel", r"griddepcontrol\.wait;", "", "all", LINEAR),
    ("a flag without release", "oneshot_reduce", r"st\.release\.sys", "st.relaxed.sys", "all", RANKS),
    ("a flag without acquire", "oneshot_reduce", r"ld\.acquire\.sys", "ld.relaxed.sys", "all", RANKS),
    ("no barrier before the flag", "oneshot_reduce", r"bar\.sync \t?0;", "", 0, RANKS),
    ("no barrier after the flag", "oneshot_reduce", r"bar\.sync \t?0;", "", 1, RANKS),
    ("the wrong one of two buffers", "oneshot_reduce", r"(and\.b32\s+%r\d+, %r\d+), 1;", r"\1, 0;", 0, RANKS),
    ("atomic addition as a load and a store", "moe_group", r"atom\.shared\.add\.u32 \t?(%r\d+), (\[[^\]]+\]), (%?\w+);",
     r"ld.shared.u32 \1, \2; st.shared.u32 \2, \1;", 0, "moe_ffn"),
    ("vector load beside its alignment", "rows_kernel", r"(ld\.global\.L1::no_allocate\.v4\.u32 \{[^}]*\}, \[%rd\d+)\]", r"\1+8]", 0, LINEAR),
    ("vector load beyond the end", "rows_kernel", r"(ld\.global\.L1::no_allocate\.v4\.u32 \{[^}]*\}, \[%rd\d+)\]", r"\1+1048576]", 0, LINEAR),
    ("vector store of a row further", "rows_kernelI", r"(st\.shared\.v4\.\w+ \t?\[%r\d+)\]", r"\1+16]", 0, LINEAR),
    ("one element further", "embed", r"(ld\.global\.\w+ \t?%\w+, \[%rd\d+)\]", r"\1+4]", -1, "embed"),
    ("one tile less", "tiles_kernel", r"setp\.lt\.s32 \t?(%p\d+), (%r\d+), (%r\d+);", r"add.s32 \2, \2, 1; setp.lt.s32 \1, \2, \3;", -1, LINEAR),
    ("parts of a row overlap", "scale_kernel", r"(shl\.b32 \t?%r\d+, %r\d+), 10;", r"\1, 9;", 0, "scale"),
    ("dp4a: four products less", "quant_rows_kernel", r"(dp4a\.s32\.s32 \t?%r\d+), %r\d+, ", r"\1, 0, ", 0, LINEAR),
    ("mma of bytes: the registers of B exchanged", "quant_tiles_kernelILi8", r"(mma\.\S+s8\.s8\.s32 \{[^}]*\}, \{[^}]*\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, LINEAR),
    ("no barrier before slices are added", "quant_rows_kernel", r"bar\.sync \t?0;", "", 0, LINEAR),
    ("a stage is read before it is written", "quant_tiles_kernel", r"bar\.sync \t?0;", "", 1, LINEAR),
    ("no wait for the records of x", "quant_rows_kernel", r"griddepcontrol\.wait;", "", "all", LINEAR),
    ("no barrier before groups are merged", "attention_merge", r"bar\.sync \t?0;", "", 1, ATTENTION),
    ("no barrier before scores become weights", "latent_decode", r"bar\.sync \t?0;", "", 3, "attention latent"),
    ("no barrier before weights meet values", "latent_decode", r"bar\.sync \t?0;", "", 4, "attention latent"),
    ("latents: no wait for a split's keys", "latent_decode", r"cp\.async\.wait_group 0;", "", "all", "attention latent"),
    ("latents: two fragments of a key exchanged", "latent_decode", r"(x4\.shared\.b16 \{)(%r\d+), (%r\d+)", r"\1\3, \2", 1, "attention latent"),
    ("latents: fragments of the values of other keys", "latent_decode", r"(x4\.trans\.shared\.b16 \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, "attention latent"),
    ("latents: values without .trans", "latent_decode", r"x4\.trans\.shared", "x4.shared", -1, "attention latent"),
    ("no barrier before a batch of tokens is read", "delta_rule_kernelILi128", r"bar\.sync \t?0;", "", 0, "delta"),
    ("no wait for a batch of tokens", "delta_rule_kernelILi128", r"cp\.async\.wait_group 0;", "", "all", "delta"),
    ("the other batch of two", "delta_rule_kernelILi128", r"(and\.b32\s+%r\d+, %r\d+), 1;", r"\1, 0;", -1, "delta"),
    ("a chain of another column's lane", "delta_rule_kernelILi128", r"(shfl\.sync\.bfly\.b32 \t?%r\d+\|%p\d+, %r\d+), %r\d+", r"\1, 4", 0, "delta"),
    ("strict tiles: no barrier before a step is read", "12tiles_kernel", r"bar\.sync \t?0;", "", 1, STRICT),
    ("strict tiles: x of the chunk's other product", "12tiles_kernel", r"(ld\.shared\.v4\.u32 \t?\{[^}]*\}, \[%r\d+)\+(8192|16384)\]", lambda m: f"{m[1]}+{int(m[2]) + 512}]", 0, STRICT),
    ("strict tiles: another stage", "12tiles_kernel", STAGE, r"\1\2\n\tsub.s32 \3, 2, \3;", -1, STRICT),
    ("codes in tiles: no barrier before a step is read", "scaled_tiles_kernelILi1", r"bar\.sync \t?0;", "", 1, CODES),
    ("codes in tiles: the registers of x exchanged", "scaled_tiles_kernelILi1", r"(mma\.\S+ \{[^}]*\}, \{[^}]*\}, \{)(%r\d+), (%r\d+)", r"\1\3, \2", 0, CODES),
    ("codes in tiles: the scale of another row", "scaled_tiles_kernelILi1", r"(ld\.shared\.f32 \t?%f\d+, \[%r\d+)\+32\]", r"\1+36]", 0, CODES),
    ("codes in tiles: another stage", "scaled_tiles_kernelILi1", STAGE, r"\1\2\n\tsub.s32 \3, 2, \3;", -1, CODES),
    ("levels: of two columns in the place of the others", "scaled_rows_kernelILi4", r"25152;", "29521;", "all", "linear rows 12 k 520 n 140 nf4"),
    ("levels: the scales of the row beside", "scaled_rows_kernelILi4", r"(ld\.global\.v2\.u32 \t?\{[^}]*\}, \[%rd\d+)\+256\]", r"\1+264]", 0, "linear rows 12 k 520 n 140 nf4"),
    ("levels in tiles: the scale of the row beside", "scaled_tiles_kernelILi4", r"(ld\.shared\.f32 \t?%f\d+, \[%r\d+)\+(\d{4})\]", lambda m: f"{m[1]}+{int(m[2]) + 8}]", 0, LEVELS),
    ("levels in tiles: no barrier before a step is read", "scaled_tiles_kernelILi4", r"bar\.sync \t?0;", "", 1, LEVELS),
    ("sorted columns: the length of another chunk", "quant_rows_kernelILi20", r"(shfl\.sync\.idx\.b32 \t?%r\d+\|%p\d+, %r\d+), %r\d+", r"\1, 0", "all", SORTED),
    ("sorted columns: a lone quad of the row beside", "quant_rows_kernelILi20", r"(ld\.global\.L1::no_allocate\.u16 %rs\d+, \[%rd\d+)\]", r"\1+2]", "all", SORTED),
    ("sorted columns in tiles: no barrier before a stage is read", "quant_tiles_kernelILi20", r"bar\.sync \t?0;", "", 1, SORTED_MANY),
    ("sorted columns: a record's sum of one half twice", "sorted_pack", r"(shfl\.sync\.bfly\.b32 \t?%r\d+\|%p\d+, %r\d+), %r\d+", r"\1, 0", -1, "linear rows 7 k 257 n 96 int8-sorted"),
    ("sorted columns of experts: no wait for the hidden rows", "sorted_pack", r"griddepcontrol\.wait;", "", "all", "experts"),
    ("no wait for the rows that are rounded", "round_input", r"griddepcontrol\.wait;", "", "all", "chain"),
    ("no barrier in the peak of a row", "round_input_kernelILb1", r"bar\.sync \t?0;", "", 1, "round_input"),
    ("shfl over half of a warp, a group's peak", "round_input_kernelILb0", r"(shfl\.sync\.bfly\.b32 \t?%r\d+\|%p\d+, %r\d+, %r\d+, %r\d+), %r\d+", r"\1, 65535", 0, "round_input"),
    ("a word of a fragment over another", "norm_operand_kernelI9elem_bf16", r"(st\.global\.u32 \t?\[%rd\d+\+)520\]", r"\g<1>512]", 0, "operand of norm"),
    ("up of the column beside", "hidden_rows_kernel", r"(shfl\.sync\.down\.b32 \t?%r\d+\|%p\d+, %r\d+), %r\d+", r"\1, 1", "all", "operand of act_mul"),
    ("no wait for the rows of gate and up", "act_operand_kernel", r"griddepcontrol\.wait;", "", "all", "operand of act_mul"),
    ("no wait for the operand", "hidden_rows_kernel", r"griddepcontrol\.wait;", "", "all", "operand of act_mul"),
    ("bf16 rounded in the wrong half", "pack_kernelI9elem_bf16", r"(cvt\.rn\.bf16x2\.f32 %r\d+), (%f\d+), (%f\d+)", r"\1, \3, \2", 0, LINEAR),
]

QUICK = [
    "no barrier in a sum over a block",
    "shfl over half of a warp",
    "vector load beside its alignment",
    "parts of a row overlap",
    "no barrier after the flag",
]


def entries(text):
    """(start, end, name) of the kernels of a module."""
    starts = list(re.finditer(r"^\.(?:visible )?entry (\w+)", text, re.M))
    for m, after in zip(starts, [s.start() for s in starts[1:]] + [len(text)]):
        yield m.start(), after, m[1]


def plant(text, kernels, find, replace, which):
    """The text with the mistake in every kernel that matches, and how many places changed."""
    out, n, at = [], 0, 0
    for start, end, name in entries(text):
        out.append(text[at:start])
        body = text[start:end]
        at = end
        places = list(re.finditer(find, body)) if kernels in name else []
        if places:
            picked = places if which == "all" else places[which : which + 1 or None]
            for m in reversed(picked):
                new = replace(m) if callable(replace) else m.expand(replace)
                body = body[: m.start()] + new + body[m.end() :]
                n += 1
        out.append(body)
    return "".join(out) + text[at:], n


def run(program, modules, match):
    command = [program, "--modules", str(modules), "--first", "yes"] + (["--match", match] if match else [])
    environment = {k: v for k, v in os.environ.items() if k != "INGOT_TAP"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    if done.returncode < 0:
        return f"the program ended by signal {-done.returncode}"
    return lines[0] if lines else (done.stderr.strip() or "exit status") if done.returncode else ""


def short(line):
    return re.sub(r" rows .*? norm 0", "", line)[:200]


def main():
    program, listing, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    files = {Path(p).name: Path(p).read_text() for p in Path(listing).read_text().split()}
    if not wanted and not os.environ.get("INGOT_ALL"):
        wanted = QUICK
    chosen = [m for m in MISTAKES if not wanted or m[0] in wanted]
    missed = 0 if chosen else 1
    with tempfile.TemporaryDirectory() as folder:
        modules = Path(folder) / "modules.txt"
        paths = [Path(folder) / name for name in files]
        modules.write_text("".join(f"{p}\n" for p in paths))
        for name, kernels, find, replace, which, match in chosen:
            planted = 0
            for file, text in files.items():
                text, n = plant(text, kernels, find, replace, which)
                (Path(folder) / file).write_text(text)
                planted += n
            verdict = run(program, modules, match) if planted else ""
            missed += not verdict
            print(f"{'caught' if verdict else 'MISSED' if planted else 'NOT PLANTED'}: {name} ({planted} places) | {short(verdict)}", flush=True)
        for file, text in files.items():
            (Path(folder) / file).write_text(text)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
