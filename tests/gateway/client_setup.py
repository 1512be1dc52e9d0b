"""For the tests with clients from PyPI: a cluster with the demo model and a gateway with a key, one for each test program."""
import contextlib
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

QUESTION = "Tell me a short story about a fox."
STORY = [{"role": "user", "content": QUESTION}]
KEY = "secret"


def load(name):
    """The module, or None in a Python other than that of tests/run.sh."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Setup:
    def __init__(self, *options):
        self.options = options  # of the gateway

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.cluster = self.stack.enter_context(Parts(DEMO))
        self.gateway = self.stack.enter_context(Gateway("--connect", self.cluster.endpoint, "--api-key", KEY, *self.options)).wait_ready()
        self.url = f"http://127.0.0.1:{self.gateway.port}"
        return self

    def __exit__(self, *e):
        return self.stack.__exit__(*e)

    def stats(self):
        return self.cluster.clients[0].call("Stats")[1]

    def abandoned(self, begin):
        """begin() starts a stream, reads its first event and closes it: the request ends, its blocks are free again."""
        before = self.stats()
        with self.cluster.held():
            begin()
            tap.wait_for(lambda: self.stats().requests_cancelled == before.requests_cancelled + 1, "it is cancelled")
        tap.wait_for(lambda: self.stats().running == 0, "nothing runs")
        after = self.stats()
        assert after.blocks_free + after.blocks_cached == after.blocks_total, after


def raised(kind, call, *args, **kw):
    """The exception of that kind that the call raises."""
    try:
        call(*args, **kw)
    except kind as e:
        return e
    raise AssertionError(f"{kw} was taken")
