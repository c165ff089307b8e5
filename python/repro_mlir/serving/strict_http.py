# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rejects heads of requests that HTTP implementations may interpret differently. h11 accepts some of these heads."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import h11

HEAD_LIMIT = 1 << 16
"""The maximum size of a head in bytes."""

_FIELDS_LIMIT = 100

_ONCE = frozenset(
    {b"host", b"content-length", b"content-type", b"content-encoding", b"transfer-encoding", b"expect"},
)
"""Fields that a head may contain only once."""

_CHARSET = re.compile(rb"charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)


class RefusedHead(h11.RemoteProtocolError):
    """Raised when the head of a request is rejected.

    Attributes:
      status: the HTTP status.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message, error_status_hint=status)
        self.status = status
        self.message = message


class StrictConnection(h11.Connection):
    """The server side of a connection, which checks the bytes of each head before h11 parses them.

    Attributes:
      refusal: the error for the head that was rejected; None if none was.
    """

    refusal: RefusedHead | None = None
    _checked = 0
    """The number of bytes of the next head that were checked already, since a head may arrive byte by byte."""

    def next_event(self) -> Any:
        """Returns the next event of h11. Raises RefusedHead if the head is ambiguous."""
        if self.their_state is not h11.IDLE:
            self._checked = 0
            return super().next_event()
        data = self.trailing_data[0]
        try:
            check_head(data, self._checked)
        except RefusedHead as refusal:
            self.refusal = refusal
            raise
        self._checked = len(data)
        return super().next_event()


def check_head(data: bytes, checked: int = 0) -> None:
    """Checks the received part of a head, which may be followed by other data. Raises RefusedHead if it is ambiguous.

    Args:
      checked: the number of leading bytes that an earlier call has checked; they do not contain the end of the head.
    """
    end = data.find(b"\r\n\r\n", max(checked - 3, 0))
    is_whole = end >= 0
    head = data[:end] if is_whole else data
    if len(head) > HEAD_LIMIT:
        raise RefusedHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"expected a head of at most {HEAD_LIMIT} bytes")
    # If the last checked byte is a CR, it is checked again, with the LF that may follow it.
    begin = checked - 1 if head[checked - 1 : checked] == b"\r" else checked
    rest = head[begin:] if is_whole else head[begin:].removesuffix(b"\r")
    ends = rest.count(b"\r\n")
    if (rest.count(b"\r"), rest.count(b"\n")) != (ends, ends):
        raise RefusedHead(HTTPStatus.BAD_REQUEST, "expected lines that end with CR LF")
    if not is_whole:
        return
    request, *lines = head.lstrip(b"\r\n").split(b"\r\n")
    _, _, rest = request.partition(b" ")
    target, _, version = rest.rpartition(b" ")
    # If the first line is not that of an HTTP request, h11 rejects it.
    if re.fullmatch(rb"HTTP/\d\.\d", version):
        if version not in (b"HTTP/1.0", b"HTTP/1.1"):
            raise RefusedHead(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected version 1.1 of HTTP")
        if not target.startswith(b"/") or target.startswith(b"//"):
            raise RefusedHead(HTTPStatus.BAD_REQUEST, "expected a request target that is a path")
    if len(lines) > _FIELDS_LIMIT:
        raise RefusedHead(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"expected at most {_FIELDS_LIMIT} header fields, got {len(lines)}",
        )
    fields: dict[bytes, bytes] = {}
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            raise RefusedHead(HTTPStatus.BAD_REQUEST, "expected each header field on one line")
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in fields and name in _ONCE:
            raise RefusedHead(HTTPStatus.BAD_REQUEST, f"expected one field {name.decode()}")
        fields[name] = value.strip()
    _check_fields(fields, version)


def _check_fields(fields: dict[bytes, bytes], version: bytes) -> None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None and (length is not None or version == b"HTTP/1.0"):
        raise RefusedHead(HTTPStatus.BAD_REQUEST, "expected either content-length or transfer-encoding (version 1.1)")
    if length is not None and not length.isdigit():
        raise RefusedHead(HTTPStatus.BAD_REQUEST, "expected a content-length of digits only")
    if coding is not None and coding.lower() != b"chunked":
        raise RefusedHead(HTTPStatus.NOT_IMPLEMENTED, "expected the transfer-encoding chunked")
    if fields.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
        raise RefusedHead(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected a body without content-encoding")
    charset = _CHARSET.search(fields.get(b"content-type", b""))
    if charset is not None and charset[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        raise RefusedHead(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected a body in UTF-8")
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise RefusedHead(HTTPStatus.EXPECTATION_FAILED, "expected no expect field, or 100-continue")
