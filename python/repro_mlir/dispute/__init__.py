# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes: two runs that do not agree are narrowed to one operator, which a referee recomputes (docs/dispute.md)."""

from .channels import Channel, FileChannel, LocalChannel, SocketChannel
from .prover import Prover
from .referee import settle
from .runs import RecordedRun, Run
from .serving import serve_files, serve_socket
from .verdict import Verdict

__all__ = [
    "Channel",
    "FileChannel",
    "LocalChannel",
    "Prover",
    "RecordedRun",
    "Run",
    "SocketChannel",
    "Verdict",
    "serve_files",
    "serve_socket",
    "settle",
]
