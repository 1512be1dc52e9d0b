"""A network between a client and a server whose connections a test can cut."""
import socket
import threading


class Proxy:
    """Listens at self.endpoint and passes bytes on to ipc://PATH."""

    def __init__(self, endpoint):
        self.path = endpoint.removeprefix("ipc://")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.pairs, self.open, self.n = [], True, 0
        self.n_refused = 0  # further connections that end at once
        self.n_short, self.n_bytes = 0, 0  # this many connections end when the server has sent so many bytes on them
        self.lossy = False  # what comes is lost
        self.end = None  # the timer of the cut that follows the first loss
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.open or self.n_refused:
                self.n_refused -= self.open
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.path)
            self.n += 1
            self.pairs.append((near, far))
            most = self.n_bytes if self.n <= self.n_short else None
            for a, b, limit in ((near, far, None), (far, near, most)):
                threading.Thread(target=self._pass, args=(a, b, limit), daemon=True).start()

    def _pass(self, a, b, limit):
        """Until one of the two ends, or limit bytes have passed."""
        try:
            while data := a.recv(65536 if limit is None else min(limit, 65536)):
                if limit is not None:
                    limit -= len(data)
                if not self.lossy:
                    b.sendall(data)
                else:
                    end, self.end = self.end, None
                    if end:
                        end.start()
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends all connections; new ones are possible."""
        for pair in self.pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs = []

    def lose_and_cut(self, seconds):
        """What comes is lost; some seconds after the first loss all connections end, and new ones lose nothing."""
        def end():
            self.cut()
            self.lossy = False
        self.end = threading.Timer(seconds, end)
        self.lossy = True

    def close(self):
        self.open = False
        self.cut()
        self.listener.close()
