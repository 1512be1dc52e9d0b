"""Runs `ingot pull` and what uses its cache, against the stand-in of the hub."""
import contextlib
import os
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cli")]
import temp_dir  # noqa: E402
from cli_tools import INGOT  # noqa: E402
from hub import Hub, digest  # noqa: E402
from tap import LIMIT  # noqa: E402

MiB = 1 << 20
BIG = random.Random(1).randbytes(19 * MiB + 12345)  # three ranges


class Cache:
    """A hub and an empty cache, with the environment of both."""

    def __init__(self, hub, home):
        self.hub, self.home = hub, pathlib.Path(home)
        self.root = self.home / "hub"
        self.env = {**os.environ, "HOME": str(home), "HF_HOME": str(home), "HF_ENDPOINT": hub.url,
                    "NO_PROXY": "*", "XDG_CACHE_HOME": str(self.home / "xdg")}
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "http_proxy"):
            self.env.pop(name, None)

    def start(self, *args, env=None, **kw):
        return subprocess.Popen([INGOT, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**self.env, **(env or {})}, **kw)

    def ingot(self, *args, **kw):
        p = self.start(*args, **kw)
        p.out, p.err = p.communicate(timeout=LIMIT)
        return p

    def pull(self, *args, **kw):
        return self.ingot("pull", *args, **kw)

    def pulled(self, *args, **kw):
        """The path that a successful pull prints."""
        p = self.pull(*args, **kw)
        assert p.returncode == 0, (args, p.returncode, p.out, p.err)
        path = pathlib.Path(p.out.removesuffix("\n"))
        assert path.exists(), p.out
        return path

    def repo(self, name="org/name"):
        return self.root / ("models--" + name.replace("/", "--"))

    def blob(self, data, name="org/name"):
        return self.repo(name) / "blobs" / digest(data)

    def part(self, data, name="org/name"):
        """What an interrupted download has left: a beginning of the file."""
        path = pathlib.Path(f"{self.blob(data, name)}.incomplete")
        left = path.read_bytes() if path.exists() else b""
        assert data.startswith(left) and not self.blob(data, name).exists(), (len(left), path)
        return left


@contextlib.contextmanager
def cache():
    with temp_dir.folder() as home, Hub() as hub:
        yield hub, Cache(hub, home)
