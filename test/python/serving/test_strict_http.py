# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Request heads that arrive byte by byte, or in other pieces, are accepted or refused like whole heads."""

import h11
import pytest
from repro_mlir.serving.strict_http import HEAD_LIMIT, RefusedHead, StrictConnection

TAKEN = b"GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n\r\n"
REFUSED = [
    (b"GET / HTTP/1.1\nhost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: a\n\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: a\r\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: a\rb\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: a\r\n\n", 400),
    (b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\nhost: a\r\n\r\n", 505),
    (b"GET / HTTP/1.1\r\nx: " + b"a" * HEAD_LIMIT, 431),
]


def status(data: bytes, size: int) -> int:
    """Returns the status for a request head that arrives in pieces of `size` bytes: that of the refusal, 200 if it is
    accepted, or 0 if it is incomplete."""
    connection = StrictConnection(h11.SERVER, HEAD_LIMIT)
    for i in range(0, len(data), size):
        connection.receive_data(data[i : i + size])
        try:
            event = connection.next_event()
        except RefusedHead as refusal:
            assert connection.refusal is refusal
            return refusal.status
        if isinstance(event, h11.Request):
            return 200
        assert event is h11.NEED_DATA
    return 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
def test_heads_in_pieces(size: int) -> None:
    assert status(TAKEN, size) == 200 and status(TAKEN[:-1], size) == 0
    for data, wanted in REFUSED[: None if size > 3 else -1]:
        assert status(data, size) == wanted, data


def test_the_second_head_of_a_connection() -> None:
    connection = StrictConnection(h11.SERVER, HEAD_LIMIT)
    connection.receive_data(TAKEN + b"GET / HTTP/1.1\nhost: a\r\n\r\n")
    assert [type(connection.next_event()) for _ in range(2)] == [h11.Request, h11.EndOfMessage]
    for event in (h11.Response(status_code=200, headers=[("content-length", "0")]), h11.EndOfMessage()):
        connection.send(event)
    connection.start_next_cycle()
    with pytest.raises(RefusedHead, match="CR LF"):
        connection.next_event()
