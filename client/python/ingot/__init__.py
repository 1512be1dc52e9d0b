"""Client of an Ingot server.

    import ingot

    with ingot.Client() as client:
        for piece in client.chat("Tell me a short story about a fox.").text():
            print(piece, end="", flush=True)
"""
from .aio import AsyncClient, AsyncStream
from .client import Client, Stream
from .errors import ConnectionLost, IngotError, NoAnswer, Rejected, RequestFailed, ServerError
from .types import Delta, Model, Pong, Ranked, Result, Sample, Server

__all__ = ["AsyncClient", "AsyncStream", "Client", "ConnectionLost", "Delta", "IngotError", "Model", "NoAnswer", "Pong",
           "Ranked", "Rejected", "RequestFailed", "Result", "Sample", "Server", "ServerError", "Stream"]
__version__ = "0.1.0"
