"""Mistakes planted into a copy of the Metal backend, host and shaders, one at a time: each must be caught by the test that
its row names.  The copy is built beside this tree; plants.md is the table.

    plants.py              tries all and compares with plants.md (ctest: metal_plants, behind tests/run.sh --all)
    plants.py --write      writes plants.md anew
    plants.py NAME...      some, without the table"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import tap  # noqa: E402

TABLE = HERE / "plants.md"
LIMIT = 900  # seconds: a kernel that hangs is caught, too
OPS, BACKEND, WEIGHTS, MOE, TEXT = "test_ops_metal", "test_metal_backend", "test_metal_weights", "test_moe_metal", "test_shaders.py"
ARCHIVE, POOL = "test_metal_archive", "test_metal_pool"
# name: (file below backends/metal, or ../gpu/..., text, text with the mistake, what catches it, ops of test_ops_metal)
PLANTS = {
    "a selector that no class has": ("objc.h", '"endEncoding"', '"endEncode"', BACKEND, None),
    "a selector with its parts swapped": ("objc.h", '"setBytes:length:atIndex:"', '"setBytes:atIndex:length:"', BACKEND, None),
    "an argument struct cut short": ("queue.c", "args, args_bytes, 0)", "args, args_bytes - 4, 0)", BACKEND, None),
    "buffers bound one place too far": ("queue.c", "(unsigned long)i + 1)", "(unsigned long)i + 2)", BACKEND, None),
    "offsets of buffers are lost": ("queue.c", "bound[i].off : 0);", "0 * bound[i].off : 0);", OPS, "linear"),
    "an encoder is not ended": ("queue.c", "    MTL_GET(end_encoding, be->encoder);\n    metal_give(&be->encoder);\n    MTL_GET(commit",
                                "    metal_give(&be->encoder);\n    MTL_GET(commit", BACKEND, None),
    "a command buffer is not retained": ("queue.c", "be->commands = MTL_GET(retain, commands);", "be->commands = commands;",
                                         BACKEND, None),
    "a command buffer is committed twice": ("queue.c", "    MTL_GET(commit, be->commands);\n",
                                            "    MTL_GET(commit, be->commands);\n    MTL_GET(commit, be->commands);\n", BACKEND,
                                            None),
    "groups of half the threads": ("queue.c", "((struct mtl_size){threads, 1, 1})", "((struct mtl_size){threads / 2, 1, 1})",
                                   OPS, "add_rms_norm"),
    "an error names another kernel": ("queue.c", "metal_kernel_names[c->first]", "metal_kernel_names[c->last]", BACKEND, None),
    "a failure before the last command buffer is lost": ("queue.c", "MTL_GET(buffer_status, be->under_way[done].commands)",
                                                         "MTL_GET(buffer_status, be->under_way[at].commands)", BACKEND, None),
    "the host reads before the end": ("memory.c", "    TRY(metal_sync(be));\n    for (int32_t i = 0; i < src.rows",
                                      "    (void)be;\n    for (int32_t i = 0; i < src.rows", BACKEND, None),
    "the host writes before the end": ("memory.c", "    TRY(metal_sync(be));\n    for (int32_t i = 0; i < dst.rows",
                                       "    (void)be;\n    for (int32_t i = 0; i < dst.rows", BACKEND, None),
    "a buffer that is too short": ("device.c", "MTL(new_buffer, be->device, bytes, SHARED_STORAGE)",
                                   "MTL(new_buffer, be->device, (bytes + 1) / 2, SHARED_STORAGE)", BACKEND, None),
    "a buffer that is never released": ("memory.c", "        metal_give(&b->buffer);\n", "        (void)0;\n", BACKEND, None),
    "memory that is not zeroed": ("memory.c", "    memset(b->data, 0, held);\n", "", BACKEND, None),
    "a buffer in another storage": ("device.c", "SHARED_STORAGE = 0", "SHARED_STORAGE = 32", BACKEND, None),
    "the largest buffer is not asked for": ("device.c", "if (bytes > be->max_buffer)", "if (bytes > 2 * be->max_buffer)", BACKEND, None),
    "kernels with fast math": ("device.c", "MATH_MODE_SAFE = 0", "MATH_MODE_SAFE = 2", BACKEND, None),
    "kernels with fast math before macOS 15": ("device.c", "options, false);", "options, true);", BACKEND, None),
    "an object released twice": ("device.c", "    MTL_GET(release, options);\n",
                                 "    MTL_GET(release, options);\n    MTL_GET(release, options);\n", BACKEND, None),
    "a library that is not released": ("device.c", "    metal_give(&be->library);\n", "", BACKEND, None),
    "the width of simdgroups is not asked for": ("device.c", "width != SIMD_WIDTH || ", "", BACKEND, None),
    "the first row of a part is lost": ("ops_linear.c", "view_row_step(out) + (size_t)p->row0 * sizeof(float)",
                                        "view_row_step(out)", OPS, "linear"),
    "a wrong stride": ("ops_rows.c", ".in_stride = gate_up.stride", ".in_stride = out.stride", OPS, "act_mul"),
    "an argument struct of 8-byte members": ("args.h", "int32_t n_bytes, dst_step, src_step;",
                                             "int64_t n_bytes, dst_step, src_step;", TEXT, None),
    "matrices without being asked for": ("matrices.c", "be->matrices = s && ", "be->matrices = !s || ", BACKEND, None),
    "matrices that are not checked": ("metal.c", "be->matrices ? metal_check_matrices(be) : ST_OK", "ST_OK", BACKEND, None),
    "a layout of matrices that is taken for granted": ("shaders/matrix.metal", "at[1] = (int)m.thread_elements()[1];",
                                                       "at[1] = at[0] + 1;", OPS, "linear"),
    "rows and columns of matrices swapped": ("shaders/matrix.metal", "m.w_col[e] = (uint)(at[e] / 8);",
                                             "m.w_col[e] = (uint)(at[e] % 8);", OPS, "linear"),
    "columns of other matrices": ("shaders/matrix.metal", "right, t, 4 * j + i);", "right, t, 4 * (runs - 1 - j) + i);", WEIGHTS, None),
    "more threadgroup memory than there is": ("shaders/attention.metal", "SHARED(float, x, [METAL_MAX_HEAD]);",
                                              "SHARED(float, x, [METAL_MAX_HEAD * 20]);", OPS, "qkv_to_cache"),
    "a missing barrier of a group": ("../gpu/reduce.h", "    SYNC_THREADS(); /* part is written */\n", "", OPS, "add_rms_norm"),
    "a missing barrier of a simdgroup": ("shaders/attention.metal", "    SIMD_BARRIER(); /* q is whole */\n", "", OPS,
                                         "attention"),
    "a barrier that not all threads reach": ("../gpu/reduce.h", "    SYNC_THREADS(); /* part is written */\n",
                                             "    if (lane == 0)\n        SYNC_THREADS();\n", OPS, "add_rms_norm"),
    "half of the lanes are not added": ("../gpu/reduce.h", "DEVICE float warp_sum(float v)\n{\n    UNROLL\n    for (int apart = 16;",
                                        "DEVICE float warp_sum(float v)\n{\n    UNROLL\n    for (int apart = 8;", OPS, "linear"),
    "a row too many": ("shaders/linear.metal", "t < n && first + r < a.rows)", "t < n && first + r <= a.rows)", WEIGHTS, None),
    "columns that are left out": ("shaders/pieces.metal", "s.right = within ? end : b * cols;",
                                  "s.right = within ? end : end;", OPS, "linear"),
    "pieces that are left out": ("shaders/linear.metal", "p < s.last; p += 32", "p + 1 < s.last; p += 32", OPS, "linear"),
    "sums that depend on where a slice begins": ("shaders/pieces.metal", "is_scaled<TYPE>() ? start",
                                                 "is_scaled<TYPE>() ? 0 * start", MOE, None),
    "slices added in their order": ("shaders/linear.metal", "            level[l * N + i] = open && !right ? acc[i] : held;\n"
                                    "            acc[i] = open && right ? held + acc[i] : acc[i];\n",
                                    "            acc[i] = l == 0 && s > 0 ? held + acc[i] : acc[i];\n"
                                    "            level[l * N + i] = acc[i];\n", WEIGHTS, None),
    "a code with bits of its neighbour": ("shaders/pieces.metal", "field(v, 12, 15, 0.0f), s[0]", "field(v, 12, 31, 0.0f), s[0]",
                                          WEIGHTS, None),
    "every token is the first": ("shaders/linear.metal", "(from + at[t] + run_at", "(from + at[0] + run_at", OPS, "linear"),
    "the bias is forgotten": ("shaders/linear.metal", "a.has_bias != 0 ? v + bias[first + r] : v",
                              "a.has_bias != 0 ? v + 0.0f * bias[first + r] : v", OPS, "linear"),
    "sums in an order that is not specified": ("../gpu/reduce.h", "v += shfl_xor(v, apart);",
                                               "v = simd_sum(v);", TEXT, None),
    "a pointer into the wrong memory": ("../gpu/heads.h", "norm_head(SHARED_MEM float *x, const GLOBAL float *w",
                                        "norm_head(SHARED_MEM float *x, const SHARED_MEM float *w", TEXT, None),
    "a number of double precision": ("shaders/rows.metal", "float sum = 0.0f, squares = 0.0f;",
                                     "double sum = 0.0, squares = 0.0;", TEXT, None),
    "scales of Q4_K from the wrong bytes": ("shaders/pieces.metal", "part < 2 ? a :", "part < 3 ? a :", OPS, "linear"),
    "scales of Q4_K rows from the wrong bytes": ("shaders/quant.metal", "if (g < 4)", "if (g < 5)", OPS, "embed"),
    "every slice has the first one's scales": ("shaders/scaled.metal", "    s.scales = s.next_scales;\n", "    s.scales = 0;\n",
                                               OPS, "linear"),
    "one scale for pieces with two": ("shaders/scaled.metal", "(has_bytes<TYPE>() ? 3 : 4)", "(has_bytes<TYPE>() ? 3 : 3)",
                                      WEIGHTS, None),
    "slices of codes that begin too early": ("scaled.c", "metal_stored_cols(src->slice_end[i] - start) * bits / 8;",
                                             "(src->slice_end[i] - start) * bits / 8;", OPS, "linear"),
    "a group's peak of one lane": ("shaders/inputs.metal", ": warp_max(peak);", ": peak;", OPS, "round_input"),
    "experts whose hidden values stay as they are": ("ops_moe.c", "if (ml->round_hidden.grid == GRID_NONE)",
                                                     "if (ml->round_hidden.grid != GRID_NONE)", MOE, None),
    "experts by matrices stay before the first slice": ("shaders/moe_matrix.metal",
                                                        "        enter_slice<TYPE>(in, a.form, from, a.slice_end[s]);\n", "", MOE, None),
    "every head reads the first one's columns": ("shaders/linear.metal", "    x += (int64_t)group.z * a.x_step;\n", "", WEIGHTS, None),
    "blocks counted from a share's first column": ("scaled.c", "(size_t)((p->skip + k) / form->block)", "(size_t)(k / form->block)",
                                                   OPS, "embed"),
    "splits left out by their simdgroups": ("shaders/attention_matrix.metal", "key0 += 32 * METAL_LINEAR_SIMDS)",
                                            "key0 += 64 * METAL_LINEAR_SIMDS)", OPS, "attention"),
    "splits counted from the first key that is seen": ("shaders/attention_matrix.metal", "for (int key0 = 32 * first; key0",
                                                       "for (int key0 = 32 * first + t.first % 32; key0", OPS, "attention"),
    "values reach rows that do not see them": ("shaders/attention_matrix.metal", "warp_max(strange) > 0.0f", "warp_max(strange) > 1.0f",
                                               OPS, "attention"),
    "a missing barrier of attention's maxima": ("shaders/attention_matrix.metal", "    SIMD_BARRIER(); /* peaks are written */\n", "",
                                                OPS, "attention"),
    "every expert rounds by the first one's scale": ("shaders/moe.metal", "x[row * a.x_stride + i], a.scale[e]);",
                                                     "x[row * a.x_stride + i], a.scale[0 * e]);", MOE, None),
    "rounded inputs read by token": ("ops_moe.c", "        args.by_token = 0;\n", "", MOE, None),
    "an expert's scale gives way to the peak": ("ops_moe.c", "if (ml->hidden_scale)", "if (ml->hidden_scale && !ml->input_scale)", MOE,
                                                None),
    "offsets of pieces are lost": ("queue.c", "b->at + (b ==", "0 * b->at + (b ==", POOL, None),
    "pieces in one place": ("pool.c", "        block->used += held;\n", "", POOL, None),
    "more than is planned": ("pool.c", " || held > planned - used)", ")", POOL, None),
    "a piece that is cleared while commands use its buffer": ("pool.c", "        TRY(metal_sync(be)); /* commands may use its other pieces */\n",
                                                             "", POOL, None),
    "a buffer for each piece": ("pool.c", "{.bytes = bytes > held ? bytes : held}", "{.bytes = bytes > held ? held : held}", POOL, None),
    "buffers of the plan that are not released": ("pool.c", "        metal_give(&be->block[i].buffer);\n", "        (void)0;\n", POOL, None),
    "a mapped buffer that begins within a page": ("mapped.c", "{r->at / page * page,", "{r->at / page * page + r->at % page,", POOL, None),
    "a mapped buffer that ends within a page": ("mapped.c", "metal_round_up(r->at + r->n_bytes, page)", "(page ? r->at + r->n_bytes : 0)",
                                                POOL, None),
    "mapped buffers longer than the largest": ("mapped.c", "end - all.at > be->max_buffer", "end - all.at > 2 * be->max_buffer", POOL, None),
    "a file that goes before its buffers": ("mapped.c", "    give_buffers(be);\n    mapped_file_close(&be->packed);\n",
                                            "    mapped_file_close(&be->packed);\n    give_buffers(be);\n", POOL, None),
    "mapped weights that are planned twice": ("pool.c", " - be->mapped_left", "", POOL, None),
    "mapped weights at the start of their buffer": ("memory.c", "    b->at = (size_t)(at - block->data);\n    b->data = block->data + b->at;\n",
                                                    "    b->data = block->data + (at - block->data);\n", POOL, None),
    "mapped weights that are copied": ("memory.c", "bytes > 0 ? metal_mapped_at", "bytes == 0 ? metal_mapped_at", POOL, None),
    "attention that is cut begins anew": ("shaders/attention.metal", "int t = a.first + (int)group.x", "int t = (int)group.x", OPS, "attention"),
    "tiles that are cut begin anew": ("shaders/attention_matrix.metal", "tile = a.first + (int)group.x", "tile = (int)group.x", OPS,
                                      "attention"),
    "attention that is not cut": ("ops_attention.c", "most = most ? most : 1;", "most = (uint64_t)n;", OPS, "attention"),
    "values without their scales": ("shaders/attention_matrix.metal", "if (TYPE != METAL_I8 && TYPE != METAL_E4M3)\n        return;",
                                    "if (TYPE != METAL_I8)\n        return;", OPS, "attention"),
    "scales of values reach rows that do not see them": ("shaders/attention_matrix.metal",
                                                         "if (key >= keys[r] && key < keys[8 + r])\n            p.thread",
                                                         "if (key_row[e] >= 0 && key + r + keys[0] >= 0)\n            p.thread", OPS, "attention"),
    "parts that only look like neighbours": ("weight.c", "next->at == end)", "next->at >= end)", WEIGHTS, None),
    "pipelines that no model needs": ("device.c", "return i <= (int)KERNEL_round_experts", "return i < 0", BACKEND, None),
    "columns of matrices that are not checked": ("matrices.c", "return check_columns(be, c);", "return c ? ST_OK : check_columns(be, c);", BACKEND, None),
    "compiled kernels of another system": ("archive.c", 'system ? system : "?"', 'system ? "" : "?"', ARCHIVE, None),
    "compiled kernels of another source": ("archive.c", '"1", source,', '"1", source + strlen(source),', ARCHIVE, None),
    "an archive that keeps its temporary name": ("archive_files.c", "if (rename(temporary, path) != 0)", "if (access(temporary, F_OK) != 0)",
                                                 ARCHIVE, None),
    "a damaged archive that is read": ("archive_files.c", "digest, ARCHIVE_DIGITS) == 0", "digest, ARCHIVE_DIGITS) < 256", ARCHIVE, None),
    "a damaged archive that ends the start": ("archive.c", "        archive_drop(f);\n", "        abort();\n", ARCHIVE, None),
    "kernels that are not looked for in the archive": ("archive.c", "FAIL_ON_MISS = 4", "FAIL_ON_MISS = 0", ARCHIVE, None),
    "an archive that is not written": ("metal.c", "    metal_keep_archive(be);\n", "", ARCHIVE, None),
    "an archive that is not released": ("device.c", "    metal_give(&be->archive);\n", "", ARCHIVE, None),
    "a descriptor that is not released": ("archive.c", "    MTL_GET(release, what);\n    return made;", "    return made;", ARCHIVE, None),
    "archives of old systems that stay": ("archive_files.c", "    remove_old(f->dir);\n", "    (void)remove_old;\n", ARCHIVE, None),
    "the archive that was used last goes": ("archive_files.c", "(void)utimensat(AT_FDCWD, f->path, NULL, 0);", "(void)f;", ARCHIVE, None),
}
PROGRAMS = [OPS, BACKEND, WEIGHTS, MOE, ARCHIVE, POOL]
BASE = "without a mistake"


class Copy:
    """The tree in a folder of its own, built."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder) / "tree"
        for name in ("CMakeLists.txt", "cmake", "backends", "client", "collectives", "common", "coordinator", "proto", "worker",
                     "tests"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                self.root.mkdir(exist_ok=True)
                shutil.copy2(source, self.root / name)
        self.env = {**os.environ, "CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1", "INGOT_BIN": str(self.bin)}
        self.must("cmake", "-S", self.root, "-B", self.root / "build/release", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                  "-DINGOT_CUDA=OFF", "-DINGOT_WERROR=ON", f"-DINGOT_PYTHON={sys.executable}")

    @property
    def bin(self):
        return self.root / "build/release/bin"  # as deep as this tree's: ccache has the rest

    def must(self, *command):
        r = self.run(*command)
        assert r.returncode == 0, (r.stdout + r.stderr)[-3000:]

    def run(self, *command, **env):
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=LIMIT, cwd=self.root,
                              env={**self.env, **env}, errors="replace")

    def build(self):
        return self.run("ninja", "-C", self.root / "build/release", *PROGRAMS).returncode == 0

    def passes(self, test, ops):
        command = [sys.executable, self.root / "tests/metal" / test] if test == TEXT else [self.bin / test]
        try:
            return self.run(*command, **({"INGOT_OPS": ops} if ops else {})).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def catcher(self, name):
        """What catches the mistake: a program, "the compiler", or "nothing"."""
        file, old, new, test, ops = PLANTS[name]
        path = self.root / "backends/metal" / file
        text = path.read_text()
        assert text.count(old) >= 1, f"{name}: {file} has no {old!r}"
        path.write_text(text.replace(old, new, 1))
        try:
            if not self.build() and test != TEXT:
                return "the compiler"
            return "nothing" if self.passes(test, ops) else test
        finally:
            path.write_text(text)


def rows(wanted):
    with tempfile.TemporaryDirectory(prefix="ingot-plants-") as folder:
        copy = Copy(folder)
        assert copy.build(), "the copy is not built"
        for test, ops in sorted({(t, o or "") for name in wanted for t, o in [PLANTS[name][3:]]}):
            assert copy.passes(test, ops), f"{test} {ops} fails {BASE}"
        for name in wanted:
            caught = copy.catcher(name)
            print(f"{name}: {caught}", flush=True)
            yield name, caught


def table(caught):
    head = ("# Planted mistakes\n\nplants.py puts each into a copy of backends/metal and runs the test that has to fail; of "
            "test_ops_metal\nthe cases of the op in parentheses. Behind `tests/run.sh --all`.\n\n"
            "| mistake | in | caught by |\n|---|---|---|\n")
    return head + "".join(f"| {name} | {PLANTS[name][0]} | {by}{f' ({PLANTS[name][4]})' if PLANTS[name][4] else ''} |\n"
                          for name, by in caught.items())


@tap.case
def every_planted_mistake_is_caught():
    if "INGOT_ALL" not in os.environ:
        raise tap.Skip("builds the backend 50 times: tests/run.sh --all")
    caught = dict(rows(PLANTS))
    assert "nothing" not in caught.values(), [name for name, by in caught.items() if by == "nothing"]
    assert TABLE.read_text() == table(caught), "plants.py --write"


@tap.case
def there_are_thirty_and_each_has_its_place():
    assert len(PLANTS) >= 30 and sum("shaders" in p[0] or "../gpu" in p[0] for p in PLANTS.values()) >= 10
    for name, (file, old, new, *_) in PLANTS.items():
        text = (ROOT / "backends/metal" / file).read_text()
        assert old in text and old != new, name
        assert f"| {name} | {file} | " in TABLE.read_text(), name


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        TABLE.write_text(table(dict(rows(PLANTS))))
    elif sys.argv[1:]:
        list(rows(sys.argv[1:]))
    else:
        tap.main()
