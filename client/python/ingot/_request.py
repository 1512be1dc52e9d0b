"""Requests as messages: keyword arguments become fields."""
import json
import secrets
import uuid
from typing import Any, List, Mapping, Optional, Sequence, Union

from ._proto import ENUMS, MESSAGES
from .types import Ranked

Prompt = Union[str, bytes, Sequence[int]]
Message = Mapping[str, Any]

_SAMPLING = {f.name for f in MESSAGES["Sampling"].DESCRIPTOR.fields} - {"logit_bias", "stop_token_id"}
_GENERATE = ("model", "max_tokens", "include_stop", "n", "deadline_ms", "priority", "skip_special", "add_special",
             "tenant", "grace_ms", "client_digest", "keep_marks", "thinking_budget")
# the form of the answer -> the kind of its grammar, as in `ingot generate`
_FORMS = {"json_schema": "JSON_SCHEMA", "json_object": "JSON_OBJECT", "regex": "REGEX", "choices": "CHOICE",
          "grammar": "GBNF"}
OPTIONS = sorted(_SAMPLING | set(_GENERATE) | set(_FORMS) | {"logit_bias", "stop_token_ids", "stop", "request_id"})


def _bytes(text: Union[str, bytes]) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _enum(enum: str, name: str) -> int:
    return next(number for number, known in ENUMS[enum].items() if known == name)


def _set(message, name: str, value: Any) -> None:
    try:
        setattr(message, name, value)
    except (TypeError, ValueError) as e:  # protobuf's text does not name the field
        raise type(e)(f"{name}: {e}") from None


def _set_form(out, form: str, value: Any) -> None:
    """json_schema: a dict, or a text of JSON; json_object: True; regex and grammar (GBNF): a text; choices: texts."""
    if form == "json_object" and value is not True:
        raise TypeError("json_object: only True")
    out.grammar.kind = _enum("GrammarKind", "GRAMMAR_" + _FORMS[form])
    if form == "choices":
        out.grammar.source = json.dumps(list(value), ensure_ascii=False).encode()
    elif form != "json_object":
        out.grammar.source = _bytes(value if isinstance(value, (str, bytes)) else json.dumps(value, ensure_ascii=False))


def chat(messages: Sequence[Message], tools: Optional[Sequence[Any]] = None,
         variables: Optional[Mapping[str, Any]] = None, add_generation_prompt: Optional[bool] = None,
         continue_final_message: Optional[bool] = None, clock_s: Optional[int] = None, zone_s: Optional[int] = None,
         tool_choice: Optional[str] = None, one_call: Optional[bool] = None):
    """A Chat.  A message with more than role and a text as content is sent as JSON.  tool_choice: "auto", "required" or the
    name of a tool."""
    out = MESSAGES["Chat"]()
    for m in messages:
        if set(m) == {"role", "content"} and isinstance(m["content"], (str, bytes)):
            out.turn.add(role=m["role"], content=_bytes(m["content"]))
        else:
            out.turn.add(json=json.dumps(dict(m), ensure_ascii=False).encode())
    if tools is not None:
        out.tools_json = json.dumps(list(tools), ensure_ascii=False).encode()
    if variables is not None:
        out.variables_json = json.dumps(dict(variables), ensure_ascii=False).encode()
    for name, value in (("add_generation_prompt", add_generation_prompt), ("clock_s", clock_s), ("zone_s", zone_s),
                        ("continue_final_message", continue_final_message), ("one_call", one_call)):
        if value is not None:
            _set(out, name, value)
    if tool_choice is not None:
        kind = {"auto": "AUTO", "required": "REQUIRED"}.get(tool_choice, "NAMED")
        out.tool_choice = _enum("ToolChoice", "TOOL_CHOICE_" + kind)
        if kind == "NAMED":
            _set(out, "tool_name", tool_choice)
    return out


CHAT_OPTIONS = ("tools", "variables", "add_generation_prompt", "continue_final_message", "clock_s", "zone_s", "tool_choice",
                "one_call")


def generate(prompt: Optional[Prompt], messages: Optional[Sequence[Message]], options: Mapping[str, Any]):
    """A Generate for a prompt (text or token ids) or for messages.  None stands for the default."""
    if (prompt is None) == (messages is None):
        raise TypeError("give either a prompt or messages")
    given = {k: v for k, v in options.items() if v is not None}
    out = MESSAGES["Generate"](request_id=given.pop("request_id", None) or uuid.uuid4().hex)
    of_chat = {k: given.pop(k) for k in CHAT_OPTIONS if k in given}
    if messages is not None:
        out.chat.CopyFrom(chat(messages, **of_chat))
    elif of_chat:
        raise TypeError(f"{', '.join(of_chat)}: only with messages")
    elif isinstance(prompt, (str, bytes)):
        out.text = _bytes(prompt)
    else:
        out.tokens.id.extend(prompt)
        out.tokens.SetInParent()
    stop = given.pop("stop", ())
    out.stop.extend(_bytes(s) for s in ([stop] if isinstance(stop, (str, bytes)) else stop))
    out.sampling.stop_token_id.extend(given.pop("stop_token_ids", ()))
    for token, bias in dict(given.pop("logit_bias", {})).items():
        out.sampling.logit_bias.add(id=token, bias=bias)
    forms = [name for name in _FORMS if name in given]
    if len(forms) > 1:
        raise TypeError(f"{', '.join(forms)}: an answer has one form")
    for form in forms:
        _set_form(out, form, given.pop(form))
    for name, value in given.items():
        if name in _GENERATE:
            _set(out, name, value)
        elif name in _SAMPLING:
            _set(out.sampling, name, value)
        else:
            raise TypeError(f"unknown option {name!r}; there are {', '.join(OPTIONS)}")
    if not out.sampling.HasField("seed"):  # so that the message, sent again, gives the same bytes
        out.sampling.seed = secrets.randbits(64)
    return out


_EMBED = ("model", "deadline_ms", "priority", "add_special", "tenant", "grace_ms")


def embed(prompt: Prompt, document: Optional[Union[str, bytes]], prompt_name: Optional[str], dimensions: Optional[int],
          token_types: Optional[Sequence[int]], options: Mapping[str, Any]):
    """A Generate with embed: the embedding of a text or ids, or with a document the score of both."""
    given = {k: v for k, v in options.items() if v is not None}
    out = MESSAGES["Generate"](request_id=uuid.uuid4().hex)
    out.embed.SetInParent()
    if isinstance(prompt, (str, bytes)):
        out.text = _bytes(prompt)
    else:
        out.tokens.id.extend(prompt)
        out.tokens.SetInParent()
    if document is not None:
        out.embed.document = _bytes(document)
    if prompt_name is not None:
        out.embed.prompt_name = _bytes(prompt_name)
    if dimensions is not None:
        out.embed.dimensions = dimensions
    out.embed.token_types.extend(token_types or ())
    for name, value in given.items():
        if name not in _EMBED:
            raise TypeError(f"unknown option {name!r}; there are {', '.join(_EMBED)}")
        _set(out, name, value)
    return out


def ranked(scores: Sequence[float], top_n: Optional[int]) -> List[Ranked]:
    """The best first; of equals the one that was given first."""
    order = sorted((Ranked(i, s) for i, s in enumerate(scores)), key=lambda r: (-r.score, r.index))
    return order if top_n is None else order[:top_n]
