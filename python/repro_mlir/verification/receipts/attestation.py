# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Exports a finished receipt as an in-toto statement in a DSSE envelope, for tools that read these formats.

Statement: github.com/in-toto/attestation, spec/v1/statement.md; envelope: github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from repro_mlir.base.files import canonical_json
from repro_mlir.base.files.regular import open_regular
from repro_mlir.verification.receipts.consistency import check_consistency
from repro_mlir.verification.receipts.form import SEAL
from repro_mlir.verification.receipts.receipt import Receipt
from repro_mlir.verification.receipts.signing import PrivateKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:repro-mlir:receipt:v2"

_CHUNK = 1 << 23


def statement(receipt: Receipt) -> dict[str, Any]:
    """Returns the in-toto statement of a finished receipt, after checking the receipt for consistency.

    The subjects are all files of the receipt, each with its SHA-256; the predicate describes the run.

    Raises:
      ReceiptWrong: if the receipt contradicts itself.
      ReproError: if the run has not ended.
    """
    check_consistency(receipt, unfinished=False, key=None)
    seal, header = receipt.seal, receipt.header
    assert seal is not None
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": _sha256(receipt.path / name)}} for name in sorted([*seal.files, SEAL])
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "programs": [each.identity for each in header.programs],
            "numerics": header.numerics,
            "initial": header.initial,
            "steps": seal.steps,
            "chain": seal.chain.hex(),
            "state_hash": seal.state_hash,
        },
    }


def _sha256(path: Path) -> str:
    hasher = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


def envelope(receipt: Receipt, key: PrivateKey) -> bytes:
    """Returns the JSON text of the DSSE envelope of `statement`, signed by `key`; `keyid` is the public key in hex."""
    payload = canonical_json.dump(statement(receipt))
    public, signature = key.sign(_encoded(payload))
    value = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": public.hex(), "sig": base64.b64encode(signature).decode()}],
    }
    return canonical_json.dump(value)


def _encoded(payload: bytes) -> bytes:
    """Returns DSSE's pre-authentication encoding of the payload, which is the text that the key signs."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
