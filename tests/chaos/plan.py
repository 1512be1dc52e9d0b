"""What happens in a run, drawn from its seed: the cluster, and for each of its rounds the streams and the faults with their
steps.  The same seed and kinds give the same plan."""
import random
from dataclasses import dataclass

import faults
import streams

# Named steps: a step of the protocol that the streams tell of, or a line of the log behind the fault before.
STREAM_STEPS = {
    "sent": lambda c, n, k: c["sent"] > 0,
    "accepted": lambda c, n, k: c["accepted"] >= 1 + k % n,
    "first token": lambda c, n, k: c["delta"] > 0,
    "tokens": lambda c, n, k: c["delta"] > k % (30 * n),
    "first end": lambda c, n, k: c["ended"] > 0,
    "last streams": lambda c, n, k: c["ended"] >= n - 2,
}
LOSSES = "kill_rank", "kill_launcher", "kill_group", "lose_host", "cut_link"
LOG_STEPS = {  # of which fault before it, and the words
    "group lost": (LOSSES, "is lost:"),
    "group starts": (LOSSES, "starting it again"),
    "group back": ((*LOSSES, "kill_coordinator"), " is active ("),
    "coordinator ended": (("kill_coordinator",), "looks for a coordinator"),
    "coordinator back": (("kill_coordinator",), "serving demo-model on"),
}

MOST_OVER_HOSTS = 24  # streams of a round: a step over hosts takes longer, and it is the faults that count


@dataclass(frozen=True)
class Planned:
    """A fault: its kind, and when: at a named step, or a number of seconds after the fault before."""
    kind: str
    step: str  # "": at a random time
    k: int = 0
    seconds: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Round:
    number: int
    specs: tuple
    faults: tuple


@dataclass(frozen=True)
class Run:
    seed: int
    world: str
    shape: dict
    rounds: tuple


def draw_step(rng, before):
    """(step, k, seconds): three in four at a named step."""
    if rng.random() < 0.25:
        return "", 0, rng.uniform(0, 0.8)
    steps = list(STREAM_STEPS) + [s for s, (kinds, _) in LOG_STEPS.items() if before in kinds] * 3
    return rng.choice(steps), rng.randrange(1 << 16), 0.0


def draw_faults(rng, kinds, most=None):
    out = []
    for _ in range(rng.randint((most + 1) // 2, most) if most else rng.choice((1, 2, 2, 3, 4))):
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        step, k, seconds = draw_step(rng, out[-1].kind if out else None)
        out.append(Planned(kind, step, k, seconds, rng.getrandbits(32)))
    # steps of the log follow the fault before them; the others come in the order of a stream
    return tuple(out)


def of_seed(seed, n_rounds, only=None, world=None, most=None):
    """only: kinds of faults that are drawn; world: the cluster, instead of Served or Fleet at random; most: faults of a round, and
    at least half as many."""
    rng = random.Random(seed)
    drawn = rng.choice(("Served", "Served", "Fleet"))
    world = world or drawn
    kinds = {k: w for k, w in faults.possible(world).items() if not only or k in only}
    if not kinds:
        raise SystemExit(f"{world} has none of the kinds {only}")
    tp = rng.choice((1, 2, 2, 4))
    shape = {"tp": tp, "coll": rng.choice(("shm", "auto", "mpi")) if tp > 1 else "auto", "groups": rng.choice((1, 1, 2)),
             "journal": rng.random() < 0.6, "kv_blocks": rng.choice((4096, 4096, 320))}
    if world == "Network":
        shape |= {"coll": rng.choice(("mpi", "auto")) if tp > 1 else "auto", "slow": rng.choice((None, None, None, "w1", "w3"))}
    rounds = []
    for i in range(n_rounds):
        n = rng.choice((8, 8, 16, 16, 24, 32, 64))
        if world == "Network":
            n = min(n, MOST_OVER_HOSTS)
        rounds.append(Round(i, tuple(streams.choose(rng, n)), draw_faults(rng, kinds, most)))
    return Run(seed, world, shape, tuple(rounds))
