"""Values beyond the range of an f16 KV cache: see loud_model.py."""
import pathlib
import shutil
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import loud_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402

DIR = temp_dir.make()
MODEL = loud_model.make(DIR)
SAMPLINGS = ({}, {"repetition_penalty": 1.1}, {"temperature": 1.0, "seed": 5})


@tap.case
def on_one_rank():
    loud_model.one_fails_the_others_go_on(MODEL, SAMPLINGS)


@tap.case
def on_two_ranks():
    loud_model.one_fails_the_others_go_on(MODEL, SAMPLINGS, tp=2)


@tap.case
def the_advice_helps():
    loud_model.the_advice_helps(MODEL)


try:
    tap.main()
finally:
    shutil.rmtree(DIR, ignore_errors=True)
