"""The CUDA backend end to end without a GPU: real processes whose workers run its kernels on the tests' host emulator.
Slow (about a thousand times a GPU), so the requests are few and short."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), *(str(pathlib.Path(__file__).resolve().parents[1] / d) for d in (".", "quantize"))]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import tap  # noqa: E402
from cluster import model, mpirun_command  # noqa: E402
from emulated_cases import Emulated  # noqa: E402
from experts_model import make_mixture  # noqa: E402
import random_model  # noqa: E402

CUDA = ["--backend", "cuda", "--device", "0", "--max-seqs", "8", "--max-ctx", "256"]
SHARED = [1] + [(7 * i) % 490 + 3 for i in range(37)]


def requests():
    """Different lengths, shared beginnings, greedy and sampled."""
    out = []
    for i in range(6):
        ids = SHARED[:[1, 5, 16, 17, 30, 38][i]] + [40 + 3 * i, 9 + i]
        s = {"logprobs": True, "temperature": 0.0 if i % 2 == 0 else 0.9}
        if i % 2:
            s.update(seed=1000 + i, top_p=0.95, top_k=[0, 20, 40][i // 2])
        if i == 4:
            s.update(repetition_penalty=1.2)
        out.append({"tokens": {"id": ids}, "sampling": s, "max_tokens": 6})
    return out

MIXTURES = tempfile.TemporaryDirectory(prefix="ingot-cuda-experts-")


def need(name):
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    if name.endswith(("-q8_0", "-q4_0")):
        dense, kind = name.rsplit("-", 1)
        return need(dense) / f"model-{kind}.gguf"
    if name == "random-q4_k":  # rows of 256: every matrix is of that type
        return quantised(name)
    dense = name.removesuffix("-experts")
    if not model(dense):
        raise tap.Skip(f"needs {dense} of the shared data")
    if name == dense:
        return model(name)
    mixture = pathlib.Path(MIXTURES.name) / name
    if not mixture.exists():
        mixture.mkdir()
        make_mixture(model(dense), mixture)
    return mixture


def quantised(name):
    file = pathlib.Path(MIXTURES.name) / f"{name}.gguf"
    if not file.exists():
        source = random_model.make(pathlib.Path(MIXTURES.name) / name)
        subprocess.run([REAL / "ingot-quantize", source, file, "--type", "q4_k"], check=True, timeout=tap.LIMIT,
                       capture_output=True)
    return file


emulated = Emulated(need, CUDA, "eager emulated GPU", requests())  # a late load would wait for kernels of other ranks
emulated.greedy(12)
same_bytes = emulated.same_bytes
same_bytes("stories260K", "together")
same_bytes("stories260K", "in_chunks", coordinator=["--max-step-tokens", "16"])
same_bytes("stories260K", "other_thread_order", seed="11")
if "INGOT_ALL" in os.environ:
    same_bytes("stories260K", "tp2_mpi", tp=2, coll="mpi")
same_bytes("stories260K-bf16", "together")
same_bytes("stories260K-bf16", "tp2_mpi", tp=2, coll="mpi")
same_bytes("stories260K-q8_0", "together")
same_bytes("stories260K-q8_0", "tp2_mpi", tp=2, coll="mpi")
if "INGOT_ALL" in os.environ:
    same_bytes("stories260K-q4_0", "in_chunks", coordinator=["--max-step-tokens", "16"])
    same_bytes("random-q4_k", "together")
    same_bytes("random-q4_k", "tp2_mpi", tp=2, coll="mpi")
same_bytes("stories260K-bf16-experts", "together")
same_bytes("stories260K-bf16-experts", "tp2_mpi", tp=2, coll="mpi")


@tap.case
def without_a_driver_there_is_one_clear_line():
    if pathlib.Path("/dev/nvidiactl").exists() or pathlib.Path("/proc/driver/nvidia").exists():
        raise tap.Skip("this machine has a driver")
    r = subprocess.run([REAL / "ingot-worker", "--backend", "cuda", "--model", need("stories260K"), "--connect",
                        "ipc:///nonexistent/x"], capture_output=True, text=True, timeout=tap.LIMIT)
    has_cuda = "in this build" not in r.stderr
    want = "no CUDA driver on this machine" if has_cuda else "no backend 'cuda' in this build (it has: cpu)"
    assert r.returncode == 3 and want in r.stderr, (r.returncode, r.stderr)


@tap.case
def a_device_that_is_not_there():
    r = subprocess.run([REAL / "emulated" / "ingot-worker", "--backend", "cuda", "--device", "3", "--inspect",
                        "--model", need("stories260K")], capture_output=True, text=True, timeout=tap.LIMIT)
    assert r.returncode == 3 and "device 3, there is 1" in r.stderr, (r.returncode, r.stderr)


GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/models/llama-gqa"


def two_ranks(visible, *options):
    """What two ranks say whose plan does not fit; visible: CUDA_VISIBLE_DEVICES by a rank's number on its host."""
    worker = REAL / "emulated" / "ingot-worker"
    command = mpirun_command(2) + ["sh", "-c", visible + ' exec "$0" "$@"', worker, "--backend", "cuda", "--model", GOLDEN,
                                   "--connect", "ipc:///nonexistent/x", "--kv-memory", "1T", "--coll", "mpi", *options]
    r = subprocess.run(command, capture_output=True, text=True, timeout=tap.LIMIT)
    return r.stdout + r.stderr


@tap.case
def ranks_that_see_different_gpus_do_not_share_them():
    """As Slurm gives them: each rank sees one GPU, which is its number 0."""
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    own = "CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK"
    for options in [], ["--device", "0"]:
        said = two_ranks(own, *options)
        assert "8192 of 8192 MiB free on CUDA 0" in said and "4096 of" not in said, said
    said = two_ranks("", "--device", "0")
    assert "4096 of 8192 MiB free on CUDA 0" in said, said
    said = two_ranks("CUDA_VISIBLE_DEVICES=3")
    assert "have the same GPU (0000:04:00.0, GPU-" in said and "--device N" in said, said


tap.main()
