# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Every check of a signature refuses weak public keys, for which anyone can make a signature."""

from pathlib import Path

import pytest
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.verification.receipts.form import Seal
from repro_mlir.verification.receipts.signing import check, holds, is_strong, read_public_key

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493

Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P) % P
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P


def times(factor: int, point: Point) -> Point:
    result = (0, 1)
    while factor:
        if factor & 1:
            result = add(result, point)
        point, factor = add(point, point), factor >> 1
    return result


def point_with(y: int) -> Point | None:
    """Returns a point of the curve Ed25519 with this y coordinate, or None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x, y) if x * x % P == square else None


def small_order_points() -> set[Point]:
    """Returns the eight points whose order divides 8, computed with the group law."""
    for y in range(2, 100):
        point = point_with(y)
        if point is None:
            continue
        generator = times(ORDER, point)
        points = {times(i, generator) for i in range(8)}
        if len(points) == 8:
            return points
    raise AssertionError("no point of order 8")


def encodings() -> list[bytes]:
    """Returns every encoding of the points of small order: with both sign bits, and with y + p if it fits into 255
    bits."""
    found = set()
    for _, y in small_order_points():
        for same in (y, y + P):
            if same < 1 << 255:
                found |= {(same | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    return sorted(found)


def test_there_are_eight() -> None:
    assert len(small_order_points()) == 8
    # y is 0, 1, -1 or one of two more values, each with two sign bits: 10 encodings. Written as y + p, 0 and 1 have 4
    # more encodings.
    assert len(encodings()) == 14


@pytest.mark.parametrize("key", encodings(), ids=bytes.hex)
def test_weak_keys_are_refused(key: bytes, tmp_path: Path) -> None:
    assert not is_strong(key)
    # The signature R = A, S = 0 is valid for one message in eight. OpenSSL accepts such signatures.
    messages = [bytes([i]) for i in range(64)]
    assert not any(holds(key, bytes([1]) + bytes(63), message) for message in messages)
    seal = Seal(0, bytes(32), "0" * 64, {}, (key, bytes([1]) + bytes(63)))
    with pytest.raises(ReceiptWrong, match="of small order"):
        check(seal, None)
    pem = ed25519.Ed25519PublicKey.from_public_bytes(key).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_bytes(pem)
    with pytest.raises(ReproError, match="of small order"):
        read_public_key(tmp_path / "key.pem")


@pytest.mark.parametrize("y", range(19))
def test_encodings_beyond_the_prime_are_refused(y: int) -> None:
    assert not is_strong((P + y).to_bytes(32, "little"))


def test_keys_that_sign() -> None:
    for _ in range(20):
        private = ed25519.Ed25519PrivateKey.generate()
        key = private.public_key().public_bytes_raw()
        assert is_strong(key)
        assert holds(key, private.sign(b"message"), b"message")
        assert not holds(key, private.sign(b"message"), b"another")
    assert not holds(bytes(31) + b"\x7f", bytes(64), b"")
