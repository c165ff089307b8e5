# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""JSON from outside has one meaning, whatever its layout, or causes an error of one line."""

import pytest
from repro_mlir import ReproError
from repro_mlir.base.files.json_text import parse


def test_any_layout() -> None:
    assert parse(b' {"a" : [1, 2.5, null, "\\u00e9"] }\n', "x") == {"a": [1, 2.5, None, "é"]}
    assert parse('"é"', "x") == parse('"é"'.encode(), "x") == "é"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x: expected JSON: "),
        (b"{", "x: expected JSON: "),
        (b"\xff", "x: expected JSON in UTF-8"),
        (b'"\xed\xa0\x80"', "x: expected JSON in UTF-8"),
        (b'"\\ud800"', "x: expected JSON in UTF-8"),
        (b'{"\\udfff": 1}', "x: expected JSON in UTF-8"),
        (b'{"a": 1, "a": 1}', "x: expected JSON: a key occurs twice"),
        (b"NaN", "x: expected JSON: NaN is not a finite number"),
        (b"[-Infinity]", "x: expected JSON: -Infinity is not a finite number"),
        (b"1e999", "x: expected JSON: 1e999 is not a finite number"),
        ("{\ud800", "x: expected JSON in UTF-8"),
        ('"\udfff"', "x: expected JSON in UTF-8"),
        (b"9" * 5000, "x: expected JSON: "),
        (b"[" * 40, "x: expected JSON nested at most 32 levels deep"),
        (b"1" * 20, None),
        (b"[" + b"1," * 9000 + b"1]", "x: expected at most 10,000 bytes of JSON, got 18,003"),
    ],
)
def test_numbers_and_invalid_text(data: bytes | str, message: str | None) -> None:
    if message is None:
        assert parse(data, "x", 10_000) == int(data)
        return
    with pytest.raises(ReproError) as error:
        parse(data, "x", 10_000)
    assert str(error.value).startswith(message)
