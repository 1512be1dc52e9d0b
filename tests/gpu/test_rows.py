"""Every kernel of registers.txt has a predicted time or a reason why not, the rows of bench_gpu are the predictor's, and
predicted_rows.txt is of these kernels (predict_rows.py)."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import predict_rows  # noqa: E402
import sass  # noqa: E402
from nvcc import ROOT, need_nvcc, version, written  # noqa: E402

BENCH = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/bin")) / "bench_gpu_emulated"


def need_bench():
    if not BENCH.exists():
        raise tap.Skip("bench_gpu_emulated is not built")


@tap.case
def every_kernel_has_a_row_or_a_reason():
    kernels = set(written()[1])
    rows = {launch.kernel for row in predict_rows.all_rows() for launch in row.launches}
    reasons = set(predict_rows.NO_ROW)
    assert not kernels - rows - reasons, f"neither a row nor a reason in NO_ROW: {sorted(kernels - rows - reasons)}"
    assert not (rows | reasons) - kernels, f"not in registers.txt: {sorted((rows | reasons) - kernels)}"
    assert not rows & reasons, f"a row and a reason: {sorted(rows & reasons)}"
    assert all(len(why) > 20 for why in predict_rows.NO_ROW.values())


@tap.case
def the_table_has_these_rows():
    table, rows = predict_rows.table(), predict_rows.all_rows()
    assert list(table) == [row.name for row in rows], "predict_rows.py --write"
    for row in rows:
        us, bound = table[row.name]
        least = len(row.launches) * (predict_rows.predict.LAUNCH_US + predict_rows.predict.READ_US)
        moved = sum(launch.bytes for launch in row.launches) / predict_rows.COPY_GBS * 1e-3
        assert us >= least - 0.05 and us >= moved - 0.05 and bound in ("bytes", "issue", "mma"), (row.name, us, bound)


@tap.case
def bench_gpu_counts_the_same_bytes_and_operations():
    need_bench()
    r = subprocess.run([BENCH, "--list"], capture_output=True, text=True, timeout=tap.LIMIT)
    assert r.returncode == 0, r.stderr
    listed = [line.split("\t") for line in r.stdout.splitlines()]
    rows = predict_rows.bench_rows()
    assert [name for name, _, _ in listed] == [row.name for row in rows]
    for (name, moved, flops), row in zip(listed, rows):
        assert abs(float(moved) - row.bytes) <= 1 and abs(float(flops) - row.flops) <= 1, (name, moved, row.bytes, flops, row.flops)


@tap.case
def rows_of_bench_gpu_run_the_predicted_kernels():
    """On the emulator: fewer numbers, the same kernels but for what is between < and >."""
    need_bench()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "rows.json"
        r = subprocess.run([BENCH, "--tiny", "--rows", "--predicted", predict_rows.TABLE, "--json", out], capture_output=True,
                           text=True, timeout=tap.LIMIT)
        assert r.returncode == 0, r.stdout + r.stderr
        got = json.loads(out.read_text())["runs"]
    rows, table = predict_rows.bench_rows(), predict_rows.table()
    assert [row["name"] for row in got] == [row.name for row in rows]
    for one, row in zip(got, rows):
        want = {re.sub("<.*", "", launch.kernel) for launch in row.launches}
        assert set(one["kernels"]) == want, (row.name, one["kernels"], want)
        assert one["us"] > 0 and one["predicted_us"] == table[row.name][0], one


@tap.case
def strict_tiles_are_those_of_predict():
    """Two estimates of one kernel, to 15 %."""
    name, tflops = "linear bf16 2048: tiles_kernel<elem_bf16, 4, 4>", float(predict_rows.predict.rows()["now"][-1])
    got = 2 * 2048 * 28672 * 4096 / predict_rows.table()[name][0] * 1e-6
    assert abs(got / tflops - 1) <= 0.15, (got, tflops)


@tap.case
def the_table_is_of_these_kernels():
    """To 5 %, with the compiler that made the table of registers."""
    need_nvcc()
    if not sass.nvdisasm():
        raise tap.Skip("no nvdisasm (Python package nvidia-cuda-nvdisasm)")
    if version() != written()[0]:
        raise tap.Skip(f"the table is of nvcc {written()[0]}")
    rows, table = predict_rows.all_rows(), predict_rows.table()
    for name, (us, _) in predict_rows.figures(rows).items():
        want = table[name][0]
        assert abs(us - want) <= 0.05 * want + 0.05, (name, us, want, "predict_rows.py --write")
    print(f"{len(rows)} rows compared")


tap.main()
