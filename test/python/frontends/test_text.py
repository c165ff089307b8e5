# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The imported linalg text has the form that docs/contributors/architecture.md defines, and LLVM 22 can parse it."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from frontend_models import CNN, GPT, MLP, token_loss
from graph_running import parse_with_llvm
from repro_mlir.frontends.base.newer_mlir import for_llvm_22
from repro_mlir.frontends.torch import TorchBindings, capture_inference, capture_training
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.program.imported import ImportedProgram
from torch import nn
from torch_mlir import ir


@pytest.fixture(scope="module")
def gpt() -> ImportedProgram[TorchBindings]:
    model = GPT(dropout=0.1)
    batch = (torch.randint(0, 64, (2, 16)), torch.randint(0, 64, (2, 16)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return capture_training(model, token_loss, optimizer, batch, CaptureOptions(clip_norm=1.0))


LINES = re.compile(r'loc\("([^"]*)":(\d+):\d+\)')
NAMES = re.compile(r'loc\("([^"]*)"\)')


def test_signature(gpt: ImportedProgram[TorchBindings]) -> None:
    header = next(line for line in gpt.text.splitlines() if 'sym_name = "main"' in line)
    arguments, results = (re.findall(r'repro\.name = "([^"]*)"', part) for part in header.split("function_type = "))
    state = [entry.name for entry in gpt.state]
    assert arguments == state + [spec.name for spec in gpt.inputs]
    assert results == state + [spec.name for spec in gpt.outputs]
    assert f"repro.num_state = {len(state)} : i64" in gpt.text
    assert gpt.text.count('sym_name = "main"') == 1
    roles = gpt.bindings.roles
    assert roles == tuple(sorted(roles, key=["parameter", "buffer", "optimizer", "seed", "step"].index))
    assert len(set(state)) == len(state)


def test_llvm_parses_and_keeps_names_and_lines(gpt: ImportedProgram[TorchBindings]) -> None:
    parsed = parse_with_llvm(gpt.text)
    assert 'repro.name = "blocks.0.qkv.weight"' in parsed
    assert re.search(r'linalg\.matmul.*\n?.*loc\(".*frontend_models\.py":\d+:0\)', parsed)


def test_operators_carry_the_users_lines(gpt: ImportedProgram[TorchBindings]) -> None:
    # An operator of the forward pass or the loss has the line of the user's code. An operator of the backward pass has
    # the line of the operator that it differentiates.
    lines = dict(re.findall(r'(#loc\d*) = loc\("[^"]*frontend_models\.py":(\d+):0\)', gpt.text))
    products = re.findall(r'"linalg\.matmul".*?\) -> tensor<\S+ loc\((#loc\d*)\)', gpt.text, re.S)
    assert len(products) > 20 and all(name in lines for name in products)


def test_only_operations_of_the_contract(gpt: ImportedProgram[TorchBindings]) -> None:
    names = set(re.findall(r'"([a-z_]+)\.[a-z_0-9.]+"\(', gpt.text))
    assert names <= {"builtin", "func", "arith", "math", "linalg", "tensor", "tm_tensor", "cf", "repro"}
    assert "f64" not in gpt.text and "ml_program" not in gpt.text


def test_capture_is_deterministic() -> None:
    def capture() -> str:
        torch.manual_seed(0)
        model = CNN(dropout=0.1)
        batch = (torch.zeros(4, 3, 16, 16), torch.zeros(4, dtype=torch.int64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return capture_training(model, F.cross_entropy, optimizer, batch).text

    assert capture() == capture()


def test_large_boolean_constants_are_read_alike() -> None:
    torch.manual_seed(0)
    mask = torch.rand(16, 17) > 0.5
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(
            f'"test.op"() {{value = dense<{str(mask.tolist()).lower()}> : tensor<16x17xi1>}} : () -> ()',
            _unregistered(ir.Context.current),
        )
        printed = module.operation.get_asm(print_generic_op_form=True)
    assert '"0x' in printed
    parsed = parse_with_llvm(for_llvm_22(printed), "--mlir-print-elementsattrs-with-hex-if-larger=-1")
    values = re.search(r"dense<(\[\[.*?\]\])> : tensor<16x17xi1>", parsed)
    assert values is not None
    assert re.findall("true|false", values[1]) == [str(v).lower() for v in mask.flatten().tolist()]


def _unregistered(context: ir.Context) -> ir.Context:
    context.allow_unregistered_dialects = True
    return context


def test_constants_are_inline() -> None:
    table = torch.arange(300, dtype=torch.float32).reshape(20, 15)
    numbers, mask = table.tolist(), (table > 7).tolist()

    class Add(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.tensor(mask), x + torch.tensor(numbers), 0.0)

    captured = capture_inference(Add(), torch.zeros(20, 15))
    assert "dense_resource" not in captured.text
    parsed = parse_with_llvm(captured.text, "--mlir-print-elementsattrs-with-hex-if-larger=-1")
    assert "1.700000e+01" in parsed


def test_index_assertions_stay() -> None:
    class Take(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(10, 3))

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.table[index] + F.embedding(index, self.table) + self.table.index_select(0, index)

    captured = capture_inference(Take(), torch.tensor([1, 2]))
    parsed = parse_with_llvm(captured.text)
    assert parsed.count("cf.assert") >= 1


def test_step_counter_and_powers_are_of_the_program() -> None:
    model = MLP()
    batch = (torch.randn(4, 16), torch.randint(0, 8, (4,)))
    captured = capture_training(model, F.cross_entropy, torch.optim.AdamW(model.parameters()), batch)
    assert captured.text.count('"math.powf"') == 2
    assert "optimizer.group0.step" in [entry.name for entry in captured.state]
    # AdamW raises both betas to the power of the step number, which is a state tensor and not a constant.
    assert [kind.element for kind in captured.state if kind.name.endswith("step")] == ["f32"]


def test_operators_without_a_line_of_the_user_name_module_or_phase() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * 2

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    batch = (torch.ones(2, 3), torch.tensor([0, 1]))
    text = capture_training(
        model, torch.nn.functional.cross_entropy, optimizer, batch, CaptureOptions(clip_norm=1.0)
    ).text
    lines = {Model.forward.__code__.co_firstlineno + 1}
    updates = {"inner.0.weight", "inner.0.bias", "optimizer.group0.step"}
    assert {(file, int(line)) for file, line in LINES.findall(text)} == {(Path(__file__).name, line) for line in lines}
    assert set(NAMES.findall(text)) == {
        "loss function",
        "gradient clipping",
        *(f"update of {name}" for name in updates),
    }
    alone = capture_training(
        model.inner, torch.nn.MSELoss(), torch.optim.SGD(model.parameters()), (batch[0], torch.ones(2, 4))
    )
    assert not LINES.findall(alone.text)
    assert set(NAMES.findall(alone.text)) == {
        "module 0",
        "module 1",
        "loss function",
        "update of 0.weight",
        "update of 0.bias",
    }
