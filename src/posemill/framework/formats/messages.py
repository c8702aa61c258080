"""What protobuf messages have in common, as far as scripts use it; protobuf itself is not needed.

Descriptors have what `google.protobuf.json_format` reads, so that `MessageToDict` and
`MessageToJson` of an installed protobuf take our messages.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, SupportsIndex, TypeVar

_NOT_HERE = ("SerializePartialToString", "WhichOneof", "UnknownFields", "Extensions")
# Numbers that protobuf has for kinds of fields: its own, that in C++, and how bytes begin.
_TYPES = {"float": (2, 6, 5), "int": (5, 1, 0), "string": (9, 9, 2), "enum": (14, 8, 0),
          "message": (11, 10, 2)}  # fmt: skip
_DEFAULTS: dict[str, Any] = {"float": 0.0, "int": 0, "string": "", "enum": 0, "message": None}
_FLOAT = struct.Struct("<f")
_LENGTH = 2  # begins bytes that say how many they are
_Message = TypeVar("_Message", bound="Message")


class _File(NamedTuple):
    name: str = "mediapipe/framework/formats/landmark.proto"


class Descriptor:
    """What a message is called, and its fields."""

    file = _File()
    has_options = False

    def __init__(self, full_name: str, fields: tuple[Field, ...]) -> None:
        self.full_name, self.fields = full_name, fields
        self.name = full_name.rpartition(".")[2]
        self.fields_by_name = {field.name: field for field in fields}


class EnumValue(NamedTuple):
    """A name that a number stands for."""

    name: str
    number: int


class EnumType(NamedTuple):
    """Names that numbers stand for."""

    full_name: str
    names: tuple[str, ...]

    @property
    def values_by_number(self) -> dict[int, EnumValue]:
        """The names by their numbers."""
        return {number: EnumValue(name, number) for number, name in enumerate(self.names)}


class Field(NamedTuple):
    """A field of a message: a value of some kind, or a list of them."""

    name: str
    number: int = 1
    kind: str = "float"
    is_repeated: bool = False
    message_class: type[Message] | None = None
    enum_type: EnumType | None = None
    is_extension: bool = False
    containing_oneof: None = None

    @property
    def message_type(self) -> Descriptor | None:
        """What the messages are that it holds."""
        return self.message_class.DESCRIPTOR if self.message_class else None

    @property
    def default_value(self) -> Any:
        """What it reads where it is not set."""
        return [] if self.is_repeated else _DEFAULTS[self.kind]

    @property
    def json_name(self) -> str:
        """The name in JSON."""
        first, *others = self.name.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def has_presence(self) -> bool:
        """Whether it can be set or not."""
        return not self.is_repeated

    @property
    def type(self) -> int:
        """The number protobuf has for its type."""
        return _TYPES[self.kind][0]

    @property
    def cpp_type(self) -> int:
        """The number protobuf has for its type in C++."""
        return _TYPES[self.kind][1]

    @property
    def is_packed(self) -> bool:
        """Whether its values stand behind each other in protobuf's bytes: lists of numbers."""
        return self.is_repeated and self.kind in ("float", "int", "enum")

    @property
    def tag(self) -> int:
        """The byte before a value in protobuf's bytes."""
        return self.number << 3 | (_LENGTH if self.is_packed else _TYPES[self.kind][2])

    @property
    def label(self) -> int:
        """The number protobuf has for repeated, or for optional."""
        return 3 if self.is_repeated else 1

    def new_list(self) -> list[Any]:
        """Return an empty list of what a repeated field holds."""
        if self.message_class is not None:
            return MessageList(self.message_class)
        return FloatList() if self.kind == "float" else []

    def write(self, value: Any) -> bytes:
        """Return a value in protobuf's bytes, without its tag."""
        if self.kind == "float":
            return struct.pack("<f", value)
        if self.kind in ("int", "enum"):
            return _varint(value)
        content: bytes = value.encode() if self.kind == "string" else value.SerializeToString()
        return _varint(len(content)) + content

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """Return the value that begins at a byte, and where the next one begins."""
        if self.kind == "float":
            return struct.unpack_from("<f", data, at)[0], at + 4
        number, at = _read_varint(data, at)
        if self.kind in ("int", "enum"):
            return number, at
        content = data[at : at + number]
        if len(content) < number:
            raise IndexError
        if self.message_class is not None:
            return self.message_class.FromString(content), at + number
        return content.decode(), at + number

    def as_text(self, value: Any) -> str:
        """Return a value as protobuf prints it, with its name."""
        if self.kind == "message":
            inner = "".join(f"  {line}\n" for line in repr(value).splitlines())
            return f"{self.name} {{\n{inner}}}\n"
        if self.kind == "float":
            text = _digits(value)
        elif self.kind == "string":
            text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        else:
            text = self.enum_type.names[value] if self.enum_type else str(value)
        return f"{self.name}: {text}\n"


def _varint(number: int) -> bytes:
    written = bytearray()
    number &= 0xFFFFFFFFFFFFFFFF
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return (number - (1 << 64) if number >> 63 else number), at


def _digits(value: float) -> str:
    """Return six digits where they say it all, as text of the original has them, else nine."""
    short = f"{value:.6g}"
    same = _FLOAT.pack(float(short)) == _FLOAT.pack(value)
    return short if same else f"{value:.9g}"


class Message(ABC):
    """A message: fields that are set or not, copied and compared as protobuf does."""

    __hash__ = None  # type: ignore[assignment]  # as of every object whose fields can be assigned
    __slots__ = ()
    DESCRIPTOR: ClassVar[Descriptor]

    @abstractmethod
    def HasField(self, name: str) -> bool:
        """Return whether the field is set."""

    @abstractmethod
    def ClearField(self, name: str) -> None:
        """Set a field back."""

    @abstractmethod
    def MergeFrom(self, other: Any) -> None:
        """Take over what is set in another message."""

    def ListFields(self) -> list[tuple[Field, Any]]:
        """Return the fields that are set, each with its value."""
        values = [(field, getattr(self, field.name)) for field in self.DESCRIPTOR.fields]
        return [
            (field, value)
            for field, value in values
            if (len(value) if field.is_repeated else self.HasField(field.name))
        ]

    def Clear(self) -> None:
        """Set all fields back."""
        for field in self.DESCRIPTOR.fields:
            self.ClearField(field.name)

    def CopyFrom(self, other: Any) -> None:
        """Become equal to another message of the same kind."""
        self._expect_same(other)
        if other is not self:
            self.Clear()
            self.MergeFrom(other)

    def IsInitialized(self) -> bool:
        """Return True: no field has to be set."""
        return True

    def SerializeToString(self) -> bytes:
        """Return the bytes that protobuf has for it; the original's messages read them."""
        written = bytearray()
        for field, value in self.ListFields():
            values = value if field.is_repeated else [value]
            if field.is_packed:
                content = b"".join(map(field.write, values))
                written += bytes((field.tag,)) + _varint(len(content)) + content
            else:
                for each in values:
                    written += bytes((field.tag,)) + field.write(each)
        return bytes(written)

    def ByteSize(self) -> int:
        """Return how many bytes `SerializeToString` gives."""
        return len(self.SerializeToString())

    def MergeFromString(self, serialized: bytes) -> int:
        """Take over what `SerializeToString` gave, ours or the original's; return the bytes."""
        fields = {field.tag: field for field in self.DESCRIPTOR.fields}
        at = 0
        try:
            while at < len(serialized):
                field = fields[serialized[at]]
                if field.is_packed:
                    length, at = _read_varint(serialized, at + 1)
                    end = at + length
                    while at < end:
                        value, at = field.read(serialized, at)
                        getattr(self, field.name).append(value)
                else:
                    value, at = field.read(serialized, at + 1)
                    if field.is_repeated:
                        getattr(self, field.name).append(value)
                    elif field.kind == "message":
                        getattr(self, field.name).MergeFrom(value)
                    else:
                        setattr(self, field.name, value)
        except (KeyError, IndexError, UnicodeDecodeError, struct.error) as error:
            raise ValueError(
                f"these {len(serialized)} bytes are no {self.DESCRIPTOR.name}: expected what "
                f"SerializeToString gave, whole"
            ) from error
        return at

    def ParseFromString(self, serialized: bytes) -> int:
        """Become what `SerializeToString` gave; return how many bytes were read."""
        self.Clear()
        return self.MergeFromString(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Any:
        """Return a new message of what `SerializeToString` gave."""
        made = cls()
        made.MergeFromString(serialized)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.ListFields() == other.ListFields()

    def __repr__(self) -> str:
        return "".join(
            field.as_text(each)
            for field, value in self.ListFields()
            for each in (value if field.is_repeated else [value])
        )

    def __getattr__(self, name: str) -> Any:
        kind = self.DESCRIPTOR.name
        if name in _NOT_HERE:
            raise AttributeError(
                f"posemill's {kind} has no {name}: it is a plain object. Take its numbers with "
                f"MessageToDict of google.protobuf.json_format, or as an array with to_numpy()"
            )
        raise AttributeError(f"{kind} has no {name!r}")

    def _expect_field(self, name: str) -> None:
        known = self.DESCRIPTOR.fields_by_name
        if name not in known:
            raise ValueError(
                f"{self.DESCRIPTOR.name} has no field {name!r}; it has {', '.join(known)}"
            )

    def _expect_same(self, other: object) -> None:
        if not isinstance(other, type(self)):
            raise TypeError(
                f"expected a {self.DESCRIPTOR.name} to copy, got {type(other).__name__}"
            )


class MessageList(list[_Message]):
    """The messages of a field: a list that also adds them as a message does."""

    def __init__(self, message_class: type[_Message], messages: Iterable[_Message] = ()) -> None:
        super().__init__(messages)
        self._message_class = message_class

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageList, (self._message_class, list(self))

    def add(self, **fields: Any) -> _Message:
        """Return a new message at the end, with these fields."""
        added = self._message_class(**fields)
        super().append(added)
        return added

    def append(self, message: _Message) -> None:
        """Add a copy of a message."""
        self.add().CopyFrom(message)

    def extend(self, messages: Iterable[_Message]) -> None:
        """Add copies of messages."""
        for message in list(messages):
            self.append(message)

    MergeFrom = extend

    def __setitem__(self, index: SupportsIndex | slice, value: Any) -> None:
        """Refuse, as messages do."""
        raise TypeError(
            "a message in a list cannot be assigned; use .landmark[i].CopyFrom(other), "
            "or the same of another list"
        )


class FloatList(list[float]):
    """The numbers of a field, each with the digits of a float32: protobuf's JSON expects them."""

    def append(self, number: float) -> None:
        """Add a number."""
        super().append(as_float32(number))

    def extend(self, numbers: Iterable[float]) -> None:
        """Add numbers."""
        super().extend(map(as_float32, numbers))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, as_float32(value))


def as_float32(value: float) -> float:
    """Return a number as a message keeps it: with the digits of a float32."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except struct.error as error:
        raise TypeError(f"a field of a message: expected a number, got {value!r}") from error
    except OverflowError:
        return math.copysign(math.inf, value)


class FieldsMessage(Message):
    """A message whose fields are those of its descriptor, all of them given by name."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__["_values"] = {}
        for name, value in fields.items():
            field = self._field(name)
            if field.is_repeated:
                getattr(self, name).extend(value)
            elif field.kind == "message":
                getattr(self, name).CopyFrom(value)
            else:
                setattr(self, name, value)

    @classmethod
    def of(cls: type[_Message], **values: Any) -> _Message:
        """Return a message that takes over values which are nobody else's: nothing is copied."""
        made = cls.__new__(cls)
        made.__dict__["_values"] = values
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).FromString, (self.SerializeToString(),)

    def _field(self, name: str) -> Field:
        self._expect_field(name)
        return self.DESCRIPTOR.fields_by_name[name]

    def __getattr__(self, name: str) -> Any:
        field = self.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            return super().__getattr__(name)
        values = self.__dict__["_values"]
        if name not in values:
            if field.is_repeated:
                values[name] = field.new_list()
            elif field.message_class is not None:
                values[name] = field.message_class()
            else:
                return field.default_value
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise AttributeError(f"{self.DESCRIPTOR.name} has no field {name!r}")
        if field.is_repeated or field.kind == "message":
            raise AttributeError(
                f"{name} cannot be assigned; use .{name}.extend(…) or .{name}.CopyFrom(…)"
            )
        self._values[name] = as_float32(value) if field.kind == "float" else value

    def HasField(self, name: str) -> bool:
        """Return whether the field is set; of a list it cannot be said."""
        field = self._field(name)
        if field.is_repeated:
            raise ValueError(f"{name!r} is a list, which is always there; ask for its len()")
        if field.kind == "message":
            return name in self._values and bool(self._values[name].ListFields())
        return name in self._values

    def ClearField(self, name: str) -> None:
        """Set a field back."""
        self._expect_field(name)
        self._values.pop(name, None)

    def MergeFrom(self, other: Any) -> None:
        """Take over what is set in another message."""
        self._expect_same(other)
        for field, value in other.ListFields():
            if field.is_repeated:
                getattr(self, field.name).extend(value)
            elif field.kind == "message":
                getattr(self, field.name).MergeFrom(value)
            else:
                setattr(self, field.name, value)
