"""A backend whose device is emulated, end to end: the fixture's greedy ids, and the same bytes as alone. test_cuda.py and
tests/metal/test_metal.py call it; INGOT_BIN must be set before it is imported."""
import json
import os

import tap
from cluster import Parts


class Emulated:
    """need: the folder of a model by name, or a Skip; shown: what the log says of the device."""

    def __init__(self, need, worker, shown, requests):
        self.need, self.worker, self.shown, self.requests, self.oracle = need, worker, shown, requests, {}

    def answers(self, name, together=True, **how):
        with Parts(self.need(name), worker=self.worker, **how) as c:
            got = c.clients[0].answers(self.requests, together)
            assert self.shown in c.log(), c.log()
        return [a.key() for a in got]

    def greedy(self, n_most):
        """The greedy ids of stories260K, at most so many, and their log probabilities, are those of the fixture."""
        def greedy_ids_are_those_of_the_fixture():
            path = self.need("stories260K")
            case = json.loads((path / "expected.json").read_text())["cases"][0]
            n = min(n_most, len(case["ids"]))
            with Parts(path, worker=self.worker) as c:
                a = c.clients[0].generate(tokens={"id": case["prompt_ids"]}, max_tokens=n,
                                          sampling={"temperature": 0, "logprobs": True})
                assert a.finish, a.error
                assert a.ids[0] == case["ids"][:n], (a.ids[0], case["ids"][:n])
                worst = max((abs(x - y) for x, y in zip(a.logprobs[0], case.get("logprobs") or [])), default=0)
                assert worst < 1e-4, worst
        tap.case(greedy_ids_are_those_of_the_fixture)

    def same_bytes(self, name, what, seed="0", **how):
        """As alone; seed: of the emulator's thread order."""
        def run():
            os.environ["INGOT_EMULATE_SEED"] = "0"
            if name not in self.oracle:
                self.oracle[name] = self.answers(name, together=False, coordinator=["--no-prefix-cache", "--no-overlap"])
                assert len(set(self.oracle[name])) == len(self.requests), "the requests must differ"
            os.environ["INGOT_EMULATE_SEED"] = seed
            for i, (a, b) in enumerate(zip(self.answers(name, **how), self.oracle[name], strict=True)):
                assert a == b, f"request {i}: {a}, alone {b}"
        run.__name__ = f"{name.replace('-', '_')}_{what}"
        tap.case(run)
