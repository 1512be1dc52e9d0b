"""A model with learned positions, layer norms and biases (GPT-2): the cases of kind_cases.py, and its last position."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gpt2_model import POSITIONS, make_gpt2  # noqa: E402
from kind_cases import register  # noqa: E402

MODEL = make_gpt2(DEMO, pathlib.Path(temp_dir.make()))


@tap.case
def no_token_is_behind_the_last_position():
    with Parts(MODEL) as c:
        client, ids = c.clients[0], [50] * (POSITIONS - 5)
        a = client.generate(tokens={"id": ids}, max_tokens=5, sampling={"temperature": 0, "ignore_eos": True})
        assert a.finish and a.reason() == "length" and len(a.ids[0]) == 5, a.error or a.ids
        for n, more, field in (POSITIONS - 5, 6, "max_tokens"), (POSITIONS, 1, "tokens.id"):
            a = client.generate(tokens={"id": [50] * n}, max_tokens=more)
            assert a.error and a.error[1].field == field and str(POSITIONS) in a.error[1].detail, a.error


register(MODEL, 24)
tap.main()
