"""Runs commands on another host, as ssh would for mpirun, without keys: for hosts of a test's own network alone.

    remote_shell.py serve ADDRESS PORT       on each host
    remote_shell.py HOST WORD...             runs the words as one line of sh (plm_rsh_agent of Open MPI)

The command's output comes back over the connection.  When the connection ends, the command's session gets a SIGHUP."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

PORT = 7722


def receive_all(s):
    data = b""
    while not data.endswith(b"\0"):
        got = s.recv(65536)
        if not got:
            return None
        data += got
    return data[:-1]


def serve_one(s):
    with s:
        line = receive_all(s)
        if line is None:
            return
        p = subprocess.Popen(["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=s.fileno(), stderr=s.fileno(),
                             start_new_session=True)
        threading.Thread(target=hang_up, args=(s, p), daemon=True).start()
        p.wait()
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)


def hang_up(s, p):
    with contextlib.suppress(OSError):
        s.recv(1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGHUP)


def serve(address, port):
    with socket.create_server((address, port), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def ask(host, words):
    with socket.create_connection((host, PORT), timeout=10) as s:
        s.settimeout(None)
        s.sendall(" ".join(words).encode() + b"\0")
        while data := s.recv(65536):
            sys.stdout.buffer.write(data)
            sys.stdout.flush()


if sys.argv[1] == "serve":
    serve(sys.argv[2], int(sys.argv[3]))
else:
    ask(sys.argv[1], sys.argv[2:])
