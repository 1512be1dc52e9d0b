"""Installs the build into a folder of the test's own."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import temp_dir  # noqa: E402
from cluster import BIN, ROOT  # noqa: E402,F401
from tap import LIMIT  # noqa: E402

BUILD = BIN.parent


def run(*argv, env=None, **kw):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, **(env or {})}, **kw)


def ok(*argv, **kw):
    p = run(*argv, **kw)
    assert p.returncode == 0, (argv, p.returncode, p.stdout[-2000:], p.stderr[-4000:])
    return p.stdout


def install():
    """Installed into one folder, then moved: nothing may know where it was."""
    dir = pathlib.Path(temp_dir.make())
    ok("cmake", "--install", BUILD, "--strip", "--prefix", dir / "at-first")
    (dir / "at-first").rename(dir / "prefix")
    return dir / "prefix"
