"""The figures of README.md are those of predict.py, its counts those of the shader text, its dispatches the double's."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import count  # noqa: E402
import predict  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402

BIN = pathlib.Path(os.environ.get("INGOT_BIN", HERE.parents[1] / "build/release/bin"))
README = predict.README.read_text()


@tap.case
def the_tables_follow_from_the_counts():
    assert predict.between(README)[0] == predict.text(predict.counts_of(README)), "predict.py --write"


@tap.case
def the_counts_are_of_these_shaders():
    """To 15 %: another clang orders code otherwise."""
    now, table = predict.counted(), predict.counts_of(README)
    assert now.keys() == table.keys(), (now, table)
    for name in now:
        for got, want in zip(now[name], table[name], strict=True):
            assert abs(got / want - 1) <= 0.15, (name, now[name], table[name], "predict.py --write")


@tap.case
def a_longer_loop_counts_more():
    """The counter sees the difference between types, and not one where there is none."""
    assert count.of_product("F32", 1) < count.of_product("BF16", 1) < count.of_product("Q8_0", 1) < count.of_product("Q4_K", 1)
    more = (count.of_product("F32", 8) - count.of_product("F32", 1)) / 7  # a row more: a product, a share of a load
    assert 1 < more < 1.3, more


@tap.case
def bytes_are_those_of_the_published_files():
    """Of llama.cpp's files of Llama 3.1 8B, the table of embeddings included: 4.92, 8.54 and 16.07 GB."""
    for kind, embed, want in (("Q4_K_M", "Q4_K", 4.92), ("Q8_0", "Q8_0", 8.54), ("F16", "F16", 16.07)):
        body, head = predict.products("8B", kind)
        size = sum(predict.bytes_of(*p) for p in [*body, head, (128256, 4096, embed)]) / 1e9
        assert abs(size / want - 1) < 0.01, (kind, size)


@tap.case
def decodes_of_the_main_types_are_bound_by_bytes():
    counts = predict.counts_of(README)
    for name in "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", *count.TYPES[count.TYPES.index("IQ4_NL"):]:
        for chip in predict.CHIPS:
            reading, computing = predict.product_s(counts, chip, 4096, 4096, name, 1)
            assert computing < reading, (name, chip, computing / reading)


@tap.case
def matrices_are_better_for_prompts_alone():
    counts = predict.counts_of(README)
    for chip in predict.CHIPS:
        for kind in predict.KINDS:
            assert predict.prefill(counts, "8B", kind, chip, kernels="matrices ") > predict.prefill(counts, "8B", kind, chip)
            assert predict.decode(counts, "8B", kind, chip, kernels="matrices ")["products"] >= \
                predict.decode(counts, "8B", kind, chip)["products"]


@tap.case
def a_command_buffer_takes_less_than_half_a_second():
    """macOS ends long ones: of the slowest kernels on the slowest chip, attention without other simdgroups beside it."""
    header = (HERE.parents[1] / "backends/metal/metal_backend.h").read_text()
    most = 1 << int(re.search(r"METAL_MAX_WORK = UINT64_C\(1\) << (\d+)", header)[1])
    counts = predict.counts_of(README)
    for chip in predict.CHIPS:
        lanes = predict.rate(chip)[0]
        for name, ticks in counts.items():
            if name in predict.BITS:
                assert most * max(ticks) / lanes < 0.5, (chip, name)
        assert most * max(counts["attention f16"] + counts["attention bf16"]) * predict.LONE / lanes < 0.5, chip


@tap.case
def dispatches_are_those_of_the_double():
    if not (BIN / "metal_bench_double").exists():
        raise tap.Skip("built without libobjc")
    r = subprocess.run([BIN / "metal_bench_double", "--count"], capture_output=True, text=True, timeout=tap.LIMIT,
                       env={**os.environ, "XDG_CACHE_HOME": temp_dir.make()})
    assert r.returncode == 0, r.stdout + r.stderr
    one, two = (int(line.split()[-1]) for line in r.stdout.splitlines() if "dispatches.layers" in line)
    assert (two - one, 2 * one - two) == (predict.LAYER_DISPATCHES, predict.STEP_DISPATCHES), (one, two)


tap.main()
