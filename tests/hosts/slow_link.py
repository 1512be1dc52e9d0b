"""A link with delay and loss: forwards Ethernet frames between a tap device in this network namespace and one in another.

    slow_link.py PID DEVICE PEER DELAY_MS LOSS_PERCENT SEED

PID: a process in the other namespace, where the device is called DEVICE; here it is called PEER.  Prints "ready".  Frames
keep their order.  Kernels without netem need this."""
import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap_device(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def tap_device_in(pid, name):
    """setns by way of a child would give the child the device: this process goes there and comes back."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    assert libc.setns(there, 0) == 0, "cannot enter the host's network"
    fd = tap_device(name)
    assert libc.setns(here, 0) == 0
    os.close(here)
    os.close(there)
    return fd


def forward(a, b, delay, loss, rng):
    """Each frame is written to the other side `delay` seconds after it came, or lost."""
    other = {a: b, b: a}
    waiting = collections.deque()  # (time, fd, frame)
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for fd in select.select([a, b], [], [], wait)[0]:
            frame = os.read(fd, 65536)
            if rng.random() >= loss:
                waiting.append((time.monotonic() + delay, other[fd], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, fd, frame = waiting.popleft()
            try:
                os.write(fd, frame)
            except OSError:  # the device is down, or its queue is full: one more frame is lost
                pass


def main():
    pid, device, peer, delay_ms, loss_percent, seed = sys.argv[1:]
    there, here = tap_device_in(int(pid), device), tap_device(peer)
    print("ready", flush=True)
    forward(there, here, float(delay_ms) / 1000, float(loss_percent) / 100, random.Random(int(seed)))


main()
