"""Embeddings on the CUDA backend without a GPU: real processes whose workers run its kernels on the tests' host emulator.
Encoders, and a decoder without a head: the embeddings that sentence-transformers computes, and the same bits alone, together
and on two ranks."""
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import embed_model  # noqa: E402
import encoder_model  # noqa: E402
import tap  # noqa: E402
from cluster import Parts  # noqa: E402
from embed_model import off  # noqa: E402

CUDA = ["--backend", "cuda", "--device", "0", "--max-seqs", "8"]
TOLERANCE = 1e-5  # of the greatest component, f32
# layer norms and types; rotated positions, windows and gates; biases of distances; positions behind padding
FIRST = ["bert", "modernbert", "mpnet"]
OTHERS = ["bert-cls", "modernbert-old", "mpnet-headed", "roberta", "xlm-roberta"]
ROUNDED = "bert-bf16"  # 16-bit weights meet rounded activations: no reference has these numbers


def requests(name):
    """Texts by their tokens, some with types, and beginnings of the longest."""
    rows = encoder_model.EXPECTED[name]
    longest = max((r["tokens"] for r in rows), key=len)
    out = [{"tokens": {"id": r["tokens"]}, "embed": {"token_types": r["token_types"]} if "token_types" in r else {}}
           for r in rows]
    return out + [{"tokens": {"id": longest[:n]}, "embed": {}} for n in (1, 2, len(longest) // 2)]


def vectors(name, together=True, worker=(), **how):
    with Parts(encoder_model.HERE / name, worker=[*CUDA, *worker], **how) as c:
        got = c.clients[0].answers(requests(name), together)
        assert "eager emulated GPU" in c.log(), c.log()
    for a in got:
        assert a.finish and a.finish.embedding, (a.finish, a.error)
    return [tuple(a.finish.embedding) for a in got]


def case(name):
    def run():
        if not (REAL / "emulated" / "ingot-worker").exists():
            raise tap.Skip("ingot-worker-emulated is not built")
        if name not in FIRST and "INGOT_ALL" not in os.environ:
            raise tap.Skip("only with --all")
        want = vectors(name, together=False, coordinator=["--no-overlap"])
        rows = [] if name == ROUNDED else encoder_model.EXPECTED[name]
        worst = max((off(v, r["embedding"]) for v, r in zip(want, rows)), default=0.0)
        assert worst < TOLERANCE, worst
        assert len(set(want)) == len(want), "the texts must differ"
        assert vectors(name) == want, "together"
        assert vectors(name, tp=2, coll="mpi") == want, "on two ranks"
        print(f"    worst difference {worst:.1e} of the greatest component")
    run.__name__ = name.replace("-", "_")
    tap.case(run)


@tap.case
def a_decoder_without_a_head():
    """Its steps are no decodes, so none is recorded."""
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    rows = embed_model.rows("bare")[:3]
    with embed_model.folder("bare") as model, Parts(model, worker=CUDA) as c:
        got = c.clients[0].answers([{"text": r["text"].encode(), "embed":
                                     {"prompt_name": r["prompt_name"].encode()} if "prompt_name" in r else {}} for r in rows])
    worst = max(off(a.finish.embedding, r["embedding"]) for a, r in zip(got, rows, strict=True))
    assert worst < TOLERANCE, worst


for each in [*FIRST, *OTHERS, ROUNDED]:
    case(each)

tap.main()
