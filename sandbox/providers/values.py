"""Resource properties as the Pulumi engine sends them, turned into plain Python values and back.

Strings, numbers, booleans, lists and dicts are what they look like. Two things that plain Python lacks get
a type here: `UNKNOWN` (a value that a preview cannot tell yet) and `Secret` (a value that must be encrypted
in the state). Assets, archives and resource references keep their wire form, a dict with a signature key:
no stand-in needs to look inside them.

The SDK's own marshalling is not used because it loses unknowns when it reads and refuses them when it
writes. The signatures below are constants of Pulumi's wire protocol (sdk/proto, "special" values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import struct_pb2  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UNKNOWN_ON_WIRE: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  (a protocol constant)
OUTPUT_SIGNATURE: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

Value = Any
"""None, bool, int, float, str, list[Value], dict[str, Value], `UNKNOWN` or `Secret`."""


class _Unknown:
    """The only instance is `UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True)
class Secret:
    """A value that the engine encrypts in its state and masks in its output."""

    value: Value

    def __repr__(self) -> str:
        return "Secret(...)"


def read(value: struct_pb2.Value) -> Value:
    """Turn one wire value into a plain one; whole numbers become int."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _read_struct(value.struct_value)
    if kind == "list_value":
        return [read(item) for item in value.list_value.values]
    if kind == "string_value":
        return UNKNOWN if value.string_value == UNKNOWN_ON_WIRE else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    return None


def read_map(struct: struct_pb2.Struct) -> dict[str, Value]:
    """Turn a wire struct (a resource's properties) into a dict."""
    return {key: read(item) for key, item in struct.fields.items()}


def _read_struct(struct: struct_pb2.Struct) -> Value:
    signature = struct.fields.get(SIGNATURE_KEY)
    if signature is None:
        return read_map(struct)
    if signature.string_value == SECRET_SIGNATURE:
        return Secret(read(struct.fields["value"]))
    if signature.string_value == OUTPUT_SIGNATURE:
        inner = read(struct.fields["value"]) if "value" in struct.fields else UNKNOWN
        secret = "secret" in struct.fields and struct.fields["secret"].bool_value
        return Secret(inner) if secret else inner
    return read_map(struct)


def write(value: Value) -> struct_pb2.Value:  # noqa: PLR0911  (one for each type of value)
    """Turn a plain value into its wire form.

    Raises:
        TypeError: the value is of no type that a property can have.
    """
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if value is UNKNOWN:
        return struct_pb2.Value(string_value=UNKNOWN_ON_WIRE)
    if isinstance(value, Secret):
        fields = {SIGNATURE_KEY: write(SECRET_SIGNATURE), "value": write(value.value)}
        return struct_pb2.Value(struct_value=struct_pb2.Struct(fields=fields))
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, (int, float)):
        return struct_pb2.Value(number_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, (list, tuple)):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[write(item) for item in value]))
    if isinstance(value, dict):
        return struct_pb2.Value(struct_value=struct_pb2.Struct(fields={k: write(v) for k, v in value.items()}))
    message = f"a property cannot be of type {type(value).__name__}"
    raise TypeError(message)


def write_map(values: Mapping[str, Value]) -> struct_pb2.Struct:
    """Turn a dict of properties into a wire struct; properties that are None are left out (deeper ones stay null)."""
    return struct_pb2.Struct(fields={key: write(item) for key, item in values.items() if item is not None})


def reveal(value: Value) -> Value:
    """The value without its `Secret` wrappers, at every depth."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def _walk(value: Value) -> Iterator[Value]:
    yield value
    if isinstance(value, Secret):
        yield from _walk(value.value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk(item)


def has_unknown(value: Value) -> bool:
    """Whether anything in the value is unknown."""
    return any(item is UNKNOWN for item in _walk(value))


def has_secret(value: Value) -> bool:
    """Whether anything in the value is secret."""
    return any(isinstance(item, Secret) for item in _walk(value))


def known(values: Mapping[str, Value]) -> dict[str, Value]:
    """The properties of which every part is known."""
    return {key: item for key, item in values.items() if not has_unknown(item)}


def keep_secrets(source: Mapping[str, Value], result: Mapping[str, Value]) -> dict[str, Value]:
    """The result, with every property secret that is secret (wholly or in part) in the source."""
    secret = {key for key, item in source.items() if has_secret(item)}
    return {key: Secret(item) if key in secret and not isinstance(item, Secret) else item for key, item in result.items()}
