"""The fixtures of tests/golden/encoders, and copies of them with other files."""
import contextlib
import json
import pathlib
import shutil

import temp_dir

HERE = pathlib.Path(__file__).resolve().parents[1] / "golden" / "encoders"
SCORES = json.loads((HERE / "scores.json").read_text())
EXPECTED = json.loads((HERE / "expected.json").read_text())


@contextlib.contextmanager
def changed(name, config=None, **files):
    """A copy with those members of config.json (None: without it) and those files."""
    with temp_dir.folder() as d:
        path = pathlib.Path(d) / "model"
        shutil.copytree(HERE / name, path)
        for file, text in files.items():
            (path / file).write_text(text)
        if config:
            now = json.loads((path / "config.json").read_text()) | config
            (path / "config.json").write_text(json.dumps({k: v for k, v in now.items() if v is not None}))
        yield path
