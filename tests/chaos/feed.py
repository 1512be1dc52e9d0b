"""What the streams of a round tell while they run, for faults at a named step and for the silence behind a fault."""
import collections
import threading
import time


class Feed:
    """Counts events of all streams: sent, accepted, delta, ended.  Any thread."""

    def __init__(self, n):
        self.n = n
        self.counts = collections.Counter()
        self.changed = threading.Condition()

    def note(self, event):
        with self.changed:
            self.counts[event] += 1
            self.changed.notify_all()

    def is_over(self):
        return self.counts["ended"] >= self.n

    def wait(self, condition, limit_s):
        """Until condition(counts); False: all streams have ended before, or the limit was reached."""
        end = time.monotonic() + limit_s
        with self.changed:
            while not condition(self.counts):
                left = end - time.monotonic()
                if self.is_over() or left <= 0:
                    return False
                self.changed.wait(min(left, 0.02))
            return not self.is_over()


class Arrivals:
    """When the parts of one stream came; one thread writes."""

    def __init__(self):
        self.times = []
        self.ended = None

    def part(self):
        self.times.append(time.monotonic())

    @classmethod
    def merged(cls, streams):
        """As if all were one stream."""
        out = cls()
        out.times = sorted(t for s in streams for t in s.times)
        return out

    def silence(self, begin, end):
        """The longest time without a part that began or lasted between two faults (seconds); None: the stream had not begun or
        was over."""
        ticks = [t for t in [*self.times, self.ended] if t is not None]
        gaps = [b - max(a, begin) for a, b in zip(ticks, ticks[1:]) if b > begin and a < end]
        return max(gaps, default=None)
