"""nvcc.py compiles once what several tests read, again when anything of it has changed, and keeps nothing of a failure.  The
compiler is a script."""
import contextlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import tap  # noqa: E402
import temp_dir  # noqa: E402

COMPILER = """#!/bin/sh
here=${0%/*}
if [ "$1" = --version ]; then echo "release V$(cat "$here/version")"; exit; fi
echo "$*" >>"$here/calls"
while [ -e "$here/hold" ]; do sleep 0.02; done
for last; do :; done
case "$*" in
*-ptx*) grep -q fault backends/cuda/*.h && { echo "a fault in the source" >&2; exit 1; }
  cat backends/cuda/* >"$last" ;;
*) echo "ptxas info: some" >&2; echo code >"$last" ;;
esac
"""
READ = """import pathlib, sys
import nvcc
print("begins", flush=True)
code = nvcc.compiled("a.cu", sys.argv[2], pathlib.Path(sys.argv[1]))
assert code.report.read_text().startswith("ptxas") and code.cubin.read_text() == "code\\n"
print(code.ptx.read_text())
"""


class Place:
    def __init__(self, folder):
        self.dir, self.root = pathlib.Path(folder), pathlib.Path(folder, "root")
        (self.root / "backends" / "cuda").mkdir(parents=True)
        self.kept = self.dir / "build" / "kernels"
        self.write("a.cu", '#include "backends/cuda/a.h"\nkernel\n')
        self.write("a.h", "  #  include \"backends/cuda/b.h\"\n")
        self.write("b.h", "first\n")
        (self.dir / "version").write_text("1.2.3")
        (self.dir / "nvcc").write_text(COMPILER)
        (self.dir / "nvcc").chmod(0o755)
        self.env = {**os.environ, "INGOT_NVCC": str(self.dir / "nvcc"), "INGOT_BIN": str(self.dir / "build" / "bin"),
                    "PYTHONPATH": str(HERE), "CCACHE_DISABLE": "1"}

    def write(self, name, text):
        (self.root / "backends" / "cuda" / name).write_text(text)

    def begin(self, arch="80"):
        return subprocess.Popen([sys.executable, "-c", READ, self.root, arch], env=self.env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def read(self, arch="80"):
        out, err = self.begin(arch).communicate(timeout=tap.LIMIT)
        return out.partition("begins\n")[2] or err

    def compiles(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.dir / "calls").read_text().count("-ptx")
        return 0


@contextlib.contextmanager
def place():
    with temp_dir.folder() as folder:
        yield Place(folder)


@tap.case
def again_when_anything_has_changed():
    with place() as p:
        assert "first" in p.read() and "first" in p.read() and p.compiles() == 1
        p.write("b.h", "second\n")
        assert "second" in p.read() and "second" in p.read() and p.compiles() == 2, "an included file"
        p.read("90a")
        assert p.compiles() == 3, "the architecture"
        (p.dir / "version").write_text("1.2.4")
        p.read()
        assert p.compiles() == 4, "the compiler"
        p.env["NVCC_APPEND_FLAGS"] = "-G"
        p.read()
        assert p.compiles() == 5, "its options"
        p.write("c.h", "read by none\n")
        p.read()
        assert p.compiles() == 5


@tap.case
def an_older_version_is_kept_for_a_while():
    with place() as p:
        p.read()
        for i in range(4):
            p.write("b.h", f"version {i}\n")
            p.read()
            p.write("b.h", "first\n")
            assert "first" in p.read() and p.compiles() == 2 + i, "what is read stays"
        assert len(list(p.kept.glob("*.report"))) == len(list(p.kept.glob("*.ptx"))) == len(list(p.kept.glob("*.cubin"))) == 3


@tap.case
def one_of_two_that_want_the_same_compiles():
    with place() as p:
        (p.dir / "hold").touch()
        both = [p.begin(), p.begin()]
        for one in both:
            assert one.stdout.readline() == "begins\n", one.stderr.read()
        tap.wait_for(p.compiles, "one compiles")
        (p.dir / "hold").unlink()
        for one in both:
            out, err = one.communicate(timeout=tap.LIMIT)
            assert one.returncode == 0 and "first" in out, err
        assert p.compiles() == 1


@tap.case
def nothing_of_a_failure_is_kept():
    with place() as p:
        p.write("b.h", "fault\n")
        for _ in range(2):
            assert "AssertionError" in (text := p.read()) and "a fault in the source" in text, text
        assert p.compiles() == 2 and not list(p.kept.glob("*.*.*.ptx"))
        p.write("a.h", '#include "backends/cuda/missing.h"\n')
        assert "FileNotFoundError" in p.read() and p.compiles() == 2


@tap.case
def a_change_while_it_is_compiled_is_seen():
    with place() as p:
        (p.dir / "hold").touch()
        one = p.begin()
        tap.wait_for(p.compiles, "it compiles")
        p.write("b.h", "second\n")
        (p.dir / "hold").unlink()
        _, err = one.communicate(timeout=tap.LIMIT)
        assert one.returncode and "has changed while it was compiled" in err, err
        assert "second" in p.read()


@tap.case
def the_build_is_told_what_was_read():
    with place() as p:
        out = p.dir / "oneshot.cu.90a.ptx"
        (p.dir / "nvcc").write_text(COMPILER.replace("grep -q fault", "grep -q 'no such fault'"))
        subprocess.run([sys.executable, HERE / "nvcc.py", "oneshot.cu", "90a", out], env=p.env, check=True, timeout=tap.LIMIT)
        target, _, files = pathlib.Path(f"{out}.d").read_text().partition(": ")
        files = {pathlib.Path(f).relative_to(HERE.parents[1]).as_posix() for f in files.split()}
        assert target == str(out) and out.stat().st_size
        assert {"backends/cuda/oneshot.cu", "backends/cuda/oneshot.h", "backends/cuda/gpu.h", "common/dtype.h"} <= files, files
        assert not any(f.endswith(".cu") and f != "backends/cuda/oneshot.cu" for f in files), files


tap.main()
