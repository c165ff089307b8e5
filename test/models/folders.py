# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates model folders with small models with random parameters and small tokenizers, without access to the Hugging
Face Hub."""

import json
from pathlib import Path

import tokenizers
import torch
import transformers

TEXT = [
    "The quick brown fox jumps over the lazy dog. Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "ここは天気がいいです。 Съешь же ещё этих мягких французских булок. 👩‍👩‍👧 🙂 €",
]
CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def byte_tokenizer(vocabulary: int = 320) -> transformers.PreTrainedTokenizerFast:
    """Returns a byte-level tokenizer like that of GPT-2."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXT, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", chat_template=CHAT)


def piece_tokenizer(vocabulary: int = 200) -> transformers.PreTrainedTokenizerFast:
    """Returns a SentencePiece-like tokenizer such as that of Llama. It encodes unknown text as the tokens of the text's
    bytes."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    made.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(special) + vocabulary, special_tokens=special, show_progress=False, limit_alphabet=40
    )
    made.train_from_iterator(TEXT, trainer)
    # The trainer marks the tokens of single bytes as special tokens. In models' files they are ordinary tokens.
    described = json.loads(made.to_str())
    described["added_tokens"] = [each for each in described["added_tokens"] if not each["content"].startswith("<0x")]
    made = tokenizers.Tokenizer.from_str(json.dumps(described))
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def gpt2_folder(path: Path, seed: int = 0) -> Path:
    """Writes a folder with a GPT-2 model, a byte-level tokenizer and a chat template."""
    tokenizer = byte_tokenizer()
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, vocab_size=len(tokenizer), n_positions=128, initializer_range=0.4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).eval().save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def llama_folder(path: Path, head_size: int = 8) -> Path:
    """Writes a folder with a Llama model and a SentencePiece-like tokenizer, without a chat template."""
    tokenizer = piece_tokenizer()
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        num_attention_heads=4, num_key_value_heads=2, hidden_size=32, head_dim=head_size,
        intermediate_size=48, num_hidden_layers=2, vocab_size=len(tokenizer), max_position_embeddings=64,
        initializer_range=0.5, bos_token_id=1, eos_token_id=[2],
    )  # fmt: skip
    # Most models are stored in bf16.
    transformers.LlamaForCausalLM(config).eval().to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
