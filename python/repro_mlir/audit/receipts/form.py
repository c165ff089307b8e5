# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The parts of a receipt as Python objects and as canonical JSON (docs/receipts.md, docs/receipt.schema.json)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import blake3

from repro_mlir.audit.receipts.commitments import Commitment, first_link
from repro_mlir.audit.receipts.options import NONFINITE_LOSS
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files import canonical_json
from repro_mlir.base.files import json_shapes as shapes
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program import Program

if TYPE_CHECKING:
    from repro_mlir.program.microbatches import StepProgram

FORMAT, VERSION = "repro-receipt", 2
VERSIONS = (1, 2)
"""Those that are read. A receipt of version 1 has one program, and nobody but its steps changes the state."""

NUMERICS = 1
"""The version of the numerics page whose bits this release computes."""

HEADER, SEAL, STEPS, INPUTS = "receipt.json", "seal.json", "steps.jsonl", "inputs.bin"
CHECKPOINTS, CHANGES, PROGRAMS = "checkpoints", "changes", "programs"

MOST_PROGRAMS = 1024
"""How many programs a run may have: whoever verifies it compiles them all."""

_FIRST_PROGRAM = "program.mlir"
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
_RUN = {
    "numerics": shapes.number(1),
    "initial": shapes.digest,
    "nonfinite_loss": shapes.choice(*NONFINITE_LOSS),
}
_RUNS = {
    1: shapes.record(
        _RUN | {"program": shapes.digest, "signature": shapes.record({"state": shapes.array(_TENSOR)} | _STEP_TENSORS)}
    ),
    2: shapes.record(_RUN | {"state": shapes.array(_TENSOR)}, {"microbatches_every": shapes.number(1)}),
}


def version_of_run(value: Any) -> int:
    """The version of the receipts that have this JSON as `Header.run`: the first has one program, which it names."""
    return 1 if isinstance(value, dict) and "program" in value else 2


def check_run(value: Any, where: str) -> None:
    """ReproError for JSON that is no `Header.run`, of whichever version."""
    _RUNS[version_of_run(value)](value, where)


_HEADER = {
    "format": shapes.choice(FORMAT),
    "version": shapes.number(1),
    "data": shapes.record(
        {"kind": shapes.choice("stored", "external")},
        {"script": shapes.record({"name": shapes.text, "blake3": shapes.digest})},
    ),
    "checkpoint_every": shapes.number(1),
    "environment": shapes.mapping(shapes.text),
}
_HEADERS = {
    1: shapes.record(_HEADER | {"run": _RUNS[1], "program": shapes.digest}),
    2: shapes.record(
        _HEADER
        | {
            "run": _RUNS[2],
            "programs": shapes.array(
                shapes.record({"identity": shapes.digest, "blake3": shapes.digest} | _STEP_TENSORS)
            ),
        }
    ),
}
_RECORD = {
    "step": shapes.number(0),
    "cursor": shapes.number(0),
    "state": shapes.array(shapes.digest),
    "root": shapes.digest,
    "chain": shapes.digest,
}
_STEP = _RECORD | {"step": shapes.number(1), "cursor": shapes.number(1)}
_STEP |= {"inputs": shapes.array(shapes.digest), "outputs": shapes.array(shapes.digest)}
_LOSS = {"loss": shapes.hexadecimal()}
_FIRST_STEP = shapes.record(_STEP, _LOSS)
_KINDS = {
    "step": shapes.record(
        _STEP | {"kind": shapes.choice("step"), "program": shapes.number(0)},
        _LOSS | {"microbatches": shapes.array(shapes.digest)},
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
        return {"state": tensors_as_json(self.state)} | self.step_as_json()

    def step_as_json(self) -> dict[str, Any]:
        """All but the state."""
        return {
            "inputs": tensors_as_json(self.inputs),
            "outputs": tensors_as_json(self.outputs),
            "num_hyper_parameters": self.num_hyper_parameters,
        }

    @cached_property
    def digest(self) -> bytes:
        """(C7) The hash of all but the state, which link 0 has."""
        return blake3.blake3(_SIGNATURE + canonical_json.dump(self.step_as_json())).digest()

    @staticmethod
    def of(program: StepProgram) -> Signature:
        """That of a program."""
        return Signature(program.state, program.inputs, program.outputs, program.num_hyper_parameters)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Signature:
        """What `as_json` gave. ReproError for tensors that none can be."""
        return Signature.of_step(tensors_from_json(value["state"]), value)

    @staticmethod
    def of_step(state: tuple[TensorType, ...], value: dict[str, Any]) -> Signature:
        """What `step_as_json` gave, with a state that programs share. ReproError for tensors that none can be."""
        inputs, outputs = (tensors_from_json(value[role]) for role in ("inputs", "outputs"))
        return Signature(state, inputs, outputs, value["num_hyper_parameters"])

    def check(self, where: str) -> None:
        """ReproError where it is that of no program, whatever its state."""
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
    """Names and types of tensors as JSON."""
    return [kind.as_json() for kind in kinds]


def tensors_from_json(value: list[dict[str, Any]]) -> tuple[TensorType, ...]:
    """What `tensors_as_json` gave. ReproError for tensors that none can be."""
    return tuple(map(TensorType.of_json, value))


@dataclass(frozen=True)
class ListedProgram:
    """A program of a run.

    Attributes:
      identity: its identity (H2), in hexadecimal.
      signature: its tensors; the state is the same for all programs of a run.
      digest: BLAKE3 of its file, in hexadecimal.
    """

    identity: str
    signature: Signature
    digest: str

    @staticmethod
    def of(program: StepProgram) -> ListedProgram:
        """A program as receipts of this version list it."""
        return ListedProgram(program.hash, Signature.of(program), blake3.blake3(program.data).hexdigest())

    def stored_inputs(self, batches: bool) -> tuple[TensorType, ...]:
        """The inputs of a step in inputs.bin: all, or without `batches` the hyper-parameters alone."""
        return self.signature.inputs if batches else self.signature.inputs[: self.signature.num_hyper_parameters]


@dataclass(frozen=True)
class Header:
    """receipt.json: what is run and how the receipt keeps it.

    Attributes:
      numerics: version of the numerics page.
      state: the state tensors.
      initial: root of the initial state (C3), in hexadecimal.
      programs: that with which the run began, and the others in the order of their first steps.
      stored: whether inputs.bin has the batches, or the hyper-parameters alone.
      checkpoint_every: steps between two checkpoints.
      environment: where the run began, for information only.
      script: name and BLAKE3 of the script that gave the batches, for information only.
      nonfinite_loss: one of `NONFINITE_LOSS`; with "stop" no step follows one whose loss is not finite.
      version: one of `VERSIONS`.
      microbatches_every: steps between two that commit to their microbatches (C8); None: no step does.
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
    version: int = VERSION
    microbatches_every: int | None = None

    def run(self) -> dict[str, Any]:
        """What is run and from where, as JSON: what link 0 stands for."""
        run = {"numerics": self.numerics, "initial": self.initial, "nonfinite_loss": self.nonfinite_loss}
        if self.version == 1:
            return run | {"program": self.programs[0].identity, "signature": self.programs[0].signature.as_json()}
        every = {} if self.microbatches_every is None else {"microbatches_every": self.microbatches_every}
        return run | every | {"state": tensors_as_json(self.state)}

    def program_file(self, index: int) -> str:
        """The file of a program within the receipt."""
        return _FIRST_PROGRAM if self.version == 1 else program_file(self.programs[index].identity)

    def first_link(self) -> bytes:
        """(C4) Link 0 of the chain: two honest runs of the same thing have the same, wherever they run."""
        return first_link(canonical_json.dump(self.run()))

    def dump(self) -> bytes:
        """The bytes of receipt.json."""
        data: dict[str, Any] = {"kind": "stored" if self.stored else "external"}
        if self.script is not None:
            data["script"] = {"name": self.script[0], "blake3": self.script[1]}
        value: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "run": self.run(),
            "data": data,
            "checkpoint_every": self.checkpoint_every,
            "environment": self.environment,
        }
        if self.version == 1:
            return canonical_json.dump(value | {"program": self.programs[0].digest})
        programs = [
            {"identity": each.identity, "blake3": each.digest} | each.signature.step_as_json() for each in self.programs
        ]
        return canonical_json.dump(value | {"programs": programs})

    @staticmethod
    def load(data: bytes, where: str) -> Header:
        """Reads receipt.json. ReproError for anything else, and for another version of format or numerics."""
        value = canonical_json.load(data, where)
        version = VERSION
        if isinstance(value, dict):
            # Before the shape: another version may have another.
            version = _version(value, where)
        _HEADERS[version](value, where)
        run, data_, script = value["run"], value["data"], value["data"].get("script")
        programs = []
        place = "run.signature" if version == 1 else "run"
        state = tensors_from_json((run["signature"] if version == 1 else run)["state"])
        _check_names(state, f"{where}: {place}.state")
        if version == 1:
            signature = Signature.of_step(state, run["signature"])
            signature.check(f"{where}: run.signature")
            programs.append(ListedProgram(run["program"], signature, value["program"]))
        elif not 1 <= len(value["programs"]) <= MOST_PROGRAMS:
            raise ReproError(f"{where}: expected 1 to {MOST_PROGRAMS} programs, got {len(value['programs'])}")
        else:
            for i, each in enumerate(value["programs"]):
                signature = Signature.of_step(state, each)
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
            version,
            run.get("microbatches_every"),
        )


def committed_microbatches(every: int | None, step: int, program: StepProgram) -> int:
    """(C8) To how many microbatches a step commits, where each step of a number that `every` divides does."""
    if every is None or step % every or isinstance(program, Program):
        return 0
    return program.microbatches.count


def program_file(identity: str) -> str:
    """The file, within a receipt of this version, of the program with an identity."""
    return f"{PROGRAMS}/{identity}.repro"


def _version(value: dict[str, Any], where: str) -> int:
    version = value.get("version")
    if value.get("format") == FORMAT and (type(version) is not int or version not in VERSIONS):
        raise ReproError(
            f"{where}: expected version {' or '.join(map(str, VERSIONS))} of the receipt format, got {version!r}"
        )
    run = value.get("run")
    numerics = run.get("numerics") if isinstance(run, dict) else None
    if isinstance(numerics, int) and numerics != NUMERICS:
        raise ReproError(
            f"{where}: a receipt of numerics {numerics}, and this release computes numerics {NUMERICS}: "
            "verify it with a release of its version"
        )
    return version if version in VERSIONS else VERSION


@dataclass(frozen=True)
class Record:
    """A line of steps.jsonl: a step, or a change of the state by the user.

    Attributes:
      step: how many steps the state has seen: the number of a step, and of the one before a change.
      commitment: the digests.
      root: of the commitment (C2).
      chain: the link of this record (C5).
      program: of a step, the position of its program in `Header.programs`; None for a change.
      loss: the bytes of the output `loss` as in (H1), if there is one of shape []; for the reader.
    """

    step: int
    commitment: Commitment
    root: bytes
    chain: bytes
    program: int | None
    loss: bytes | None = None

    @property
    def follows(self) -> int:
        """The step that it is, or that follows the change."""
        return self.step + (self.program is None)

    def dump(self) -> bytes:
        """The line with its line feed."""
        value: dict[str, Any] = {
            "step": self.step,
            "cursor": self.commitment.cursor,
            "state": [digest.hex() for digest in self.commitment.state],
            "root": self.root.hex(),
            "chain": self.chain.hex(),
        }
        if self.commitment.steps is not None:
            value["kind"] = "change" if self.program is None else "step"
        if self.program is not None:
            value["inputs"] = [digest.hex() for digest in self.commitment.inputs]
            value["outputs"] = [digest.hex() for digest in self.commitment.outputs]
            if self.commitment.steps is not None:
                value["program"] = self.program
        if self.loss is not None:
            value["loss"] = self.loss.hex()
        if self.commitment.microbatches:
            value["microbatches"] = [digest.hex() for digest in self.commitment.microbatches]
        return canonical_json.dump(value) + b"\n"

    @staticmethod
    def load(line: bytes, header: Header, where: str) -> Record:
        """Reads a line without its line feed. ReproError for anything else."""
        value = canonical_json.load(line, where)
        kind = value.get("kind") if isinstance(value, dict) else None
        if header.version == 1:
            _FIRST_STEP(value, where)
        else:
            _KINDS[kind if isinstance(kind, str) and kind in _KINDS else "step"](value, where)
        program = value.get("program", None if kind == "change" else 0)
        if program is not None and program >= len(header.programs):
            raise ReproError(f"{where}: program {program}, and the receipt has {len(header.programs)}")
        due: dict[str, int] = {"state": len(header.state)}
        if program is not None:
            signature = header.programs[program].signature
            due |= {"inputs": len(signature.inputs), "outputs": len(signature.outputs)}
        for role, count in due.items():
            if len(value[role]) != count:
                raise ReproError(f"{where}: expected {count} digests of {role}, got {len(value[role])}")
        state, inputs, outputs, microbatches = (
            tuple(bytes.fromhex(digest) for digest in value.get(role, ()))
            for role in ("state", "inputs", "outputs", "microbatches")
        )
        if "microbatches" in value and not microbatches:
            raise ReproError(f"{where}: expected digests of microbatches, or no list of them")
        named = program is not None and header.version > 1
        commitment = Commitment(
            value["cursor"],
            state,
            inputs,
            outputs,
            value["step"] if header.version > 1 else None,
            bytes.fromhex(header.programs[program].identity) if named else None,
            header.programs[program].signature.digest if named else None,
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
