"""Every family on the tests' double of Metal, behind tests/run.sh --all: the fixtures of transformers, and the same bits in
chunks, in batches and behind a cache that was cut back (metal_model.c; metal_check runs some of them)."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import tap  # noqa: E402
import temp_dir  # noqa: E402

BIN = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/bin"))


def run(only, least):
    if "INGOT_ALL" not in os.environ:
        raise tap.Skip("minutes on the double: tests/run.sh --all")
    if not (BIN / "metal_model_double").exists():
        raise tap.Skip("built without libobjc")
    said = subprocess.run([BIN / "metal_model_double", "--models", ROOT / "tests/golden/models", "--only", only],
                          capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "XDG_CACHE_HOME": temp_dir.make()}).stdout.splitlines()
    bad = [line for line in said if line.startswith("not ok") or "# SKIP" in line]
    good = [line for line in said if line.startswith("ok") and "# SKIP" not in line]
    assert not bad and len(good) >= least, (bad, len(good))


@tap.case
def fixtures_of_transformers():
    run("golden", 97)


@tap.case
def the_same_bits():
    run("same", 54)


tap.main()
