"""Values beyond the range of an f16 KV cache on the CUDA backend without a GPU: see loud_model.py; the workers run the
kernels on the tests' host emulator."""
import os
import pathlib
import shutil
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import loud_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402

CUDA = ["--backend", "cuda", "--device", "0", "--max-seqs", "8", "--max-ctx", "128"]
DIR = temp_dir.make()
MODEL = loud_model.make(DIR)


def need_emulator():
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")


@tap.case
def one_fails_the_others_go_on():
    need_emulator()
    loud_model.one_fails_the_others_go_on(MODEL, [{}], n=3, worker=CUDA)


@tap.case
def the_advice_helps():
    need_emulator()
    loud_model.the_advice_helps(MODEL, worker=CUDA)


try:
    tap.main()
finally:
    shutil.rmtree(DIR, ignore_errors=True)
