"""The CUDA compiler of the tests of kernels, and the table of their registers."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "gpu" / "registers.txt"
ARCHS = ["80", "89", "90a", "100"]
FLAGS = ["-std=c++17", "-O3", "-fmad=false", "-Werror=all-warnings", "-Xptxas", "-v"]
NVCC = os.environ.get("INGOT_NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def need_nvcc():
    if not shutil.which(NVCC):
        raise tap.Skip("no nvcc")


def version():
    text = subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def plain_names(mangled):
    """Demangled, without parameters: {mangled: "embed_kernel<(dtype)1>"}."""
    if not shutil.which("c++filt"):
        raise tap.Skip("no c++filt")
    out = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    return {m: re.sub(r"^void ", "", n)[::-1].split("(", 1)[1][::-1] if n.endswith(")") else n
            for m, n in zip(mangled, out.splitlines())}


def written():
    """The compiler's version, {kernel: {arch: (registers, stack)}}"""
    lines, out = TABLE.read_text().splitlines(), {}
    for line in lines[2:]:
        kernel, numbers = line.split("\t")
        out[kernel] = {a: tuple(map(int, n.split("/"))) for a, n in zip(lines[1].split(), numbers.split())}
    return lines[0].split()[-1], out
