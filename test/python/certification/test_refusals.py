# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A device runs code that uses tensor cores only if the device has a certificate for the code's matrix instructions."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.bundle.stub_driver import LIBRARY
from repro_mlir.bundle.writer import expect, write_bundle
from repro_mlir.compilation import gpu
from repro_mlir.compilation.device_code import architectures_of, compile_for
from repro_mlir.program import Program, accumulators
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Fdpa
from repro_mlir.runner import Bundle, Device, Session
from repro_mlir.runner import certificates as known
from repro_mlir.runner import driver as driver_module
from repro_mlir.runner.driver import LIBRARY_VARIABLE, Driver
from repro_mlir.runner.execution import Execution
from support.accumulated import HOPPER, Product, normal
from support.matrix_instructions import CLASSES, EIGHTS

PRODUCT = Product(HOPPER, {"m": 40, "n": 24, "k": 70})
NATIVE = "cuda:sm_90+tensor-cores"


def program() -> Program:
    x, y, init = (TensorType(f"arg{i}", element, PRODUCT.shape(i)) for i, element in enumerate(PRODUCT.types))
    return Program(to_bytes(PRODUCT.program()), (), (x, y, init), (dataclasses.replace(init, name="result0"),), 0, ())


def inputs() -> list[np.ndarray]:
    return list(PRODUCT.operands(normal, 1))


def instruction(opcode: str, *images: str) -> known.ComparedInstruction:
    return known.ComparedInstruction(opcode, images or ("PTX",), 1 << 20, "0" * 64, "0" * 64)


def certificate(device: Device, **change: object) -> known.Certificate:
    """Returns a certificate of the simulated device for the instructions of PRODUCT; `change` replaces fields of the
    certificate."""
    instructions = tuple(instruction(f"mma.sync.aligned.m16n8k{depth}.row.col.f32.bf16.bf16.f32") for depth in (8, 16))
    made = known.Certificate(device.name, device.driver.identity(), known.UNITS["sm_90"], instructions)
    return dataclasses.replace(made, **change)  # type: ignore[arg-type]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Device:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(LIBRARY))
    monkeypatch.setenv(known.VARIABLE, str(tmp_path / "certificates"))
    return Device()


@pytest.fixture
def certified(device: Device) -> Device:
    known.write_certificate(certificate(device), known.path_of(device))
    return device


def test_the_compiler_the_reference_and_the_runner_know_the_same_classes_M3() -> None:
    """The compiler, the reference interpreter and the runner each have a table of the tensor cores' classes, and the
    tables agree. The emulator's table is not compared here: other tests compare the emulator's bits."""
    assert list(known.UNITS) == gpu.architectures()
    for name, unit in known.UNITS.items():
        assert unit.name == CLASSES[name]
        assert unit.float8 == (None if name == "sm_120" else EIGHTS.get(unit.name))
        keys = [(element, "f32") for element in ("f16", "bf16")]
        had = [key for key in keys if key in ACCUMULATORS[unit.name]]
        assert had == [key for key in keys if key in accumulators.CLASSES[unit.name]]
        for element, _ in had:
            by = ACCUMULATORS[unit.name][element, "f32"]
            assert by == Fdpa(unit.terms, unit.fraction, "rz_f32", -108 - unit.fraction)
            given = repro_mlir.Accumulator.named(unit.name, element)
            product = Product(given, PRODUCT.sizes, (element, element, "f32"))
            assert known.matrix_instructions(gpu.compile(product.program(), f"{name}+tensor-cores").ptx.encode())


def test_a_certified_device_gives_the_bits_of_the_cpu_M4(certified: Device) -> None:
    (want,) = repro_mlir.compile(program())({}, *inputs())[1].values()
    for target in (NATIVE, "cuda+tensor-cores", "cuda:sm_90", "ptx-emulator:sm_90+tensor-cores"):
        (got,) = repro_mlir.compile(program(), target)({}, *inputs())[1].values()
        assert got.tobytes() == want.tobytes(), target


def test_without_a_certificate(device: Device) -> None:
    for target in (NATIVE, "cuda+tensor-cores"):
        with pytest.raises(ReproError, match=r"need a certificate of PTX emulator with driver 13\.0.*certify-device"):
            repro_mlir.compile(program(), target)
    repro_mlir.compile(program(), "cuda:sm_90")
    repro_mlir.compile(program(), "ptx-emulator:sm_90+tensor-cores")


def fewer(made: known.Certificate) -> known.Certificate:
    few = tuple(dataclasses.replace(each, results=(1 << 20) - 1) for each in made.instructions)
    return dataclasses.replace(made, instructions=few)


def as_cubin(made: known.Certificate, count: int) -> known.Certificate:
    """Returns a copy of the certificate that covers its first `count` instructions only in machine code (cubin), not in
    PTX."""
    first = tuple(dataclasses.replace(each, images=("cubin",)) for each in made.instructions[:count])
    return dataclasses.replace(made, instructions=first + made.instructions[count:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: dataclasses.replace(made, device="H100"), "expected a certificate of PTX emulator with driver"),
        (lambda made: dataclasses.replace(made, driver="12.0"), "got one of PTX emulator with 12.0"),
        (lambda made: dataclasses.replace(made, unit=known.UNITS["sm_80"]), "adds as the class ampere, the code for"),
        (fewer, "expected 1,048,576 results of mma.sync.aligned.m16n8k16"),
        (lambda made: dataclasses.replace(made, instructions=made.instructions[:1]), "results of mma.*m16n8k16"),
        (lambda made: dataclasses.replace(made, instructions=()), "results of mma"),
        (lambda made: as_cubin(made, 2), "expected PTX, got cubin"),
        (lambda made: as_cubin(made, 1), "neither PTX nor cubin covers all of mma.*k16.*, mma.*k8"),
    ],
)
def test_certificates_of_something_else(
    device: Device, change: Callable[[known.Certificate], known.Certificate], message: str
) -> None:
    known.write_certificate(change(certificate(device)), known.path_of(device))
    with pytest.raises(ReproError, match=message):
        repro_mlir.compile(program(), NATIVE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("[]", "expected an object"),
        ('{"format": 2}', "expected the key 'device', which is missing"),
        ('{"format": 2, "format": 2}', "a key occurs twice"),
        ("[" * 70000, "expected at most 65,536 bytes"),
    ],
)
def test_damaged_certificates(device: Device, text: str, message: str) -> None:
    path = known.path_of(device)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ReproError, match=message):
        repro_mlir.compile(program(), NATIVE)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"terms": 16', '"terms": 8', "expected a class of matrix units that is known, got hopper"),
        ('"fraction": 25', '"fraction": 24', "expected a class of matrix units that is known, got hopper"),
        ('"hopper_mma"', '"ada"', "expected a class of matrix units that is known, got hopper"),
        ('"hopper"', '"ampere"', "expected a class of matrix units that is known, got ampere"),
        ('"hopper"', '"pascal"', "expected a class of matrix units that is known, got pascal"),
        ("1048576", "1048576.0", r"results: expected a whole number from 1 to \d+, got 1048576\.0$"),
        ("1048576", "9" * 4000, r"results: expected a whole number from 1 to \d+, got 9{40}\.\.\.$"),
        ('"format": 2', f'"format": {"9" * 4000}', "format: expected a whole number from 1 to"),
        (f'"vectors": "{"0" * 64}"', f'"vectors": "{"0" * 63}"', "vectors: expected 64 lower-case hexadecimal digits"),
        (f'"outcome": "{"0" * 64}"', f'"outcome": "{"G" * 64}"', "outcome: expected 64 lower-case hexadecimal digits"),
    ],
)
def test_certificates_that_contradict_themselves(certified: Device, old: str, new: str, message: str) -> None:
    path = known.path_of(certified)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ReproError, match=message):
        repro_mlir.compile(program(), NATIVE)


def test_another_format(certified: Device) -> None:
    path = known.path_of(certified)
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ReproError, match="expected a certificate of format 2, got 1"):
        repro_mlir.compile(program(), NATIVE)


def test_code_for_another_class(certified: Device) -> None:
    """The device could run PTX of the earlier architecture, but its tensor cores add by the rule of another class, so
    the results would have other bits."""
    by = repro_mlir.Accumulator.named("ampere", "bf16")
    text = dataclasses.replace(PRODUCT, by=by).program()
    other = dataclasses.replace(program(), data=to_bytes(text))
    with pytest.raises(ReproError, match=r"adds as the class hopper, the code for sm_80\+tensor-cores as ampere"):
        repro_mlir.compile(other, "cuda:sm_80+tensor-cores")
    repro_mlir.compile(other, "cuda:sm_80")
    # For sm_80, the rule of hopper is computed with integers. This code has no matrix instruction and needs no
    # certificate.
    (code,) = compile_for(program(), ["sm_80+tensor-cores"])
    with Execution(certified, code):
        pass


def test_matrix_instructions_count_not_the_name_of_the_code(device: Device) -> None:
    (code,) = compile_for(program(), ["sm_90+tensor-cores"])
    with pytest.raises(ReproError, match="need a certificate"):
        Execution(device, dataclasses.replace(code, architecture="sm_90"))
    with pytest.raises(ReproError, match="no class of matrix units is known for sm_91"):
        known.write_certificate(certificate(device), known.path_of(device))
        Execution(device, dataclasses.replace(code, architecture="sm_91"))


@pytest.mark.parametrize(
    ("opcode", "needs"),
    [
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", False),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", False),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", True),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", True),
        ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", True),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", True),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", True),
        ("tcgen05.mma.cta_group::1.kind::f16", True),
        ("fma.rn.f32", False),
    ],
)
def test_instructions_that_need_a_certificate(opcode: str, needs: bool) -> None:
    text = f"\t{opcode}\n\t\t{{%r1, %r2}}, {{%r3}};\n"
    assert known.matrix_instructions(text.encode()) == ({opcode} if needs else set())


@pytest.mark.parametrize("blank", [" ", "\n", "/**/", "// x\n", "/* mma.sync */"])
@pytest.mark.parametrize("dot", [1, 2, 5])
@pytest.mark.parametrize("types", ["f32.bf16.bf16.f32", "s32.s8.s8.s32"])
def test_an_opcode_with_blanks_inside_is_refused(certified: Device, blank: str, dot: int, types: str) -> None:
    parts = f"mma.sync.aligned.m16n8k16.row.col.{types}".split(".")
    opcode = ".".join(parts[:dot]) + blank + "." + ".".join(parts[dot:])
    with pytest.raises(ReproError, match=r"expected 1,048,576 results of mma(\.|$)"):
        known.certified_images(certified, "sm_90+tensor-cores", f"\t{opcode} {{%r1}};\n".encode())


@pytest.mark.parametrize(
    ("element", "sums", "opcode"),
    [
        ("f32", "f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
        ("f8E5M2", "f32", "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"),
        ("f16", "f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
    ],
)
def test_each_instruction_needs_its_own_M3(device: Device, element: str, sums: str, opcode: str) -> None:
    """A certificate for bf16 does not cover matrix instructions on other element types."""
    unit = "hopper_mma" if element == "f8E5M2" else "hopper"
    product = Product(
        repro_mlir.Accumulator.named(unit, element, sums), {"m": 40, "n": 24, "k": 64}, (element, element, "f32")
    )
    ptx = gpu.compile(product.program(), "sm_90+tensor-cores").ptx.encode()
    assert known.matrix_instructions(ptx) == {opcode}
    known.write_certificate(certificate(device), known.path_of(device))
    with pytest.raises(ReproError, match=f"expected 1,048,576 results of {opcode}"):
        known.certified_images(device, "sm_90+tensor-cores", ptx)
    known.write_certificate(certificate(device, instructions=(instruction(opcode),)), known.path_of(device))
    assert known.certified_images(device, "sm_90+tensor-cores", ptx) == ("PTX",)


def test_how_f8_is_added_does_not_follow_from_f16_M3(device: Device) -> None:
    """A device that adds products of f16 by the rule of `hopper` may add products of f8 by another rule, or not support
    f8 at all."""
    opcodes = [
        f"mma.sync.aligned.m16n8k{rest}" for rest in ("16.row.col.f32.f16.f16.f32", "32.row.col.f32.e4m3.e4m3.f32")
    ]
    f16, f8 = (f"\t{opcode} {{%r1}};\n".encode() for opcode in opcodes)
    made = certificate(device, unit=known.UNITS["sm_120"], instructions=tuple(map(instruction, opcodes)))
    known.write_certificate(made, known.path_of(device))
    assert known.certified_images(device, "sm_90+tensor-cores", f16) == ("PTX",)
    with pytest.raises(ReproError, match=r"adds f8 as the class None, the code for .* as hopper_mma"):
        known.certified_images(device, "sm_90+tensor-cores", f8)


def test_bundles(device: Device, tmp_path: Path) -> None:
    """If a bundle has code with tensor cores and code without, a device without a certificate runs the code without
    them."""
    given, recorded = program(), [inputs()]
    both = tmp_path / "both.rmb"
    codes = compile_for(given, architectures_of("cuda:sm_80,sm_90,sm_90+tensor-cores"))
    write_bundle(both, given, codes, steps=recorded, expected=expect(given, recorded))
    native = tmp_path / "native.rmb"
    write_bundle(native, given, codes[-1:], steps=recorded)
    with Session(both, device) as session:
        assert session.architecture == "sm_90"
    for path, architecture in ((native, None), (both, "sm_90+tensor-cores")):
        with pytest.raises(ReproError, match="need a certificate"):
            Session(path, device, architecture=architecture)
    known.write_certificate(certificate(device), known.path_of(device))
    for path in (both, native):
        with Session(path, device) as session:
            assert session.architecture == "sm_90+tensor-cores"
            outputs = session.step(*session.bundle.recorded_inputs(0))
            (want,) = repro_mlir.compile(given)({}, *inputs())[1].values()
            assert outputs["result0"].tobytes() == want.tobytes()
    assert Bundle(both).architectures == ["sm_80", "sm_90", "sm_90+tensor-cores"]


def test_a_bundle_for_other_devices_but_for_tensor_cores(device: Device, tmp_path: Path) -> None:
    """The error names both reasons: some code is for another GPU, and the rest needs a certificate of this GPU."""
    given, path = program(), tmp_path / "newer.rmb"
    write_bundle(path, given, compile_for(given, ["sm_100", "sm_90+tensor-cores"]), steps=[inputs()])
    both = r"need a certificate of PTX emulator.*; .*has code for sm_100, which this GPU \(sm_90\) cannot run"
    with pytest.raises(ReproError, match=both):
        Session(path, device)
    with pytest.raises(ReproError, match=r"has code for sm_100, which this GPU \(sm_90\) cannot run$"):
        Session(path, device, architecture="sm_100")


def without_own_build(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the simulated driver lack the function that returns its build, as NVIDIA's drivers do."""
    monkeypatch.setattr(driver, "has", lambda function: False)


@pytest.mark.parametrize("version", [None, "", "\n", "575.57.08\n"])
def test_drivers_are_told_apart_by_their_build(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None
) -> None:
    """Drivers of the same CUDA version are distinguished by their build; otherwise one certificate would cover all of
    them."""
    assert device.driver.identity() == "13.0 stand-in"
    without_own_build(device.driver, monkeypatch)
    monkeypatch.setattr(driver_module, "_MODULE_VERSION", tmp_path / "version")
    if version is not None:
        (tmp_path / "version").write_text(version)
    if version and version.strip():
        assert device.driver.identity() == "13.0 575.57.08"
        return
    for refused in (
        lambda: known.path_of(device),
        lambda: known.withdraw_certificate(device),
        lambda: known.certificate_for(device, "sm_90+tensor-cores"),
    ):
        with pytest.raises(ReproError, match=r"a certificate names a build of the driver.*the version in .*version$"):
            refused()


def test_the_library_of_a_driver_counts_before_the_kernel_module(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The driver's library compiles PTX and may be newer than the kernel module, so the identity contains the library's
    version."""
    (tmp_path / "version").write_text("575.57.08\n")
    monkeypatch.setattr(driver_module, "_MODULE_VERSION", tmp_path / "version")
    link = tmp_path / "libcuda.so.1"
    for name, expected in (("libcuda.so.580.65.06", "13.0 580.65.06"), ("libcuda.so.1.1", "13.0 575.57.08")):
        shutil.copy(LIBRARY, tmp_path / name)
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        monkeypatch.setenv(LIBRARY_VARIABLE, str(link))
        driver = Driver()
        without_own_build(driver, monkeypatch)
        assert driver.identity() == expected


def test_unknown_targets() -> None:
    for target in (
        "cpu+tensor-cores",
        "ptx-emulator+tensor-cores",
        "cuda:sm_76+tensor-cores",
        "reference+tensor-cores",
    ):
        with pytest.raises(ReproError, match="unknown target"):
            repro_mlir.compile(program(), target)


def test_without_a_folder(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    monkeypatch.delenv(known.VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert known.directory() == Path("/somewhere/repro-mlir/certificates")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert known.directory() == Path.home() / ".local/share/repro-mlir/certificates"


def test_a_certificate_that_cannot_be_written_or_removed(certified: Device, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ReproError, match="cannot write"):
        known.write_certificate(certificate(certified), blocked / "inside" / "x.json")
    path = known.path_of(certified)
    path.unlink()
    path.mkdir()
    with pytest.raises(ReproError, match="cannot remove"):
        known.withdraw_certificate(certified)
