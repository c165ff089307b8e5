# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The parts of a receipt as Python objects and as canonical JSON (docs/receipts.md, docs/receipt.schema.json)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..arrays import TensorType
from ..errors import ReproError
from . import canonical_json, shapes
from .commitments import Commitment, first_link
from .options import NONFINITE_LOSS

if TYPE_CHECKING:
    from ..program import Program

FORMAT, VERSION = "repro-receipt", 1
NUMERICS = 1
"""The version of the numerics page whose bits this release computes."""

HEADER, SEAL, STEPS, INPUTS, PROGRAM = "receipt.json", "seal.json", "steps.jsonl", "inputs.bin", "program.mlir"
CHECKPOINTS = "checkpoints"

_SEAL_MAGIC = b"repro-seal-v1\0\0\0"

_ELEMENTS = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i1")
_TENSOR = shapes.record(
    {"name": shapes.text, "element": shapes.choice(*_ELEMENTS), "shape": shapes.array(shapes.number(0))}
)
_SIGNATURE = shapes.record(
    {
        "state": shapes.array(_TENSOR),
        "inputs": shapes.array(_TENSOR),
        "outputs": shapes.array(_TENSOR),
        "num_hyper_parameters": shapes.number(0),
    }
)
RUN = shapes.record(
    {
        "numerics": shapes.number(1),
        "program": shapes.digest,
        "signature": _SIGNATURE,
        "initial": shapes.digest,
        "nonfinite_loss": shapes.choice(*NONFINITE_LOSS),
    }
)
"""What is run and from where; see `Header.run`."""

_HEADER = shapes.record(
    {
        "format": shapes.choice(FORMAT),
        "version": shapes.number(1),
        "run": RUN,
        "program": shapes.digest,
        "data": shapes.record(
            {"kind": shapes.choice("stored", "external")},
            {"script": shapes.record({"name": shapes.text, "blake3": shapes.digest})},
        ),
        "checkpoint_every": shapes.number(1),
        "environment": shapes.mapping(shapes.text),
    }
)
_STEP = shapes.record(
    {
        "step": shapes.number(1),
        "cursor": shapes.number(1),
        "state": shapes.array(shapes.digest),
        "inputs": shapes.array(shapes.digest),
        "outputs": shapes.array(shapes.digest),
        "root": shapes.digest,
        "chain": shapes.digest,
    },
    {"loss": shapes.hexadecimal()},
)
_SEAL = shapes.record(
    {
        "steps": shapes.number(0),
        "chain": shapes.digest,
        "state_hash": shapes.digest,
        "files": shapes.mapping(shapes.record({"bytes": shapes.number(0), "blake3": shapes.digest})),
    },
    {"signature": shapes.record({"key": shapes.hexadecimal(64), "ed25519": shapes.hexadecimal(128)})},
)


@dataclass(frozen=True)
class Signature:
    """Names, element types and shapes of a program's tensors, as in `Program`."""

    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int

    def as_json(self) -> dict[str, Any]:
        def listed(kinds: tuple[TensorType, ...]) -> list[dict[str, Any]]:
            return [{"name": kind.name, "element": kind.element, "shape": list(kind.shape)} for kind in kinds]

        return {
            "state": listed(self.state),
            "inputs": listed(self.inputs),
            "outputs": listed(self.outputs),
            "num_hyper_parameters": self.num_hyper_parameters,
        }

    @staticmethod
    def of(program: Program) -> Signature:
        """That of a program."""
        return Signature(program.state, program.inputs, program.outputs, program.num_hyper_parameters)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Signature:
        state, inputs, outputs = (
            tuple(TensorType(each["name"], each["element"], tuple(each["shape"])) for each in value[role])
            for role in ("state", "inputs", "outputs")
        )
        return Signature(state, inputs, outputs, value["num_hyper_parameters"])


@dataclass(frozen=True)
class Header:
    """receipt.json: what is run and how the receipt keeps it.

    Attributes:
      numerics: version of the numerics page.
      program: identity of the program (H2), in hexadecimal.
      signature: its tensors.
      initial: root of the initial state (C3), in hexadecimal.
      text_hash: BLAKE3 of program.mlir, in hexadecimal.
      stored: whether inputs.bin has the batches, or the hyper-parameters alone.
      checkpoint_every: steps between two checkpoints.
      environment: where the run began, for information only.
      script: name and BLAKE3 of the script that gave the batches, for information only.
      nonfinite_loss: one of `NONFINITE_LOSS`; with "stop" no step follows one whose loss is not finite.
    """

    numerics: int
    program: str
    signature: Signature
    initial: str
    text_hash: str
    stored: bool
    checkpoint_every: int
    environment: dict[str, str] = field(default_factory=dict)
    script: tuple[str, str] | None = None
    nonfinite_loss: str = "warn"

    def run(self) -> dict[str, Any]:
        """What is run and from where, as JSON: what link 0 stands for."""
        return {
            "numerics": self.numerics,
            "program": self.program,
            "signature": self.signature.as_json(),
            "initial": self.initial,
            "nonfinite_loss": self.nonfinite_loss,
        }

    @property
    def stored_inputs(self) -> tuple[TensorType, ...]:
        """The inputs in inputs.bin: all, or the hyper-parameters alone."""
        return self.signature.inputs if self.stored else self.signature.inputs[: self.signature.num_hyper_parameters]

    def first_link(self) -> bytes:
        """(C4) Link 0 of the chain: two honest runs of the same thing have the same, wherever they run."""
        return first_link(canonical_json.dump(self.run()))

    def dump(self) -> bytes:
        """The bytes of receipt.json."""
        data: dict[str, Any] = {"kind": "stored" if self.stored else "external"}
        if self.script is not None:
            data["script"] = {"name": self.script[0], "blake3": self.script[1]}
        return canonical_json.dump(
            {
                "format": FORMAT,
                "version": VERSION,
                "run": self.run(),
                "program": self.text_hash,
                "data": data,
                "checkpoint_every": self.checkpoint_every,
                "environment": self.environment,
            }
        )

    @staticmethod
    def load(data: bytes, where: str) -> Header:
        """Reads receipt.json. ReproError for anything else, and for another version of format or numerics."""
        value = canonical_json.load(data, where)
        if isinstance(value, dict):
            # Before the shape: another version may have another.
            _check_version(value, where)
        _HEADER(value, where)
        run, data_ = value["run"], value["data"]
        signature = Signature.from_json(run["signature"])
        if signature.num_hyper_parameters > len(signature.inputs):
            raise ReproError(
                f"{where}: run.signature: expected at most {len(signature.inputs)} hyper-parameters, "
                f"got {signature.num_hyper_parameters}"
            )
        for role, kinds in (("state", signature.state), ("inputs", signature.inputs), ("outputs", signature.outputs)):
            if len({kind.name for kind in kinds}) < len(kinds):
                raise ReproError(f"{where}: run.signature.{role}: a name occurs twice")
        script = data_.get("script")
        return Header(
            run["numerics"],
            run["program"],
            signature,
            run["initial"],
            value["program"],
            data_["kind"] == "stored",
            value["checkpoint_every"],
            value["environment"],
            (script["name"], script["blake3"]) if script else None,
            run["nonfinite_loss"],
        )


def _check_version(value: dict[str, Any], where: str) -> None:
    if value.get("format") == FORMAT and value.get("version") != VERSION:
        raise ReproError(f"{where}: expected version {VERSION} of the receipt format, got {value.get('version')!r}")
    run = value.get("run")
    numerics = run.get("numerics") if isinstance(run, dict) else None
    if isinstance(numerics, int) and numerics != NUMERICS:
        raise ReproError(
            f"{where}: a receipt of numerics {numerics}, and this release computes numerics {NUMERICS}: "
            "verify it with a release of its version"
        )


@dataclass(frozen=True)
class StepRecord:
    """A line of steps.jsonl.

    Attributes:
      step: from 1.
      commitment: the digests.
      root: of the commitment (C2).
      chain: the link of this step (C5).
      loss: the bytes of the output `loss` as in (H1), if there is one of shape []; for the reader.
    """

    step: int
    commitment: Commitment
    root: bytes
    chain: bytes
    loss: bytes | None = None

    def dump(self) -> bytes:
        """The line with its line feed."""
        value = {
            "step": self.step,
            "cursor": self.commitment.cursor,
            "state": [digest.hex() for digest in self.commitment.state],
            "inputs": [digest.hex() for digest in self.commitment.inputs],
            "outputs": [digest.hex() for digest in self.commitment.outputs],
            "root": self.root.hex(),
            "chain": self.chain.hex(),
        }
        if self.loss is not None:
            value["loss"] = self.loss.hex()
        return canonical_json.dump(value) + b"\n"

    @staticmethod
    def load(line: bytes, signature: Signature, where: str) -> StepRecord:
        """Reads a line without its line feed. ReproError for anything else."""
        value = canonical_json.load(line, where)
        _STEP(value, where)
        digests = {}
        for role, kinds in (("state", signature.state), ("inputs", signature.inputs), ("outputs", signature.outputs)):
            if len(value[role]) != len(kinds):
                raise ReproError(f"{where}: expected {len(kinds)} digests of {role}, got {len(value[role])}")
            digests[role] = tuple(bytes.fromhex(digest) for digest in value[role])
        return StepRecord(
            value["step"],
            Commitment(value["cursor"], digests["state"], digests["inputs"], digests["outputs"]),
            bytes.fromhex(value["root"]),
            bytes.fromhex(value["chain"]),
            bytes.fromhex(value["loss"]) if "loss" in value else None,
        )


@dataclass(frozen=True)
class FileDigest:
    """Size in bytes and BLAKE3, in hexadecimal, of a file."""

    size: int
    digest: str


@dataclass(frozen=True)
class Seal:
    """seal.json: how the run ended.

    Attributes:
      steps: how many.
      chain: the last link.
      state_hash: of the last state (H3), in hexadecimal.
      files: every other file of the receipt, by its path with "/".
      signature: public key and ed25519 signature of the rest, or None.
    """

    steps: int
    chain: bytes
    state_hash: str
    files: dict[str, FileDigest]
    signature: tuple[bytes, bytes] | None = None

    def unsigned(self) -> dict[str, Any]:
        """What is signed, as JSON."""
        return {
            "steps": self.steps,
            "chain": self.chain.hex(),
            "state_hash": self.state_hash,
            "files": {name: {"bytes": file.size, "blake3": file.digest} for name, file in self.files.items()},
        }

    def signed_bytes(self) -> bytes:
        """(C6) What a signature signs."""
        return _SEAL_MAGIC + canonical_json.dump(self.unsigned())

    def dump(self) -> bytes:
        """The bytes of seal.json."""
        value = self.unsigned()
        if self.signature is not None:
            value["signature"] = {"key": self.signature[0].hex(), "ed25519": self.signature[1].hex()}
        return canonical_json.dump(value)

    @staticmethod
    def load(data: bytes, where: str) -> Seal:
        """Reads seal.json. ReproError for anything else."""
        value = canonical_json.load(data, where)
        _SEAL(value, where)
        signature = value.get("signature")
        return Seal(
            value["steps"],
            bytes.fromhex(value["chain"]),
            value["state_hash"],
            {name: FileDigest(file["bytes"], file["blake3"]) for name, file in value["files"].items()},
            (bytes.fromhex(signature["key"]), bytes.fromhex(signature["ed25519"])) if signature else None,
        )
