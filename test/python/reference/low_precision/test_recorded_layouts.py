# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the comparison with recorded outputs: files written by the rules in fractions match, and changed files
differ."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import fraction_rules as rules
import numpy as np
import pytest
import test_recorded_block_formats as block_formats
import test_recorded_tensor_cores as tensor_cores
from edge_values import bits
from recorded import files
from repro_mlir.reference.low_precision.binary_formats import BF16, F8E4M3FN, F16, decode
from repro_mlir.reference.low_precision.block_rounding import round_elements


def values_of(x: np.ndarray) -> list[list[rules.Value]]:
    return [[rules.from_bits(int(b)) for b in row] for row in x.view(np.uint32)]


def blocks(columns: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20, columns)) * 2.0 ** rng.integers(-20, 20, (20, 1))
    x[0] = 0.0
    return x.astype(np.float32)


@pytest.fixture
def torchao(tmp_path: Path) -> Path:
    """Writes a file in the layout of torchao's main branch; its version is none of those that TORCHAO lists."""
    x = blocks(32)
    data: dict[str, np.ndarray] = {"x": bits(x)}
    for mode in ("FLOOR", "CEIL", "EVEN", "RCEIL"):
        rule = "rceil_product" if mode == "RCEIL" else mode.lower()
        scales = [rules.power_byte(rules.amax_of(row), "f6E3M2FN", rule) for row in values_of(x)]
        codes = [
            [rules.to_code(Fraction(v) * rules.two(127 - s), "f6E3M2FN") for v in row]
            for row, s in zip(values_of(x), scales, strict=True)
        ]
        data[f"scale_{mode}"], data[f"code_{mode}"] = np.array(scales, np.uint8), np.array(codes, np.uint8)
    file = tmp_path / "torchao-1.2.3-mxfp6_e3m2.npz"
    np.savez(file, **data)
    return file


@pytest.fixture
def transformer_engine(tmp_path: Path) -> Path:
    """Writes a file in the layout of TransformerEngine's NVFP4, with two tensors, each with its own amax."""
    x = np.stack([blocks(32), 3 * blocks(32)])
    scales, codes, amaxes = [], [], []
    for tensor in x:
        amax = rules.amax_of([v for row in values_of(tensor) for v in row])
        amaxes.append([rules.bits_of(amax)])
        for row in values_of(tensor):
            for start in (0, 16):
                scale, factor = rules.nvfp4(rules.amax_of(row[start : start + 16]), amax)
                scales.append(rules.to_code(scale, "f8E4M3FN"))
                codes += [
                    rules.to_code(rules.times(v, factor), "f4E2M1FN", signed_zero=False)
                    for v in row[start : start + 16]
                ]
    file = tmp_path / "te-nvfp4-1x16.npz"
    np.savez(
        file,
        x=bits(x),
        scale=np.array(scales, np.uint8).reshape(2, 20, 2),
        code=np.array(codes, np.uint8).reshape(2, 20, 32),
        amax=np.array(amaxes, np.uint32),
    )
    return file


def change(file: Path, name: str) -> None:
    """Flips the last bit of the last element of an array in a file."""
    with np.load(file) as archive:
        data = {key: archive[key] for key in archive.files}
    data[name].flat[-1] ^= 1
    np.savez(file, **data)


def test_torchao_Q2(torchao: Path) -> None:
    found = block_formats.compare(torchao)
    assert (found.compared, found.wrong, sum(found.left_out.values())) == (4 * 20 * 33, 0, 0)
    change(torchao, "code_EVEN")
    found = block_formats.compare(torchao)
    assert found.wrong == 1 and found.differing[0].startswith("code_EVEN[19, 31]: ")


def test_transformer_engine_Q2(transformer_engine: Path) -> None:
    found = block_formats.compare(transformer_engine)
    assert (found.compared, found.wrong) == (2 * 20 * 34 + 2, 0)
    change(transformer_engine, "scale")
    assert block_formats.compare(transformer_engine).wrong == 1


def tensor_core_file(folder: Path, name: str, of: str, fraction: int, terms: int) -> Path:
    """Writes a file of tensor core results like that of a recorded device: 300 random blocks, with elements and c
    between -1 and 1."""
    rng = np.random.default_rng(2)
    form = {"bf16": BF16, "fp16": F16, "E4M3": F8E4M3FN}[of]
    a, b = (
        decode(round_elements(rng.uniform(-1, 1, (300, terms)).astype(np.float32), form), form).astype(np.float32)
        for _ in range(2)
    )
    c = rng.uniform(-1, 1, 300).astype(np.float32)
    rows = (([Fraction(float(v)) for v in p], [Fraction(float(v)) for v in q]) for p, q in zip(a, b, strict=True))
    d = [
        rules.bits_of(rules.fdpa(p, q, Fraction(float(v)), form.name, fraction, "rz_f32", -130))
        for (p, q), v in zip(rows, c, strict=True)
    ]
    file = folder / name
    np.savez(file, a=bits(a), b=bits(b), c=bits(c), d_fp32=np.array(d, np.uint32))
    return file


def test_tensor_cores_M3(tmp_path: Path) -> None:
    file = tensor_core_file(tmp_path, "A100-bf16.npz", "bf16", 24, 8)
    found, unseen = tensor_cores.compare(file)
    assert (found.compared, found.wrong, unseen) == (300, 0, [])
    change(file, "d_fp32")
    assert tensor_cores.compare(file)[0].wrong == 1


@pytest.mark.parametrize("fraction", [23, 25])
def test_another_fraction_fails_M3(tmp_path: Path, fraction: int) -> None:
    file = tensor_core_file(tmp_path, "T4-fp16.npz", "fp16", fraction, 8)
    assert tensor_cores.compare(file)[0].wrong > 10


def test_blocks_that_tell_no_fraction_M3(tmp_path: Path) -> None:
    """If all products are equal, the file matches, and the report notes that the file does not determine the fraction
    bits."""
    one = np.full((10, 8), 0x3F800000, np.uint32)
    file = tmp_path / "A2-bf16.npz"
    np.savez(file, a=one, b=one, c=one[:, 0], d_fp32=np.full(10, 0x41100000, np.uint32))
    found, unseen = tensor_cores.compare(file)
    assert found.wrong == 0 and unseen == ["d_fp32 ampere, 0 and 0 with a bit less and more"]


@pytest.mark.parametrize("compare", [block_formats.compare, tensor_cores.compare])
def test_unknown_names(tmp_path: Path, compare: object) -> None:
    np.savez(tmp_path / "nobody-knows.npz", x=np.zeros(1, np.uint32))
    assert callable(compare)
    with pytest.raises(pytest.fail.Exception, match=r"nobody-knows\.npz: expected"):
        compare(tmp_path / "nobody-knows.npz")


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder, the test is skipped and the reason says how to run it. An empty folder is an error."""
    monkeypatch.delenv("REPRO_NOTHING", raising=False)
    (parameter,) = files("REPRO_NOTHING", "check-nothing")
    assert parameter.marks[0].kwargs["reason"].endswith("make check-nothing VECTORS=DIR")
    monkeypatch.setenv("REPRO_NOTHING", str(tmp_path))
    with pytest.raises(pytest.UsageError, match=r"expected \.npz files"):
        files("REPRO_NOTHING", "check-nothing")
    (tmp_path / "b.npz").touch()
    (tmp_path / "a.npz").touch()
    assert [parameter.id for parameter in files("REPRO_NOTHING", "check-nothing")] == ["a", "b"]
