# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Disputes about receipts over each channel (in one process, over sockets, through files), and with the command `repro
dispute`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from repro_mlir.cli import main as cli
from repro_mlir.verification.dispute import (
    FileChannel,
    LocalChannel,
    Prover,
    Published,
    ReceiptRun,
    Run,
    SocketChannel,
    Verdict,
    connection,
    serve_files,
    serve_socket,
    settle,
    terms_of_receipt,
)
from repro_mlir.verification.dispute.addresses import connect
from repro_mlir.verification.dispute.channels import Silence
from repro_mlir.verification.dispute.tokens import NO_TOKEN
from repro_mlir.verification.operators import OperatorGraph
from repro_mlir.verification.receipts.receipt import Receipt
from support.dispute_runs import STEPS, faulty, graph, honest, run
from support.small_receipts import CHEATED


def local(receipt: Path) -> LocalChannel:
    return LocalChannel(Prover(ReceiptRun(receipt, "reference")))


def test_receipts(folder: Path) -> None:
    assert settle(local(folder / "honest"), local(folder / "honest")).outcome == "agreement"
    verdict = settle(local(folder / "honest"), local(folder / "cheat"))
    assert (verdict.outcome, verdict.wrong, verdict.step) == ("commitment", ("B",), CHEATED)
    # No operator returned the state to which the cheat has committed. The verdict names the operator that should have
    # returned it.
    assert verdict.operator is not None and verdict.operator.line is not None
    assert settle(local(folder / "cheat"), local(folder / "honest")).wrong == ("A",)


def test_a_rate_that_was_not_agreed_on(folder: Path) -> None:
    verdict = settle(local(folder / "honest"), local(folder / "rate"))
    assert (verdict.outcome, verdict.wrong, verdict.step, verdict.subject) == ("data", (), CHEATED, "lr")
    terms = terms_of_receipt(Receipt(folder / "honest"))
    assert settle(local(folder / "rate"), local(folder / "honest"), terms=terms).wrong == ("A",)


def test_a_published_link_binds_its_party(folder: Path) -> None:
    receipt = Receipt(folder / "cheat")
    published = Published(receipt.header.first_link(), receipt.log.records, receipt.log[receipt.log.records].chain)
    # The second party answers like an honest party, but the last link that it has published is that of the cheating
    # run.
    verdict = settle(local(folder / "honest"), local(folder / "honest"), published=(None, published))
    assert verdict.wrong == ("B",) and "published" in verdict.reasons["B"]


def serve(run: Run) -> tuple[SocketChannel, threading.Thread]:
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve_socket, args=(run, listener), daemon=True)
    thread.start()
    return to(listener), thread


def to(listener: socket.socket, token: bytes = NO_TOKEN) -> SocketChannel:
    host, port = listener.getsockname()
    channel = connect(f"tcp:{host}:{port}", 10, token)
    assert isinstance(channel, SocketChannel)
    return channel


def without_traffic(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, traffic={})


def test_sockets_and_files_give_the_same_verdict(tmp_path: Path) -> None:
    cheat = faulty(graph(), honest().inputs, 9, 29, 4)
    here = settle(LocalChannel(Prover(honest())), LocalChannel(Prover(cheat)))
    first, thread = serve(honest())
    prover = threading.Thread(target=serve_files, args=(cheat, tmp_path, 1.0), daemon=True)
    prover.start()
    there = settle(first, FileChannel(tmp_path), timeout=30)
    assert without_traffic(there) == without_traffic(here) and here.wrong == ("B",)
    # All channels carry the same questions and answers.
    assert there.traffic == here.traffic
    thread.join(10)
    prover.join(10)
    assert not thread.is_alive() and not prover.is_alive()
    assert STEPS == honest().steps


def acting(act: Callable[[socket.socket], None]) -> SocketChannel:
    """Returns a channel to a peer that completes the handshake and then calls `act` with the socket instead of
    answering."""
    ours, theirs = socket.socketpair()

    def converse() -> None:
        with contextlib.suppress(OSError):
            connection.accept(theirs, NO_TOKEN, time.monotonic() + 10, lambda: None)
            act(theirs)

    threading.Thread(target=converse, daemon=True).start()
    return SocketChannel(connection.connect(ours, NO_TOKEN, time.monotonic() + 10))


def test_silence_takes_no_longer_than_the_timeout(tmp_path: Path) -> None:
    for channel in (acting(lambda other: time.sleep(5)), FileChannel(tmp_path)):
        start = time.monotonic()
        verdict = settle(LocalChannel(Prover(honest())), channel, timeout=0.3)
        assert verdict.wrong == ("B",) and "no answer within 0.3 s" in verdict.reasons["B"]
        assert time.monotonic() - start < 5


def test_all_answers_of_a_party_have_a_limit_of_their_own() -> None:
    """A party that delays every answer exceeds its time limit and loses. The other party has a limit of its own and
    does not lose."""

    class Slow(LocalChannel):
        def exchange(self, question: bytes, limit: int, timeout: float) -> bytes:
            time.sleep(min(timeout, 0.1))
            if timeout < 0.1:
                raise Silence(f"no answer within {timeout:g} s")
            return super().exchange(question, limit, timeout)

    cheat = faulty(graph(), honest().inputs, 9, 29, 4)
    start = time.monotonic()
    verdict = settle(LocalChannel(Prover(honest())), Slow(Prover(cheat)), total=0.35)
    assert (verdict.outcome, verdict.wrong) == ("conduct", ("B",)) and time.monotonic() - start < 5


def test_slow_and_endless_answers_lose() -> None:
    def answer(data: bytes, pause: float) -> SocketChannel:
        def send(other: socket.socket) -> None:
            other.recv(1 << 16)
            for i in range(len(data)):
                other.sendall(data[i : i + 1])
                time.sleep(pause)
            other.close()

        return acting(send)

    cases = (
        (answer(b"\x40\x00\x00\x00" + b" " * 96, 0.05), "no answer within 0.4 s"),
        (answer(b"\xff\xff\xff\xff" + bytes(32), 0.0), "expected at most"),
        (answer(b"\x02\x00\x00\x00" + bytes(32) + b"{}", 0.0), "a message was changed in transit"),
        (answer(b"\x40", 0.0), "the connection broke"),
    )
    for channel, reason in cases:
        verdict = settle(LocalChannel(Prover(honest())), channel, timeout=0.4)
        assert verdict.wrong == ("B",) and reason in verdict.reasons["B"]


def test_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(folder / name) for name in ("honest", "cheat", "rate")]
    common = ["--target", "reference", "--json"]
    assert cli.main(["dispute", names[0], names[0], *common]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "agreement"
    assert cli.main(["dispute", names[0], names[1], *common]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["wrong"] == ["B"] and report["step"] == CHEATED and report["operator"]["line"]
    assert cli.main(["dispute", names[0], names[2], *common]) == 3
    capsys.readouterr()
    script = str(folder / "script.py")
    assert cli.main(["dispute", names[0], names[2], "--terms", script, *common]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["outcome"], report["wrong"], report["subject"]) == ("data", ["B"], "lr")
    assert cli.main(["dispute", names[0], names[1], "--target", "reference"]) == 1
    assert "wrong    B" in capsys.readouterr().out


def test_status_of_a_fault_of_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the referee itself fails, the exit status is 2. The status must not be 1, which means that a party is
    wrong."""

    def fail(*arguments: object) -> None:
        raise StopIteration

    names = [str(folder / name) for name in ("honest", "cheat")]
    monkeypatch.setattr("repro_mlir.verification.dispute.party.merkle.proves", fail)
    assert cli.main(["dispute", *names, "--target", "reference"]) == 2
    captured = capsys.readouterr()
    assert "no verdict: cannot judge A's answer (producers: StopIteration: )" in captured.err and not captured.out


def test_names_beyond_ascii() -> None:
    """Names of tensors can be any UTF-8 text: two honest parties agree about the names, and a cheat is found."""
    names = ["größe", "重み", "λ 学習率"]
    state = tuple(dataclasses.replace(kind, name=names[i % 3] + str(i)) for i, kind in enumerate(graph().program.state))
    named = OperatorGraph(dataclasses.replace(graph().program, state=state))
    right = run(named, honest().inputs[:4])
    assert "größe0".encode() in right.header
    wrong = faulty(named, honest().inputs[:4], 3, 29, 4)
    assert settle(LocalChannel(Prover(right)), LocalChannel(Prover(right))).outcome == "agreement"
    assert settle(LocalChannel(Prover(right)), LocalChannel(Prover(wrong))).wrong == ("B",)
    channel, thread = serve(right)
    assert settle(LocalChannel(Prover(wrong)), channel, timeout=30).wrong == ("A",)
    thread.join(10)


def test_names_in_another_normalization_form() -> None:
    """Tensor names must be in Unicode normalization form C, so that honest parties cannot differ in a name's bytes."""
    state = tuple(dataclasses.replace(kind, name=f"gro\u0308{i}") for i, kind in enumerate(graph().program.state))
    named = OperatorGraph(dataclasses.replace(graph().program, state=state))
    with pytest.raises(ValueError, match="normalization form C"):
        run(named, honest().inputs[:1])


def test_mistakes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt, script, taken = str(folder / "honest"), str(folder / "script.py"), tmp_path / "taken"
    taken.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        mistakes = {
            (receipt,): "expected two receipts or addresses",
            (receipt, str(tmp_path / "none")): "expected a receipt, but there is no such file or folder",
            (receipt, "tcp:nowhere"): "expected tcp:HOST:PORT, got tcp:nowhere",
            (receipt, "unix:"): "expected an address tcp:HOST:PORT, unix:PATH or files:FOLDER, got 'unix:'",
            (receipt, f"unix:{tmp_path}/none"): "No such file",
            (receipt, f"unix:{'a' * 300}"): "path too long",
            (receipt, f"files:{taken}"): "expected a folder",
            (receipt, receipt, "--target", "nowhere"): "unknown target 'nowhere'",
            (receipt, receipt, "--timeout", "nan"): "expected --timeout above 0 and at most",
            (receipt, receipt, "--timeout", "1e300"): "expected --timeout above 0 and at most",
            (receipt, receipt, "--total", "0"): "expected --total above 0 and at most",
            (receipt, receipt, "--token-a", script): "expected tcp:HOST:PORT or unix:PATH with a token",
            (receipt, f"unix:{taken}", "--token-b", script): "only its owner can read",
            (receipt, receipt, "--token", script): "expected two receipts or addresses",
            (receipt, f"files:{taken.parent}/none"): "expected a folder",
            ("--serve", receipt, "--listen", f"tcp:0.0.0.0:{port}"): "Address already in use",
            (receipt, receipt, "--terms", script + "x"): "expected a script or a receipt, but there is no such file",
            ("--serve", receipt): "expected --serve RECEIPT with --listen ADDRESS, and without A and B",
            ("--serve", receipt, "--listen", "somewhere"): "expected an address",
            ("--serve", receipt, "--listen", "files:"): "expected an address",
            ("--serve", receipt, "--listen", "tcp:a\0b:80"): "expected an address",
            ("--serve", receipt, "--listen", "tcp:localhost:99999"): "expected tcp:HOST:PORT",
            ("--serve", receipt, "--listen", f"tcp:127.0.0.1:{port}"): "Address already in use",
            ("--serve", receipt, "--listen", f"unix:{taken}"): "Address already in use",
        }
        for arguments, message in mistakes.items():
            assert cli.main(["dispute", *arguments]) == 2, arguments
            captured = capsys.readouterr()
            assert captured.err.startswith("repro: error: ") and captured.err.count("\n") == 1 and not captured.out
            assert message in captured.err, captured.err


@contextmanager
def serving(receipt: Path, address: str, *options: str) -> Iterator[None]:
    """Serves a receipt with `repro dispute --serve` in another process. Within the `with` block, a referee must connect
    and finish."""
    command = [sys.executable, "-m", "repro_mlir", "dispute", "--serve", str(receipt), "--listen", address]
    command += ["--target", "reference", "--json", *options]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as server:
        assert server.stderr is not None and "listening" in server.stderr.readline()
        yield
        out, _ = server.communicate(timeout=60)
    assert server.returncode == 0 and json.loads(out)["answered"] > 5


def test_served_by_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"unix:{tmp_path / 'prover'}"
    with serving(folder / "cheat", address):
        arguments = ["dispute", str(folder / "honest"), address, "--receipt-b", str(folder / "cheat")]
        assert cli.main([*arguments, "--target", "reference", "--json", "--timeout", "60"]) == 1
        assert json.loads(capsys.readouterr().out)["wrong"] == ["B"]


def test_served_with_a_token(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("0123456789abcdef0123456789abcdef\n")
    address = f"tcp:127.0.0.1:{port}"
    with serving(folder / "cheat", address, "--token", str(token)):
        arguments = ["dispute", str(folder / "honest"), address, "--target", "reference", "--json"]
        # The prover rejects a referee that does not know the token, and waits for another referee.
        assert cli.main(arguments) == 2
        assert "has another token" in capsys.readouterr().err
        monkeypatch.setenv("REPRO_DISPUTE_TOKEN_B", token.read_text())
        assert cli.main(arguments) == 1
        assert json.loads(capsys.readouterr().out)["wrong"] == ["B"]


def test_evidence_runs_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cheat = faulty(graph(), honest().inputs, 9, 29, 4)
    verdict = settle(LocalChannel(Prover(honest())), LocalChannel(Prover(cheat)))
    assert verdict.evidence is not None and verdict.operator is not None
    # An input named `file` must not clash with a name in the evidence's inputs.npz: the parties choose the inputs'
    # names.
    program = verdict.evidence.extraction.program
    inputs = tuple(dataclasses.replace(kind, name="file") for kind in program.inputs)
    extraction = dataclasses.replace(verdict.evidence.extraction, program=dataclasses.replace(program, inputs=inputs))
    dataclasses.replace(verdict.evidence, extraction=extraction).save(tmp_path)
    claim = Prover(honest()).tree(9).claims[verdict.operator.index]
    for target in ("reference", "cpu"):
        files = [str(tmp_path / "operator.repro"), "--inputs", str(tmp_path / "inputs.npz")]
        assert cli.main(["run", *files, "--target", target, "--json"]) == 0
        outputs = json.loads(capsys.readouterr().out)["outputs"]
        assert [bytes.fromhex(digest) for digest in outputs.values()] == list(claim.outputs)
