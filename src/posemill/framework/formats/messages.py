"""What protobuf messages have in common, as far as scripts use it; protobuf itself is not needed.

Descriptors have what `google.protobuf.json_format` reads, so that `MessageToDict` and
`MessageToJson` of an installed protobuf take our landmarks.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

_NOT_HERE = ("SerializePartialToString", "WhichOneof", "UnknownFields", "Extensions")


class _File(NamedTuple):
    name: str = "mediapipe/framework/formats/landmark.proto"


class Descriptor(NamedTuple):
    """What a message is called, and its fields."""

    full_name: str
    fields: tuple[Field, ...]
    file: _File = _File()
    has_options: bool = False

    @property
    def name(self) -> str:
        """The last part of the name."""
        return self.full_name.rpartition(".")[2]

    @property
    def fields_by_name(self) -> dict[str, Field]:
        """The fields by their names."""
        return {field.name: field for field in self.fields}


class Field(NamedTuple):
    """A field of a message: a number, or a list of messages of one kind."""

    name: str
    number: int = 1
    message_type: Descriptor | None = None
    is_extension: bool = False
    containing_oneof: None = None
    default_value: float = 0.0

    @property
    def json_name(self) -> str:
        """The name in JSON."""
        return self.name

    @property
    def is_repeated(self) -> bool:
        """Whether it is a list."""
        return self.message_type is not None

    @property
    def has_presence(self) -> bool:
        """Whether it can be set or not."""
        return not self.is_repeated

    @property
    def type(self) -> int:
        """The number protobuf has for its type: of a message, or of a float32."""
        return 11 if self.is_repeated else 2

    @property
    def cpp_type(self) -> int:
        """The number protobuf has for its type in C++."""
        return 10 if self.is_repeated else 6

    @property
    def tag(self) -> int:
        """The byte before a value in protobuf's bytes: of something with a length, or a float32."""
        return self.number << 3 | (2 if self.is_repeated else 5)

    @property
    def label(self) -> int:
        """The number protobuf has for repeated, or for optional."""
        return 3 if self.is_repeated else 1


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
            if field.is_repeated:
                for each in value:
                    content = each.SerializeToString()
                    written += bytes((field.tag, len(content))) + content  # at most 25 bytes
            else:
                written += struct.pack("<Bf", field.tag, value)
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
                if field.is_repeated:
                    start, at = at + 2, at + 2 + serialized[at + 1]
                    if at > len(serialized):
                        raise IndexError
                    getattr(self, field.name).add().MergeFromString(serialized[start:at])
                else:
                    setattr(self, field.name, struct.unpack_from("<f", serialized, at + 1)[0])
                    at += 5
        except (KeyError, IndexError, struct.error) as error:
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

    def __getattr__(self, name: str) -> Any:
        kind = self.DESCRIPTOR.name
        if name in _NOT_HERE:
            raise AttributeError(
                f"posemill's {kind} has no {name}: it is a plain object. Take its numbers with "
                f"MessageToDict of google.protobuf.json_format, or as an array with to_numpy()"
            )
        raise AttributeError(f"{kind} has no {name!r}")

    def _expect_field(self, name: str) -> None:
        known = [field.name for field in self.DESCRIPTOR.fields]
        if name not in known:
            raise ValueError(
                f"{self.DESCRIPTOR.name} has no field {name!r}; it has {', '.join(known)}"
            )

    def _expect_same(self, other: object) -> None:
        if not isinstance(other, type(self)):
            raise TypeError(
                f"expected a {self.DESCRIPTOR.name} to copy, got {type(other).__name__}"
            )
