"""Kinds of model on the CUDA backend without a GPU: real processes whose workers run its kernels on the tests' host emulator.
Delta nets and, with --all, Mamba-2, latent attention, sinks and packed weights: the same bytes alone, together through graphs,
from the prefix cache, on two ranks and when sequences are preempted."""
import functools
import os
import pathlib
import random
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from delta_model import make_delta  # noqa: E402
from latent_model import make_latent  # noqa: E402
from mamba_model import make_mamba  # noqa: E402
from packed_model import make_packed  # noqa: E402
from sinks_model import make_sinks  # noqa: E402

CUDA = ["--backend", "cuda", "--device", "0", "--max-seqs", "4", "--max-ctx", "64", "--block-len", "8"]
# name: how it is made, the blocks with which one is preempted (states are shared less often)
KINDS = {"delta": (make_delta, 11), "mamba": (make_mamba, 11), "latent": (make_latent, 10), "sinks": (make_sinks, 10),
         "fp8": (functools.partial(make_packed, method="fp8"), 10), "gptq": (functools.partial(make_packed, method="gptq"), 10)}


def requests():
    """Two of them begin with the same 36 tokens."""
    rng = random.Random(3)
    common = [rng.randrange(20, 2000) for _ in range(36)]
    return [{"tokens": {"id": common[:n] + [rng.randrange(20, 2000) for _ in range(3)]}, "max_tokens": 5,
             "sampling": {"temperature": 0.9 if i % 2 else 0.0, "seed": i + 1, "top_k": 20, "logprobs": True, "ignore_eos": True}}
            for i, n in enumerate([10, 20, 36, 36])]


def answers(folder, rounds=1, together=True, check=None, worker=(), **how):
    """Keys of the last round's."""
    with Parts(folder, worker=[*CUDA, *worker], **how) as c:
        for _ in range(rounds):
            got = c.answers_at_once(requests()) if together else c.clients[0].answers(requests(), together=False)
        if check:
            check(c.clients[0].call("Stats")[1])
    return [a.key() for a in got]


def cached(stats):
    assert stats.prefix_hits > 0, stats


def preempted(stats):
    assert stats.preemptions > 0, stats


def case(kind):
    def run():
        if not (REAL / "emulated" / "ingot-worker").exists():
            raise tap.Skip("ingot-worker-emulated is not built")
        if kind != "delta" and "INGOT_ALL" not in os.environ:
            raise tap.Skip("only with --all")
        folder = pathlib.Path(temp_dir.make())
        make, blocks = KINDS[kind]
        make(DEMO, folder)
        want = answers(folder, together=False, worker=["--graphs", "off"], coordinator=["--no-prefix-cache", "--no-overlap"])
        assert len({k for k in map(str, want)}) == len(want), "the requests must differ"
        assert answers(folder) == want, "together"
        assert answers(folder, rounds=3, check=cached) == want, "from the prefix cache"
        assert answers(folder, tp=2, coll="mpi") == want, "on two ranks"
        few = {"worker": ["--kv-blocks", blocks], "coordinator": ["--target-itl-ms", "0"]}
        assert answers(folder, check=preempted, **few) == want, "preempted"
    run.__name__ = kind
    tap.case(run)


for name in KINDS:
    case(name)

tap.main()
