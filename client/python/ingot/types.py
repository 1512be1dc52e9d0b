"""What comes back from a server."""
from dataclasses import dataclass, field
from typing import List, Optional, Tuple


@dataclass(frozen=True)
class Model:
    name: str
    vocab: int
    max_ctx: int  # tokens, prompt and answer together
    chat: bool  # it has a chat template
    ranks: int
    weights_digest: str  # hexadecimal; "": not known
    text_digest: str
    tool_format: str
    embedding: int = 0  # components of its embeddings; 0: it gives none
    rerank: bool = False  # it is a reranker


@dataclass(frozen=True)
class Server:
    version: str
    epoch: int  # changes when the server was restarted
    models: Tuple[Model, ...]
    heartbeat_s: float
    max_message_bytes: int


@dataclass(frozen=True)
class Delta:
    """New tokens and text of one sample."""
    text: str
    ids: Tuple[int, ...]
    sample: int = 0
    logprobs: Tuple[float, ...] = ()  # one for each id, if asked for
    top: Tuple[Tuple[Tuple[int, float], ...], ...] = ()  # for each id the most probable ids


@dataclass
class Sample:
    """The whole answer of one sample."""
    text: str = ""
    ids: List[int] = field(default_factory=list)
    logprobs: List[float] = field(default_factory=list)
    reason: str = ""  # "eos", "length", "stop", "cancelled", "deadline"
    matched_stop: Optional[str] = None
    stop_id: Optional[int] = None


@dataclass
class Result:
    """An answer that has ended.  text, ids and reason are those of its first sample."""
    samples: List[Sample]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    queue_s: float
    first_token_s: float
    total_s: float
    recoveries: int
    embedding: Tuple[float, ...] = ()  # of embed and rerank

    @property
    def text(self) -> str:
        return self.samples[0].text

    @property
    def ids(self) -> List[int]:
        return self.samples[0].ids

    @property
    def reason(self) -> str:
        return self.samples[0].reason


@dataclass(frozen=True)
class Ranked:
    """A document of rerank."""
    index: int  # in the list that was given
    score: float


@dataclass(frozen=True)
class Pong:
    ready: bool  # a worker group is there
    draining: bool
    running: int
    waiting: int
    steps: int
