# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Models of transformers, torchvision and timm with random parameters, and a batch for each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from vision import timm, torchvision

_WORDS, _CLASSES = 97, 10


@dataclass(frozen=True)
class Case:
    """A model and a training batch, as users create them.

    Attributes:
      make: creates the model.
      batch: creates a dict of the model's arguments, with labels, from which the model computes the loss; or a pair
        `(images, classes)`.
      interpreted: whether the reference interpreter can run a step within seconds.
    """

    make: Callable[[], torch.nn.Module]
    batch: Callable[[], Any]
    interpreted: bool = False

    def model(self) -> torch.nn.Module:
        """Creates the model without dropout, and with the same parameters in each call."""
        torch.manual_seed(0)
        model = self.make()
        for module in model.modules():
            for name in ("p", "drop_prob", "drop_rate", "dropout", "layerdrop"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        return model


def _words(length: int = 12) -> Any:
    return (torch.arange(2 * length) * 37 % (_WORDS - 1) + 1).reshape(2, length)


def _text(**others: Any) -> Any:
    return lambda: {"input_ids": _words(), "labels": _words()} | others


def _images(size: int, count: int = 4) -> Any:
    return lambda: (
        torch.linspace(-3, 40, count * 3 * size * size).sin().reshape(count, 3, size, size),
        torch.arange(count) % _CLASSES,
    )


def _vision(name: str, size: int = 64) -> Case:
    return Case(lambda: getattr(torchvision.models, name)(num_classes=_CLASSES), _images(size))


def _timm(name: str, size: int = 64, **options: Any) -> Case:
    return Case(lambda: timm.create_model(name, num_classes=_CLASSES, **options), _images(size))


_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}

CASES = {
    "transformers/gpt2": Case(
        lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=_WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4)
        ),
        _text(),
        interpreted=True,
    ),
    "transformers/llama": Case(
        lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(vocab_size=_WORDS, num_key_value_heads=2, max_position_embeddings=64, **_SMALL)
        ),
        _text(),
        interpreted=True,
    ),
    "transformers/bert": Case(
        lambda: transformers.BertForMaskedLM(
            transformers.BertConfig(vocab_size=_WORDS, max_position_embeddings=32, **_SMALL)
        ),
        _text(attention_mask=torch.ones(2, 12, dtype=torch.int64)),
        interpreted=True,
    ),
    "transformers/t5": Case(
        lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=_WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0,
                dropout_rate=0.0,
            )
        ),
        _text(),
        interpreted=True,
    ),
    "transformers/vit": Case(
        lambda: transformers.ViTForImageClassification(
            transformers.ViTConfig(image_size=16, patch_size=4, num_labels=_CLASSES, **_SMALL)
        ),
        lambda: {"pixel_values": _images(16, 2)()[0], "labels": torch.tensor([1, 2])},
        interpreted=True,
    ),
    "transformers/whisper": Case(
        lambda: transformers.WhisperForConditionalGeneration(
            transformers.WhisperConfig(
                vocab_size=_WORDS, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                max_source_positions=20, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
            )
        ),
        lambda: {"input_features": torch.linspace(-2, 9, 2 * 8 * 40).sin().reshape(2, 8, 40), "labels": _words()},
        interpreted=True,
    ),
    "transformers/mixtral": Case(
        lambda: transformers.MixtralForCausalLM(
            transformers.MixtralConfig(
                vocab_size=_WORDS, num_key_value_heads=2, num_local_experts=4, max_position_embeddings=64, **_SMALL
            )
        ),
        _text(),
    ),
    "torchvision/resnet18": _vision("resnet18"),
    "torchvision/mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "torchvision/efficientnet_b0": _vision("efficientnet_b0"),
    "torchvision/squeezenet1_1": _vision("squeezenet1_1"),
    "torchvision/shufflenet_v2_x0_5": _vision("shufflenet_v2_x0_5"),
    "torchvision/regnet_y_400mf": _vision("regnet_y_400mf"),
    "timm/resnet10t": _timm("resnet10t"),
    "timm/vit_tiny_patch16_224": _timm("vit_tiny_patch16_224", img_size=64),
    "timm/convnext_atto": _timm("convnext_atto"),
    "timm/ghostnet_050": _timm("ghostnet_050"),
    "timm/mixer_s32_224": _timm("mixer_s32_224", img_size=64),
    "timm/mobilevit_xxs": _timm("mobilevit_xxs"),
}  # fmt: skip
