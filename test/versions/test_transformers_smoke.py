# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the frontend with a tried version of transformers: the bits are those of the repository's own version."""

from pathlib import Path

import pytest
import torch
import transformers
from repro_mlir.integrations.transformers import ReproTrainer

HASHES = {"gpt2": "9f83694d4452", "llama": "38c1b6047713"}
"""The first digits of the hashes of the states with transformers 5.24.0."""

GPT2 = dict(vocab_size=31, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
LLAMA = dict(
    vocab_size=31, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=16,
)  # fmt: skip
MODELS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_run_of_the_trainer(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    for parameter in model.parameters():
        values = torch.arange(parameter.numel()) * 37 % 101 - 50
        parameter.data.copy_((values / 256).reshape(parameter.shape))
    tokens = torch.arange(6 * 12).reshape(6, 12) * 7 % 31
    data = [{"input_ids": row, "labels": row} for row in tokens]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, per_device_train_batch_size=2, max_steps=3, logging_steps=1,
        save_strategy="no", learning_rate=1e-2, max_grad_norm=0.5, disable_tqdm=True, report_to="none",
        dataloader_drop_last=True,
    )  # fmt: skip
    trainer = ReproTrainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    assert len([entry for entry in trainer.state.log_history if "loss" in entry]) == 3
    assert trainer.compiled.state_hash()[:12] == HASHES[name]
