"""Grammars on the CUDA backend without a GPU: real processes whose workers run its kernels on the tests' host emulator."""
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import tap  # noqa: E402
from cluster import model  # noqa: E402
from grammar_cases import Constrained  # noqa: E402

CUDA = ["--backend", "cuda", "--device", "0", "--max-seqs", "4", "--max-ctx", "128"]


def need(name):
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    if not model(name):
        raise tap.Skip(f"needs {name} of the shared data")
    return model(name)


def ran_ahead(stats):
    assert stats.masks > 20 and stats.steps_overlapped > 0, stats


def preempted(stats):
    assert stats.preemptions > 0, stats


constrained = Constrained(need, CUDA)
constrained.same_bytes("together", check=ran_ahead)
constrained.same_bytes("tp2_mpi", tp=2, coll="mpi")
constrained.same_bytes("preempted_without_graphs_in_another_thread_order", seed="11", check=preempted,
                       worker=["--graphs", "off", "--kv-blocks", "5", "--block-len", "8"], coordinator=["--target-itl-ms", "0"])
constrained.after_a_kill()

tap.main()
