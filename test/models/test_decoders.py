# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K6), (K7) With a cache, decoders of transformers return the bits that they return without one, and the tokens of
transformers' `generate`."""

from collections.abc import Callable

import numpy as np
import pytest
import repro_mlir
import torch
import transformers
from repro_mlir import ReproError
from repro_mlir.integrations.decoder import Decoder

CAPACITY, VOCABULARY, NEW = 24, 61, 8
PROMPTS = [[3, 7, 11, 2, 9, 30, 5], [8], [60, 1, 60]]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY,
    "eos_token_id": None,
}


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=VOCABULARY, n_positions=CAPACITY)
    return transformers.GPT2LMHeadModel(config)


def llama() -> transformers.PreTrainedModel:
    """Returns a Llama in which two query heads share a key head."""
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **SIZES)
    return transformers.LlamaForCausalLM(config)


def qwen3_moe() -> transformers.PreTrainedModel:
    config = transformers.Qwen3MoeConfig(
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, initializer_range=0.3, **SIZES,
    )  # fmt: skip
    return transformers.Qwen3MoeForCausalLM(config)


def deepseek_v3() -> transformers.PreTrainedModel:
    """Returns a DeepSeek V3 with groups of experts; the value vectors of its attention are shorter than the key
    vectors."""
    config = transformers.DeepseekV3Config(
        num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
        topk_group=1, moe_intermediate_size=16, first_k_dense_replace=1, kv_lora_rank=16, q_lora_rank=16,
        qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=4, n_shared_experts=1, initializer_range=0.3, **SIZES,
    )  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(config)


@pytest.mark.parametrize("make", [gpt2, llama, qwen3_moe, deepseek_v3])
def test_k6_decoders_have_the_bits_of_their_whole_forward_pass(make: Callable) -> None:
    torch.manual_seed(0)
    model = make().eval()
    decoder = Decoder(model).eval()
    generator = repro_mlir.Generator(decoder, CAPACITY, slots=2, chunk=5, threads=1)
    requests = [generator.submit(prompt, NEW, logits=True) for prompt in PROMPTS]
    while not all(request.finished for request in requests):
        generator.step()
    positions = torch.arange(CAPACITY)[None]
    executable = repro_mlir.compile(decoder, "cpu", 1, inputs=(torch.zeros_like(positions), positions))
    state = executable.program.initial_state()
    for prompt, request in zip(PROMPTS, requests, strict=True):
        eager = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, pad_token_id=0)
        assert request.tokens == eager[0, len(prompt) :].tolist()
        tokens = np.zeros((1, CAPACITY), np.int64)
        tokens[0, : len(prompt) + NEW] = [*prompt, *request.tokens]
        (logits,) = executable(state, tokens, positions)[1].values()
        want = np.asarray(logits)[0, len(prompt) - 1 : len(prompt) + NEW - 1]
        np.testing.assert_array_equal(np.stack(request.logits).view(np.uint32), want.view(np.uint32))
    assert model.config._attn_implementation == "sdpa" and model.config._experts_implementation != "batched_mm"


@pytest.mark.parametrize("make", [gpt2, deepseek_v3])
def test_k7_a_cache_in_blocks_is_the_same_for_a_prompt_and_for_tokens_one_by_one(make: Callable) -> None:
    torch.manual_seed(0)
    decoder = Decoder(make().eval()).eval()
    found = []
    for slots, chunk, cache in ((2, 5, "mxfp8"), (1, 1, "mxfp8"), (2, 5, None)):
        generator = repro_mlir.Generator(decoder, CAPACITY, slots=slots, chunk=chunk, cache=cache, threads=1)
        requests = [generator.submit(prompt, NEW, logits=True) for prompt in PROMPTS]
        while not all(request.finished for request in requests):
            generator.step()
        found.append(np.stack([logits for request in requests for logits in request.logits]).view(np.uint32))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_models_that_are_not_decoders() -> None:
    with pytest.raises(ReproError, match="expected a model of transformers, got a Linear"):
        Decoder(torch.nn.Linear(2, 2))


def mistral(window: int) -> transformers.PreTrainedModel:
    config = transformers.MistralConfig(num_attention_heads=4, num_key_value_heads=2, sliding_window=window, **SIZES)
    return transformers.MistralForCausalLM(config)


def qwen2_moe(window: int) -> transformers.PreTrainedModel:
    """Returns a Qwen2-MoE whose sliding window appears only in the attention mask."""
    config = transformers.Qwen2MoeConfig(
        num_attention_heads=4,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=window,
        max_window_layers=2,
        num_experts=2,
        num_experts_per_tok=1,
        decoder_sparse_step=3,
        **SIZES,
    )
    return transformers.Qwen2MoeForCausalLM(config)


@pytest.mark.parametrize("make", [mistral, qwen2_moe])
def test_windows_shorter_than_the_capacity_are_refused(make: Callable) -> None:
    torch.manual_seed(0)
    with pytest.raises(ReproError, match="expected causal attention, by is_causal=True or a causal mask, got another"):
        repro_mlir.Generator(Decoder(make(8)).eval(), CAPACITY)
    model = make(CAPACITY + 1).eval()
    found = repro_mlir.Generator(Decoder(model).eval(), CAPACITY, chunk=5, threads=1).generate(PROMPTS, NEW)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        eager = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, pad_token_id=0)
        assert tokens == eager[0, len(prompt) :].tolist()


def test_positions_that_do_not_begin_at_0_are_refused() -> None:
    torch.manual_seed(0)
    sizes = {**SIZES, "num_attention_heads": 4, "max_position_embeddings": 64}
    model = transformers.RobertaForCausalLM(transformers.RobertaConfig(is_decoder=True, **sizes))
    with pytest.raises(ReproError, match="RobertaForCausalLM returns other logits with the positions 0, 1, 2, "):
        Decoder(model)
    assert model.training
