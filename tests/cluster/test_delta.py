"""A model with gated delta-net layers, whose prompts share nothing: the cases of kind_cases.py."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO  # noqa: E402
from delta_model import make_delta  # noqa: E402
from kind_cases import register  # noqa: E402

register(make_delta(DEMO, pathlib.Path(temp_dir.make())), 24, shares=False)
tap.main()
