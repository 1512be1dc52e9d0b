"""A way to a server that breaks: forwards the bytes of an ipc endpoint, and cuts a connection after a number of bytes
from the server."""
import contextlib
import os
import selectors
import socket
import threading

import temp_dir


class Proxy:
    """cuts: after how many bytes the first, the second, ... connection is cut; later ones are not."""

    def __init__(self, endpoint, *cuts):
        self.server, self.cuts = endpoint.removeprefix("ipc://"), list(cuts)
        self.made = 0  # connections

    def __enter__(self):
        self.folder = temp_dir.make()
        self.endpoint = f"ipc://{self.folder}/way"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.folder}/way")
        self.listener.listen()
        self.end, self.told = os.pipe()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        os.close(self.told)
        self.thread.join()
        os.close(self.end)
        self.listener.close()

    def run(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self.end, selectors.EVENT_READ)
            ready.register(self.listener, selectors.EVENT_READ, self.accept)
            while True:
                for key, _ in ready.select():
                    if key.fileobj == self.end:
                        return
                    if key.fileobj.fileno() >= 0:  # else cut by the one before it
                        key.data(ready, key.fileobj)

    def accept(self, ready, listener):
        client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
        server.connect(self.server)
        left = [self.cuts[self.made] if self.made < len(self.cuts) else None]
        self.made += 1
        ready.register(client, selectors.EVENT_READ, lambda r, s: self.forward(r, s, server, [None]))
        ready.register(server, selectors.EVENT_READ, lambda r, s: self.forward(r, s, client, left))

    def forward(self, ready, source, target, left):
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(4096)
            if left[0] is not None:
                data = data[:left[0]]
                left[0] -= len(data)
            target.sendall(data)
        if not data or left[0] == 0:
            for s in source, target:
                ready.unregister(s)
                s.close()
