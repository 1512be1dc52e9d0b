"""The CUDA compiler of the tests of kernels, and the table of their registers.

    nvcc.py FILE.cu ARCH OUT.ptx      a step of the build: compiles, copies the PTX to OUT.ptx, names its sources in OUT.ptx.d

A file is compiled once for an architecture.  The code is kept beside the programs of the build, under a hash of all that it is
made of.  The build compiles for BUILT; a test compiles what it does not find there: the other architectures, and files below
another root."""
import collections
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "gpu" / "registers.txt"
ARCHS = ["80", "89", "90a", "100"]
BUILT = ["80", "90a", "100"]  # tests.cmake has them too
FLAGS = ["-std=c++17", "-O3", "-fmad=false", "-Werror=all-warnings"]  # of the build: check_kernels.py compares
BIN = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build" / "release" / "bin"))
KEPT = BIN.parent / "kernels"
MOST_KEPT = 3  # of a file and an architecture; those that were read last stay
NVCC = os.environ.get("INGOT_NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def need_nvcc():
    if not os.path.exists(NVCC):
        raise tap.Skip("no nvcc")


@functools.cache
def version():
    text = subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def sources_of(source, root=ROOT):
    """The file of backends/cuda and all that it includes below root."""
    found, todo = set(), [root / "backends" / "cuda" / source]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += [root / name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(), re.M)]
    return sorted(found)


Code = collections.namedtuple("Code", "ptx cubin report")  # paths; the report is ptxas' and is made last


def place_of(source, arch, root):
    """Where the code is, or will be."""
    options = [*FLAGS, *(os.environ.get(f"NVCC_{where}_FLAGS") for where in ("PREPEND", "APPEND"))]
    h = hashlib.sha256(repr([options, arch, version()]).encode())
    for file in sources_of(source, root):
        h.update(repr((str(file.relative_to(root)), hashlib.sha256(file.read_bytes()).hexdigest())).encode())
    return Code(*(KEPT / f"{source}.{arch}.{h.hexdigest()[:24]}.{end}" for end in Code._fields))


def run(command, root):
    r = subprocess.run(command, capture_output=True, text=True, cwd=root)
    if r.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {r.stderr[-3000:]}")
    return r.stderr


def make(source, arch, root, code):
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        new = Code(*(pathlib.Path(folder, f"x.{end}") for end in Code._fields))
        # -c for ccache alone, which takes the command for a link without it
        run([*ccache, NVCC, *FLAGS, f"-arch=compute_{arch}", "-I", ".", "-c", "-ptx", f"backends/cuda/{source}", "-o", new.ptx], root)
        new.report.write_text(run([NVCC, *FLAGS, f"-arch=sm_{arch}", "-Xptxas", "-v", "-cubin", new.ptx, "-o", new.cubin], root))
        assert place_of(source, arch, root) == code, f"{source} has changed while it was compiled"
        for made, place in zip(new, code, strict=True):
            os.replace(made, place)


def forget(source, arch):
    """All but those that were read last."""
    reports = sorted(KEPT.glob(f"{source}.{arch}.*.report"), key=lambda f: f.stat().st_mtime)
    for report in reports[:-MOST_KEPT]:
        for end in reversed(Code._fields):
            report.with_suffix(f".{end}").unlink(missing_ok=True)


def compiled(source, arch="90a", root=ROOT):
    """Code of a file of backends/cuda; below another root to compare.  Of processes that want the same, one compiles."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with open(KEPT / f"{source}.{arch}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code = place_of(source, arch, root)
        if code.report.exists():
            os.utime(code.report)
        else:
            make(source, arch, root, code)
            forget(source, arch)
    return code


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


def build_step(source, arch, out):
    shutil.copyfile(compiled(source, arch).ptx, out)
    read = " ".join(str(file).replace(" ", "\\ ") for file in sources_of(source))
    pathlib.Path(f"{out}.d").write_text(f"{out}: {read}\n")


if __name__ == "__main__":
    build_step(*sys.argv[1:])
