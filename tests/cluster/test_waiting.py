"""Ten thousand requests that wait in one coordinator: each is answered whole, those of other tenants are not behind them."""
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from ingot_client import Answer  # noqa: E402

WAITING, KINDS, CANCELLED = 10000, 50, 1000
ROOM = ["--max-queued", "20000", "--tenant-requests", "20000", "--overtake", "0"]
REQUESTS = [{"tokens": {"id": [1, 7 + k, 50 + 3 * k]}, "max_tokens": 1 + k % 4,
             "sampling": {"temperature": 0.8 * (k % 2), "seed": k, "ignore_eos": True}} for k in range(KINDS)]


def memory_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


@tap.case
def ten_thousand_wait():
    with Parts(DEMO, coordinator=ROOM) as c:
        many, other = c.clients[0], c.client(token=os.urandom(32))
        oracle = [a.key() for a in many.answers(REQUESTS, together=False)]
        before = memory_mib(c.coordinator.pid)
        with c.held():
            answers, order = {}, []
            for i in range(WAITING):
                order.append(many.start(**REQUESTS[i % KINDS]))
                answers[order[-1]] = Answer()
                if i % 100 == 99:
                    for _ in range(100):
                        name, m = many.recv()
                        assert name == "Accepted", (i, m)
                        answers[m.request_id].take(name, m)
            assert many.call("Stats")[1].waiting >= WAITING - 100
            after = memory_mib(c.coordinator.pid)
            for rid in order[-CANCELLED:]:  # a client that does not read its replies is dropped
                many.send("Cancel", request_id=rid)
                while answers[rid].cancel is None:
                    name, m = many.recv()
                    answers[m.request_id].take(name, m)
            other.start(**REQUESTS[3])
            other.backlog.append(other.recv())
            urgent = many.start(**REQUESTS[5], priority=1)
            answers[urgent] = Answer()
        began, ends, before_late = time.monotonic(), [], None
        other_answer = Answer()
        open_ids = {rid for rid, a in answers.items() if not a.terminals or a.cancel is None}
        while open_ids or before_late is None:
            if before_late is None and (other.backlog or other.sock.poll(0)) and other_answer.take(*other.recv()):
                before_late = len(ends)
            if not open_ids or not (many.backlog or many.sock.poll(10)):
                continue
            name, m = many.recv()
            if answers[m.request_id].take(name, m) and m.request_id in open_ids:
                open_ids.discard(m.request_id)
                ends.append(m.request_id)
        assert other_answer.key() == oracle[3]
        assert before_late < WAITING // 2, f"{before_late} of the other tenant's answers ended before this one's"
        seconds = time.monotonic() - began
        assert answers[urgent].key() == oracle[5]
        assert ends.index(urgent) < WAITING // 2, f"{ends.index(urgent)} ended before the urgent one"
        cancelled = 0
        for i, rid in enumerate(order):
            a = answers[rid]
            assert a.finish, (i, a.error)
            if a.reason(0) == "cancelled":
                cancelled += 1
                assert i >= WAITING - CANCELLED and a.cancel is not None, i
            else:
                assert a.key() == oracle[i % KINDS], i
        assert cancelled > CANCELLED // 2, f"{cancelled} of {CANCELLED} were cancelled"
        s = many.call("Stats")[1]
        assert s.waiting == s.running == 0 and s.blocks_free + s.blocks_cached == s.blocks_total, s
        print(f"# {WAITING} waiting: {(after - before) / WAITING * 1024:.1f} KiB of the coordinator each; "
              f"answered in {seconds:.1f} s ({(WAITING - cancelled) / seconds:.0f} a second)")


if __name__ == "__main__":
    tap.main()
