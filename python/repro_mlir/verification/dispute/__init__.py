# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes narrow two runs that disagree down to one operator, which a referee recomputes.

The page docs/verification/disputes.md describes the procedure.
"""

from repro_mlir.verification.dispute.channels import Channel, FileChannel, LocalChannel, SocketChannel
from repro_mlir.verification.dispute.party import Published
from repro_mlir.verification.dispute.prover import Prover
from repro_mlir.verification.dispute.referee import settle
from repro_mlir.verification.dispute.runs import ReceiptRun, RecordedRun, Run
from repro_mlir.verification.dispute.serving import serve_files, serve_socket
from repro_mlir.verification.dispute.terms import Terms, terms_of_receipt, terms_of_script
from repro_mlir.verification.dispute.tokens import read_token, token_of_environment
from repro_mlir.verification.dispute.verdict import Verdict

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
