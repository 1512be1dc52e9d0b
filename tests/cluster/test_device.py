"""The whole system on devices with graphs and a queue: decodes recorded as graphs and steps sent ahead give the
bytes of one request alone, op by op, step by step.  INGOT_DEVICE: emulated (bin/emulated, CUDA on the host
emulator) or queued (bin/queued, the CPU's ops run as late as the host lets them)."""
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve()
DEVICE = os.environ.get("INGOT_DEVICE", "queued")
BIN = pathlib.Path(os.environ.get("INGOT_BIN", HERE.parents[2] / "build" / "release" / "bin")) / DEVICE
os.environ["INGOT_BIN"] = str(BIN)
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]
import cluster  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, Parts, model  # noqa: E402
from grammar_cases import Constrained  # noqa: E402

if not (BIN / "ingot-worker").exists():
    print(f"no worker with the device '{DEVICE}' in this build")
    sys.exit(77)

MODEL = model("stories260K") or DEMO
WORKER = ["--backend", "cuda" if DEVICE == "emulated" else "cpu", "--max-seqs", "3", "--max-ctx", "64", "--max-step-tokens", "16"]
SAMPLING = [
    {"temperature": 0.0},
    {"temperature": 0.9, "top_k": 40, "seed": 5, "logit_bias": [{"id": 300, "bias": 4.0}]},
    {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "seed": 6},
    {"temperature": 0.0, "repetition_penalty": 1.3},
]
REQUESTS = [{"text": b"Once upon a time" if i % 2 else b"The", "max_tokens": 6 + i % 2,
             "sampling": {**s, "ignore_eos": True, "logprobs": True, "top_logprobs": 2}}
            for i, s in enumerate(SAMPLING)]
oracle = None


def ask(worker, coordinator, together, **how):
    with Parts(MODEL, worker=[*WORKER, *worker], coordinator=coordinator, **how) as c:
        client = c.clients[0]
        answers = client.answers(REQUESTS, together)
        return [(a.key(), a.top) for a in answers], client.call("Stats")[1], c.log()


@tap.case
def alone_op_by_op():
    global oracle
    oracle, stats, log = ask(["--graphs", "off"], ["--no-overlap"], together=False)
    assert stats.steps_overlapped == 0 and " 0 graphs" in log, log
    assert len({key for key, _ in oracle}) == len(REQUESTS), "the requests must differ"


@tap.case
def graphs_and_overlap_alone():
    got, stats, log = ask([], [], together=False)
    assert got == oracle, f"{got}\n{oracle}"
    assert stats.steps_overlapped > stats.steps // 3 and " 3 graphs" in log, log  # batches of 1, 2, 3


@tap.case
def graphs_and_overlap_together():
    got, _, _ = ask([], [], together=True)
    assert got == oracle, f"{got}\n{oracle}"


@tap.case
def overlap_together():
    got, _, _ = ask(["--graphs", "off"], [], together=True)
    assert got == oracle, f"{got}\n{oracle}"


@tap.case
def serve_passes_graphs_on():
    """A copy of ingot finds the programs beside it: this device's worker."""
    real = cluster.BIN
    with temp_dir.folder() as d:
        cluster.BIN = pathlib.Path(d)
        shutil.copy(BIN / "ingot", cluster.BIN / "ingot")
        for program in ("ingot-worker", "ingot-coordinator", "ingot-text"):
            (cluster.BIN / program).symlink_to((BIN / program).resolve())
        try:
            for graphs, n in (("auto", 3), ("off", 0)):
                with cluster.Cluster(MODEL, extra=[*WORKER, "--graphs", graphs]) as c:
                    assert f" {n} graphs" in c.log(), c.log()
        finally:
            cluster.BIN = real


if DEVICE == "queued":
    @tap.case
    def two_ranks_without_graphs():
        """The collective of these ranks reads the device's memory on the host: not in a graph."""
        got, stats, log = ask([], [], together=False, tp=2)
        assert got == oracle, f"{got}\n{oracle}"
        assert stats.steps_overlapped > stats.steps // 3 and " 0 graphs" in log, log


def ran_ahead(stats):
    assert stats.masks > 20 and stats.steps_overlapped > 0, stats


if DEVICE == "queued":  # a step's tokens are not there when the next one is enqueued; test_cuda_grammar.py has the other device
    constrained = Constrained(lambda _: MODEL, WORKER)
    constrained.same_bytes("together", check=ran_ahead)
    constrained.same_bytes("alone_ahead", together=False, check=ran_ahead)
    constrained.same_bytes("op_by_op", worker=["--graphs", "off"], check=ran_ahead)


tap.main()
