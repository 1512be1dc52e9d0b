"""The messages of ingot.proto, made at run time from its text: neither protoc nor generated code is needed.

Reads the part of the language that ingot.proto uses: messages and enums on the top level, optional and repeated fields,
defaults, packed, reserved numbers.  Anything else is an error."""
import importlib.resources
import re

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TOKEN = re.compile(r"\s+|//[^\n]*|(?P<word>[A-Za-z_][A-Za-z0-9_.]*|-?[0-9][0-9.]*|\"[^\"]*\")|(?P<mark>[{}\[\]=;,])")
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bool": _FIELD.TYPE_BOOL, "bytes": _FIELD.TYPE_BYTES, "fixed64": _FIELD.TYPE_FIXED64,
            "float": _FIELD.TYPE_FLOAT, "int32": _FIELD.TYPE_INT32, "int64": _FIELD.TYPE_INT64,
            "sint32": _FIELD.TYPE_SINT32, "string": _FIELD.TYPE_STRING, "uint32": _FIELD.TYPE_UINT32,
            "uint64": _FIELD.TYPE_UINT64}
_LABELS = {"optional": _FIELD.LABEL_OPTIONAL, "repeated": _FIELD.LABEL_REPEATED}


class _Tokens:
    def __init__(self, text: str) -> None:
        self.list, at = [], 0
        while at < len(text):
            m = _TOKEN.match(text, at)
            if not m:
                raise ValueError(f"ingot.proto: cannot read {text[at:at + 20]!r}")
            at = m.end()
            if m.lastgroup:
                self.list.append(m.group(m.lastgroup))
        self.list.reverse()

    def next(self) -> str:
        return self.list.pop()

    def take(self, wanted: str) -> bool:
        """Skips the token if it is the next one."""
        if self.list and self.list[-1] == wanted:
            self.list.pop()
            return True
        return False

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise ValueError(f"ingot.proto: {wanted!r} is expected before {self.list[-1:]}")


def _read_enum(t: _Tokens, out) -> None:
    out.name = t.next()
    t.need("{")
    while not t.take("}"):
        value = out.value.add(name=t.next())
        t.need("=")
        value.number = int(t.next())
        t.need(";")


def _read_field(t: _Tokens, label: str, out) -> None:
    out.label = _LABELS[label]
    kind = t.next()
    if kind in _SCALARS:
        out.type = _SCALARS[kind]
    else:
        out.type_name = kind  # completed when all names are known
    out.name = t.next()
    t.need("=")
    out.number = int(t.next())
    if t.take("["):
        while True:
            option = t.next()
            t.need("=")
            value = t.next()
            if option == "default":
                out.default_value = value
            elif option == "packed":
                out.options.packed = value == "true"
            else:
                raise ValueError(f"ingot.proto: unknown option {option}")
            if t.take("]"):
                break
            t.need(",")
    t.need(";")


def _read_message(t: _Tokens, out) -> None:
    out.name = t.next()
    t.need("{")
    while not t.take("}"):
        label = t.next()
        if label == "reserved":
            number = int(t.next())
            out.reserved_range.add(start=number, end=number + 1)
            t.need(";")
        else:
            _read_field(t, label, out.field.add())


def parse(text: str, name: str = "ingot.proto") -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of a file in that language."""
    t = _Tokens(text)
    out = descriptor_pb2.FileDescriptorProto(name=name)
    while t.list:
        word = t.next()
        if word == "syntax":
            t.need("=")
            if t.next() != '"proto2"':
                raise ValueError("ingot.proto: the syntax is not proto2")
            t.need(";")
        elif word == "package":
            out.package = t.next()
            t.need(";")
        elif word == "enum":
            _read_enum(t, out.enum_type.add())
        elif word == "message":
            _read_message(t, out.message_type.add())
        else:
            raise ValueError(f"ingot.proto: {word!r} is not known")
    enums = {e.name for e in out.enum_type}
    for message in out.message_type:
        for field in message.field:
            if field.type_name:
                field.type = _FIELD.TYPE_ENUM if field.type_name in enums else _FIELD.TYPE_MESSAGE
                field.type_name = f".{out.package}.{field.type_name}"
    return out


def _class_of(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)  # protobuf before 4.22


def classes(file: descriptor_pb2.FileDescriptorProto) -> dict:
    """The classes of a file's messages by name."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {m.name: _class_of(pool.FindMessageTypeByName(f"{file.package}.{m.name}")) for m in file.message_type}


FILE = parse(importlib.resources.files(__package__).joinpath("ingot.proto").read_text(encoding="utf-8"))
MESSAGES = classes(FILE)
ENUMS = {e.name: {v.number: v.name for v in e.value} for e in FILE.enum_type}
# HELLO -> Hello, STATS_REPLY -> StatsReply
TYPES = {number: "".join(w.capitalize() for w in name.split("_")) for number, name in ENUMS["Type"].items() if number}
NUMBERS = {name: number for number, name in TYPES.items()}
