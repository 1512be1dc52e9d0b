"""The machine code of the attention kernels, and the table of predicted times (predict.py)."""
import functools
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from nvcc import ROOT, need_nvcc, version, written  # noqa: E402
import predict  # noqa: E402
import sass  # noqa: E402

MOST_PER_COPY = 12
# A review's estimates for the first kernels: the middle of what it gives for each.
REVIEW = {"copy 128": 78, "layer 8B": 23, "layer 1B": 13.5, "merge 4k": 5, "merge 8k": 10, "merge 128k": 160, "tiles": 330}


@functools.cache
def this_tree():
    need_nvcc()
    if not sass.nvdisasm():
        raise tap.Skip("no nvdisasm (Python package nvidia-cuda-nvdisasm)")
    return predict.row("now", ROOT)[1:]


@tap.case
def a_copy_of_16_bytes_takes_few_instructions():
    figures = dict(zip(predict.HEAD[1:], this_tree()))
    print(figures)
    for name in ("copy 128", "copy 64"):
        assert float(figures[name]) <= MOST_PER_COPY, figures


@tap.case
def the_predictor_gives_the_review_s_figures_for_its_kernels():
    first = dict(zip(predict.HEAD[1:], predict.rows()["first kernels"]))
    for name, want in REVIEW.items():
        assert abs(float(first[name]) / want - 1) <= 0.15, (name, first[name], want)


@tap.case
def the_table_is_of_these_kernels():
    """To 5 %, with the compiler that made the table of registers."""
    figures, table = this_tree(), predict.rows()["now"]
    if version() != written()[0]:
        raise tap.Skip(f"the table is of nvcc {written()[0]}")
    for name, got, want in zip(predict.HEAD[1:], figures, table):
        assert abs(float(got) / float(want) - 1) <= 0.05, (name, got, want, "predict.py --write now")


tap.main()
