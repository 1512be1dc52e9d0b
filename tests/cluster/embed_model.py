"""The fixtures of tests/golden/embeddings as folders that a server can load, and what the library computed."""
import contextlib
import json
import pathlib
import shutil

import temp_dir

HERE = pathlib.Path(__file__).resolve().parents[1] / "golden" / "embeddings"
EXPECTED = json.loads((HERE / "expected.json").read_text())


@contextlib.contextmanager
def folder(name, **files):
    """The model with the modules of that variant; files: NAME=text in place of its own."""
    with temp_dir.folder() as d:
        path = pathlib.Path(d) / "model"
        shutil.copytree(HERE / "base" / EXPECTED[name]["base"], path)
        shutil.copytree(HERE / "variants" / name, path, dirs_exist_ok=True)
        for file, text in files.items():
            (path / file).write_text(text)
        yield path


def rows(name):
    return EXPECTED[name]["rows"]


def off(got, want):
    """The greatest difference, as a part of the greatest component."""
    assert len(got) == len(want), (len(got), len(want))
    return max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))


def refused(client, field, why, **fields):
    """The request ends with an Error that names the field and says why."""
    a = client.generate(**fields)
    e = a.error and a.error[1]
    assert e is not None and e.field == field and why in e.detail, (e, a.finish)
