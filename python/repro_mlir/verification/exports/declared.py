# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Declarations of the author about a model, which no receipt proves."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from repro_mlir.base.errors import ReproError
from repro_mlir.base.near_names import did_you_mean
from repro_mlir.base.printing import foreign

MOST = 1000
"""The maximum number of characters of a declaration."""

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""The form of times in all exports."""

_LOCATION = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


@dataclass(frozen=True)
class Declared:
    """The declarations, each None if it is not made.

    Attributes:
      name: the name of the model.
      supplier: the organization that supplies the model.
      location: the URI from which the model can be downloaded.
      license: the license of the model, an SPDX license expression in its canonical form.
      released: the time of the release, in the form `TIME`.
    """

    name: str | None = None
    supplier: str | None = None
    location: str | None = None
    license: str | None = None
    released: str | None = None

    def made(self) -> dict[str, str]:
        """Returns the declarations that are made, by name."""
        return {name: text for name, text in asdict(self).items() if text is not None}


FIELDS = tuple(asdict(Declared()))
"""The names of the declarations."""


def declared_of(pairs: Iterable[tuple[str, str]]) -> Declared:
    """Returns the declarations of names and texts. Raises ReproError for an unknown or repeated name, or a text that
    the formats cannot contain."""
    found: dict[str, str] = {}
    for name, text in pairs:
        where = f"--declare {foreign(name)}"
        if name not in FIELDS:
            raise ReproError(f"{where}: expected {', '.join(FIELDS[:-1])} or {FIELDS[-1]}{did_you_mean(name, FIELDS)}")
        if name in found:
            raise ReproError(f"{where}: expected one declaration of this name, got two")
        if not text.strip() or not text.isprintable() or len(text) > MOST:
            raise ReproError(f"{where}: expected 1 to {MOST} printable characters, got {foreign(text)!r}")
        if name == "license":
            text = _license(text, where)
        if name == "location" and not _LOCATION.fullmatch(text):
            raise ReproError(f"{where}: expected a URI, such as https://example.org/model, got {foreign(text)}")
        if name == "released" and not _is_time(text):
            raise ReproError(f"{where}: expected a time in UTC such as 2026-11-30T12:00:00Z, got {foreign(text)}")
        found[name] = unicodedata.normalize("NFC", text)
    return Declared(**found)


def _license(text: str, where: str) -> str:
    """Returns an SPDX license expression in its canonical form; raises ReproError if the text is none."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression as error:
        example = "such as Apache-2.0, MIT OR GPL-2.0-only, or LicenseRef-ours"
        reason = f"{foreign(str(error))}: spdx.org/licenses lists the names"
        raise ReproError(f"{where}: expected an SPDX license expression, {example}: {reason}") from None


def _is_time(text: str) -> bool:
    try:
        # The comparison refuses the shorter forms that strptime accepts, such as months of one digit.
        return datetime.strptime(text, TIME).strftime(TIME) == text
    except ValueError:
        return False
