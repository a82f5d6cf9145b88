# SPDX-License-Identifier: GPL-2.0-only
"""Read a TOML file into an object of a class whose fields are the file's keys.

The library cattrs does the work. It refuses a key that is not a field of the class. It goes on
after a mistake, so that one error can name several mistakes. This module adds three rules. A value
is never converted, so 5 is no text. A type may have a condition on its values (Must). An error
message names the expected value and the place in the file.
"""

import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from cattrs import Converter
from cattrs.cols import homogenous_tuple_structure_factory, list_structure_factory
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import mapping_structure_factory

from triagelab.base.errors import RequestError

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Must:
    """A condition on a value. Annotated[type, Must(...)] attaches it to the value's type.

    holds    returns whether a value meets the condition
    message  the error message for any other value; {} in the message stands for the value
    """

    holds: Callable[[Any], bool]
    message: str


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


Count = Annotated[
    int,
    Must(lambda value: _is(int)(value) and value > 0, "must be a whole number, 1 or more, not {}"),
]
#: A list of at least one value, as in Some[str].
Some = Annotated[tuple[T, ...], Must(lambda value: value != [], "must be a list of something")]

_PLAIN: Mapping[Any, Must] = {
    str: Must(_is(str), "must be a text, not {}"),
    bool: Must(lambda value: isinstance(value, bool), "must be true or false, not {}"),
    int: Must(_is(int), "must be a whole number, not {}"),
    float: Must(_is(int, float), "must be a number, not {}"),
    int | str: Must(_is(int, str), "must be a whole number or a text, not {}"),
}
_LIST = Must(_is(list), "must be a list, not {}")
_TABLE = Must(_is(dict), "must be a table, not {}")

_converter = Converter(forbid_extra_keys=True)
#: An error names at most this many mistakes of a file, and counts the others.
_TOLD = 6


def _checked(must: Must, then: Hook) -> Hook:
    def structure(value: Any, of: Any) -> Any:
        if not must.holds(value):
            shown = json.dumps(value, ensure_ascii=False, default=str)
            raise ValueError(must.message.format(shown))
        return then(value, of)

    return structure


def _container(must: Must, matches: Callable[[Any], bool], make: Callable[..., Hook]) -> None:
    """Make cattrs check a value with `must` before it reads the value as a list or a table.

    cattrs does so for the types that `matches` accepts. Without the check, it would read a text as
    a list of letters.
    """
    _converter.register_structure_hook_factory(matches)(
        lambda of, converter: _checked(must, make(of, converter))
    )


for _type, _must in _PLAIN.items():
    _converter.register_structure_hook(_type, _checked(_must, lambda value, _: value))
_container(_LIST, lambda of: get_origin(of) is tuple, homogenous_tuple_structure_factory)
_container(_LIST, lambda of: get_origin(of) is list, list_structure_factory)
_container(_TABLE, lambda of: get_origin(of) in (dict, Mapping), mapping_structure_factory)
_container(_TABLE, is_dataclass, lambda of, converter: converter.gen_structure_attrs_fromdict(of))
_container(_TABLE, is_typeddict, lambda of, converter: converter.gen_structure_typeddict(of))


@_converter.register_structure_hook_factory(lambda of: hasattr(of, "__metadata__"))
def _annotated(of: Any) -> Hook:
    plain, *notes = get_args(of)
    then = _converter.get_structure_hook(plain)
    for must in notes:
        then = _checked(must, then)
    return lambda value, _: then(value, plain)


def choose(of: Any, by: Callable[[Any], Any]) -> None:
    """Make read() treat a value of the union type `of` as the type that `by` returns for it."""
    _converter.register_structure_hook(of, lambda value, _: _converter.structure(value, by(value)))


def build(of: type[T], written: Any, made: Callable[[Any], T]) -> None:
    """Make read() make an object of `of` in two steps: read the type `written`, then call `made`.

    A ValueError from `made` counts as a mistake in the file.
    """
    _converter.register_structure_hook(
        of, lambda value, _: made(_converter.structure(value, written))
    )


def read(path: Path, of: type[T], **more: str) -> T:
    """Return a file's content as an object of the class `of`.

    `more` has the values of fields that the file may not set. If the file has mistakes, raise
    RequestError with a line for each mistake, up to _TOLD of them.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # from TOML, UTF-8, or a number with too many digits
        raise RequestError(f"{path}: {error}") from error
    try:
        if wrong := given.keys() & more.keys():
            raise ForbiddenExtraKeysError(None, of, wrong)
        return _converter.structure(given | more, of)
    except (BaseValidationError, ForbiddenExtraKeysError) as error:
        mistakes = [f"{path}: {mistake}" for mistake in _mistakes(error, "", more)]
        if len(mistakes) > _TOLD:
            mistakes[_TOLD:] = [f"Mistakes not shown: {len(mistakes) - _TOLD}"]
        raise RequestError("\n".join(mistakes)) from error


def _mistakes(error: Exception, place: str, unwritten: Collection[str] = ()) -> Iterator[str]:
    """Yield a message for each mistake in `error`, which cattrs raised at `place` in the file.

    `unwritten` has the fields that the file may not set.
    """
    table = f"{place.rstrip(',')}: " if place else ""
    if isinstance(error, BaseValidationError):
        if missing := sorted(e.args[0] for e in error.exceptions if isinstance(e, KeyError)):
            yield f"{table}missing: {', '.join(missing)}"
        for each in error.exceptions:
            if not isinstance(each, KeyError):
                yield from _mistakes(each, _below(place, each), unwritten)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = sorted(get_type_hints(error.cl).keys() - set(unwritten))
        wrong = ", ".join(sorted(error.extra_fields))
        yield f"{table}not known: {wrong}; there are {', '.join(known)}"
    else:
        yield f"{place} {error}".lstrip()


def _below(place: str, error: Exception) -> str:
    """Return `place`, extended by the key or item at which an error occurred.

    cattrs adds the key or the item's number to the error as a note. Without a note, return `place`.
    """
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote) and isinstance(note.index, int):
            return f"{place}, item {note.index + 1},"
        if isinstance(note, AttributeValidationNote | IterableValidationNote):
            key = note.name if isinstance(note, AttributeValidationNote) else note.index
            return f"{place.rstrip(',')}.{key}".lstrip(".")
    return place
