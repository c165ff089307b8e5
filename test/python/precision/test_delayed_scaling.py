# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q6) Delayed scaling: compares programs with TransformerEngine's recipe in NumPy, and tests the state in which
programs keep scales."""

from __future__ import annotations

import copy
import functools
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.precision import (
    Format,
    Hadamard,
    Recipe,
    RolePrecision,
    Rule,
    Scale,
    apply_precision,
    by_blocks,
    named_recipe,
    precision_summary,
    recipe_of,
)
from repro_mlir.precision_report import compare_recipes
from repro_mlir.precision_report.statistics import BlockStatistics
from repro_mlir.verification.dispute import LocalChannel, Prover, RecordedRun, settle
from repro_mlir.verification.operators import OperatorGraph, Tracer
from support import kit
from support.contracting_models import Checkpointed, Convolutions, Scores
from support.dispute_runs import faulty_tracer
from support.recipes import of_roles
from support.two_layers import TwoLayers, contract
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[3]

BATCH, WIDE, HIDDEN, OUT = 16, 24, 40, 12
RATE = np.float32(2.0**-6)
LAYERS = TwoLayers(BATCH, WIDE, HIDDEN, OUT, float(RATE))
MAXIMUM = {"f8E4M3FN": np.float32(448), "f8E5M2": np.float32(57344)}
STORED = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def delayed(element: str, **parameters: Any) -> Format:
    return Format(element, (None, None), Scale("delayed", **parameters))


def recipe(**parameters: Any) -> Recipe:
    forward, gradient = delayed("f8E4M3FN", **parameters), delayed("f8E5M2", **parameters)
    return of_roles(
        "delayed",
        fprop={"activation": forward, "weight": forward},
        dgrad={"gradient": gradient, "weight": forward},
        wgrad={"activation": forward, "gradient": gradient},
    )


# --- TransformerEngine's recipe ---


class Quantizer:
    """TransformerEngine's quantizer of one tensor of a module. Entry 0 of its history is the largest magnitude (amax)
    in the current step."""

    def __init__(self, element: str, history: int, margin: int, algorithm: str) -> None:
        self.element, self.margin, self.algorithm = element, margin, algorithm
        self.history = np.zeros(history, np.float32)
        self.scale = np.float32(1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.history[0] = np.max(np.abs(x), initial=self.history[0])
        greatest = MAXIMUM[self.element]
        codes = np.clip(x * self.scale, -greatest, greatest).astype(STORED[self.element])
        return codes.astype(np.float32) * (np.float32(1) / self.scale)

    def update(self) -> None:
        """Updates the scale and the history at the end of a step."""
        amax = self.history.max() if self.algorithm == "max" else self.history[0]
        scale = (MAXIMUM[self.element] / amax) / np.float32(2.0**self.margin)
        scale = scale if amax > 0 and np.isfinite(amax) else self.scale
        self.scale = np.float32(np.finfo(np.float32).max) if np.isinf(scale) else scale
        self.history = np.roll(self.history, -1)
        self.history[0] = 0

    @property
    def latest_first(self) -> np.ndarray:
        """Returns the history with the latest entry first, as in a program's state; TransformerEngine has the latest
        entry at the end."""
        return np.concatenate([self.history[:0:-1], self.history[:0]])


class Engine:
    """Computes the steps of the MLP in `LAYERS` with the quantizers of TransformerEngine."""

    def __init__(self, weights: tuple[np.ndarray, ...], **parameters: Any) -> None:
        self.weights = list(weights)
        self.quantizers = {
            f"{layer}.weight.{operand}": Quantizer("f8E5M2" if operand == "gradient" else "f8E4M3FN", **parameters)
            for layer in (0, 2)
            for operand in ("activation", "weight", "gradient")
        }

    def step(self, x: np.ndarray, target: np.ndarray) -> None:
        of = self.quantizers
        first, second = self.weights
        read_x, read_first = of["0.weight.activation"](x), of["0.weight.weight"](first)
        hidden = contract(read_x, read_first)
        active = np.where(hidden <= 0, np.float32(0), hidden)
        read_active, read_second = of["2.weight.activation"](active), of["2.weight.weight"](second)
        gradient = of["2.weight.gradient"](target)
        g_second = contract(gradient.T, read_active.T)
        d_active = contract(gradient, read_second.T)
        d_hidden = of["0.weight.gradient"](np.where(active <= 0, np.float32(0), d_active))
        g_first = contract(d_hidden.T, read_x.T)
        self.weights = [first - RATE * g_first, second - RATE * g_second]
        for each in of.values():
            each.update()


@pytest.fixture(scope="module")
def program() -> repro_mlir.Program:
    return LAYERS.captured()


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns batches with growing and shrinking numbers, zeros, tiny numbers, infinities and, at the end, NaNs."""
    rng = np.random.default_rng(3)
    found = []
    for scale in (1.0, 64.0, 0.0, 2.0**-20, 1e-39, 1.0, 1.0, 1.0, 2.0**-9, 1.0, 1.0):
        x, target = rng.standard_normal((BATCH, WIDE)) * scale, rng.standard_normal((BATCH, OUT)) * scale
        found.append((x.astype(np.float32), target.astype(np.float32)))
    found[5][0][3, 2] = -np.inf
    found[6][1][2, 1] = np.inf
    found[9][1][4, 5] = np.nan
    found[10][0][0, 0] = np.nan
    return found


PARAMETERS: list[dict[str, Any]] = [
    {"history": 3, "margin": 0, "algorithm": "max"},
    {"history": 1, "margin": 2, "algorithm": "max"},
    {"history": 4, "margin": -3, "algorithm": "most_recent"},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_Q6_steps_are_those_of_transformer_engine(parameters: dict[str, Any], program: repro_mlir.Program) -> None:
    changed = apply_precision(program, recipe(**parameters))
    executable, state = repro_mlir.compile(changed, "reference"), changed.initial_state()
    engine = Engine(program.initial, **parameters)
    seen = defaultdict(list)
    with np.errstate(all="ignore"):
        for number, batch in enumerate(batches()):
            engine.step(*batch)
            state, _ = executable(state, RATE, *batch)
            for kind, value in zip(program.state, engine.weights, strict=True):
                np.testing.assert_array_equal(state[kind.name], value, err_msg=f"{number} {kind.name}")
            for name, each in engine.quantizers.items():
                np.testing.assert_array_equal(state[f"scale.{name}"], each.scale, err_msg=f"{number} {name}")
                history = np.asarray(state[f"amax_history.{name}"])
                # The oldest entry is not compared: TransformerEngine has already dropped it to make room for the next
                # entry.
                np.testing.assert_array_equal(history[: len(history) - 1], each.latest_first)
                seen[name].append(float(each.scale))
    # Checks that the batches cover all cases: a scale that stays the same, a scale that grows, and the greatest
    # possible scale.
    scales = seen["0.weight.activation"]
    assert len(set(scales)) > 2
    assert (scales[2] == scales[1]) or parameters["history"] > 1
    assert (float(np.finfo(np.float32).max) in scales) == (parameters["history"] == 1 or "recent" in str(parameters))


def test_Q6_the_names_of_the_state(program: repro_mlir.Program) -> None:
    changed = apply_precision(program, recipe(history=5))
    names = [f"{layer}.weight.{operand}" for layer in (0, 2) for operand in ("activation", "weight")]
    names += ["2.weight.gradient", "0.weight.gradient"]
    added = changed.state[len(program.state) :]
    assert [(kind.name, kind.shape) for kind in added] == [
        each for name in names for each in ((f"amax_history.{name}", (5,)), (f"scale.{name}", ()))
    ]
    values = dict(zip((kind.name for kind in added), changed.initial[len(program.state) :], strict=True))
    assert all((value == (1 if name.startswith("scale") else 0)).all() for name, value in values.items())
    # Activation, weight and gradient of each of the two layers are quantized once.
    assert changed.text.count("repro.quantize") == 6 + 2  # and 2 transposed weights of the forward pass
    assert LAYERS.captured(precision=recipe(history=5)).hash == changed.hash
    assert apply_precision(program, recipe()).hash == apply_precision(program, "fp8_delayed").hash
    default = apply_precision(program, recipe(history=16, margin=0, algorithm="max"))
    assert default.hash == apply_precision(program, "fp8_delayed").hash


# --- The same bits everywhere ---


TARGETS = (*(f"cpu:{level}" for level in kit.levels()), "ptx-emulator")


@pytest.mark.parametrize("target", TARGETS)
def test_Q6_compiled_steps_have_the_bits_of_the_reference(target: str, program: repro_mlir.Program) -> None:
    changed = apply_precision(program, recipe(**PARAMETERS[0]))
    runs = [(repro_mlir.compile(changed, "reference"), changed.initial_state())]
    runs += [(repro_mlir.compile(changed, target, threads), changed.initial_state()) for threads in (1, 2)]
    for batch in batches():
        for executable, state in runs:
            state.update(executable(state, RATE, *batch)[0])
        for _, state in runs[1:]:
            for name, value in runs[0][1].items():
                assert np.array(state[name]).tobytes() == np.array(value).tobytes(), name


class Twice(nn.Module):
    """A network that applies one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).relu())


def step_program(model: Callable[[], nn.Module], shape: tuple[int, ...], asked: Recipe) -> tuple[Any, list[Any]]:
    torch.manual_seed(0)
    module = model()
    given, target = torch.randn(shape), torch.randint(4, shape[:1])
    optimizer = torch.optim.SGD(module.parameters(), lr=float(RATE))
    program = repro_mlir.capture(module, F.cross_entropy, optimizer, (given, target))
    return apply_precision(program, asked, seed=3), [RATE, given.numpy(), target.numpy()]


def states(program: Any, inputs: list[Any], target: str, steps: int = 3) -> dict[str, np.ndarray]:
    executable, state = repro_mlir.compile(program, target), program.initial_state()
    for _ in range(steps):
        state, _ = executable(state, *inputs)
    return {name: np.array(value) for name, value in state.items()}


def rounded(element: str, rounding: str, **parameters: Any) -> Format:
    given = {"element": element, "tile": [None, None], "scale": {"rule": "delayed", **parameters}, "rounding": rounding}
    return recipe_of({"fprop": {"weight": given}}).roles["fprop"].operands["weight"]


TURNED = Format("f4E2M1FN", (None, None), Scale("delayed", history=2), hadamard=Hadamard((1, -1) * 8))
MIXED = of_roles(
    "mixed",
    fprop={"activation": delayed("mxint8"), "weight": delayed("f6E2M3FN", margin=1)},
    dgrad={"gradient": rounded("f8E5M2", "sr8"), "weight": rounded("f8E4M3FN", "away")},
    wgrad={"activation": TURNED, "gradient": TURNED},
    product={"left": delayed("f8E5M2", algorithm="most_recent"), "right": Format("tf32")},
)


@pytest.mark.parametrize(
    ("model", "shape", "asked"),
    [
        (functools.partial(Convolutions, groups=1), (16, 3, 6, 6), named_recipe("fp8_delayed")),
        (Scores, (3, 16, 16), MIXED),
        (Checkpointed, (16, 16), MIXED.with_rules(Rule("head.*", skip=True))),
        (Checkpointed, (16, 16), named_recipe("qat_fp8_delayed")),
        (Twice, (8, 4), named_recipe("fp8_delayed")),
    ],
)
def test_Q6_other_layers_have_the_same_bits_everywhere(
    model: type[nn.Module], shape: tuple[int, ...], asked: Recipe
) -> None:
    if model is Checkpointed and asked.name == "mixed":
        asked = asked.with_rules(Rule("*", roles={"dgrad": RolePrecision({"gradient": delayed("f8E5M2")})}))
    program, inputs = step_program(model, shape, asked)
    expected, found = states(program, inputs, "reference"), states(program, inputs, "cpu")
    for name, value in expected.items():
        assert value.tobytes() == found[name].tobytes(), name
    moved = [name for name, value in expected.items() if name.startswith("scale.") and value != 1]
    assert len(moved) == sum(name.startswith("scale.") for name in expected) > 0


def test_Q6_each_layer_has_its_own_scale_of_a_tensor_that_several_read() -> None:
    program, inputs = step_program(Scores, (3, 16, 16), named_recipe("fp8_delayed"))
    found = states(program, inputs, "reference")
    scales = [float(found[f"scale.{layer}.weight.activation"]) for layer in "qkv"]
    assert len(set(scales)) == 1 and scales[0] != 1


def test_Q6_a_layer_that_is_used_twice_has_the_greatest_amax() -> None:
    program, inputs = step_program(Twice, (8, 4), named_recipe("fp8_delayed"))
    names = [kind.name for kind in program.state if kind.name.startswith("scale.")]
    assert names == [f"scale.layer.weight.{operand}" for operand in ("activation", "weight", "gradient")]
    inputs[1] = np.zeros_like(inputs[1])
    module = Twice()
    hidden = torch.from_numpy(program.initial[1]).relu()
    assert [name for name, _ in module.named_parameters()] == ["layer.weight", "layer.bias"]
    found = states(program, inputs, "reference", steps=1)
    # The layer reads zeros at its first use, so the amax of its input comes from the second use.
    assert found["amax_history.layer.weight.activation"][0] == hidden.max().item() > 0


def test_Q6_recomputed_layers_use_the_same_scales() -> None:
    results = []
    for again in (True, False):
        asked = named_recipe("fp8_delayed")
        program, inputs = step_program(lambda again=again: Checkpointed(again), (6, 16), asked)
        results.append(states(program, inputs, "cpu"))
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        assert value.tobytes() == results[1][name].tobytes(), name


def test_Q6_a_second_format_of_an_operand_has_a_scale_of_its_own(program: repro_mlir.Program) -> None:
    other = {"wgrad": RolePrecision({"activation": delayed("f8E5M2"), "gradient": Format("bf16")})}
    asked = Recipe("two", {**recipe().roles, **other}, (Rule("2.*", skip=True),))
    names = [kind.name for kind in apply_precision(program, asked).state if kind.name.startswith("scale.")]
    assert names == ["scale.0.weight.activation", "scale.0.weight.weight", "scale.0.weight.wgrad.activation"]
    products = of_roles("products", product={"left": delayed("f8E5M2")})
    attention, _ = step_program(Scores, (3, 16, 16), products)
    names = [kind.name for kind in attention.state if kind.name.startswith("scale.")]
    assert names == ["scale.product.0.left", "scale.product.1.left"]


def test_Q6_the_name_of_a_scale_is_that_of_every_form_of_the_step() -> None:
    """While the first layer is frozen, the second one has no dgrad. The scale of its wgrad has the same name in both
    programs."""
    formats = {"dgrad": "f8E5M2", "wgrad": "f8E4M3FN"}
    asked = Recipe("two", {role: RolePrecision({"gradient": delayed(name)}) for role, name in formats.items()})
    objects = given()
    trainer = trainer_of(objects, precision=asked)
    forms = []
    for is_trained in (False, True, False):
        objects[0][0].requires_grad_(is_trained)
        trainer.step(*batch())
        forms.append({name[6:]: float(value) for name, value in trainer.state.items() if name.startswith("scale.")})
    wide = "2.weight.wgrad.gradient"
    assert [*forms[0]] == [*forms[2]] == [wide] and {*forms[1]} == {
        "0.weight.wgrad.gradient",
        "2.weight.gradient",
        wide,
    }
    # The scales differ because the largest values of the formats do: 57344 and 448.
    assert forms[1]["2.weight.gradient"] > 64 * forms[1][wide]


# --- The state of a trainer ---


def given(wide: int = 32) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(wide, 48), nn.ReLU(), nn.Linear(48, 16))
    return model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(32, 32, generator=rng), torch.randint(16, (32,), generator=rng)


def trainer_of(objects: tuple[Any, ...] | None = None, **options: Any) -> repro_mlir.Trainer:
    return repro_mlir.Trainer(*(objects or given()), **({"precision": "fp8_delayed", "target": "reference"} | options))


def test_Q6_trained_states_are_equal_on_levels_and_numbers_of_threads() -> None:
    hashes = set()
    for level in kit.levels():
        for threads in (1, 2):
            trainer = trainer_of(target=f"cpu:{level}", threads=threads)
            losses = [trainer.step(*batch(i % 2)) for i in range(20)]
            assert losses[-1] < losses[0]
            hashes.add(trainer.state_hash())
    assert len(hashes) == 1


def test_checkpoints_have_scales_and_histories(tmp_path: Path) -> None:
    trainer = trainer_of()
    assert [*trainer.state_dict()["precision"]] == ["definition"]
    losses = [trainer.step(*batch(i)) for i in range(2)]
    trainer.save_checkpoint(tmp_path / "run.checkpoint")
    kept = copy.deepcopy(trainer.state_dict())
    assert sorted(kept["precision"])[:1] == ["amax_history.0.weight.activation"]
    assert len(kept["precision"]) == 13
    losses += [trainer.step(*batch(i)) for i in range(2, 4)]
    from_file, from_dict = trainer_of(), trainer_of()
    from_file.load_checkpoint(tmp_path / "run.checkpoint")
    from_dict.load_state_dict(kept)
    for other in (from_file, from_dict):
        assert [other.step(*batch(i)) for i in range(2, 4)] == losses[2:]
        assert other.state_hash() == trainer.state_hash()
    # A trainer that does not load the scales and histories computes another loss in the third step.
    anew = trainer_of()
    anew.load_state_dict(kept | {"precision": {}})
    assert anew.step(*batch(2)) != losses[2]
    # The trainer that saved the state can load it, too, although the trainer has made more steps since.
    trainer.load_state_dict(kept)
    assert trainer.evaluate(*batch(2)) == trainer.step(*batch(2)) == losses[2]
    assert trainer.evaluate(*batch(3)) == losses[3]


def test_a_state_without_scales_is_refused() -> None:
    trainer = trainer_of()
    trainer.step(*batch())
    before = trainer.state_hash()
    state = trainer.state_dict()
    name, scale = "amax_history.0.weight.activation", "scale.0.weight.activation"
    scales = state["precision"]
    only = {"definition": scales["definition"]}
    without = {key: value for key, value in state.items() if key != "precision"}
    for changed, message in (
        (without, "the state has no precision, which the trainer keeps"),
        (state | {"precision": []}, "precision: expected a dict of tensors, got a list"),
        (state | {"precision": {"x": torch.zeros(())}}, "precision: the state has other settings than the trainer"),
        (state | {"precision": only | {"x": torch.zeros(())}}, "precision: unexpected x"),
        (state | {"precision": only | {"scale.1.weight.weight": torch.ones(())}}, "unexpected scale.1.weight.weight"),
        (state | {"precision": only | {"scale.0.weight.other": torch.ones(())}}, "unexpected scale.0.weight.other"),
        (state | {"precision": scales | {name: torch.zeros(())}}, rf"{name}: expected shape \[16\], got \[\]"),
        (state | {"precision": scales | {name: torch.zeros(8)}}, rf"{name}: expected shape \[16\], got \[8\]"),
        (state | {"precision": scales | {name: torch.zeros(16).double()}}, "expected elements of f32"),
        (state | {"precision": scales | {name: torch.full((16,), -2.0)}}, f"{name}: expected magnitudes .*, got -2.0"),
        (state | {"precision": scales | {name: torch.zeros(16, device="meta")}}, f"{name}: .*meta"),
        (state | {"precision": only | {name: scales[name]}}, "precision: missing scale.0.weight.activation"),
        (state | {"precision": scales | {scale: torch.tensor(-1.0)}}, f"{scale}: expected a finite .*, got -1.0"),
        (state | {"precision": scales | {scale: torch.tensor(torch.nan)}}, f"{scale}: expected a finite number"),
    ):
        with pytest.raises(ReproError, match=message):
            trainer.load_state_dict(changed)
        assert trainer.state_hash() == before
    with pytest.raises(ReproError, match="the state has precision, but the trainer keeps none"):
        trainer_of(precision="mxfp8").load_state_dict(state)
    for other in (recipe(history=8), recipe(algorithm="most_recent")):
        with pytest.raises(ReproError, match="precision: the state has other settings than the trainer"):
            trainer_of(precision=other).load_state_dict(state)


@pytest.mark.parametrize("first", [True, False])
def test_a_layer_that_is_frozen_for_some_steps(first: bool, tmp_path: Path) -> None:
    """A run in which a layer is frozen for some steps can be resumed from each of its checkpoints."""
    frozen = (first, not first, first)
    objects = given()
    whole = trainer_of(objects)
    for number, is_frozen in enumerate(frozen):
        objects[0][2].requires_grad_(not is_frozen)
        whole.step(*batch(number))
        whole.save_checkpoint(tmp_path / f"{number}.safetensors")
    for number in range(2):
        objects = given()
        again = trainer_of(objects)
        objects[0][2].requires_grad_(not frozen[number])
        again.load_checkpoint(tmp_path / f"{number}.safetensors")
        for later in range(number + 1, 3):
            objects[0][2].requires_grad_(not frozen[later])
            again.step(*batch(later))
        assert again.state_hash() == whole.state_hash()


def test_receipts_have_scales_and_histories(tmp_path: Path) -> None:
    path = tmp_path / "receipt"
    with trainer_of(receipt=path) as trainer:
        for i in range(3):
            trainer.step(*batch(i))
        assert float(trainer.state["scale.0.weight.activation"]) != 1
    assert repro_mlir.verify(path, target="cpu").steps == 3
    with trainer_of(receipt=repro_mlir.ReceiptOptions(path, resume=True)) as resumed:
        resumed.fit([batch(i) for i in range(4)], 4)
    whole = trainer_of()
    for i in range(4):
        whole.step(*batch(i))
    assert resumed.state_hash() == whole.state_hash()


@pytest.mark.parametrize(("name", "bit"), [("repro.quantize", 2), ("tensor.concat", 30)])
def test_a_dispute_ends_at_the_operator_of_a_scale(name: str, bit: int, program: repro_mlir.Program) -> None:
    changed = apply_precision(program, recipe(history=3))
    graph = OperatorGraph(changed)
    operator = next(each for each in graph.operators if each.name == name)
    inputs = [[np.array(RATE), *each] for each in batches()[:3]]

    def run(second: Tracer) -> RecordedRun:
        def tracer(now: int) -> Tracer:
            return second if now == 2 else right

        return RecordedRun(changed, inputs, lambda now, arrays: tracer(now).results(arrays), graph=graph, tracer=tracer)

    right = Tracer(graph)
    runs = run(right), run(faulty_tracer(graph, operator.index, bit))
    verdict = settle(*(LocalChannel(Prover(each)) for each in runs))
    assert (verdict.wrong, verdict.step) == (("B",), 2)
    assert verdict.operator is not None and verdict.operator.index == operator.index


@pytest.mark.parametrize("target", ["reference", "ptx-emulator"])
def test_an_evaluation_reads_the_scales_of_the_steps_so_far(target: str) -> None:
    model, loss, optimizer = given()
    average = torch.optim.swa_utils.AveragedModel(model)
    trainer = repro_mlir.Trainer(model, loss, optimizer, precision="fp8_delayed", average=average, target=target)
    assert trainer.evaluate(*batch()) == trainer.step(*batch())
    for i in range(2):
        before = trainer.state_hash()
        expected = trainer.evaluate(*batch(i))
        assert trainer.state_hash() == before
        assert trainer.step(*batch(i)) == expected
    # The average gets the parameters of the model, so their losses must be equal.
    with torch.no_grad():
        for own, other in zip(model.parameters(), average.module.parameters(), strict=True):
            other.copy_(own)
    assert trainer.evaluate(*batch(), average=True) == trainer.evaluate(*batch())
    assert trainer.evaluate(*batch()) != repro_mlir.Trainer(model, loss, optimizer).evaluate(*batch())


def test_Q6_a_step_with_other_products_is_refused() -> None:
    """The names of the scales of products contain only numbers. If the first products were removed, the others would
    get their numbers and scales, so the step is refused."""

    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.is_wide = nn.Linear(32, 16), True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            y = y + y @ y.T @ y if self.is_wide else y
            return y @ (y.T @ y)

    model = Products()
    asked = of_roles("products", product={"left": delayed("f8E4M3FN")})
    trainer = trainer_of((model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1)), precision=asked)
    trainer.step(*batch())
    before = trainer.state_hash()
    model.is_wide = False
    with pytest.raises(ReproError, match=r"\(Q6\) the step has other products than the steps so far, which had scale"):
        trainer.step(*batch())
    model.is_wide = True
    assert trainer.state_hash() == before
    trainer.step(*batch())


def test_an_evaluation_has_no_scales_of_products() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(32, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            return y @ y.T @ y

    model = Product()
    asked = of_roles("products", product={"left": delayed("f8E4M3FN")})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = repro_mlir.Trainer(model, F.cross_entropy, optimizer, precision=asked, target="reference")
    trainer.step(*batch())
    with pytest.raises(
        ReproError,
        match=r"\(Q6\) expected scales of the present tensor for products: an evaluation may have other products",
    ):
        trainer.evaluate(*batch())


def test_an_evaluation_of_untrained_layers_is_refused() -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 16), nn.Linear(32, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x) if self.training else self.second(x)

    model = Other()
    optimizer = torch.optim.SGD(model.first.parameters(), lr=0.1)
    trainer = repro_mlir.Trainer(model, F.cross_entropy, optimizer, precision="fp8_delayed", target="reference")
    trainer.step(*batch())
    with pytest.raises(ReproError, match=r"the steps so far have no scale\.second.weight.activation"):
        trainer.evaluate(*batch())


SCRIPT = """
import torch
def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.5), batches()
def batches():
    rng = torch.Generator().manual_seed(1)
    while True:
        yield torch.randn(32, 8, generator=rng), torch.randint(4, (32,), generator=rng)
"""


def test_scripts_are_compared_with_eager_and_between_targets(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    # In PyTorch's eager mode nothing is quantized, so the results of the first product differ.
    difference = repro_mlir.diff(str(script), targets=("eager", "cpu"), steps=1, precision="fp8_delayed")
    assert difference is not None
    assert repro_mlir.diff(str(script), targets=("reference", "cpu"), steps=2, precision="fp8_delayed") is None


def test_a_report_of_recipes(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    by_codes = by_blocks(Recipe("codes", {"fprop": recipe().roles["fprop"]}))
    report = compare_recipes(str(script), ["fp8_delayed", "fp8_tensorwise", by_codes], steps=4, samples=4)
    assert [run.recipe for run in report.runs] == ["f32", "fp8_delayed", "fp8_tensorwise", "blocks_codes"]
    assert [len(each.operands) for each in report.runs[3].samples[-1].contractions[:2]] == [2, 2]
    trainer = repro_mlir.Trainer(*script_objects(script), precision="fp8_delayed")
    losses = trainer.fit(load_training(str(script)).batches, 4)
    assert list(report.runs[1].losses) == losses
    assert report.runs[1].state == trainer.state_hash()
    first, last = report.runs[1].samples[0], report.runs[1].samples[-1]
    of_gradient = [
        next(each for each in sample.contractions[-1].operands if each.name == "gradient").statistics
        for sample in (first, last)
    ]
    for statistics, greatest in zip(of_gradient, (15, -1), strict=True):
        # All tensors have the scale 1 in the first step.
        assert statistics.range is not None and statistics.range.lowest == statistics.range.least
        assert (statistics.range.greatest == 15) == (greatest == 15) and statistics.range.greatest <= greatest
        assert statistics.blocks == BlockStatistics(1, 0, 0, 0, 0)


def script_objects(script: Path) -> tuple[Any, ...]:
    given = load_training(str(script))
    return given.model, given.loss_fn, given.optimizer


# --- What is refused ---


def test_inference_and_microbatches_are_refused() -> None:
    model = given()[0]
    with pytest.raises(ReproError, match=r"\(Q6\) inference has no steps"):
        repro_mlir.capture(model, batch()[0], precision="fp8_delayed")
    with pytest.raises(ReproError, match=r"\(Q6\) inference has no steps"):
        apply_precision(repro_mlir.capture(model, batch()[0]), "fp8_delayed")
    with pytest.raises(ReproError, match=r"\(Q6\) expected no microbatches with delayed scaling"):
        trainer_of(microbatches=2).prepare(*batch())
    # A recipe may name roles that the program lacks, such as dgrad in inference.
    gradients = Recipe("g", {"fprop": RolePrecision({"weight": Format("bf16")}), "dgrad": recipe().roles["dgrad"]})
    assert len(repro_mlir.capture(model, batch()[0], precision=gradients).state) == 4


def test_a_name_that_the_state_has_is_refused() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 16)
            self.scale = nn.ParameterDict({"layer": nn.ParameterDict({"weight": nn.ParameterDict()})})
            self.scale["layer"]["weight"]["activation"] = nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale["layer"]["weight"]["activation"]

    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        ReproError, match=r"expected state tensors with different names, got 'scale\.layer\.weight\.activation' twice"
    ):
        repro_mlir.capture(model, F.cross_entropy, optimizer, batch(), precision="fp8_delayed")


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"history": 0}, "expected history as a whole number from 1 to 65536, got 0"),
        ({"history": 65537}, "expected history as a whole number"),
        ({"history": 2.0}, "expected history as a whole number"),
        ({"margin": 33}, "expected margin as a whole number from -32 to 32, got 33"),
        ({"algorithm": "mean"}, "expected algorithm among max, most_recent, got 'mean'"),
        ({"least": 1.0}, "the rule delayed has no parameter least"),
        ({"length": 3}, "unknown field 'length'"),
    ],
)
def test_other_parameters_are_refused(scale: dict[str, Any], message: str) -> None:
    element = {"element": "f8E4M3FN", "tile": [None, None], "scale": {"rule": "delayed", **scale}}
    with pytest.raises(ReproError, match=message):
        recipe_of(json.dumps({"fprop": {"weight": element}}))


def test_other_formats_are_refused() -> None:
    with pytest.raises(ReproError, match=r"\(Q6\) expected no tile for a scale of former steps"):
        Format("f8E4M3FN", (1, None), Scale("delayed"))
    with pytest.raises(ReproError, match="the rule float8 has no parameter history"):
        Scale("float8", history=3)


def test_a_summary_names_the_rule(program: repro_mlir.Program) -> None:
    summary = precision_summary(program, "fp8_delayed")
    assert "activation f8E4M3FN allxall delayed rne" in str(summary)
    assert not summary.untouched
