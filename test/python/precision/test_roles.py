# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Roles of the contractions of a step, for programs of all frontends."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.precision import apply_precision, precision_summary
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import read_signature
from torch import nn
from torch.nn import functional as F

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def roles(program: repro_mlir.Program) -> Counter[tuple[str | None, str | None]]:
    return Counter((each.role, each.layer) for each in repro_mlir.contractions(program))


def step(model: nn.Module, batch: Any, optimizer: Any = None, loss: Any = F.cross_entropy, **options: Any) -> Any:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    return repro_mlir.capture(model, loss, optimizer, batch, **options)


def test_a_perceptron_has_no_dgrad_in_its_first_layer() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    program = step(model, (torch.randn(6, 8), torch.randint(4, (6,))))
    assert roles(program) == {
        ("fprop", "0.weight"): 1,
        ("fprop", "2.weight"): 1,
        ("dgrad", "2.weight"): 1,
        ("wgrad", "2.weight"): 1,
        ("wgrad", "0.weight"): 1,
    }
    inference = repro_mlir.capture(model, torch.randn(6, 8))
    assert roles(inference) == {("fprop", "0.weight"): 1, ("fprop", "2.weight"): 1}


def test_convolutions_with_groups_strides_and_clipping() -> None:
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2), nn.Flatten(), nn.Linear(128, 4)),
    )
    optimizer = torch.optim.Adam(model.parameters())
    found = roles(step(model, (torch.randn(2, 3, 8, 8), torch.randint(4, (2,))), optimizer, clip_norm=1.0))
    assert {role for role, _ in found} == {"fprop", "dgrad", "wgrad"}
    assert {layer for role, layer in found if role == "wgrad"} == {"0.weight", "3.weight", "5.weight"}
    # The dgrad of a convolution with stride 2 consists of one contraction for each of the four phases of the stride.
    assert found["dgrad", "3.weight"] == 4
    assert found["dgrad", "0.weight"] == 0


def test_a_language_model_with_tied_weights_and_dropout() -> None:
    spec = importlib.util.spec_from_file_location("names_gpt", EXAMPLES / "names_gpt.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.NamesGPT()
    letters = torch.zeros(2, module.CONTEXT, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters())
    found = roles(step(model, (letters, letters), optimizer, module.next_letter_loss, clip_norm=1.0))
    weights = [f"blocks.{i}.{name}.weight" for i in range(4) for name in ("qkv", "mix", "widen", "narrow")]
    for weight in (*weights, "letters.weight"):
        assert [found[role, weight] for role in ("fprop", "dgrad", "wgrad")] == [1, 1, 1], weight
    # Products without a weight: scores and result of attention, and their gradients.
    assert found["product", None] == 8
    assert found["other", None] == 16
    assert sum(found.values()) == 3 * 17 + 24


class Attention(nn.Module):
    """Attention with three linear layers that read the step's input. The input needs no gradient, so the layers have no
    dgrad."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)).mean(1)


@pytest.mark.parametrize("is_deep", [False, True])
def test_linears_of_one_input_are_distinguished(is_deep: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), Attention()) if is_deep else Attention()
    found = roles(step(model, (torch.randn(2, 6, 8), torch.randint(8, (2,)))))
    prefix = "2." if is_deep else ""
    for name in "qkv":
        assert found["fprop", f"{prefix}{name}.weight"] == found["wgrad", f"{prefix}{name}.weight"] == 1
        assert found["dgrad", f"{prefix}{name}.weight"] == is_deep
    assert found["product", None] == 2


class Applied(nn.Module):
    """A model that applies one linear layer three times. If `is_frozen`, the input of the first use needs no
    gradient."""

    def __init__(self, is_frozen: bool) -> None:
        super().__init__()
        self.before = nn.Linear(8, 8, bias=False).requires_grad_(not is_frozen)
        self.shared = nn.Linear(8, 8)
        self.is_frozen = is_frozen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x).tanh() if self.is_frozen else x
        for _ in range(3):
            x = self.shared(x).tanh()
        return x


@pytest.mark.parametrize("is_frozen", [False, True])
def test_each_use_of_a_weight_has_a_wgrad(is_frozen: bool) -> None:
    model = Applied(is_frozen)
    optimizer = torch.optim.SGD(model.shared.parameters(), lr=0.1)
    program = step(model, (torch.randn(6, 8), torch.randint(8, (6,))), optimizer)
    found = roles(program)
    assert [found[role, "shared.weight"] for role in ("fprop", "dgrad", "wgrad")] == [3, 2, 3]
    assert found["other", None] == 0
    wgrads = [each for each in precision_summary(program, "mxfp8").contractions if each.role == "wgrad"]
    assert [each.is_untouched for each in wgrads] == [False] * 3


def test_a_recurrent_layer_with_a_given_state() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(8, 8, batch_first=True)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.cell(x, (h, c))[0][:, -1]

    given = torch.randn(4, 3, 8), torch.randn(1, 4, 8), torch.randn(1, 4, 8), torch.randint(8, (4,))
    found = roles(step(Recurrent(), given))
    assert [found[role, "cell.weight_hh_l0"] for role in ("fprop", "dgrad", "wgrad")] == [3, 2, 3]
    assert found["other", None] == 0


class Orthogonalized(torch.optim.Optimizer):
    """An optimizer that, like Muon, multiplies gradients by each other and by the weight."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if "moment" not in state:
                    state["moment"] = torch.zeros_like(parameter)
                state["moment"].mul_(0.9).add_(parameter.grad)
                x = state["moment"] / (state["moment"].norm() + 1e-7)
                x = 1.5 * x - 0.5 * (x @ x.mT) @ x
                parameter.sub_(group["lr"] * (x + 0.01 * (x @ x.mT) @ parameter))


def test_products_of_an_optimizer_are_none_of_the_layers() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 8, bias=False))
    found = roles(step(model, (torch.randn(6, 8), torch.randint(8, (6,))), Orthogonalized(model.parameters())))
    layers = {(role, layer): count for (role, layer), count in found.items() if role in ("fprop", "dgrad", "wgrad")}
    assert layers == {
        ("fprop", "0.weight"): 1,
        ("fprop", "2.weight"): 1,
        ("dgrad", "2.weight"): 1,
        ("wgrad", "2.weight"): 1,
        ("wgrad", "0.weight"): 1,
    }
    assert found["other", None] >= 6
    assert ("product", None) not in found


def test_recomputed_layers_keep_their_roles() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
            self.head = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False))

    program = step(Checkpointed(), (torch.randn(6, 8), torch.randint(4, (6,))))
    assert "repro.barrier" in program.text
    found = roles(program)
    assert found["fprop", "inner.0.weight"] == 2
    for layer in ("inner.0.weight", "inner.2.weight", "head.weight"):
        assert found["wgrad", layer] == 1, layer
    assert found["dgrad", "inner.2.weight"] == found["dgrad", "head.weight"] == 1
    assert {role for role, _ in found} == {"fprop", "dgrad", "wgrad"}


def test_a_step_of_jax() -> None:
    jax = pytest.importorskip("jax")
    from repro_mlir.frontends.jax import capture

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ params["first"]["kernel"])
        return ((hidden @ params["second"]["kernel"] - y) ** 2).mean()

    def train(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss

    rng = torch.Generator().manual_seed(0)
    first, second = torch.randn(8, 16, generator=rng).numpy(), torch.randn(16, 4, generator=rng).numpy()
    params = {"first": {"kernel": first}, "second": {"kernel": second}}
    x, y = torch.randn(6, 8).numpy(), torch.randn(6, 4).numpy()
    program = capture(train, params, x, y, state=1)
    found = roles(program)
    names = [kind.name for kind in program.state]
    assert found == {
        ("fprop", names[0]): 1,
        ("wgrad", names[0]): 1,
        ("fprop", names[1]): 1,
        ("dgrad", names[1]): 1,
        ("wgrad", names[1]): 1,
    }
    assert apply_precision(program, "mxfp8").hash != program.hash


WITHOUT_LOSS = """
func.func @main(%w: tensor<4x8xf32> {repro.name = "w"}, %x: tensor<2x8xf32>, %o: tensor<2x4xf32>)
    -> (tensor<4x8xf32>, tensor<2x4xf32>) attributes {repro.num_state = 1 : i64} {
  %e = tensor.empty() : tensor<4x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %d = arith.addf %a, %a : f32
    linalg.yield %d : f32
  } -> tensor<4x8xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<2x8xf32>, tensor<4x8xf32>) outs(%o : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<2x4xf32>
  return %n, %0 : tensor<4x8xf32>, tensor<2x4xf32>
}
"""


def test_a_step_without_a_loss_has_no_roles() -> None:
    program = read_signature(to_bytes(WITHOUT_LOSS))
    assert roles(program) == {(None, None): 1}
    with pytest.raises(ReproError, match="changes a weight, state #0, and no result is the loss"):
        apply_precision(program, "bf16")
    with pytest.raises(ReproError, match='expected a result with the name "cost"'):
        precision_summary(program, "bf16", loss="cost")
