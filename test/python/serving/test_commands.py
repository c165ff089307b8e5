# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests `repro serve` and `repro verify --model` in cases in which no model runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from repro_mlir.cli import file_kinds
from repro_mlir.cli.main import main
from support.small_server import SmallServer

RECEIPT = {
    "format": "repro-answer", "version": 1, "numerics": 1, "weights": "0" * 64, "program": "1" * 64, "choice": "2" * 64,
    "capacity": 8, "prompt": [1], "temperature": "00000000", "top_k": None, "top_p": "0000803f", "seed": "0",
    "max_tokens": 2, "stop_tokens": [], "stop": [], "tokens": [3, 4], "finish": "length", "logits": "3" * 64,
    "text": "4" * 64, "environment": {}, "hash": "5" * 64,
}  # fmt: skip

ANSWER = {
    "choices": [{"text": "x", "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}  # fmt: skip


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({**ANSWER, "receipt": RECEIPT}, indent=1))
    return path


def failed(capsys: Any, *arguments: object) -> str:
    assert main([str(each) for each in arguments]) == 2
    output, errors = capsys.readouterr()
    assert output == "" and errors.startswith("repro: error: ") and errors.count("\n") == 1
    return errors


def test_a_receipt_that_contradicts_itself_needs_no_model(capsys: Any, answer: Path) -> None:
    assert main(["verify", str(answer), "--model", "nowhere"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "WRONG    hash: the receipt differs from the result here" and lines[1] == f"receipt  {'5' * 64}"
    assert main(["verify", str(answer), "--model", "nowhere", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["right"], report["place"], report["expected"]) == (False, "hash", "5" * 64)


def test_files_and_options_that_do_not_go_together(capsys: Any, answer: Path, tmp_path: Path) -> None:
    assert file_kinds.file_kind_of(answer) is file_kinds.ANSWER
    assert "expected --model DIR with the receipt of an answer" in failed(capsys, "verify", answer)
    assert "got the receipt of an answer (taken by repro verify --model)" in failed(capsys, "run", answer)
    for option in (["--steps", "1"], ["--seed", "1"], ["--no-changes"], ["--unfinished"], ["--script", "x.py"]):
        message = failed(capsys, "verify", answer, "--model", "nowhere", *option)
        assert f"{option[0]}: only for receipts of training runs" in message
    (tmp_path / "receipt.json").write_text("{}")
    assert "got a receipt (taken by" in failed(capsys, "verify", tmp_path, "--model", "nowhere")
    for data in (b"", b"{", b"[]", b"{}", b"\xff", b'{"receipt": {}}'):
        answer.write_bytes(data)
        failed(capsys, "verify", answer, "--model", "nowhere")
    assert "cannot read" in failed(capsys, "verify", tmp_path / "none", "--model", "nowhere")


def test_servers_that_cannot_begin(capsys: Any, tmp_path: Path) -> None:
    for port in ("-1", "65536", "x", "8000.0", "٣"):
        assert "expected a port from 0 to 65535" in failed(capsys, "serve", tmp_path, "--port", port)
    assert "expected a whole number of at least 1" in failed(capsys, "serve", tmp_path, "--slots", "0")
    # The message depends on whether transformers is installed.
    message = failed(capsys, "serve", tmp_path, "--port", "0")
    assert "install the extras serve and torch" in message or "expected a directory with config.json" in message


def test_faults_of_a_tokenizer_are_reported(capfd: Any) -> None:
    """If a tokenizer fails, one line is printed on standard error, the client gets an error, and the server
    continues."""
    from support.http_client import ask

    with SmallServer(quick=True, decodes=False) as small:
        question = {"prompt": "a", "max_tokens": 3}
        reply = ask(small.port, "/v1/completions", question)
        assert reply.status == 500 and reply.json()["error"]["code"] == "internal_error"
        last = ask(small.port, "/v1/completions", {**question, "stream": True}).body.decode().split("\n\n")[-2]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "internal_error"
        status, output, errors = small.end()
    assert (status, output) == (0, "ended\n")
    assert errors == "repro serve: internal error: ValueError: a fault of the test\n" * 2


def test_a_tokenizer_without_an_end_blocks_no_client() -> None:
    """If a tokenizer never returns, as with an endless chat template, its client gets an error, other clients get
    answers, and the server can be stopped."""
    from support.http_client import ask

    options = {"encode_seconds": 0.2, "step_seconds": 0.2, "waiting": 1}
    with SmallServer(quick=True, slots=1, encodes=False, options=options) as small:
        for _ in range(3):
            reply = ask(small.port, "/v1/completions", {"prompt": "a", "max_tokens": 3})
            assert reply.status == 503 and reply.json()["error"]["code"] == "tokenizer_timeout"
        assert ask(small.port, "/v1/completions", {"prompt": [1], "max_tokens": 3}).status == 200
        assert small.end(timeout=10) == (0, "in a step\n", "")
