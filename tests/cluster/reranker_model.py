"""The fixtures of tests/golden/rerankers as folders that a server can load, and what the library computed."""
import contextlib
import json
import pathlib
import shutil

import temp_dir

HERE = pathlib.Path(__file__).resolve().parents[1] / "golden" / "rerankers"
CASES = json.loads((HERE / "scores.json").read_text())


@contextlib.contextmanager
def folder(name, config=None, **more):
    """The model of that case; config: members of its config.json; more: files, null: without it."""
    case = CASES[name]
    with temp_dir.folder() as d:
        path = pathlib.Path(d) / "model"
        shutil.copytree(HERE / case["base"], path)
        for file, value in (case.get("files", {}) | more).items():
            if value is None:
                (path / file).unlink()
            else:
                (path / file).write_text(value if isinstance(value, str) else json.dumps(value))
        if config:
            now = json.loads((path / "config.json").read_text()) | config
            (path / "config.json").write_text(json.dumps(now))
        yield path
