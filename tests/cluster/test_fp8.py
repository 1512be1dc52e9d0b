"""A mixture of experts with weights of the method fp8: the cases of kind_cases.py."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO  # noqa: E402
from kind_cases import register  # noqa: E402
from packed_model import make_packed  # noqa: E402

register(make_packed(DEMO, pathlib.Path(temp_dir.make()), "fp8"), 24)
tap.main()
