"""The Metal backend end to end without a Mac: real processes whose workers use the tests' double of Metal, which runs
the kernels on the host emulator.  Slow, so the requests are few and short."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cluster"), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
os.environ["INGOT_METAL_STRICT"] = "1"  # neither buffer nor pipeline is made in a step
os.environ["INGOT_EMULATE_MAX_BUFFER"] = str(17 << 20)  # a memory plan takes several buffers
import encoder_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import Cluster, Parts, model  # noqa: E402
from embed_model import off  # noqa: E402
from emulated_cases import Emulated  # noqa: E402
from fixture_model import with_tokenizer  # noqa: E402
from grammar_cases import Constrained  # noqa: E402

METAL = ["--backend", "metal", "--max-seqs", "8", "--max-ctx", "256"]
SHARED = [1] + [(7 * i) % 490 + 3 for i in range(17)]
# Without --all one same-bytes test, the loss of a device and what nothing else shows: a killed worker and products by matrices are
# metal_check's, too, the bits of chunks and batches of every family metal_model's (metal_check, families.py).
ALL = "INGOT_ALL" in os.environ
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/models"
FOLDER = temp_dir.make()
os.environ["XDG_CACHE_HOME"] = temp_dir.make()  # the user's has compiled kernels of their own
FEW = ["qwen3moe", "gpt-oss", "qwen3next"]  # experts; sinks, biases and limits; states beside the cache
MORE = ["mixtral", "qwen2moe", "glm4moe-groups", "deepseek3", "minicpm3", "minimax-m2", "falcon-h1", "nemotron-h-moe", "gemma3n",
        "gemma4-moe", "llama4", "gpt2"]
FAMILIES = {name: with_tokenizer(GOLDEN / name, FOLDER) for name in FEW + (MORE if ALL else [])}


def requests(vocab=512):
    """Different lengths, shared beginnings, greedy and sampled."""
    out = []
    for i in range(3):
        ids = [t % vocab for t in SHARED[:[1, 9, 18][i]] + [40 + 3 * i, 9 + i]]
        s = {"logprobs": True, "temperature": 0.0 if i % 2 == 0 else 0.9}
        if i % 2:
            s.update(seed=1000 + i, top_p=0.95, top_k=20)
        if i == 2:
            s.update(repetition_penalty=1.2)
        out.append({"tokens": {"id": ids}, "sampling": s, "max_tokens": 4})
    return out


def need(name):
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    said = subprocess.run([REAL / "emulated" / "ingot-worker", "--backend", "metal", "--connect", "ipc:///nonexistent/x",
                           "--model", "/nonexistent"], capture_output=True, text=True, timeout=tap.LIMIT).stderr
    if "no backend 'metal'" in said:
        raise tap.Skip("built without libobjc")
    if name in FAMILIES:
        return FAMILIES[name]
    if not model(name):
        raise tap.Skip(f"needs {name} of the shared data")
    return model(name)


emulated = Emulated(need, METAL, "Metal emulated GPU", requests())
emulated.greedy(8)
same_bytes = emulated.same_bytes
same_bytes("stories260K", "together")
if ALL:
    same_bytes("stories260K", "in_chunks_and_another_thread_order", seed="11", coordinator=["--max-step-tokens", "8"])
    same_bytes("stories260K-bf16", "together")


class Matrices(Emulated):
    """Products by simdgroup matrices, of a device with a layout and an order of sums of its own."""

    def answers(self, *args, **how):
        mine = {"INGOT_METAL_PRODUCTS": "matrices", "INGOT_EMULATE_MATRICES": "5"}
        os.environ.update(mine)
        strict = os.environ.pop("INGOT_METAL_STRICT")  # the check of matrices runs before the model is loaded
        try:
            return super().answers(*args, **how)
        finally:
            os.environ["INGOT_METAL_STRICT"] = strict
            for name in mine:
                del os.environ[name]


if ALL:
    Matrices(need, METAL, "/tp1.2.4.8/matrices4", requests()).same_bytes("stories260K", "by_matrices_together")
    Constrained(need, METAL).same_bytes("together")
SMALL = ["--max-seqs", "8", "--max-ctx", "64", "--kv-dtype", "f32"]
small = Emulated(need, ["--backend", "metal", *SMALL], "Metal emulated GPU", requests(104))
for family in FAMILIES if ALL else []:
    small.same_bytes(family, "together")


@tap.case
def families_have_the_ids_of_the_cpu():
    for name in FAMILIES:
        answers = []
        for options in ["--backend", "cpu", "--activations", "f32"], ["--backend", "metal"]:
            with Parts(need(name), worker=[*options, *SMALL]) as c:
                answers.append(c.clients[0].answers(requests(104), False))
        for cpu, metal in zip(*answers, strict=True):
            assert cpu.ids == metal.ids, (name, cpu.ids, metal.ids)
            worst = max(abs(x - y) for x, y in zip(cpu.logprobs[0], metal.logprobs[0], strict=True))
            assert worst < 1e-4, (name, worst)


@tap.case
def encoders_have_the_vectors_of_sentence_transformers():
    """The shortest texts of each: attention that is not causal, with a window, with biases of distances."""
    need("qwen3moe")
    for name in encoder_model.EXPECTED if ALL else ["modernbert", "mpnet"]:
        rows = sorted(encoder_model.EXPECTED[name], key=lambda r: len(r["tokens"]))[:3]
        with Parts(encoder_model.HERE / name, worker=["--backend", "metal", "--max-seqs", "8"]) as c:
            asked = [{"tokens": {"id": r["tokens"]}, "embed": {}} for r in rows]
            alone, together = (c.clients[0].answers(asked, at_once) for at_once in (False, True))
            for row, one, other in zip(rows, alone, together, strict=True):
                assert one.finish and one.finish.embedding == other.finish.embedding, (name, one.error, other.error)
                worst = off(one.finish.embedding, row["embedding"])
                assert worst < 1e-5, (name, worst)


def serve():
    """An `ingot` whose worker is the emulated one: it takes the programs beside it."""
    folder = pathlib.Path(FOLDER) / "bin"
    folder.mkdir(exist_ok=True)
    for program in (REAL / "emulated").iterdir():
        if program.name != "ingot" and not (folder / program.name).exists():
            (folder / program.name).symlink_to(program)
    shutil.copy2(REAL / "ingot", folder / "ingot")
    return folder / "ingot"


def killed(name, options, wanted):
    """`ingot serve` with one rank, killed in the middle of its answers: they go on in the next one."""
    def run():
        os.environ["INGOT_EMULATE_SEED"] = "0"
        path = need(name)
        with Parts(path, worker=["--backend", "metal", *options], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
            want = [a.key() for a in c.clients[0].answers(wanted, False)]
        os.environ["INGOT_EMULATE_SEED"] = "5"
        with Cluster(path, extra=["--backend", "metal", *options], program=serve()) as c:
            client = c.clients[0]
            assert "Metal emulated GPU" in c.log(), c.log()
            tap.race(lambda: c.killed_in_the_middle(client, wanted, want, lambda: c.whole_group(client, 1)))
    run.__name__ = f"{name}_killed_in_the_middle"
    tap.case(run)


if ALL:
    killed("qwen3moe", SMALL, [{**r, "max_tokens": 12} for r in requests(104)])
    killed("stories260K", METAL[2:], [{**r, "max_tokens": 12} for r in requests()])
    killed("mixtral", [*SMALL[:-1], "int8"], [{**r, "max_tokens": 12} for r in requests(104)])


@tap.case
def a_command_buffer_that_fails_is_a_lost_rank():
    """Its answers go on in the next rank; the log names its kernels."""
    os.environ["INGOT_EMULATE_SEED"] = "0"
    path, options = need("qwen3moe"), ["--backend", "metal", *SMALL]
    wanted = [{**r, "max_tokens": 12} for r in requests(104)]
    with Parts(path, worker=options, coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
        want = [a.key() for a in c.clients[0].answers(wanted, False)]
    fail = pathlib.Path(FOLDER) / "fail"
    os.environ["INGOT_METAL_FAIL"] = str(fail)
    try:
        with Cluster(path, extra=options, program=serve()) as c:
            client = c.clients[0]

            def hurt_it():
                new = fail.with_suffix(".new")
                new.write_text("qkv_to_cache\n")
                new.rename(fail)

            tap.race(lambda: c.killed_in_the_middle(client, wanted, want, lambda: c.whole_group(client, 1), hurt_it))
            said = c.log()
            assert re.search(r"is lost: rank 0: Metal device emulated GPU, kernels \w+ to \w+ \(\d+ dispatches\): a failure", said), said
    finally:
        del os.environ["INGOT_METAL_FAIL"]


def refused(program, *options):
    r = subprocess.run([program, "--backend", "metal", "--inspect", *options], capture_output=True, text=True,
                       timeout=tap.LIMIT)
    assert r.returncode == 3, (r.returncode, r.stderr)
    return r.stderr


@tap.case
def a_build_without_metal_names_it():
    said = refused(REAL / "ingot-worker", "--model", need("stories260K"))
    assert "no backend 'metal' in this build" in said, said


@tap.case
def weights_and_inputs_of_huggingface_folders():
    """Codes with scales beside them; inputs rounded as the checkpoint says: other answers, the same bytes together as alone.
    Without --all one folder, rounded."""
    need("qwen3moe")
    rounded, floats = ["--activations", "checkpoint"], None
    for name, options in [("deepseek3-gptq", []), ("qwen3moe-fp8-block", []), ("qwen3moe-fp8-block", rounded)][0 if ALL else 2:]:
        folder = with_tokenizer(GOLDEN / name, temp_dir.make())
        with Parts(folder, worker=["--backend", "metal", *SMALL, *options], coordinator=["--no-prefix-cache"]) as c:
            numerics = c.clients[0].call("Stats")[1].group[0].numerics
            keys = [[a.key() for a in c.clients[0].answers(requests(104), together)] for together in (False, True)]
        assert keys[0] == keys[1], (name, keys)
        assert ("/strict/ac/" in numerics) == bool(options), numerics
        assert not options or keys[0] != floats, "as if inputs were floats"
        floats = keys[0]


@tap.case
def experts_with_scales_of_their_inputs_have_the_ids_of_the_cpu():
    need("qwen3moe")
    folder, answers = with_tokenizer(GOLDEN.parent / "inputs/ct-fp8-static-experts", temp_dir.make()), []
    for backend in "cpu", "metal":
        with Parts(folder, worker=["--backend", backend, *SMALL, "--activations", "checkpoint"]) as c:
            answers.append(c.clients[0].answers(requests(104), True))
    for cpu, metal in zip(*answers, strict=True):
        assert cpu.ids == metal.ids and cpu.finish and metal.finish, (cpu.ids, metal.ids, metal.error)
        worst = max(abs(x - y) for x, y in zip(cpu.logprobs[0], metal.logprobs[0], strict=True))
        assert worst < 1e-4, worst


@tap.case
def one_rank_alone():
    path = need("stories260K")
    said = refused(REAL / "emulated" / "ingot-worker", "--model", path, "--tp", "2")
    assert "--tp 2: the backend metal runs on one rank alone" in said, said


@tap.case
def a_second_worker_compiles_no_kernels_and_copies_no_weights():
    path, cache, logs, keys = need("stories260K"), temp_dir.make(), [], []
    for _ in range(2):
        parts = Parts(path, worker=[*METAL, "--pack-cache", f"{cache}/packed"])
        parts.cache = cache
        with parts as c:
            keys += [a.key() for a in c.clients[0].answers(requests()[:1], False)]
            logs.append(c.log())
    assert keys[0] == keys[1], keys
    assert "mapped" not in logs[0] and "packed weights are mapped, not copied: 1 buffer" in logs[1], logs
    kept = re.findall(r"(\d+) compiled Metal kernels are kept, beside 0 that were: (\S+)", logs[0])
    assert len(kept) == 1 and int(kept[0][0]) >= 40 and kept[0][1].startswith(f"{cache}/ingot/metal/"), logs[0]
    assert "Metal kernels" not in logs[1] and "Metal emulated GPU" in logs[1], logs[1]


@tap.case
def doctor_tells_the_device():
    need("stories260K")
    cache = temp_dir.make()
    said = subprocess.run([serve(), "doctor"], capture_output=True, text=True, timeout=tap.LIMIT,
                          env={**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": cache}).stdout
    assert re.search(rf"^ok +Metal +emulated GPU: family Apple7, .*; compiled kernels: {cache}/ingot/metal$", said, re.M), said
    other = subprocess.run([REAL / "ingot", "doctor"], capture_output=True, text=True, timeout=tap.LIMIT).stdout
    assert "GPU" in other and "Metal" not in other, other


tap.main()
