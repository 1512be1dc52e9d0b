"""A server sends more than a client reads, and goes; a heartbeat of the client falls due; then the client reads all."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client/python"))
import zmq  # noqa: E402
from ingot.client import open_socket  # noqa: E402

N = 5000  # messages: ZeroMQ queues 1,000 by default
servers, clients = zmq.Context(), zmq.Context()
server = servers.socket(zmq.ROUTER)
server.setsockopt(zmq.SNDHWM, 0)
port = server.bind_to_random_port("tcp://127.0.0.1")
client = open_socket(clients, f"tcp://127.0.0.1:{port}")
client.connect(f"tcp://127.0.0.1:{port}")
client.send(b"hello")
who = server.recv_multipart()[0]
for _ in range(N):
    server.send_multipart([who, b"x" * 100])
time.sleep(1)  # what fits is on its way
server.close(0)
servers.term()
time.sleep(client.getsockopt(zmq.HEARTBEAT_IVL) / 1000 + 1)
n = 0
while client.poll(500):
    client.recv()
    n += 1
print(n, "messages")
assert n > 1000, n
client.close(0)
clients.term()
