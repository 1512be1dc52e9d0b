"""Instructions of the shaders' inner loops, counted in what clang makes of the shader text.

The method: the text is compiled as C++14 with address spaces (address_spaces.h) at -O2, without vectors and unrolling, to
LLVM's intermediate code, in which products are the very strip_sums of linear.metal with 1 or 8 rows of x.  Of the
innermost loop that has the fused multiply-add (of attention: of both) the longest way from its head back to it is taken,
and divided by the weights that it handles.  Phi nodes, casts of pointers, elements of vectors (which are registers) and
address arithmetic of one step are free; a conversion between integers and floats, a division and a product of integers
take 4 ticks as they have a quarter of the rate (philipturner/metal-benchmarks on GitHub), everything else 1.  A product
of matrices has 16 multiply-adds a lane and is taken for MATRIX ticks.  Apple's compiler may do better or worse."""
import functools
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "E4M3",
         "INT4_BF16", "INT4_ZERO_F16", "INT4_ZERO_BF16", "INT8_BF16", "INT8_ZERO_F16", "INT8_ZERO_BF16", "INT4_INDEX", "INT8_INDEX",
         "LEVELS", "SMALL"]
FREE = {"phi", "bitcast", "getelementptr", "freeze", "extractelement", "insertelement", "shufflevector"}
PIECE = {"Q4_K": 16, "Q5_K": 16, "Q6_K": 16, "INT4_BF16": 16, "INT4_ZERO_F16": 16, "INT4_ZERO_BF16": 16, "INT4_INDEX": 16,
         "LEVELS": 16, "SMALL": 16, "IQ4_NL": 16, "IQ4_XS": 16}  # weights of a piece, else 8: pieces.metal
ROWS = {1: 4, 8: 2}  # of w in a simdgroup, by rows of x: args.h
MATRIX = 18  # assumed: not measured
MATRIX_ROWS = 16  # of w in a simdgroup, for 8 or 32 rows of x: args.h
MATRIX_TOKENS = (8, 32)
MATRIX_TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"]
TERM = "llvm.fma.f32", "@matrix_product"  # what an innermost loop has
SLOW = {"mul", "sdiv", "udiv", "srem", "urem", "fdiv", "sitofp", "uitofp", "fptosi", "fptoui"}
FILES = ["backends/metal/shaders/prelude.metal", "common/dtype.h", "backends/exact_math.h", "backends/limits.h",
         "backends/gpu/args.h", "backends/metal/args.h",
         *(f"backends/gpu/{name}.h" for name in ("reduce", "activated", "gates", "keys", "logits", "moe", "heads", "inputs")),
         *(f"backends/metal/shaders/{name}.metal" for name in ("inputs", "rows", "delta", "scaled", "quant", "pieces", "linear",
                                                               "matrix", "moe", "moe_matrix", "attention", "attention_matrix"))]


def text():
    """As cmake/embed_text.cmake makes it, for a C++ compiler."""
    all_files = "".join((ROOT / name).read_text() for name in FILES)
    all_files = re.sub(r"#include [\"<].*\n", "", all_files)
    return re.sub(r"#ifdef __cplusplus\nextern [^}]*}\n#endif\n", "", all_files)


def product(name, rows):
    n = ROWS[rows]
    return (f'extern "C" float product_{name}_{rows}(const device uint8_t *w, const device float *x,\n'
            f"    const thread row_slice *in, const thread int64_t *at, const thread int64_t *row, constant int32_t *end, uint lane)\n{{\n    float sum[{n * rows}], all = 0.0f;\n"
            f"    strip_sums<METAL_{name}, {n}, {rows}>(*in, row, w, at, x, {rows}, 0, *end, sum, lane);\n"
            f"    for (int i = 0; i < {n * rows}; i++)\n        all += sum[i];\n    return all;\n}}\n")


def matrices(name, rows):
    n = rows // 8 * 2
    return (f'extern "C" float matrices_{name}_{rows}(const device uint8_t *w, const device float *x,\n'
            f"    const thread lane_parts<{rows // 8}> *a, const thread row_slice *in, constant int32_t *end)\n{{\n    simdgroup_float8x8 sum[{n}];\n"
            f"    float all = 0.0f;\n    matrix_sums<METAL_{name}, {rows // 8}>(*a, *in, w, x, 0, *end, sum);\n"
            f"    for (int i = 0; i < {n}; i++)\n        all += sum[i].thread_elements()[0];\n    return all;\n}}\n")


@functools.cache
def functions():
    """{name: {block: [instructions]}}"""
    builtin = "".join(f"#define {name} __builtin_{name}\n" for name in ("fmaf", "memcpy", "sqrtf", "fabsf"))
    shaders = re.sub(r"^METAL_EACH_TYPE\(.*\n", "", text(), flags=re.M)  # kernels of each type: their loops are below
    usual = "warp_max(strange) > 0.0f"  # a way for values that are no numbers, which is not counted
    assert usual in shaders
    shaders = shaders.replace(usual, "false")
    source = builtin + shaders + "".join(product(name, rows) for name in TYPES for rows in (1, 8))
    source += "".join(matrices(name, rows) for name in MATRIX_TYPES for rows in MATRIX_TOKENS)
    command = ["clang++", "-std=c++14", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-vectorize",
               "-fno-slp-vectorize", "-fno-unroll-loops", "-mllvm", "-inline-threshold=100000", "-w", "-include", HERE / "address_spaces.h", "-x", "c++", "-", "-S", "-emit-llvm",
               "-o", "-"]
    made = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    found = {}
    for m in re.finditer(r"^define [^\n]*@(\w+)\([^\n]*\{\n(.*?)^\}", made, re.M | re.S):
        blocks, name = {"entry": []}, "entry"
        for line in m[2].splitlines():
            if label := re.match(r"(\d+|[\w.]+):", line):
                name = label[1]
                blocks[name] = []
            elif blocks[name] and re.match(r"switch .*\[[^]]*$", blocks[name][-1]):
                blocks[name][-1] += " " + line.strip()  # its targets have lines of their own
            elif line.strip() and not line.strip().startswith(";"):
                blocks[name].append(line.strip())
        found[m[1]] = blocks
    return found


def ticks(line):
    op = re.match(r"(?:%[\w.]+ = )?(?:tail )?(\w+)", line)[1]
    if "@matrix_product" in line:
        return MATRIX
    return 0 if op in FREE or op == "br" and "," not in line else 4 if op in SLOW else 1


def follow(block):
    """Where a block goes."""
    last = block[-1] if block else "unreachable"
    return re.findall(r"label %([\w.]+)", last) if re.match("br|switch", last) else []


def loops(blocks):
    """{head: {blocks of the loop}}, by back edges of a walk from the entry."""
    next_of = {name: follow(lines) for name, lines in blocks.items()}
    first = next(iter(n for n in blocks if blocks[n]))
    back, done, way = [], set(), []

    def walk(name):
        done.add(name)
        way.append(name)
        for to in next_of[name]:
            if to in way:
                back.append((name, to))
            elif to not in done:
                walk(to)
        way.pop()
    walk(first)
    before = {}
    for name, targets in next_of.items():
        for to in targets:
            before.setdefault(to, set()).add(name)
    found = {}
    for tail, head in back:
        body, todo = {head}, [tail]
        while todo:
            name = todo.pop()
            if name not in body:
                body.add(name)
                todo += before.get(name, ())
        found[head] = found.get(head, set()) | body
    return found


def longest(blocks, head, body):
    """Ticks of the longest way from head through the body; of a loop in it, one turn."""
    done, way = {}, set()

    def cost(name):
        if name not in done:
            way.add(name)
            rest = [cost(to) for to in follow(blocks[name]) if to in body and to not in way]
            way.remove(name)
            done[name] = sum(map(ticks, blocks[name])) + max(rest, default=0)
        return done[name]
    return cost(head)


def terms(blocks, body):
    return sum(any(term in line for term in TERM) for name in body for line in blocks[name])


def innermost(blocks):
    """[(head, body)] of the innermost loops with a fused multiply-add or a product of matrices."""
    found = [(h, b) for h, b in loops(blocks).items() if terms(blocks, b)]
    return [(h, b) for h, b in found if not any(other < b for _, other in found)]


def main_loop(blocks):
    """Ticks of the loop over pieces, which has the most products."""
    return longest(blocks, *max(innermost(blocks), key=lambda loop: terms(blocks, loop[1])))


@functools.cache
def of_product(name, rows):
    """Ticks of a lane for a weight and `rows` rows of x."""
    return main_loop(functions()[f"product_{name}_{rows}"]) / (PIECE.get(name, 8) * ROWS[rows])


@functools.cache
def of_matrices(name, rows):
    """The same by matrices: a step has 8 pieces of each row."""
    return main_loop(functions()[f"matrices_{name}_{rows}"]) / (PIECE.get(name, 8) * 8 * MATRIX_ROWS / 32)


@functools.cache
def of_attention(name):
    """(score, value): ticks of a lane for a dimension of a key, which it multiplies with the query in threadgroup memory,
    and for a dimension of a value."""
    blocks = next(b for n, b in functions().items() if f"attention_{name}" in n)
    score, value = [], []
    for head, body in innermost(blocks):
        loads = [line for n in body for line in blocks[n] if " load " in line]
        if any("addrspace(1)" in line for line in loads):
            (score if any("addrspace(3)" in line for line in loads) else value).append(longest(blocks, head, body))
    return max(score), max(value)


@functools.cache
def of_matrix_attention(name):
    """(block, rest): ticks of a lane for 8 rows and a split of 32 keys: of a block of 32 dimensions of their scores, and of all
    but the scores of heads of 128."""
    blocks = next(b for n, b in functions().items() if f"attention_matrix_{name}" in n)
    found = [(h, b) for h, b in loops(blocks).items() if terms(blocks, b)]
    split = max(found, key=lambda loop: len(loop[1]))
    (scores,) = [loop for loop in found if loop[1] < split[1] and terms(blocks, loop[1]) == 16]
    block = longest(blocks, *scores)
    return block, longest(blocks, *split) - block
