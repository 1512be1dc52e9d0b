"""The shader text as a compiler for Macs will see it, as far as that can be known without one: clang as C++14 with
address spaces, clang as C++ for OpenCL without fp64, and a lint for rules of the language that neither knows.  Planted
mistakes show that all three see."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tap  # noqa: E402

BUILD = pathlib.Path(os.environ.get("INGOT_BIN", HERE.parents[1] / "build/release/bin")).parent
SPACES = ("device", "constant", "threadgroup", "thread", "GLOBAL", "CONSTANT", "SHARED_MEM", "PRIVATE")


def source():
    path = BUILD / "metal/metal_source.metal"
    if not path.exists():
        raise tap.Skip("the shader text is not built")
    return path.read_text()


def own(text):
    """Kernels and what they call: behind args.h, without comments."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return text[text.index("warp_sum(float v)") - 40:]


def lint(text):
    found = []
    mine = own(text)
    all_text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for m in re.finditer(r"((?:\w+\s+)*)\b(u?int(?:8|16|32|64)_t|float|uint|struct \w+|bool)\s*[*&](?!&)\s*\w", mine):
        if not any(s in m[1].split() for s in SPACES):
            found.append(f"a pointer without an address space: {m[0]}")
    rules = {r"\[[&=]?\]\s*\(": "a lambda", r"\bstatic\s+(?!inline)": "a static variable", r"\bdouble\b": "double",
             r"\b(?:[\w]+_t|u?int|float|bool)\s+(?:half|bfloat|kernel|vertex|fragment|patch|sampler|texture|visible)\b":
             "a variable with the name of a word of Metal", r"\bgoto\b": "goto", r"\(\*\s*\w+\)\s*\(": "a function pointer", r"\bsimd_(sum|max|min|product)\b":
             "a sum in an order that is not specified", r"\bvirtual\b|\bnew\b|\bthrow\b": "C++ at run time"}
    found += [what for rule, what in rules.items() if re.search(rule, all_text if "Metal" in what else mine)]
    kernels = [(m[1], m[2], 0) for m in re.finditer(r"\bKERNEL (\w+)\((.*?)GRID\)", mine, flags=re.S)]
    kernels += [(m[1], m[2], 1) for m in re.finditer(r"\bGPU_KERNEL\([^,;]+, (\w+)(.*?)\)\n\{", mine, flags=re.S)]
    for name, buffers, first in kernels:
        numbers = [int(n) for n in re.findall(r"BUF\((\d+)\)", buffers)]
        if numbers != list(range(first, first + len(numbers))):
            found.append(f"kernel {name}: buffers {numbers}")
    bodies = dict(re.findall(r"(?:static inline|DEVICE) [^;{}]*?(\w+)\([^{}]*?\)\n\{\n(.*?)\n\}", mine, flags=re.S))
    found += [f"{name} calls itself" for name, body in bodies.items() if re.search(rf"\b{name}(<\w+>)?\(", body)]
    for m in re.finditer(r"struct (\w+_args|rounding) \{(.*?)\}", all_text, flags=re.S):
        found += [f"{m[1]}: {member.strip()}" for member in m[2].split(";")
                  if member.strip() and not re.match(r"(int32_t|float|struct metal_\w+|struct rounding)\s", member.strip())]
    return found


def compiled(text):
    r = subprocess.run(["clang++", "-std=c++14", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-c++17-extensions",
                        "-Wno-unused-function", "-include", HERE / "address_spaces.h", "-x", "c++", "-"],
                       input=text.replace("#include <metal_stdlib>", ""), capture_output=True, text=True)
    return r.stderr


def opencl(text):
    """Kernels may have no references as parameters there: arguments come by pointer."""
    text = re.sub(r"/\*.*?\*/", " ", text.replace("#include <metal_stdlib>", ""), flags=re.S)
    text = re.sub(r"#define GPU_KERNEL.*?GRID\)\n", "", text, flags=re.S)
    text = re.sub(r"GPU_KERNEL\([^,;]+, (\w+), (\w+),(.*?)\)\n\{",
                  r"KERNEL \1(constant struct \2 *given,\3, GRID)\n{ constant struct \2 &a = *given;", text, flags=re.S)
    text = re.sub(r"(KERNEL \w+\()constant struct (\w+) &a BUF\(0\)(.*?GRID\)\s*\\?\n\s*\{)",
                  r"\1constant struct \2 *given\3 constant struct \2 &a = *given;", text, flags=re.S)
    r = subprocess.run(["clang", "-x", "clcpp", "-cl-std=clc++", "-Xclang", "-cl-ext=-cl_khr_fp64", "-fsyntax-only", "-Wall", "-Wextra",
                        "-Werror", "-Wno-unused-function", "-target", "spir64", "-include", HERE / "opencl_words.h", "-"],
                       input=text, capture_output=True, text=True)
    return r.stderr


@tap.case
def clang_takes_the_text_as_opencl():
    assert opencl(source()) == ""


@tap.case
def clang_takes_the_text():
    assert compiled(source()) == ""


@tap.case
def lint_finds_nothing():
    assert lint(source()) == []


PLANTS = [  # (from, to, who sees it)
    ("const GLOBAL float *w, bool weighed", "const SHARED_MEM float *w, bool weighed", compiled),
    ("SHARED_MEM float *part, uint32_t lane", "GLOBAL float *part, uint32_t lane", compiled),
    ("device float *o = out + (int64_t)group.x * a.out_stride;\n    float sum", "threadgroup float *o = out;\n    float sum", compiled),
    ("float sum = 0.0f, squares = 0.0f;", "double sum = 0.0, squares = 0.0;", compiled),
    ("(SHARED_MEM uint64_t *keys, int32_t size", "(GLOBAL uint64_t *keys, int32_t size", compiled),
    ("*v = a.factor * *v;", "a.factor = *v;", compiled),
    ("float sum = 0.0f, squares = 0.0f;", "double sum = 0.0, squares = 0.0;", opencl),
    ("DEVICE float warp_sum(float v)\n{\n", "DEVICE float warp_sum(float v)\n{\n    SHARED(float, part, [32]);\n", opencl),
    ("const GLOBAL float *w, bool weighed", "const SHARED_MEM float *w, bool weighed", opencl),
    ("*v = a.factor * *v;", "a.factor = *v;", opencl),
    ("uint32_t low = e >> 1;", "uint32_t half = e >> 1, low = half;", opencl),
    ("uint32_t low = e >> 1;", "uint32_t half = e >> 1, low = half;", lint),
    ("DEVICE float warp_sum(float v)\n{\n", "DEVICE float warp_sum(float v)\n{\n    float (*f)(float) = warp_sum;\n    v = f(v);\n", opencl),
    ("thread float *part, int n", "float *part, int n", lint),
    ("const GLOBAL float *squares BUF(1)", "const float *squares BUF(1)", lint),
    ("const GLOBAL float *squares BUF(1)", "const GLOBAL float *squares BUF(3)", lint),
    ("v += shfl_xor(v, apart);", "v = simd_sum(v);", lint),
    ("float scale = 1.0f / sqrtf(sum", "static float scale = 1.0f / sqrtf(sum", lint),
    ("device float *out BUF(4), GRID)\n{\n    SHARED", "device float *out BUF(5), GRID)\n{\n    SHARED", lint),
    ("    v = warp_max(v);\n", "    v = block_max(v, part, lane, warp, n_warps);\n", lint),
    ("    int32_t n_bytes, dst_step, src_step;", "    int64_t n_bytes, dst_step, src_step;", lint),
    ("float m = *l +", "float m = [=]() { return *l; }() +", lint),
]


@tap.case
def planted_mistakes_are_seen():
    text = source()
    for old, new, sees in PLANTS:
        assert old in text, old
        assert sees(text.replace(old, new, 1)), f"not seen: {new}"


tap.main()
