# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Suggests the known name that is nearest to a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_LONGEST = 64
"""The maximum length of a name that is compared: the time of a comparison grows with the square of the length."""

_NO_SYNONYMS: Mapping[str, str] = MappingProxyType({})


def did_you_mean(name: object, known: Iterable[str], synonyms: Mapping[str, str] = _NO_SYNONYMS) -> str:
    """Returns the end of a message, such as ": did you mean cuda?"; an empty string if no known name is near.

    Upper case and lower case are not distinguished.

    Args:
      name: the unknown name.
      known: the names that are accepted.
      synonyms: maps a name in lower case, which others use, to a known name.
    """
    import difflib

    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        return ""
    # The dashes of options would make every two short options alike.
    lower = name.lower().lstrip("-")
    if lower in synonyms:
        return f": did you mean {synonyms[lower]}?"
    names = {each.lower().lstrip("-"): each for each in known}
    found = difflib.get_close_matches(lower, names, n=1)
    return f": did you mean {names[found[0]]}?" if found else ""
