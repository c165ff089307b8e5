# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The documentation of a model is one printed page, which labels what is declared and what is predicted."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from repro_mlir import Receipt
from repro_mlir.cli.main import main
from repro_mlir.verification.exports.declared import Declared
from repro_mlir.verification.exports.facts import HyperParameter, facts_of
from repro_mlir.verification.exports.page import model_page
from support.browser import check_structure, needs_browser, run

MACHINES = Path(__file__).resolve().parents[4] / "python" / "repro_mlir" / "roofline" / "machines" / "data"


def sections(page: str) -> dict[str, str]:
    """Returns the sections of a page by their titles."""
    return dict(re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", page, re.S))


def test_the_page(export: Callable[..., bytes], signed: Path, copied: Path) -> None:
    data = export(signed, "page")
    assert export(copied, "page") == data
    page = data.decode()
    check_structure(page)
    found, seal = sections(page), json.loads((signed / "seal.json").read_bytes())
    assert [*found] == [
        *("Model", "Training", "Hyper-parameters", "Data", "Declared by the writer of the receipt", "Evidence")
    ]
    assert seal["state_hash"] in found["Model"] and seal["chain"] in found["Evidence"]
    assert f"ed25519 key <code>{seal['signature']['key']}" in found["Evidence"]
    assert "changes/4.safetensors" in found["Training"] and "0.6834016" in found["Training"]
    assert ">momentum</th><td>0.9<" in found["Hyper-parameters"]
    assert page.count("x86-64-v3") == found["Declared by the writer of the receipt"].count("x86-64-v3") == 1


def test_a_receipt_without_a_signature(export: Callable[..., bytes], unsigned: Path) -> None:
    found = sections(export(unsigned, "page").decode())
    assert "not signed" in found["Evidence"]
    assert ">changes of the state by the user</th><td>0<" in found["Training"]


def test_declarations_are_escaped(export: Callable[..., bytes], signed: Path) -> None:
    page = export(signed, "page", "--declare", "name=<script>alert(1)</script>", "--declare", "supplier=A & B").decode()
    check_structure(page)
    assert "<script>alert" not in page
    declared = sections(page)["Declared by the author"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in declared and "A &amp; B" in declared


def test_long_lists_are_shortened(signed: Path) -> None:
    facts = facts_of(Receipt(signed))
    values = tuple(HyperParameter(f"p{i}", "1", "2", "1", "2") for i in range(20))
    page = model_page(dataclasses.replace(facts, hyper_parameters=values), Declared(), None, None)
    found = sections(page)
    assert "p15" in found["Hyper-parameters"] and "p16" not in found["Hyper-parameters"]
    assert "and 4 more" in found["Hyper-parameters"] and "and 1 more" in found["Data"]


def test_energy_is_predicted_for_a_machine(signed: Path, tmp_path: Path, export: Callable[..., bytes]) -> None:
    """The energy is the power of the machine times the predicted seconds of all steps."""
    machine = tmp_path / "here.json"
    shutil.copy(MACHINES / "epyc-zen5.json", machine)
    title = "Time and energy, predicted and not measured"
    without = sections(export(signed, "page", "--machine", str(machine)).decode())[title]
    assert "unknown: the machine file has no power" in without
    value = json.loads(machine.read_text())
    value["performance"]["watts"] = {"value": 100, "source": "this test"}
    machine.write_text(json.dumps(value))
    found = sections(export(signed, "page", "--machine", str(machine), "--threads", "2").decode())[title]
    seconds = float(re.findall(r"time of all steps</th><td>(\S+) s<", found)[0])
    joules = float(re.findall(r"energy of all steps</th><td>(\S+) J ", found)[0])
    assert joules == pytest.approx(100 * seconds, rel=0.01) and seconds > 0
    assert ">machine</th><td>here<" in found and ">threads</th><td>2<" in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--machine", "epyc-zen55"], "did you mean"),
        (["--machine", "epyc-zen5", "--threads", "1000"], "epyc-zen5"),
        (["--threads", "2"], "--threads: expected --machine"),
    ],
)
def test_wrong_machines(
    signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["attest", str(signed), "--format", "page", *options, "-o", str(tmp_path / "page")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@needs_browser
def test_the_page_is_printed_on_one_sheet(export: Callable[..., bytes], signed: Path, tmp_path: Path) -> None:
    declared = [word for name in ("name", "supplier") for word in ("--declare", f"{name}=some-text")]
    declared += ["--declare", "license=LicenseRef-some-text"]
    page = tmp_path / "page.html"
    page.write_bytes(export(signed, "page", *declared, "--declare", "location=https://example.org/model"))
    printed = tmp_path / "page.pdf"
    run(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) == 1
