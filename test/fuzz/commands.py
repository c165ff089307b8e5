# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Commands that readers.py fuzzes with damaged files and with damaged messages from peers. Each command must end with a
documented status, report a failure in one line, and escape everything that it prints.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from damage import mutate
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.cli.main import main
from repro_mlir.runner.driver import LIBRARY_VARIABLE
from repro_mlir.verification.dispute import Prover
from repro_mlir.verification.dispute.addresses import connect, listen
from repro_mlir.verification.dispute.connection import Stranger, accept
from repro_mlir.verification.dispute.connection import connect as shake_hands
from seeds import (
    Reader,
    change_archive,
    conversations,
    of_archive,
    of_receipt,
    packed,
    runs,
    unpacked,
    write_bundle_of_two_steps,
    write_receipt,
)
from support import handmade

_TOKEN = b"token of the fuzzers"
_LIMIT = 1 << 26
_SECONDS = 20.0


def _run(*arguments: object, statuses: Sequence[int] = (0, 2)) -> tuple[str, str]:
    """Runs a command in this process. Returns its outcome (see forked.py) and its standard output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    said, errors = out.getvalue(), err.getvalue()
    messages = [line for line in errors.splitlines() if not line.startswith("listening on ")]
    is_error = len(messages) == 1 and messages[0].startswith("repro: error: ")
    if status not in statuses or (status == 2 and not is_error) or "Traceback" in errors:
        return f"finding: status {status}: {errors}", said
    if any(not (c.isprintable() or c in "\n\t") for c in said + errors):
        return f"finding: raw characters: {said + errors!r}", said
    return f"status {status}", said


def _outcome(*arguments: object, statuses: Sequence[int] = (0, 2)) -> str:
    return _run(*arguments, statuses=statuses)[0]


def _on_a_target(path: Path) -> list[str]:
    """Returns options for a target, chosen by a checksum of the file, so that the choice is reproducible: usually the
    reference target, sometimes this machine's CPU."""
    return ["--threads", "1", "--target", "reference" if zlib.crc32(path.read_bytes()) % 8 else "cpu"]


# Files ----------------------------------------------------------------------------------------------------------------


def attest_command(folder: Path) -> Reader:
    """Returns a reader that runs `attest` on a damaged receipt."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = folder / "key.pem"
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(pem, pkcs8, serialization.NoEncryption()))

    def use(path: Path) -> str:
        return _outcome("attest", path, "--sign", key, "-o", folder / "envelope.json", statuses=(0, 1, 2))

    return of_receipt(folder, use, is_command=True)


def diff_command(folder: Path) -> Reader:
    """Returns a reader that runs `diff` on a damaged and a correct receipt."""

    def use(path: Path) -> str:
        return _outcome("diff", path, folder / "right", "--targets", "reference", statuses=(0, 1, 2))

    return of_receipt(folder, use, wrong=True, is_command=True)


def inspect_bundle_command(folder: Path) -> Reader:
    """Returns a reader that runs `inspect` on a damaged bundle."""
    return of_archive(folder, write_bundle_of_two_steps, lambda path: _outcome("inspect", path), is_command=True)


def inspect_program_command(folder: Path) -> Reader:
    """Returns a reader that runs `inspect` on a damaged program file."""
    return of_archive(folder, handmade.program().save, lambda path: _outcome("inspect", path), is_command=True)


def inspect_receipt_command(folder: Path) -> Reader:
    """Returns a reader that runs `inspect` on a damaged receipt."""
    return of_receipt(folder, lambda path: _outcome("inspect", path, statuses=(0, 1, 2)), is_command=True)


def run_bundle_command(folder: Path) -> Reader:
    """Returns a reader that runs a bundle on the PTX emulator instead of a GPU."""
    os.environ[LIBRARY_VARIABLE] = str(LIBRARY)

    def use(path: Path) -> str:
        return _outcome("run-bundle", path, statuses=(0, 1, 2))

    return of_archive(folder, write_bundle_of_two_steps, use, is_command=True)


def run_command(folder: Path) -> Reader:
    """Returns a reader that runs `run` on a program, inputs and a state, one of which is damaged."""
    program = handmade.program()
    program.save(folder / "program.repro")
    arrays = {kind.name: array for kind, array in zip(program.inputs, handmade.steps(1)[0], strict=True)}
    for name, save in (("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)):
        with open(folder / name, "wb") as file:
            save(file, **arrays)
    state = write_tensors(program.state, program.initial)
    whole = (folder / "program.repro").read_bytes()
    seeds = [
        packed({"program.repro": whole, "inputs.npz": (folder / name).read_bytes(), "state.safetensors": state})
        for name in ("stored.npz", "deflated.npz")
    ]

    def change(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
        files = unpacked(data)
        name = draw.choice([*files])
        damage = mutate if name == "state.safetensors" else change_archive
        files[name] = damage(files[name], [*files.values()], draw)
        return packed(files)

    def read(data: bytes) -> str:
        for name, content in unpacked(data).items():
            (folder / name).write_bytes(content)
        path, target = folder / "program.repro", _on_a_target(folder / "state.safetensors")
        given = "--inputs", folder / "inputs.npz", "--state", folder / "state.safetensors"
        return _outcome("run", path, *given, *target)

    return Reader(seeds, read, change, is_command=True)


def verify_command(folder: Path) -> Reader:
    """Returns a reader that runs `verify` on a damaged receipt."""

    def use(path: Path) -> str:
        target = _on_a_target(path / "seal.json")
        return _outcome("verify", path, "--steps", "2", *target, statuses=(0, 1, 2))

    return of_receipt(folder, use, wrong=True, is_command=True)


# Disputes -------------------------------------------------------------------------------------------------------------


def _dispute(stranger: object, honest: object, is_first: bool, *options: object) -> str:
    """Runs a dispute between a damaged and an honest party; it is a finding if the honest party loses."""
    parties = (stranger, honest) if is_first else (honest, stranger)
    where = "--target", "reference", "--threads", "1", "--timeout", _SECONDS
    outcome, said = _run("dispute", *parties, *options, *where, "--json", statuses=(0, 1, 2, 3))
    if outcome == "status 1" and ("B" if is_first else "A") in json.loads(said)["wrong"]:
        return f"finding: the honest party lost: {said}"
    return outcome


def dispute_command(folder: Path) -> Reader:
    """Returns a reader that disputes a damaged receipt against a correct one."""

    def use(path: Path) -> str:
        is_first = zlib.crc32((path / "steps.jsonl").read_bytes()) % 2 == 0
        return _dispute(path, folder / "right", is_first)

    return of_receipt(folder, use, wrong=True, is_command=True)


class _Place:
    """The meaning of the first byte of a mutated message: which message of a conversation it replaces, and four flags,
    which each command uses in its own way."""

    def __init__(self, byte: int) -> None:
        self.number = byte & 15
        self.choices = [bool(byte >> bit & 1) for bit in (4, 5, 6, 7)]


def _change_message(data: bytes, seeds: Sequence[bytes], draw: random.Random) -> bytes:
    return bytes([data[0] & 15 | draw.randrange(16) << 4]) + mutate(data[1:], [seed[1:] for seed in seeds], draw)


def _placed(messages: Sequence[bytes]) -> list[bytes]:
    return [bytes([number]) + message for number, message in enumerate(messages)]


@contextlib.contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Runs `work` in another thread; ignores the errors that it raises if the peer closes the connection."""

    def run() -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, Stranger):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(_SECONDS)


def _secret(folder: Path) -> Path:
    path = folder / "token"
    path.write_bytes(_TOKEN)
    path.chmod(0o600)
    return path


def dispute_connection_command(folder: Path) -> Reader:
    """Returns a reader that disputes an honest receipt against a prover on a socket. The prover, honest or not, sends
    one damaged answer."""
    write_receipt(folder / "right")
    honest, cheat = runs()
    token, path = _secret(folder), folder / "prover"

    def read(data: bytes) -> str:
        place = _Place(data[0])
        is_first, is_honest, is_raw, is_stranger = place.choices
        prover = Prover(honest if is_honest else cheat)

        def answer(listener: socket.socket) -> None:
            with listener:
                listener.settimeout(_SECONDS)
                connected, _ = listener.accept()
            with connected:
                if is_stranger and place.number == 0:
                    connected.sendall(data[1:])
                    return
                link = accept(connected, _TOKEN, time.monotonic() + _SECONDS)
                number = 0
                while question := link.receive(_LIMIT, time.monotonic() + _SECONDS):
                    if is_raw and number == place.number:
                        connected.sendall(data[1:])
                        return
                    right = prover.answer(question)
                    link.send(data[1:] if number == place.number else right, time.monotonic() + _SECONDS)
                    number += 1

        path.unlink(missing_ok=True)
        with _beside(functools.partial(answer, listen(f"unix:{path}", _TOKEN))):
            option = "--token-a" if is_first else "--token-b"
            return _dispute(f"unix:{path}", folder / "right", is_first, option, token)

    return Reader(_placed(conversations([honest, cheat])[1].answers), read, _change_message, is_command=True)


def serve_command(folder: Path) -> Reader:
    """Returns a reader that runs a prover for a referee that sends one damaged question. If this referee gets no answer
    at all, a second referee connects and must get an answer."""
    write_receipt(folder / "right")
    questions = conversations(runs())[0].questions
    token, path = _secret(folder), folder / "prover"

    def read(data: bytes) -> str:
        place = _Place(data[0])
        is_raw, is_stranger, _, _ = place.choices
        findings = []

        def ask() -> None:
            if is_stranger:
                with _connected(path) as connected:
                    connected.sendall(data[1:])
            connected = _connected(path)
            link = shake_hands(connected, _TOKEN, time.monotonic() + _SECONDS)
            answered = 0
            with contextlib.suppress(OSError, EOFError, ValueError):
                for number, question in enumerate(questions):
                    if number == place.number and is_raw:
                        connected.sendall(data[1:])
                        break
                    link.send(data[1:] if number == place.number else question, time.monotonic() + _SECONDS)
                    json.loads(link.receive(_LIMIT, time.monotonic() + _SECONDS))
                    answered += 1
            link.close()
            if not answered:
                channel = connect(f"unix:{path}", _SECONDS, _TOKEN)
                try:
                    json.loads(channel.exchange(questions[0], _LIMIT, _SECONDS))
                except Exception as error:
                    findings.append(f"finding: no answer to an honest referee: {error!r}")
                channel.close()

        path.unlink(missing_ok=True)
        with _beside(ask):
            options = "--token", token, "--target", "reference", "--threads", "1", "--total", _SECONDS
            outcome = _outcome(
                "dispute", "--serve", folder / "right", "--listen", f"unix:{path}", *options, statuses=(0,)
            )
        return findings[0] if findings else outcome

    return Reader(_placed(questions), read, _change_message, is_command=True)


def _connected(path: Path) -> socket.socket:
    """Connects to a prover's socket; waits if the prover does not listen yet."""
    deadline = time.monotonic() + _SECONDS
    while True:
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(str(path))
            return connected
        except OSError:
            connected.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


READERS = (
    attest_command,
    diff_command,
    dispute_command,
    dispute_connection_command,
    inspect_bundle_command,
    inspect_program_command,
    inspect_receipt_command,
    run_bundle_command,
    run_command,
    serve_command,
    verify_command,
)
