"""What can go wrong, as exceptions."""
from typing import Optional


class IngotError(Exception):
    """Any failure of this package."""


class ConnectionLost(IngotError, ConnectionError):
    """The server does not answer any more, and a new connection could not be made."""


class NoAnswer(IngotError, TimeoutError):
    """Nothing came within the time that the caller gave."""


class ServerError(IngotError):
    """The server has refused something, or a request has failed.

    code: "range", "busy", ... (enum Code of ingot.proto in lower case); field: the path of the field at fault, or "";
    retryable: the same request can succeed later, after retry_after_s where that is given."""

    def __init__(self, code: str, detail: str, field: str = "", retryable: bool = False,
                 retry_after_s: Optional[float] = None) -> None:
        super().__init__(f"{detail} ({code}{', ' + field if field else ''})")
        self.code, self.detail, self.field = code, detail, field
        self.retryable, self.retry_after_s = retryable, retry_after_s


class Rejected(ServerError):
    """The request was not taken; its request_id is free."""


class RequestFailed(ServerError):
    """The request was taken, and has ended without its answer."""
