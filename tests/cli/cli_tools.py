"""Runs `ingot` for the tests."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
from cluster import BIN  # noqa: E402

INGOT = str(BIN / "ingot")


def ingot(*args, stdin="", timeout=120, env=None):
    return subprocess.run([INGOT, *map(str, args)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})})


def ok(*args, **kw):
    p = ingot(*args, **kw)
    assert p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
    return p.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]
