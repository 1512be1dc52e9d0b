"""A model with Mamba-2 layers: the cases of kind_cases.py. What is special to snapshots of states is in test_delta.py."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO  # noqa: E402
from kind_cases import register  # noqa: E402
from mamba_model import make_mamba  # noqa: E402

register(make_mamba(DEMO, pathlib.Path(temp_dir.make())), 24)
tap.main()
