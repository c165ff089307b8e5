# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes: two runs that do not agree are narrowed to one operator, which a referee recomputes (docs/disputes.md)."""

from .channels import Channel, FileChannel, LocalChannel, SocketChannel
from .party import Published
from .prover import Prover
from .referee import settle
from .runs import ReceiptRun, RecordedRun, Run
from .serving import serve_files, serve_socket
from .terms import Terms, terms_of_receipt, terms_of_script
from .tokens import read_token, token_of_environment
from .verdict import Verdict

__all__ = [
    "Channel",
    "FileChannel",
    "LocalChannel",
    "Prover",
    "Published",
    "ReceiptRun",
    "RecordedRun",
    "Run",
    "SocketChannel",
    "Terms",
    "Verdict",
    "read_token",
    "serve_files",
    "serve_socket",
    "settle",
    "terms_of_receipt",
    "terms_of_script",
    "token_of_environment",
]
