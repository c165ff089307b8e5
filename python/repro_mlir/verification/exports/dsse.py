# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Signs in-toto statements in envelopes of DSSE (github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

import base64
from typing import Any

from repro_mlir.base.files import canonical_json
from repro_mlir.verification.receipts.signing import PrivateKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


def statement_of(subjects: list[dict[str, Any]], predicate_type: str, predicate: dict[str, Any]) -> dict[str, Any]:
    """Returns an in-toto statement (github.com/in-toto/attestation, spec/v1/statement.md)."""
    return {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": predicate_type, "predicate": predicate}


def envelope(statement: dict[str, Any], key: PrivateKey) -> bytes:
    """Returns the JSON text of the envelope of a statement, signed by `key`; `keyid` is the public key in hex."""
    payload = canonical_json.dump(statement)
    public, signature = key.sign(signed_text(payload))
    return canonical_json.dump(envelope_of(payload, public.hex(), signature))


def envelope_of(payload: bytes, key: str, signature: bytes) -> dict[str, Any]:
    """Returns an envelope with one signature, which the key with the identifier `key` has made."""
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key, "sig": base64.b64encode(signature).decode()}],
    }


def signed_text(payload: bytes) -> bytes:
    """Returns the text that a key signs: DSSE's pre-authentication encoding of the payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
