"""A round: streams run, faults happen, and then everything is compared."""
import random
import time

import faults
import plan
from doors import LIMIT_S, open_doors
from feed import Arrivals, Feed

STEP_S = 20.0  # how long a step is waited for


def wait_for_step(planned, feed, cluster, scene, log_at):
    """False: the streams had ended before."""
    if planned.step in plan.LOG_STEPS:
        words = plan.LOG_STEPS[planned.step][1]

        def reached(_counts):
            scene.undo_due()
            return words in cluster.log()[log_at:]
    elif planned.step:
        def reached(counts):
            scene.undo_due()
            return plan.STREAM_STEPS[planned.step](counts, feed.n, planned.k)
    else:
        end = time.monotonic() + planned.seconds

        def reached(_counts):
            scene.undo_due()
            return time.monotonic() >= end
    return feed.wait(reached, STEP_S)


def inject(cluster, feed, doors, planned_faults):
    """What was done: (time, planned).  Faults that found no stream, or nothing to hit, are left out."""
    done, log_at = [], len(cluster.log())
    scene = faults.Scene(cluster, doors, random.Random())
    try:
        for p in planned_faults:
            if not wait_for_step(p, feed, cluster, scene, log_at):
                continue
            scene.rng.seed(p.seed)
            log_at, now = len(cluster.log()), time.monotonic()
            if faults.do(p.kind, scene):
                done.append((now, p))
        while scene.undo:
            scene.undo_due(feed.is_over())
            time.sleep(0.005)
    finally:
        scene.undo_due(True)
    return done


def silences(done, outcomes):
    """Of each fault [kind, step, all, one] in ms: the longest time in which no stream at all got anything, and in which a single
    one that had begun did not (it may have waited for its turn too); None: no stream waited."""
    out, listening = [], [o.arrivals for o in outcomes if not o.left]
    everything = Arrivals.merged(listening)
    for i, (t, p) in enumerate(done):
        end = done[i + 1][0] if i + 1 < len(done) else float("inf")
        single = [s for s in (a.silence(t, end) for a in listening) if s is not None]
        out.append([p.kind, p.step, in_ms(everything.silence(t, end)), in_ms(max(single, default=None))])
    return out


def in_ms(seconds):
    return None if seconds is None else round(1000 * seconds)


def compare(outcomes, wanted):
    """What is not as in the undisturbed run."""
    bad = []
    for o in outcomes:
        if o.left:
            continue
        if o.error or o.facts is None:
            bad.append(f"{o.spec.name}: {o.error or 'no end'}")
        elif o.facts != wanted[o.spec.name]:
            bad.append(f"{o.spec.name}: other bytes: {o.facts} instead of {wanted[o.spec.name]}")
    return bad


def ask(cluster, specs, planned_faults=()):
    """(outcomes, done): the streams have ended, or hang (their error tells it)."""
    feed = Feed(len(specs))
    doors = open_doors(cluster, feed, specs)
    for d in doors:
        d.start()
    done = inject(cluster, feed, doors, planned_faults)
    end = time.monotonic() + LIMIT_S
    for d in doors:
        d.join(max(0.0, end - time.monotonic()))
    return [o for d in doors for o in d.outcomes], done


def undisturbed(cluster, specs):
    """{name: facts} of each stream, all of them together and without a fault."""
    outcomes, _ = ask(cluster, specs)
    bad = [f"{o.spec.name}: {o.error}" for o in outcomes if o.facts is None]
    assert not bad, bad
    return {o.spec.name: o.facts for o in outcomes}
