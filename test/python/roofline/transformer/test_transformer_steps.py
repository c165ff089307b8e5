# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests predicted steps of transformers: memory and time against other formulas, refused settings, and the command."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.machines import ACCELERATOR_NUMBERS
from repro_mlir.roofline.transformer import (
    PRESETS,
    Kernels,
    Parallelism,
    Share,
    Training,
    predict_decoding,
    predict_training,
    read_transformer,
    report,
    training_memory,
)

A100 = read_machine("a100")
assert isinstance(A100, Accelerator)
LLAMA, GPT = PRESETS["llama3-8b"], PRESETS["megatron-22b"]


def test_parameters_are_those_that_were_published() -> None:
    published = {
        "gpt2-124m": 124e6, "llama2-7b": 6.74e9, "llama3-8b": 8.03e9, "llama3-70b": 70.6e9, "llama3-405b": 405.9e9,
        "mixtral-8x7b": 46.7e9, "qwen3-30b-a3b": 30.5e9, "gpt3-175b": 175e9,
    }  # fmt: skip
    for name, parameters in published.items():
        assert PRESETS[name].parameters == pytest.approx(parameters, rel=0.005), name


def test_a_pipeline_has_its_bubble() -> None:
    """For p stages of equal work and m microbatches, the bubble takes (p-1)/m of the time of the work. With v
    interleaved stages per device, the bubble is v times smaller."""
    config = replace(GPT, vocabulary=1, dropout=False)
    found = {}
    for parts in (1, 2):
        parallelism = Parallelism(pipeline=4, virtual_stages=parts)
        prediction = predict_training(config, A100, Training(16, 1, parallelism=parallelism))
        work = sum(prediction.causes[each] for each in ("projection", "attention", "vector", "head"))
        found[parts] = prediction.causes["bubble"] / work
    assert predict_training(config, A100, Training(16)).causes["bubble"] == 0
    assert found[1] == pytest.approx(3 / 16, rel=0.02)
    assert found[2] == pytest.approx(3 / 32, rel=0.02)


def test_settings_that_take_longer() -> None:
    def seconds(**changes: Any) -> float:
        given = {"batch": 64, "parallelism": Parallelism(data=8)} | changes
        return predict_training(LLAMA, A100, Training(**given)).seconds

    base = seconds()
    assert seconds(recomputation="full") > seconds(recomputation="operators") > base
    assert seconds(is_fused=False) > base
    gpt2 = PRESETS["gpt2-124m"]
    for config in (gpt2, replace(gpt2, dropout=True), replace(gpt2, gated=True)):
        fused, unfused = (
            predict_training(config, A100, Training(1, is_fused=fused)).seconds for fused in (True, False)
        )
        assert unfused > fused
    assert seconds(parallelism=Parallelism(data=8, overlaps_data=False)) > base
    assert seconds(batch=128) > 1.9 * base
    tensor = Parallelism(tensor=8)
    assert seconds(parallelism=tensor) > seconds(parallelism=replace(tensor, overlaps_tensor=True))
    assert seconds(parallelism=tensor) > seconds(parallelism=replace(tensor, sequence_parallel=True))
    assert seconds(precision="f32") > seconds(precision="tf32") > base
    far = replace(A100, node_devices=1)
    assert predict_training(LLAMA, far, Training(64, parallelism=tensor)).seconds > seconds(parallelism=tensor)


@pytest.mark.parametrize(
    ("precision", "gradient_bytes", "bytes"), [("f32", 4, 32), ("tf32", 4, 32), ("bf16", 4, 34), ("bf16", 2, 30)]
)
def test_an_update_reads_and_writes(precision: str, gradient_bytes: int, bytes: int) -> None:
    """An optimizer step reads the gradient twice, reads and writes the weight and two moments in f32, and writes a copy
    of the weight in the type of products."""
    found = predict_training(LLAMA, A100, Training(1, precision=precision, gradient_bytes=gradient_bytes))
    expected = bytes * LLAMA.parameters / (A100.memory_bandwidth * A100.memory_efficiency) + A100.launch_seconds
    assert found.causes["optimizer"] == pytest.approx(expected)


def test_decoding_reads_weights_and_cache() -> None:
    prediction = predict_decoding(LLAMA, A100, 1, 4096)
    layers = LLAMA.parameters - LLAMA.embedding_parameters
    expected = (2 * layers + prediction.cache) / (A100.memory_bandwidth * A100.memory_efficiency)
    assert prediction.seconds == pytest.approx(expected, rel=0.1)
    assert prediction.cache == 2 * 32 * 4096 * 1024 * 2
    assert prediction.weights == 2 * LLAMA.parameters
    many = predict_decoding(LLAMA, A100, 64, 4096)
    assert many.tokens_per_second > 10 * prediction.tokens_per_second
    # A single token reads only the weights of eight of the 128 experts.
    few, all_ = (predict_decoding(PRESETS["qwen3-30b-a3b"], A100, batch, 1).seconds for batch in (1, 64))
    assert few < all_ / 3
    assert predict_decoding(LLAMA, A100, 1, 4096, tensor=8).seconds < prediction.seconds / 2


def test_latent_attention() -> None:
    """Uses DeepSeek-V3's sizes (arXiv:2412.19437, section 4.2) with three layers, which are dense."""
    config = replace(
        LLAMA, layers=3, hidden=7168, heads=128, kv_heads=128, head_size=128, ffn=18432, vocabulary=129280,
        kv_latent=512, query_latent=1536, rotary_size=64,
    )  # fmt: skip
    weights = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * 256 + 128 * 128 * 7168
    assert config.attention_parameters == weights + 512 + 1536
    one, eight = (predict_decoding(config, A100, 64, 4096, tensor=tensor) for tensor in (1, 8))
    # Latents and their projections are not divided among devices.
    assert one.cache == eight.cache == 3 * 64 * 4096 * (512 + 64) * 2
    whole = 2 * config.layers * config.latent_parameters
    assert eight.weights == pytest.approx((one.weights - whole) / 8 + whole)
    first, second = (
        training_memory(config, Training(1, parallelism=Parallelism(tensor=tensor))).weights for tensor in (1, 8)
    )
    assert second == pytest.approx((first - whole) / 8 + whole)
    full = replace(config, kv_latent=0, query_latent=0, rotary_size=0)
    assert predict_decoding(full, A100, 64, 4096).causes["attention"] > one.causes["attention"]
    for each in (Training(1), Training(1, is_fused=False), Training(1, precision="fp8", recomputation="full")):
        assert predict_training(config, A100, each).seconds > 0
    with pytest.raises(ReproError, match="expected no latent attention where devices gather operands"):
        predict_decoding(config, A100, 1, 1, tensor=8, gathers_operands=True)


def test_operands_in_place_of_sums() -> None:
    """(T2) If devices gather operands instead of adding sums, a layer exchanges 28 n C (R - 1) / R bytes in f32 (see
    docs/guides/distributed.md), and the number of operations does not change."""
    config = replace(PRESETS["gpt2-124m"], ffn=4 * 768)
    for tensor in (2, 4):
        kernels = Kernels(config, Share(1, "f32", tensor, gathers_operands=True))
        assert sum(kernels.gathered_elements()) == 7 * config.sequence * config.hidden
        flops = sum(product.flops for each in kernels.layer() for product in each.products)
        whole = sum(product.flops for each in Kernels(config, Share(1)).layer() for product in each.products)
        assert flops * tensor == whole
    sums, operands = (
        predict_decoding(LLAMA, A100, 64, 4096, tensor=8, gathers_operands=gathers) for gathers in (False, True)
    )
    assert 0.5 < operands.causes["tensor"] / sums.causes["tensor"] < 4
    assert operands.causes["projection"] == pytest.approx(sums.causes["projection"], rel=0.2)


def test_numbers_of_a_prediction() -> None:
    prediction = predict_training(LLAMA, A100, Training(64, parallelism=Parallelism(data=8)))
    assert set(prediction.causes) == {
        "projection", "attention", "vector", "head", "recomputation", "tensor", "context", "expert", "pipeline",
        "bubble", "data", "optimizer",
    }  # fmt: skip
    assert prediction.device_tokens_per_second == pytest.approx(64 * 8192 / 8 / prediction.seconds)
    assert prediction.joules == pytest.approx(400 * 8 * prediction.seconds)
    tokens = 6 * (LLAMA.parameters - LLAMA.embedding_parameters) + 6 * LLAMA.layers * 4096 * 8192
    assert prediction.device_model_flops == pytest.approx(prediction.device_tokens_per_second * tokens, rel=0.01)
    assert 0.3 < prediction.utilization < 0.75
    assert not prediction.fits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, "expected layers as a whole number from 1 to 16384, got 0"),
        ({"layers": 10**30}, "expected layers as a whole number from 1 to 16384, got a number of 100 bits"),
        ({"hidden": 1.5}, "expected hidden as a whole number from 1"),
        ({"gated": 1}, "expected gated as true or false, got 1"),
        ({"kv_heads": 5}, "expected heads as a multiple of kv_heads, got 32 and 5"),
        ({"experts": 4}, "expected active_experts up to 4, got 0"),
        ({"active_experts": 1}, "expected active_experts up to 0, got 1"),
        ({"query_latent": 8}, "expected kv_latent with query_latent and rotary_size"),
        ({"kv_latent": 8, "rotary_size": 4}, "expected kv_latent with rotary, rotary_size and kv_heads equal to heads"),
        ({"kv_latent": 8, "kv_heads": 32}, "expected kv_latent with rotary, rotary_size and kv_heads equal to heads"),
        ({"sequence": 1 << 24, "attention_block": 1}, "expected at most 4096 blocks of attention, got 16777216 tokens"),
        ({"speed": 1}, "expected a key of the transformer among .*, got 'speed'"),
    ],
)
def test_wrong_transformers(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(asdict(LLAMA) | changes))
    with pytest.raises(ReproError, match=message) as caught:
        read_transformer(str(path))
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_transformers_of_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(asdict(LLAMA)))
    assert read_transformer(str(path)) == LLAMA
    path.write_text(json.dumps({"layers": 1}))
    with pytest.raises(ReproError, match="expected the key hidden in the transformer"):
        read_transformer(str(path))
    with pytest.raises(ReproError, match="expected a transformer among gpt2-124m"):
        read_transformer("gpt5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tensor", "3"], "expected heads as a multiple of 3 devices, got 32"),
        (["--tensor", "16"], None),
        (["--pipeline", "33"], "expected at most 32 stages, one for each layer, got 33"),
        (["--virtual-stages", "2"], "expected several stages with virtual_stages"),
        (["--expert", "2"], "expected data as a multiple of expert, got 1 and 2"),
        (
            ["--data", "2", "--expert", "2"],
            "expected a transformer with experts for 2 devices, got a dense one",
        ),
        (["--data", "3", "--batch", "4"], "expected batch as a multiple of 3 devices with microbatches of 1, got 4"),
        (["--batch", "1" + "0" * 30], "expected batch as a whole number from 1"),
        (["--tensor", "1" + "0" * 30], "expected tensor as a whole number from 1"),
        (["--sequence", "1" + "0" * 30], "expected sequence as a whole number from 1"),
        (["--precision", "fp3"], "expected precision among f32, .*, got 'fp3'"),
        (["--recompute", "some"], "expected recomputation among none, selective, operators, full, got 'some'"),
        (["--sharding", "half"], "expected sharding among none, optimizer, full, got 'half'"),
        (["--machine", "epyc-zen5"], "epyc-zen5: expected an accelerator"),
        (["--set", "watts=1e30"], "expected watts as 0 or a number from 1e-12"),
        (["--set", "watts=1", "--set", "watts=2"], "expected one --set for watts of h100, got two"),
        (["--tensor", "2", "--set", "node_bandwidth=0"], "expected node_bandwidth above 0 where devices"),
        (["--set", "node_bandwidth=0", "--set", "network_bandwidth=0"], None),
        (["--decode", "--tensor", "3"], "expected heads as a multiple of 3 devices, got 32"),
        (["--decode", "--precision", "fp3"], "expected precision among"),
        (["--gather-operands"], "expected --decode with --gather-operands"),
        (["--decode", "--gather-operands", "--tensor", "8"], None),
        (["--decode", "--microbatch", "7"], "expected a training step with --microbatch, got --decode"),
        (["--decode", "--recompute", "bogus"], "expected a training step with --recompute, got --decode"),
        (["--decode", "--virtual-stages", "3"], "expected a training step with --virtual-stages, got --decode"),
        (["--decode", "--sharding", "bogus"], "expected a training step with --sharding, got --decode"),
        (["--decode", "--sequence-parallel"], "expected a training step with --sequence-parallel, got --decode"),
        (["--decode", "--overlap-tensor"], "expected a training step with --overlap-tensor, got --decode"),
        (["--decode", "--unfused"], "expected a training step with --unfused, got --decode"),
        (
            ["--decode", "--expert", "8", "--context", "4", "--data", "9"],
            "expected a training step with --context, --data, --expert, got --decode",
        ),
        (["--decode", "--pipeline", "2", "--batch", "3", "--sequence", "16"], None),
    ],
)
def test_the_command_refuses(options: list[str], message: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.monotonic()
    given = ["roofline", "transformer", "llama3-8b", "--machine", "h100", *options]
    assert main(given) == (0 if message is None else 2)
    assert time.monotonic() - begin < 5
    error = capsys.readouterr().err
    assert error.count("\n") == (message is not None)
    if message is not None:
        assert re.search(message, error), error


def test_hostile_numbers_take_bounded_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    huge = {
        "layers": 1 << 14, "hidden": 1 << 20, "heads": 1 << 14, "kv_heads": 1 << 14, "head_size": 1 << 14,
        "ffn": 1 << 22, "vocabulary": 1 << 24, "sequence": 1 << 24, "attention_block": 4096, "experts": 1 << 14,
        "active_experts": 1 << 14,
    }  # fmt: skip
    path.write_text(json.dumps(huge))
    begin = time.monotonic()
    for extra in ([], ["--decode"], ["--data", str(1 << 20), "--sharding", "full"]):
        for machine in ("h100", "spinnaker2"):
            assert main(["roofline", "transformer", str(path), "--machine", machine, "--json", *extra]) == 0
            assert json.loads(capsys.readouterr().out)["fits"] is False
    assert time.monotonic() - begin < 20


def test_devices_with_the_least_numbers() -> None:
    """Covers a machine with the least numbers that its file may contain: zeros, or numbers close to zero where a number
    must be positive."""
    least = {name: 0.0 for name in ACCELERATOR_NUMBERS if isinstance(getattr(A100, name), float)}
    least |= {name: 0.0 for name in ("f8_matrix_flops", "watts", "l2_bytes", "shared_bytes")}
    positive = ("clock_hz", "f32_flops", "memory_bytes", "memory_bandwidth", "node_bandwidth", "network_bandwidth")
    efficiencies = [name for name in ACCELERATOR_NUMBERS if name.endswith("_efficiency")]
    least |= dict.fromkeys((*positive, *efficiencies), 1e-12)
    machine = replace(A100, **least)
    parallelism = Parallelism(tensor=8, pipeline=4, data=64, context=2, sharding="full")
    for seconds in (
        predict_training(LLAMA, machine, Training(64, parallelism=parallelism)).seconds,
        predict_decoding(LLAMA, machine, 1, 1, tensor=8, pipeline=2).seconds,
    ):
        assert 0 < seconds < 1e100


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["roofline", "transformer", "llama3-70b", "--machine", "h100", "--tensor", "8", "--pipeline", "4", "--data"]
    given += ["2", "--batch", "64", "--precision", "fp8", "--recompute", "full", "--sequence-parallel"]
    assert main(given) == 0
    text = capsys.readouterr().out
    assert text.startswith("transformer llama3-70b, 70,") and "64 x h100, tensor 8, pipeline 4, data 2" in text
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seconds"] == pytest.approx(sum(found["causes"].values())) and found["devices"] == 64
    assert main([*given, "--json", "--set", "f8_matrix_flops=2x"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] < found["seconds"]
    decode = ["roofline", "transformer", "llama3-8b", "--machine", "h200", "--decode", "--batch", "16"]
    assert main(decode) == 0
    assert "a token of 16 sequences, each behind 8,192" in capsys.readouterr().out
    assert main([*decode, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens_per_second"] > 0


def test_no_energy_of_a_machine_without_power(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["roofline", "transformer", "gpt2-124m", "--machine", "a100"]
    for extra in ([], ["--decode"]):
        assert main([*given, *extra]) == 0
        assert "\nenergy " in capsys.readouterr().out
        assert main([*given, *extra, "--set", "watts=0"]) == 0
        assert "energy" not in capsys.readouterr().out
        assert main([*given, *extra, "--set", "watts=0", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["joules"] is None


@pytest.mark.parametrize("machine", ["a100", "b200", "h100", "h200", "mi300x", "spinnaker2", "tpu-v5p", "v100"])
def test_every_accelerator_has_a_prediction(machine: str) -> None:
    found = read_machine(machine)
    assert isinstance(found, Accelerator)
    for precision in ("f32", "tf32", "bf16", "fp8", "int8", "mxfp8", "nvfp4"):
        assert predict_training(LLAMA, found, Training(1, precision=precision)).seconds > 0


def test_energy_has_three_significant_digits() -> None:
    for joules, text in (
        (342_629.101, "343,000"),
        (12.3456, "12.3"),
        (0.0012345, "0.00123"),
        (999.6, "1,000"),
        (0, "0"),
    ):
        assert report._rounded(joules) == text
        assert report._energy_lines(joules, 1) == [f"energy      {text} J a step, {text} J a token"]
