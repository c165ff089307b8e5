# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The parts of a receipt as Python objects and as canonical JSON.

docs/verification/receipts.md describes them, and docs/schemas/receipt.schema.json is their schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import blake3

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.printing import count_of
from repro_mlir.program import Program
from repro_mlir.verification.receipts.commitments import Commitment, first_link
from repro_mlir.verification.receipts.options import NONFINITE_LOSS

if TYPE_CHECKING:
    from repro_mlir.program.microbatches import StepProgram

FORMAT, VERSION = "repro-receipt", 2

NUMERICS = 1
"""The version of the numerics page whose bits this release computes."""

HEADER, SEAL, STEPS, INPUTS = "receipt.json", "seal.json", "steps.jsonl", "inputs.bin"
CHECKPOINTS, CHANGES, PROGRAMS = "checkpoints", "changes", "programs"

MOST_PROGRAMS = 1024
"""The maximum number of programs of a run; a verifier compiles all of them."""

_SEAL_MAGIC = b"repro-seal-v1\0\0\0"
_SIGNATURE = b"repro-signature\0"

_TENSOR = shapes.record(
    {"name": shapes.text, "element": shapes.choice(*ELEMENTS), "shape": shapes.array(shapes.number(0))},
    {"unsigned": shapes.true},
)
_STEP_TENSORS = {
    "inputs": shapes.array(_TENSOR),
    "outputs": shapes.array(_TENSOR),
    "num_hyper_parameters": shapes.number(0),
}
RUN = shapes.record(
    {
        "numerics": shapes.number(1),
        "initial": shapes.digest,
        "nonfinite_loss": shapes.choice(*NONFINITE_LOSS),
        "state": shapes.array(_TENSOR),
    },
    {"microbatches_every": shapes.number(1)},
)
"""The schema of `Header.run`."""

_HEADER = shapes.record(
    {
        "format": shapes.choice(FORMAT),
        "version": shapes.number(1),
        "run": RUN,
        "programs": shapes.array(shapes.record({"identity": shapes.digest, "blake3": shapes.digest} | _STEP_TENSORS)),
        "data": shapes.record(
            {"kind": shapes.choice("stored", "external")},
            {"script": shapes.record({"name": shapes.text, "blake3": shapes.digest})},
        ),
        "checkpoint_every": shapes.number(1),
        "environment": shapes.mapping(shapes.text),
    }
)
_RECORD = {
    "step": shapes.number(0),
    "cursor": shapes.number(0),
    "state": shapes.array(shapes.digest),
    "root": shapes.digest,
    "chain": shapes.digest,
}
_STEP = _RECORD | {"step": shapes.number(1), "cursor": shapes.number(1)}
_STEP |= {"inputs": shapes.array(shapes.digest), "outputs": shapes.array(shapes.digest)}
_KINDS = {
    "step": shapes.record(
        _STEP | {"kind": shapes.choice("step"), "program": shapes.number(0)},
        {"loss": shapes.hexadecimal(), "microbatches": shapes.array(shapes.digest)},
    ),
    "change": shapes.record(_RECORD | {"kind": shapes.choice("change")}),
}
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
        """Returns the signature as a JSON object."""
        return {"state": tensors_as_json(self.state)} | self.step_as_json()

    def step_as_json(self) -> dict[str, Any]:
        """Returns the signature without the state as a JSON object."""
        return {
            "inputs": tensors_as_json(self.inputs),
            "outputs": tensors_as_json(self.outputs),
            "num_hyper_parameters": self.num_hyper_parameters,
        }

    @cached_property
    def digest(self) -> bytes:
        """(C7) The hash of the signature without the state, which link 0 already covers."""
        return blake3.blake3(_SIGNATURE + canonical_json.dump(self.step_as_json())).digest()

    @staticmethod
    def of(program: StepProgram) -> Signature:
        """Returns the signature of a program."""
        return Signature(program.state, program.inputs, program.outputs, program.num_hyper_parameters)

    @staticmethod
    def of_step(state: tuple[TensorType, ...], value: dict[str, Any], where: str) -> Signature:
        """Inverts `step_as_json`, given the state that all programs share. Raises ReproError, which names `where`, for
        invalid types."""
        inputs, outputs = (tensors_from_json(value[role], f"{where}.{role}") for role in ("inputs", "outputs"))
        return Signature(state, inputs, outputs, value["num_hyper_parameters"])

    def check(self, where: str) -> None:
        """Raises ReproError if no program can have these inputs, outputs and number of hyper-parameters."""
        if self.num_hyper_parameters > len(self.inputs):
            raise ReproError(
                f"{where}: expected at most {len(self.inputs)} hyper-parameters, got {self.num_hyper_parameters}"
            )
        for role, kinds in (("inputs", self.inputs), ("outputs", self.outputs)):
            _check_names(kinds, f"{where}.{role}")


def _check_names(kinds: Sequence[TensorType], where: str) -> None:
    if len({kind.name for kind in kinds}) < len(kinds):
        raise ReproError(f"{where}: a name occurs twice")


def tensors_as_json(kinds: Sequence[TensorType]) -> list[dict[str, Any]]:
    """Returns the names and types of tensors as JSON."""
    return [kind.as_json() for kind in kinds]


def tensors_from_json(value: list[dict[str, Any]], where: str) -> tuple[TensorType, ...]:
    """Inverts `tensors_as_json`. Raises ReproError, which names `where` and the tensor, for invalid tensor types."""
    return tuple(_tensor_from_json(each, f"{where}[{i}]") for i, each in enumerate(value))


def _tensor_from_json(value: dict[str, Any], where: str) -> TensorType:
    try:
        return TensorType.of_json(value)
    except ReproError as error:
        raise ReproError(f"{where}: {error}") from None


@dataclass(frozen=True)
class ListedProgram:
    """An entry of the list of a run's programs.

    Attributes:
      identity: the identity (H2) of the program, in hexadecimal.
      signature: the program's tensors; the state is the same for all programs of a run.
      digest: the BLAKE3 hash of the program's file, in hexadecimal.
    """

    identity: str
    signature: Signature
    digest: str

    @staticmethod
    def of(program: StepProgram) -> ListedProgram:
        """Returns the entry for a program."""
        return ListedProgram(program.hash, Signature.of(program), blake3.blake3(program.data).hexdigest())

    def stored_inputs(self, batches: bool) -> tuple[TensorType, ...]:
        """Returns those inputs of a step that are stored in inputs.bin: all if `batches`, else only the
        hyper-parameters."""
        return self.signature.inputs if batches else self.signature.inputs[: self.signature.num_hyper_parameters]


@dataclass(frozen=True)
class Header:
    """The contents of receipt.json: what is run, and how the receipt stores it.

    Attributes:
      numerics: the version of the numerics page.
      state: the state tensors.
      initial: the root of the initial state (C3), in hexadecimal.
      programs: the program with which the run began, then the others in the order of their first steps.
      stored: whether inputs.bin has the batches, or only the hyper-parameters.
      checkpoint_every: the number of steps from one checkpoint to the next.
      environment: the environment in which the run began, for information only.
      script: the name and BLAKE3 hash of the script that yields the batches, for information only.
      nonfinite_loss: one of `NONFINITE_LOSS`; with "stop", no step follows a step whose loss is not finite.
      microbatches_every: every step whose number is a multiple of this commits to its microbatches (C8); None if no
        step does.
    """

    numerics: int
    state: tuple[TensorType, ...]
    initial: str
    programs: tuple[ListedProgram, ...]
    stored: bool
    checkpoint_every: int
    environment: dict[str, str] = field(default_factory=dict)
    script: tuple[str, str] | None = None
    nonfinite_loss: str = "warn"
    microbatches_every: int | None = None

    def run(self) -> dict[str, Any]:
        """Returns the JSON object to which link 0 commits: what is declared before the run, such as its initial
        state."""
        run = {"numerics": self.numerics, "initial": self.initial, "nonfinite_loss": self.nonfinite_loss}
        every = {} if self.microbatches_every is None else {"microbatches_every": self.microbatches_every}
        return run | every | {"state": tensors_as_json(self.state)}

    def program_file(self, index: int) -> str:
        """Returns the path of a program's file within the receipt."""
        return program_file(self.programs[index].identity)

    def first_link(self) -> bytes:
        """(C4) Returns link 0 of the chain, which is equal for all runs with the same object `run`, on any machine."""
        return first_link(canonical_json.dump(self.run()))

    def dump(self) -> bytes:
        """Returns the bytes of receipt.json."""
        data: dict[str, Any] = {"kind": "stored" if self.stored else "external"}
        if self.script is not None:
            data["script"] = {"name": self.script[0], "blake3": self.script[1]}
        value: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "run": self.run(),
            "data": data,
            "checkpoint_every": self.checkpoint_every,
            "environment": self.environment,
        }
        programs = [
            {"identity": each.identity, "blake3": each.digest} | each.signature.step_as_json() for each in self.programs
        ]
        return canonical_json.dump(value | {"programs": programs})

    @staticmethod
    def load(data: bytes, where: str) -> Header:
        """Parses the bytes of receipt.json. Raises ReproError if the bytes are not a valid receipt.json, or if its
        version of the format or of the numerics is not supported."""
        value = canonical_json.load(data, where)
        if isinstance(value, dict):
            # The version is checked before the schema because another version may have another schema.
            _check_version(value, where)
        _HEADER(value, where)
        run, data_, script = value["run"], value["data"], value["data"].get("script")
        programs = []
        state = tensors_from_json(run["state"], f"{where}: run.state")
        _check_names(state, f"{where}: run.state")
        if not 1 <= len(value["programs"]) <= MOST_PROGRAMS:
            raise ReproError(f"{where}: expected 1 to {MOST_PROGRAMS} programs, got {len(value['programs'])}")
        for i, each in enumerate(value["programs"]):
            signature = Signature.of_step(state, each, f"{where}: programs[{i}]")
            signature.check(f"{where}: programs[{i}]")
            programs.append(ListedProgram(each["identity"], signature, each["blake3"]))
        if len({each.identity for each in programs}) < len(programs):
            raise ReproError(f"{where}: a program is listed twice")
        return Header(
            run["numerics"],
            state,
            run["initial"],
            tuple(programs),
            data_["kind"] == "stored",
            value["checkpoint_every"],
            value["environment"],
            (script["name"], script["blake3"]) if script else None,
            run["nonfinite_loss"],
            run.get("microbatches_every"),
        )


def committed_microbatches(every: int | None, step: int, program: StepProgram) -> int:
    """(C8) Returns the number of microbatches to which step number `step` commits: all of them if the number is a
    multiple of `every`, else 0. If `every` is None, no step commits to its microbatches."""
    if every is None or step % every or isinstance(program, Program):
        return 0
    return program.microbatches.count


def program_file(identity: str) -> str:
    """Returns the path, within a receipt, of the file of the program that has this identity."""
    return f"{PROGRAMS}/{identity}.repro"


def _check_version(value: dict[str, Any], where: str) -> None:
    version = value.get("version")
    if value.get("format") == FORMAT and (type(version) is not int or version != VERSION):
        raise ReproError(
            f"{where}: expected version {VERSION} of the receipt format, got {version!r}: use a release of repro-mlir "
            "that reads this version"
        )
    run = value.get("run")
    numerics = run.get("numerics") if isinstance(run, dict) else None
    if isinstance(numerics, int) and numerics != NUMERICS:
        raise ReproError(
            f"{where}: expected a receipt of numerics {NUMERICS}, got numerics {numerics}: use a "
            "release of repro-mlir that computes these"
        )


@dataclass(frozen=True)
class Record:
    """A line of steps.jsonl: a step, or a state change by the user.

    Attributes:
      step: the number of steps so far: the number of the step itself, or of the step before the change.
      commitment: the digests.
      root: the root of the commitment (C2).
      chain: the link of this record (C5).
      program: for a step, the position of its program in `Header.programs`; None for a change.
      loss: for human readers: the bytes (H1) of the output `loss`, if the program has such an output of shape [].
    """

    step: int
    commitment: Commitment
    root: bytes
    chain: bytes
    program: int | None
    loss: bytes | None = None

    @property
    def is_change(self) -> bool:
        """Whether this record is a change of the state by the user."""
        return self.program is None

    @property
    def shown(self) -> str:
        """The record as text, such as "step 3" or "change after step 3"."""
        return f"change after step {self.step}" if self.is_change else f"step {self.step}"

    def dump(self) -> bytes:
        """Returns the line, including its line feed."""
        value: dict[str, Any] = {
            "step": self.step,
            "cursor": self.commitment.cursor,
            "state": [digest.hex() for digest in self.commitment.state],
            "root": self.root.hex(),
            "chain": self.chain.hex(),
            "kind": "change" if self.program is None else "step",
        }
        if self.program is not None:
            value["inputs"] = [digest.hex() for digest in self.commitment.inputs]
            value["outputs"] = [digest.hex() for digest in self.commitment.outputs]
            value["program"] = self.program
        if self.loss is not None:
            value["loss"] = self.loss.hex()
        if self.commitment.microbatches:
            value["microbatches"] = [digest.hex() for digest in self.commitment.microbatches]
        return canonical_json.dump(value) + b"\n"

    @staticmethod
    def load(line: bytes, header: Header, where: str) -> Record:
        """Parses a record: a line without its line feed. Raises ReproError if the line is not a record."""
        value = canonical_json.load(line, where)
        kind = value.get("kind") if isinstance(value, dict) else None
        _KINDS[kind if isinstance(kind, str) and kind in _KINDS else "step"](value, where)
        program = value.get("program")
        if program is not None and program >= len(header.programs):
            known = f"the number of one of {count_of(len(header.programs), 'listed program')}, counted from 0"
            raise ReproError(f"{where}: expected {known}, got {program}")
        due: dict[str, int] = {"state": len(header.state)}
        listed = None if program is None else header.programs[program]
        if listed is not None:
            signature = listed.signature
            due |= {"inputs": len(signature.inputs), "outputs": len(signature.outputs)}
        for role, count in due.items():
            if len(value[role]) != count:
                raise ReproError(f"{where}: expected {count} digests of {role}, got {len(value[role])}")
        state, inputs, outputs, microbatches = (
            tuple(bytes.fromhex(digest) for digest in value.get(role, ()))
            for role in ("state", "inputs", "outputs", "microbatches")
        )
        if "microbatches" in value and not microbatches:
            raise ReproError(f"{where}: expected at least one digest in the list of microbatches")
        commitment = Commitment(
            value["cursor"],
            state,
            inputs,
            outputs,
            value["step"],
            None if listed is None else bytes.fromhex(listed.identity),
            None if listed is None else listed.signature.digest,
            microbatches,
        )
        return Record(
            value["step"],
            commitment,
            bytes.fromhex(value["root"]),
            bytes.fromhex(value["chain"]),
            program,
            bytes.fromhex(value["loss"]) if "loss" in value else None,
        )


@dataclass(frozen=True)
class FileDigest:
    """The size in bytes of a file, and its BLAKE3 hash in hexadecimal."""

    size: int
    digest: str


@dataclass(frozen=True)
class Seal:
    """The contents of seal.json: the end of the run.

    Attributes:
      steps: the number of steps.
      chain: the last link.
      state_hash: the hash of the last state (H3), in hexadecimal.
      files: every other file of the receipt, by its path with "/".
      signature: the public key and an ed25519 signature of the other attributes, or None.
    """

    steps: int
    chain: bytes
    state_hash: str
    files: dict[str, FileDigest]
    signature: tuple[bytes, bytes] | None = None

    def unsigned(self) -> dict[str, Any]:
        """Returns the seal without its signature as a JSON object."""
        return {
            "steps": self.steps,
            "chain": self.chain.hex(),
            "state_hash": self.state_hash,
            "files": {name: {"bytes": file.size, "blake3": file.digest} for name, file in self.files.items()},
        }

    def signed_bytes(self) -> bytes:
        """(C6) Returns the bytes that a signature covers."""
        return _SEAL_MAGIC + canonical_json.dump(self.unsigned())

    def dump(self) -> bytes:
        """Returns the bytes of seal.json."""
        value = self.unsigned()
        if self.signature is not None:
            value["signature"] = {"key": self.signature[0].hex(), "ed25519": self.signature[1].hex()}
        return canonical_json.dump(value)

    @staticmethod
    def load(data: bytes, where: str) -> Seal:
        """Parses the bytes of seal.json. Raises ReproError if they are not a seal."""
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
