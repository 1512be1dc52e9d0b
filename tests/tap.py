"""Test cases that report as TAP to $INGOT_TAP, and to people on standard output.

    import tap

    @tap.case
    def ids_are_equal():
        assert ...

    tap.main()

Nothing here may depend on how fast the machine is: wait_for() and LIMIT are for what must come, race() for what may come
too late.

A case fails by raising, is skipped by raising tap.Skip(reason).
"""
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import temp_dir  # noqa: E402


os.environ.setdefault("XDG_STATE_HOME", temp_dir.make())  # journals of servers, tokens of clients
LIMIT = 300  # seconds for whatever must come: only what hangs takes so long


class Skip(Exception):
    pass


def wait_for(condition, what="what the test waits for"):
    """Until condition() is true; its value."""
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {LIMIT} s: {what}"
        time.sleep(0.02)
    return value


def race(attempt, tries=50):
    """For what has to come before something else ends, a cancel before the answer's last token: attempt() tells whether
    it did, and asserts by itself what must hold in either case.  It may come too late, but not every time."""
    for _ in range(tries):
        if attempt():
            return
    raise AssertionError(f"{tries} attempts, and always too late")


_cases = []


def case(f):
    _cases.append(f)
    return f


def main():
    suite = os.path.basename(sys.argv[0]).removesuffix(".py")
    only = sys.argv[1:]
    lines, failed = [], 0
    for f in _cases:
        if only and f.__name__ not in only:
            continue
        name = f"{suite}::{f.__name__}"
        t0 = time.monotonic()
        try:
            f()
            lines.append(f"ok - {name}")
        except Skip as e:
            lines.append(f"ok - {name} # SKIP {e}")
        except Exception:
            failed += 1
            lines.append(f"not ok - {name}")
            traceback.print_exc(file=sys.stdout)
        print(f"{lines[-1]}  ({time.monotonic() - t0:.1f} s)", flush=True)
    if os.environ.get("INGOT_TAP"):
        with open(os.environ["INGOT_TAP"], "w") as out:
            out.write("\n".join([f"1..{len(lines)}"] + lines) + "\n")
    sys.exit(1 if failed else 0)
