# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Forges receipts whose hashes all match, and lists for each the option of `repro verify` that detects it.

A verifier with the script and the last link of the honest run detects every cheat. These are the weakest verifiers:

  plain   the receipt contradicts itself, or a step does not return the recorded result
  script  an honest receipt of another run: a verifier needs the script to detect it
  chain   an honest receipt of a part of the run, or of a longer run: a verifier needs the run's last link
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import pytest
import repro_mlir
from forgery import edit, replace_program_file, reseal, with_program
from repro_mlir import Receipt, ReceiptOptions, ReproError, compile
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.hashing import combine_digests, tensor_bytes
from repro_mlir.program.canonical import examine, to_bytes
from repro_mlir.verification.receipts.commitments import Commitment, next_link
from repro_mlir.verification.receipts.consistency import MOST_SKIPPED
from repro_mlir.verification.receipts.form import Header, Record, Signature, tensors_from_json
from repro_mlir.verification.receipts.kept_tensors import checkpoints
from repro_mlir.verification.receipts.receipt import digests_of
from repro_mlir.verification.receipts.recorder import Recorder
from repro_mlir.verification.receipts.script_inputs import ScriptInputs
from support.stored_bytes import file, sections

Batch = list[np.ndarray]

STEPS, EVERY, BAD = 8, 3, 3


class Agreed:
    """The script of the run that was agreed on; replaces `ScriptBatches`, and does not capture the program again."""

    def __init__(self, first: repro_mlir.Program, run: dict[str, Any], batches: Sequence[Batch]) -> None:
        self.script, self.first, self.program, self._run, self.taken = "script.py", first, first, run, 0
        self._batches = batches

    def run(self) -> dict[str, Any]:
        return self._run

    def gives(self, names: Sequence[str]) -> bool:
        return True

    def giving(self, names: Sequence[str]) -> repro_mlir.Program:
        return self.program

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Does nothing. `ScriptBatches` would capture again if the program depended on the state, but these programs do
        not depend on it."""

    def take(self) -> Batch:
        if self.taken == len(self._batches):
            raise ReproError(f"{self.script}: expected at least {self.taken + 1} batches")
        self.taken += 1
        return self._batches[self.taken - 1]


@dataclass
class Step:
    """A step of a forged receipt. A field that is not changed has the honest value."""

    cursor: int
    state: list[bytes]
    inputs: Batch
    outputs: list[bytes]
    loss: bytes | None


def types_of(signature: Signature) -> list[list[tuple[str, tuple[int, ...]]]]:
    return [[(kind.element, kind.shape) for kind in kinds] for kinds in (signature.state, signature.inputs)]


class Forged:
    """The parts of a receipt, which forgers change; `write` writes a receipt with matching digests, roots, links and
    seal."""

    def __init__(self, path: Path) -> None:
        receipt = Receipt(path)
        self.path = path
        self.header: Header = receipt.header
        self.signature = self.header.programs[0].signature
        self.text = receipt.program.text
        self.initial = [array.copy() for array in receipt.program.initial]
        self.steps: list[Step] = []
        for number in range(1, receipt.log.steps + 1):
            record = receipt.log[number]
            made = record.commitment
            inputs = [array.copy() for array in receipt.inputs(number)]
            self.steps.append(Step(made.cursor, [*made.state], inputs, [*made.outputs], record.loss))
        self.kept = {step: [*receipt.state_after(step).values()] for step in (0, 3, 6, 8)}

    def rerun(self, keep: Callable[[int], bool] = lambda step: step % EVERY == 0) -> None:
        """Runs the steps of the changed program from the initial state with the changed inputs, so that all results are
        right."""
        program = replace(Receipt(self.path).program, data=to_bytes(self.text))
        executable = compile(program, "cpu", 1)
        signature = self.header.programs[0].signature
        names = [kind.name for kind in program.state]
        state = {name: array.copy() for name, array in zip(names, self.initial, strict=True)}
        self.kept = {0: self.initial}
        for number, step in enumerate(self.steps, 1):
            _, outputs = executable(state, *step.inputs)
            arrays = [array.copy() for array in state.values()]
            step.state = [*digests_of(signature.state, arrays)]
            step.outputs = [*digests_of(signature.outputs, [*outputs.values()])]
            named = zip(signature.outputs, outputs.values(), strict=True)
            losses = [tensor_bytes(value, kind.element) for kind, value in named if kind.name == "loss"]
            step.loss = losses[0] if losses else None
            if keep(number) or number == len(self.steps):
                self.kept[number] = arrays

    def write(self) -> None:
        header, kinds = self.header, self.header.programs[0].signature
        if types_of(kinds) != types_of(self.signature):
            # If the header lies about the types of tensors, the steps are written with the program's real types.
            kinds = self.signature
        root = Commitment(0, digests_of(kinds.state, self.initial)).root.hex()
        data = to_bytes(self.text)
        digest = blake3.blake3(data).hexdigest()
        self.header = header = with_program(replace(header, initial=root), digest=digest)
        (self.path / "receipt.json").write_bytes(header.dump())
        shutil.rmtree(self.path / "programs")
        (self.path / "programs").mkdir()
        (self.path / header.program_file(0)).write_bytes(data)
        link, lines, inputs = header.first_link(), [], []
        identity = bytes.fromhex(header.programs[0].identity)
        for number, step in enumerate(self.steps, 1):
            stored = [array for array, _ in zip(step.inputs, kinds.inputs, strict=False)]
            digests = digests_of(kinds.inputs, stored)
            made = tuple(step.state), digests, tuple(step.outputs)
            commitment = Commitment(step.cursor, *made, number, identity, header.programs[0].signature.digest)
            link = next_link(link, number, commitment.root)
            lines.append(Record(number, commitment, commitment.root, link, 0, step.loss).dump())
            inputs += [tensor_bytes(a, k.element) for a, k in zip(stored, kinds.inputs, strict=False)]
        (self.path / "steps.jsonl").write_bytes(b"".join(lines))
        (self.path / "inputs.bin").write_bytes(b"".join(inputs))
        shutil.rmtree(self.path / "checkpoints")
        (self.path / "checkpoints").mkdir()
        for step, arrays in self.kept.items():
            checkpoints.write(self.path, step, kinds.state, arrays)
        last = self.steps[-1].state if self.steps else digests_of(kinds.state, self.initial)
        seal = {"steps": len(self.steps), "chain": link.hex(), "state_hash": combine_digests(last)}
        edit(self.path / "seal.json", lambda value: value.update(seal))
        reseal(self.path)


@dataclass(frozen=True)
class Cheat:
    """A change of a receipt's folder, and the weakest verifier that detects it: plain, script or chain (see above)."""

    name: str
    apply: Callable[[Path], None]
    needs: str = "plain"


@pytest.fixture(scope="module")
def honest(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[Batch]]:
    """Returns a receipt of a run in which batch `BAD` failed a check (E1), the description of this run in the header,
    and the run's batches."""
    source = Receipt(finished)
    number = source.header.programs[0].signature.num_hyper_parameters
    batches = [[array.copy() for array in source.inputs(step)] for step in range(1, STEPS + 1)]
    bad = copy.deepcopy(batches[BAD - 1])
    bad[number + 1][0] = 77
    batches.insert(BAD - 1, bad)
    path = tmp_path_factory.mktemp("honest") / "run"
    executable = compile(source.program, "cpu", 1)
    recorder = Recorder(ReceiptOptions(path, checkpoint_every=EVERY), source.program, "cpu", 1)
    for batch in batches:
        inputs = recorder.take(source.program, batch)
        try:
            _, outputs = executable(recorder.state, *inputs)
        except StepFailed:
            recorder.skip()
            continue
        recorder.commit(inputs, [*outputs.values()])
    recorder.seal()
    recorder.close()
    return path, Receipt(path).header.run(), batches


def rebuilt(change: Callable[[Forged], object], *, rerun: bool = False) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        forged = Forged(path)
        change(forged)
        if rerun:
            forged.rerun()
        forged.write()

    return apply


def of_signature(change: Callable[[dict[str, Any]], object]) -> Callable[[Forged], None]:
    """Returns a change of a program's signature in receipt.json. The changed signature is still valid."""

    def apply(forged: Forged) -> None:
        value = forged.header.programs[0].signature.as_json()
        change(value)
        signature = Signature.of_step(tensors_from_json(value["state"], "state"), value, "step")
        forged.header = replace(with_program(forged.header, signature=signature), state=signature.state)

    return apply


def swap_names(role: str, i: int, j: int) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        entries = value[role]
        entries[i]["name"], entries[j]["name"] = entries[j]["name"], entries[i]["name"]

    return change


def swap_in_text(forged: Forged, one: str, other: str) -> None:
    text = forged.text.replace(f'"{one}"', '"\0"').replace(f'"{other}"', f'"{one}"').replace('"\0"', f'"{other}"')
    assert text != forged.text and examine(to_bytes(text)).identity == forged.header.programs[0].identity
    forged.text = text


def rename_loss(forged: Forged) -> None:
    """Renames the output `loss`: without an output of this name, a run does not stop at a NaN or infinite loss."""
    outputs = [*forged.header.programs[0].signature.outputs]
    (place,) = (i for i, kind in enumerate(outputs) if kind.name == "loss")
    of_signature(lambda value: value["outputs"][place].update(name="lost"))(forged)
    if '"loss"' in forged.text:
        swap_in_text(forged, "loss", "lost")
    for step in forged.steps:
        step.loss = None


def with_old_records(cheat: Callable[[Path], None]) -> Callable[[Path], None]:
    """Returns a cheat that also restores the honest roots and links, so that the last link is the one that the verifier
    knows."""

    def apply(path: Path) -> None:
        before = [json.loads(line) for line in (path / "steps.jsonl").read_bytes().splitlines()]
        link = json.loads((path / "seal.json").read_bytes())["chain"]
        cheat(path)
        for i, old in enumerate(before):
            edit(path / "steps.jsonl", lambda value, old=old: value.update(root=old["root"], chain=old["chain"]), i)
        edit(path / "seal.json", lambda value: value.update(chain=link))
        reseal(path)

    return apply


def names(receipt: Receipt) -> Iterator[Cheat]:
    state = receipt.header.programs[0].signature.state
    same = [
        (i, j)
        for i in range(len(state))
        for j in range(i)
        if (state[i].element, state[i].shape) == (state[j].element, state[j].shape)
    ]
    assert len(same) >= 8
    for i, j in same[:8]:
        swap = of_signature(swap_names("state", i, j))
        yield Cheat(f"{state[i].name} and {state[j].name} swapped in receipt.json", rebuilt(swap))

        def both(forged: Forged, i: int = i, j: int = j, swap: Callable[[Forged], None] = swap) -> None:
            swap(forged)
            swap_in_text(forged, state[i].name, state[j].name)

        yield Cheat(f"{state[i].name} and {state[j].name} swapped everywhere", rebuilt(both), "script")
    for number in range(receipt.header.programs[0].signature.num_hyper_parameters):
        change = of_signature(lambda value, number=number: value.update(num_hyper_parameters=number))
        yield Cheat(f"{number} hyper-parameters", rebuilt(change), "script")
    inputs = receipt.header.programs[0].signature.inputs
    for i in range(1, 3):
        yield Cheat(f"inputs 0 and {i} swapped in receipt.json", rebuilt(of_signature(swap_names("inputs", 0, i))))

    def twice(value: dict[str, Any]) -> None:
        value["state"][0]["name"] = value["state"][1]["name"]

    yield Cheat("a name twice", rebuilt(of_signature(twice)))
    yield Cheat("a shape", rebuilt(of_signature(lambda v: v["inputs"][-1].update(shape=[1, 5]))))
    yield Cheat("an element type", rebuilt(of_signature(lambda v: v["inputs"][-1].update(element="f64"))))
    yield Cheat("an input less", rebuilt(of_signature(lambda v: v["inputs"].pop())))
    yield Cheat("a state as an input", rebuilt(of_signature(lambda v: v["inputs"].insert(0, v["state"].pop()))))

    def other_name(forged: Forged) -> None:
        of_signature(lambda value: value["inputs"][0].update(name="other"))(forged)
        swap_in_text(forged, inputs[0].name, "other")

    yield Cheat("another name of an input everywhere", rebuilt(other_name), "script")
    yield Cheat("loss renamed", rebuilt(rename_loss), "script")
    for change, what in ((other_name, "names"), (rename_loss, "loss")):
        yield Cheat(f"{what} changed, link kept", with_old_records(rebuilt(change)))


def programs(receipt: Receipt) -> Iterator[Cheat]:
    text = receipt.program.text
    for old, new in (("arith.mulf", "arith.addf"), ("arith.subf", "arith.addf"), ("arith.addf", "arith.subf")):
        changed = text.replace(old, new, 1)

        def change(forged: Forged, changed: str = changed) -> None:
            forged.text = changed
            forged.header = with_program(forged.header, identity=examine(to_bytes(changed)).identity)

        yield Cheat(f"{new} for {old}, run", rebuilt(change, rerun=True), "script")
        yield Cheat(f"{new} for {old}, not run", rebuilt(change))

        def text_alone(forged: Forged, changed: str = changed) -> None:
            forged.text = changed

        yield Cheat(f"{new} for {old} under the old identity", rebuilt(text_alone, rerun=True))
    for choice in ("stop", "ignore"):
        change = rebuilt(lambda f, choice=choice: setattr(f, "header", replace(f.header, nonfinite_loss=choice)))
        yield Cheat(f"nonfinite_loss {choice}", change, "script")


def data(receipt: Receipt) -> Iterator[Cheat]:
    number = receipt.header.programs[0].signature.num_hyper_parameters

    for step in range(STEPS):

        def rate(forged: Forged, step: int = step) -> None:
            forged.steps[step].inputs[0] = forged.steps[step].inputs[0] * 2

        def batch(forged: Forged, step: int = step) -> None:
            forged.steps[step].inputs[number][0, 0] += 1

        yield Cheat(f"rate of step {step + 1}, run", rebuilt(rate, rerun=True), "script")
        yield Cheat(f"rate of step {step + 1}, not run", rebuilt(rate))
        yield Cheat(f"batch of step {step + 1}, run", rebuilt(batch, rerun=True), "script")
        yield Cheat(f"batch of step {step + 1}, not run", rebuilt(batch))
    for step in range(STEPS - 1):

        def swap(forged: Forged, step: int = step) -> None:
            one, other = forged.steps[step], forged.steps[step + 1]
            one.inputs, other.inputs = other.inputs, one.inputs

        yield Cheat(f"batches {step + 1} and {step + 2} swapped, run", rebuilt(swap, rerun=True), "script")

    def initial(forged: Forged, i: int = 0) -> None:
        forged.initial[i].reshape(-1)[0] += 1
        forged.kept[0] = forged.initial

    for i in range(0, len(receipt.header.programs[0].signature.state), 3):
        kind = receipt.header.programs[0].signature.state[i]
        change = lambda forged, i=i: initial(forged, i)  # noqa: E731
        yield Cheat(f"initial {kind.name}, run", rebuilt(change, rerun=True), "script")
        if kind.name != "seed":
            yield Cheat(f"initial {kind.name}, not run", rebuilt(change))


def cursors(receipt: Receipt) -> Iterator[Cheat]:
    for step in (0, 3, 6):

        def leave_out(forged: Forged, step: int = step) -> None:
            del forged.steps[step]

        yield Cheat(f"step {step + 1} left out as if its batch had failed", rebuilt(leave_out, rerun=True), "script")

        def shift(forged: Forged, step: int = step) -> None:
            for each in forged.steps[step:]:
                each.cursor += 1

        yield Cheat(f"a batch skipped before step {step + 1}", rebuilt(shift), "script")

    def hide(forged: Forged) -> None:
        for number, each in enumerate(forged.steps, 1):
            each.cursor = number

    yield Cheat("the batch that failed never there", rebuilt(hide), "script")
    for name, value in (("0", 0), ("that of the step before", 1), ("far", 2 + MOST_SKIPPED + 1)):
        yield Cheat(f"cursor {name}", rebuilt(lambda f, value=value: setattr(f.steps[1], "cursor", value)))


def lengths(receipt: Receipt) -> Iterator[Cheat]:
    for count in range(1, STEPS):

        def stop(forged: Forged, count: int = count) -> None:
            del forged.steps[count:]

        yield Cheat(f"ended after step {count}", rebuilt(stop, rerun=True), "chain")
        yield Cheat(f"ended after step {count}, states as they were", rebuilt(stop))
    yield Cheat("no step", rebuilt(lambda forged: (forged.steps.clear(), forged.kept.update({})), rerun=True))

    def longer(forged: Forged) -> None:
        forged.steps.append(copy.deepcopy(forged.steps[-1]))
        forged.steps[-1].cursor += 1

    yield Cheat("a step more, run", rebuilt(longer, rerun=True), "script")
    yield Cheat("a step twice", rebuilt(longer))
    yield Cheat("steps in another order", rebuilt(lambda forged: forged.steps.insert(2, forged.steps.pop())))


def states(receipt: Receipt) -> Iterator[Cheat]:
    for step in (3, 6, 8):
        yield Cheat(f"no state after step {step}", rebuilt(lambda forged, step=step: forged.kept.pop(step)))

        def old(forged: Forged, step: int = step) -> None:
            forged.kept[step] = forged.kept[0]

        yield Cheat(f"the initial state after step {step}", rebuilt(old))

        def lie(forged: Forged, step: int = step) -> None:
            forged.kept[step][0].reshape(-1)[0] += 1
            forged.steps[step - 1].state = [*digests_of(forged.header.programs[0].signature.state, forged.kept[step])]

        yield Cheat(f"another state after step {step}, in its record too", rebuilt(lie))
    yield Cheat("a state after the end", rebuilt(lambda forged: forged.kept.update({9: forged.kept[8]})))
    yield Cheat("more states promised", rebuilt(lambda f: setattr(f, "header", replace(f.header, checkpoint_every=2))))
    for step in (1, 4, 8):

        def output(forged: Forged, step: int = step) -> None:
            forged.steps[step - 1].outputs[-1] = bytes(32)

        def loss(forged: Forged, step: int = step) -> None:
            forged.steps[step - 1].loss = bytes(4)

        yield Cheat(f"output of step {step}", rebuilt(output))
        yield Cheat(f"loss of step {step}", rebuilt(loss))


def raw(name: str, change: Callable[[bytes], bytes], *, agree: bool = True) -> Callable[[Path], None]:
    """Returns a change of the bytes of a file. With `agree`, the seal's digest of the file is updated."""

    def apply(path: Path) -> None:
        before = (path / name).read_bytes()
        after = change(before)
        assert before != after
        (path / name).write_bytes(after)
        if agree:
            reseal(path)

    return apply


def json_of(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        edit(path / name, change)
        if name != "seal.json":
            reseal(path)

    return apply


def forms(receipt: Receipt) -> Iterator[Cheat]:
    def add(name: str, data: bytes = b"", sealed: bool = False) -> Callable[[Path], None]:
        def apply(path: Path) -> None:
            (path / name).write_bytes(data)
            if sealed:
                reseal(path)

        return apply

    def link(name: str) -> Callable[[Path], None]:
        def apply(path: Path) -> None:
            os.rename(path / name, path.parent / f"{path.name}.elsewhere")
            (path / name).symlink_to(path.parent / f"{path.name}.elsewhere")

        return apply

    def beside_the_seal(path: Path) -> None:
        edit(path / "seal.json", lambda v: v["files"].update({"../run": {"bytes": 0, "blake3": "0" * 64}}))

    for sealed in (False, True):
        for name in ("notes.txt", "checkpoints/notes", "checkpoints/07.safetensors", "seal.json.partial"):
            listed = "listed" if sealed else "not listed"
            yield Cheat(f"a file {name}, {listed}", add(name, b"x", sealed))
    links = ("steps.jsonl", "inputs.bin", "receipt.json", "seal.json", "checkpoints", "programs")
    for name in (receipt.header.program_file(0), *links):
        yield Cheat(f"a link as {name}", link(name))
    yield Cheat("a file elsewhere listed", beside_the_seal)
    yield Cheat("a space in receipt.json", raw("receipt.json", lambda d: d.replace(b":", b": ", 1)))
    yield Cheat("a key twice in receipt.json", raw("receipt.json", lambda d: d[:-1] + b',"version":1}'))
    yield Cheat("a line feed after seal.json", raw("seal.json", lambda d: d + b"\n", agree=False))
    yield Cheat("a space in a step", raw("steps.jsonl", lambda d: d.replace(b",", b", ", 1)))
    yield Cheat("half a step more", raw("steps.jsonl", lambda d: d + b'{"chain":'))
    yield Cheat("an input more", raw("inputs.bin", lambda d: d + d[:100]))
    yield Cheat("a field more in run", json_of("receipt.json", lambda v: v["run"].update(extra=1)))
    yield Cheat("a field more", json_of("receipt.json", lambda v: v.update(extra=1)))
    yield Cheat("a field more in the seal", json_of("seal.json", lambda v: v.update(extra=1)))
    for numerics in (0, 2, True, "1"):
        change = lambda v, numerics=numerics: v["run"].update(numerics=numerics)  # noqa: E731
        yield Cheat(f"numerics {numerics!r}", json_of("receipt.json", change))
    yield Cheat("version 3", json_of("receipt.json", lambda v: v.update(version=3)))
    yield Cheat("steps in the seal", json_of("seal.json", lambda v: v.update(steps=7)))
    yield Cheat("no steps in the seal", json_of("seal.json", lambda v: v.update(steps=0)))
    yield Cheat("the state in the seal", json_of("seal.json", lambda v: v.update(state_hash="0" * 64)))
    yield Cheat("the link in the seal", json_of("seal.json", lambda v: v.update(chain="0" * 64)))
    yield Cheat("no files in the seal", json_of("seal.json", lambda v: v.update(files={})))
    yield Cheat("no seal", lambda path: (path / "seal.json").unlink())

    def signed(path: Path) -> None:
        signature = {"key": "01" + "00" * 31, "ed25519": "01" + "00" * 63}
        edit(path / "seal.json", lambda v: v.update(signature=signature))

    yield Cheat("a signature that holds for every text", signed)

    def seal_of_another(path: Path) -> None:
        before = (path / "seal.json").read_bytes()
        rebuilt(lambda forged: forged.steps.pop(), rerun=True)(path)
        (path / "seal.json").write_bytes(before)

    yield Cheat("the seal of another receipt", seal_of_another)


def all_cheats(receipt: Receipt) -> list[Cheat]:
    kinds = (names, programs, data, cursors, lengths, states, forms)
    return [cheat for kind in kinds for cheat in kind(receipt)]


def is_right(path: Path, agreed: Agreed | None, chain: bytes | None = None) -> bool:
    try:
        receipt = Receipt(path)
        inputs = ScriptInputs(receipt, copy.copy(agreed)) if agreed is not None else None
        repro_mlir.verify(receipt, threads=1, inputs=inputs, chain=chain)
    except ReproError:
        return False
    return True


def test_no_cheat_is_right(honest: tuple[Path, dict[str, Any], list[Batch]], tmp_path: Path) -> None:
    path, run, batches = honest
    link, agreed = Receipt(path).log[STEPS].chain, Agreed(Receipt(path).program, run, batches)
    assert is_right(path, None) and is_right(path, agreed, link)
    cheats = all_cheats(Receipt(path))
    assert len(cheats) >= 100 and len({cheat.name for cheat in cheats}) == len(cheats)
    wrong = []
    for number, cheat in enumerate(cheats):
        forged = Path(shutil.copytree(path, tmp_path / str(number)))
        cheat.apply(forged)
        # A verifier also makes the checks of the weaker verifiers. The first verifier in this order that detects the
        # cheat must be `needs`.
        seen = {"plain": not is_right(forged, None)}
        seen["script"] = seen["plain"] or not is_right(forged, agreed)
        seen["chain"] = seen["script"] or not is_right(forged, agreed, link)
        if next((needs for needs, found in seen.items() if found), None) != cheat.needs:
            wrong.append(f"{cheat.name}: expected to be seen by {cheat.needs}, got {seen}")
        shutil.rmtree(forged)
    assert not wrong, "\n".join(wrong)
    print(f"{len(cheats)} cheats, none right")


def test_the_link_covers_the_names(honest: tuple[Path, dict[str, Any], list[Batch]], tmp_path: Path) -> None:
    path = honest[0]
    link = Receipt(path).log[STEPS].chain
    forged = Path(shutil.copytree(path, tmp_path / "forged"))
    rebuilt(rename_loss)(forged)
    assert is_right(path, None, link) and is_right(forged, None) and not is_right(forged, None, link)


def test_what_was_not_checked(honest: tuple[Path, dict[str, Any], list[Batch]]) -> None:
    path, run, batches = honest
    link = Receipt(path).log[STEPS].chain
    alone = "\n".join(repro_mlir.verify(path, "5", threads=1).not_checked)
    for text in ("6 of 8 steps", "no script", "the 1 batch without a step", "no signature", "no link"):
        assert text in alone, text
    receipt = Receipt(path)
    inputs = ScriptInputs(receipt, Agreed(receipt.program, run, batches))
    assert repro_mlir.verify(receipt, threads=1, inputs=inputs, chain=link).not_checked == (
        "environment, data.script and checkpoint_every: machine, script and kept states, stated for information",
        "who vouches for the run: no signature",
    )


def test_origins_are_compared_with_the_script(honest: tuple[Path, dict[str, Any], list[Batch]], tmp_path: Path) -> None:
    path, run, batches = honest
    program = Receipt(path).program
    forged = Path(shutil.copytree(path, tmp_path / "forged"))
    parts = sections(program.data)
    kept = [(kind, contents) for kind, contents in parts[1:] if kind != 3]
    assert len(kept) < len(parts) - 1
    replace_program_file(forged, file(parts[0][1], *kept))
    what = "names, messages and origins in the files of programs"
    for each, why in ((path, None), (forged, f"({program.hash}): they differ from those of")):
        receipt = Receipt(each)
        inputs = ScriptInputs(receipt, Agreed(program, run, batches))
        told = [line for line in repro_mlir.verify(receipt, threads=1, inputs=inputs).not_checked if what in line]
        assert (told == []) if why is None else (len(told) == 1 and why in told[0])
