# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro serve` runs model folders of transformers; `repro verify --model` checks its answers on other targets."""

import contextlib
import json
import random
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from blake3 import blake3
from folders import TEXT, byte_tokenizer, gpt2_folder, llama_folder, piece_tokenizer
from repro_mlir import ReproError
from repro_mlir.cli.main import main
from repro_mlir.generation import identity
from repro_mlir.generation.identity import programs_of
from repro_mlir.integrations.model_folder import FolderTokenizer, ModelFolder
from repro_mlir.serving.receipt import content_hash
from repro_mlir.serving.text import GrowingText
from safetensors.torch import load_file, save_file
from support.http_client import ask, get

# Without CUDA's libraries, torchvision must be imported first (see vision.py).
COMMAND = [
    *(sys.executable, "-c"),
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import vision\n"
    "from repro_mlir.cli.main import main; sys.exit(main())",
]


def repro(*arguments: object) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[dict[str, Any]]:
    command = [*COMMAND, "serve", str(folder), "--port", "0", "--json", "--threads", "1", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        report = json.loads(line)
        yield {**report, "port": int(report["url"].rsplit(":", 1)[1])}
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "") and process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def verified(answer: dict[str, Any], folder: Path, path: Path, target: str = "cpu:x86-64-v2") -> tuple[int, Any]:
    path.write_text(json.dumps(answer, indent=2, ensure_ascii=False))
    status, output, errors = repro("verify", path, "--model", folder, "--target", target, "--threads", 1, "--json")
    return status, json.loads(output) if output else errors


def test_gpt2_with_a_tokenizer_of_bytes(tmp_path: Path) -> None:
    folder, path = gpt2_folder(tmp_path / "small"), tmp_path / "answer.json"
    with served(folder, "--slots", "2", "--chunk", "5") as server:
        port = server["port"]
        (model,) = get(port, "/v1/models").json()["data"]
        assert (model["id"], model["capacity"]) == ("small", 128)
        assert (model["weights"], model["program"]) == (server["weights"], server["program"])
        question = {"prompt": "Zwölf \N{SLIGHTLY SMILING FACE}", "max_tokens": 40, "seed": 3, "temperature": 0.9}
        whole = ask(port, "/v1/completions", question).json()
        events = ask(port, "/v1/completions", {**question, "stream": True}).events()
        assert "".join(each["choices"][0]["text"] for each in events) == whole["choices"][0]["text"]
        assert events[-1]["receipt"] == whole["receipt"]
        messages = [{"role": "user", "content": "fox"}]
        chat = ask(port, "/v1/chat/completions", {"messages": messages, "max_tokens": 9}).json()
        refused = ask(port, "/v1/completions", {"prompt": "a", "max_tokens": 200})
        assert refused.status == 400 and refused.json()["error"]["code"] == "context_length_exceeded"
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(chat["receipt"]["prompt"]) == "user: fox\nassistant:"
    others = {**events[-1]["receipt"], "stop_tokens": []}
    others["hash"] = content_hash(others)
    for target, answer in (("ptx-emulator", chat), ("cpu", others), ("cpu:x86-64-v2", whole)):
        status, report = verified(answer, folder, path, target)
        assert status == 0 and report["right"] and report["target"] == target, report
        assert ("the directory says [0]" in report["not_checked"][-1]) == (answer is others)
    assert report["text"] == whole["choices"][0]["text"] and report["weights"] == server["weights"]
    status, report = verified({**whole, "receipt": {**whole["receipt"], "seed": "4"}}, folder, path)
    assert status == 1 and report["place"] == "hash"
    status, report = verified(whole, gpt2_folder(tmp_path / "other", seed=1), path)
    assert status == 1 and report["place"] == "weights"
    assert not any(path.suffix == ".safetensors" for path in tmp_path.iterdir())


def test_llama_with_a_tokenizer_of_pieces(tmp_path: Path) -> None:
    folder, path = llama_folder(tmp_path / "llama"), tmp_path / "answer.json"
    with served(folder, "--name", "mine", "--capacity", "48", "--cache", "mxfp4") as server:
        port = server["port"]
        assert get(port, "/v1/models").json()["data"][0]["id"] == "mine"
        answer = ask(port, "/v1/completions", {"prompt": "The fox", "max_tokens": 20, "seed": 1, "stop": ["e"]}).json()
        assert ask(port, "/v1/chat/completions", {"messages": []}).status == 404
    assert answer["receipt"]["cache"] == server["cache"] and '"f4E2M1FN"' in server["cache"]
    # The size of the cache: keys and values of each layer, for four slots. A code has half a byte, and the scale of a
    # block has one byte.
    config = json.loads((folder / "config.json").read_text())
    heads, size = config["num_key_value_heads"], config["hidden_size"] // config["num_attention_heads"]
    assert server["cache_bytes"] == 2 * config["num_hidden_layers"] * 4 * heads * 49 * (size // 2 + 1)
    assert answer["receipt"]["prompt"][0] == 1 and answer["receipt"]["stop_tokens"] == [2]
    status, report = verified(answer, folder, path)
    assert status == 0 and report["right"], report


def test_weights_follow_from_the_page_and_the_file(tmp_path: Path) -> None:
    """Computes a model's weights by the rules of docs/guides/serving.md ("Weights and programs") without this
    package."""
    folder = llama_folder(tmp_path / "llama", head_size=96)
    known = programs_of(ModelFolder(folder).model, 16)
    stored = load_file(folder / "model.safetensors")
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        skeleton = transformers.AutoModelForCausalLM.from_config(config)
    linear = {id(each.weight) for each in skeleton.modules() if isinstance(each, torch.nn.Linear)}
    values = []
    for name, parameter in skeleton.named_parameters():
        value = stored[name].float()
        values.append((value.t() if id(parameter) in linear else value).contiguous().numpy())
    theta = gmpy2.mpfr(10000, 24)
    with gmpy2.context(precision=24):
        table = [1 / theta ** (gmpy2.mpfr(2 * i) / 96) for i in range(48)]
    assert [name.rpartition(".")[2] for name, _ in skeleton.named_buffers()] == ["inv_freq", "original_inv_freq"]
    values += [np.array(list(map(float, table)), np.float32)] * 2
    digests = []
    for value in values:
        head = b"f32".ljust(16, b"\0") + struct.pack(f"<I{value.ndim}Q", value.ndim, *value.shape)
        digests.append(blake3(b"repro-tensor-v1\0" + head + value.tobytes()).digest())
    counted = b"repro-state-v1\0\0" + struct.pack("<I", len(digests))
    assert blake3(counted + b"".join(digests)).hexdigest() == known.identity.weights


def test_tensors_that_no_rule_defines(tmp_path: Path, monkeypatch: Any) -> None:
    folder = llama_folder(tmp_path / "llama")
    rope = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
    original = rope.compute_default_rope_parameters

    def drawn(*arguments: Any, **options: Any) -> Any:
        table, scale = original(*arguments, **options)
        return table * torch.rand(()), scale

    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        begun(self, *arguments, **options)
        self.kept = {"tables": [torch.rand(2, device="cpu")]}

    message = r"expected tensors from the files or computed by \(G5\), got model.rotary_emb."
    begun = rope.__init__
    with monkeypatch.context() as patch, pytest.raises(ReproError, match=f"{message}kept"):
        patch.setattr(rope, "__init__", begin)
        _ = ModelFolder(folder).model
    monkeypatch.setattr(rope, "compute_default_rope_parameters", staticmethod(drawn))
    with pytest.raises(ReproError, match=f"{message}inv_freq"):
        _ = ModelFolder(folder).model
    # The model is also refused if the file contains the tensor inv_freq, as old files do: transformers ignores it
    # there.
    stored = load_file(folder / "model.safetensors")
    save_file({**stored, "model.rotary_emb.inv_freq": torch.rand(4)}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ReproError, match=f"{message}inv_freq"):
        _ = ModelFolder(folder).model


@pytest.mark.parametrize("make", [byte_tokenizer, piece_tokenizer])
@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_the_text_that_the_tokenizer_decodes(make: Any, seed: int) -> None:
    tokenizer = make()
    used = FolderTokenizer(tokenizer, set())
    draw = random.Random(seed)
    text = "".join(draw.choices("".join(TEXT), k=60)).strip()
    tokens = used.encode(text)
    growing = GrowingText(used)
    pieces = [*(growing.add(token) for token in tokens), growing.end()]
    assert "".join(pieces) == tokenizer.decode(tokens, skip_special_tokens=True) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def damaged(tmp_path: Path, what: str) -> Path:
    folder = gpt2_folder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    if what == "nothing":
        shutil.rmtree(folder)
    elif what == "no tokenizer":
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
    elif what == "pickle":
        state = ModelFolder(folder).model.model.state_dict()
        (folder / "model.safetensors").unlink()
        torch.save(state, folder / "pytorch_model.bin")
    elif what == "a layer is missing":
        config["n_layer"] = 3
    elif what == "another width":
        config["n_embd"] = 64
    elif what == "code":
        config = {"auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}, "model_type": "own"}
        (folder / "own.py").write_text("raise SystemExit('this ran')")
    elif what == "quantized":
        config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    elif what == "adapter":
        (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "somebody/model"}')
    elif what == "cut off":
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    elif what == "no JSON":
        (folder / "tokenizer.json").write_text("{")
    elif what == "too many layers":
        config["n_layer"] = 1
    elif what == "integers":
        weights = load_file(folder / "model.safetensors")
        weights["transformer.h.0.attn.c_attn.weight"] = weights["transformer.h.0.attn.c_attn.weight"].to(torch.int8)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    elif what == "not finite":
        weights = load_file(folder / "model.safetensors")
        weights["transformer.ln_f.bias"].fill_(torch.nan)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    elif what == "elsewhere":
        (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
        index = {"weight_map": {"transformer.ln_f.bias": "../model.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    elif what == "other weights":
        config["transformers_weights"] = "adapter_model.bin"
    elif what == "a dangling link":
        (folder / "chat_template.jinja").unlink()
        (folder / "chat_template.jinja").symlink_to(tmp_path / "nowhere")
    elif what == "no token":
        (folder / "generation_config.json").write_text('{"eos_token_id": [[0]]}')
    elif what in ("draws", "panics"):
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        change = {"dropout": 0.5} if what == "draws" else {"continuing_subword_prefix": "#" * 50}
        (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "model": {**tokenizer["model"], **change}}))
    if folder.exists() and config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nothing", "expected a directory with config.json"),
        ("no tokenizer", "expected a tokenizer, such as tokenizer.json"),
        ("pickle", "cannot read a model"),
        ("a layer is missing", "missing keys of the model"),
        ("another width", "cannot read a model|mismatched keys"),
        ("code", "cannot read a configuration"),
        ("quantized", "expected a model that is not quantized, got a quantization_config"),
        ("adapter", "expected a whole model, got an adapter"),
        ("cut off", "cannot read a model"),
        ("no JSON", "cannot read a tokenizer"),
        ("too many layers", "unexpected keys of the model: transformer.h.1.attn"),
        ("integers", "expected weights of f32, bf16 or f16, got I8: transformer.h.0.attn.c_attn.weight"),
        ("not finite", "returns no finite logits"),
        ("elsewhere", "expected names of safetensors files in this directory"),
        ("other weights", "got other files in config.json"),
        ("a dangling link", "expected chat_template.jinja to be a file"),
        ("no token", r"expected tokens as eos_token_id, got \[0\]"),
        ("draws", "expected a deterministic tokenizer, got one that draws"),
        ("panics", "cannot read a tokenizer: range end index"),
    ],
)
def test_directories_that_are_refused(tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(ReproError, match=message) as error:
        _ = ModelFolder(damaged(tmp_path, what)).model
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_layer", 1_000_000, "config.json: expected n_layer of at most 28, as in the weights, got 1000000"),
        ("n_embd", 10**9, "config.json: expected n_embd of at most 640, as in the weights, got 1000000000"),
        (
            "vocab_size",
            2**40,
            "config.json: expected vocab_size of at most 640, as in the weights, got 1099511627776",
        ),
        ("n_head", 10**9, "config.json: expected n_head of at most 640"),
        ("n_positions", 2**40, "config.json: expected n_positions of at most 134217728"),
        (
            "n_positions",
            10**6,
            r"mismatched keys of the model: .*wpe|expected buffers of at most 2147483648 elements, got",
        ),
        (
            "n_inner",
            10**9,
            r"mismatched keys of the model: transformer.h.0.mlp.c_fc.weight: expected \[32, 1000000000\]",
        ),
        ("summary_type", [[[]]] * 40, "cannot read|config"),
    ],
)
def test_configurations_beyond_the_weights_are_refused_at_once(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    folder = gpt2_folder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(ReproError, match=message) as error:
        _ = ModelFolder(folder).model
    assert "\n" not in str(error.value)


def test_models_of_more_modules_than_tensors(monkeypatch: Any, tmp_path: Path) -> None:
    """Limits the number of modules while the model is built, in case no known field of the configuration states its
    size."""
    folder = gpt2_folder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": 1_000_000}))
    monkeypatch.setattr(ModelFolder, "_check_sizes", lambda *_: None)
    with pytest.raises(ReproError, match="expected a model of 28 tensors, as in the weights, got more at "):
        _ = ModelFolder(folder).model


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "chat_template.jinja", "merges.txt"])
def test_files_that_are_too_large(tmp_path: Path, name: str) -> None:
    folder = gpt2_folder(tmp_path / "model")
    with open(folder / name, "ab") as file:
        file.truncate(1 << 30)
    with pytest.raises(ReproError, match=f"{name}: expected at most 134,217,728 bytes, got 1,073,741,824"):
        ModelFolder(folder)


def test_configurations_that_are_nested_deeply(tmp_path: Path) -> None:
    folder = gpt2_folder(tmp_path / "model")
    (folder / "config.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ReproError, match=r"config\.json: expected"):
        ModelFolder(folder)


def test_weights_are_copied_from_the_file(tmp_path: Path) -> None:
    """The file's f32 tensors are copied, because otherwise a later write to the file would change answers but not the
    hash of the weights."""
    folder = gpt2_folder(tmp_path / "model")
    model = ModelFolder(folder).model
    before = [parameter.clone() for parameter in model.parameters()]
    size = (folder / "model.safetensors").stat().st_size
    with open(folder / "model.safetensors", "r+b") as file:
        file.seek(size // 2)
        file.write(b"\x11" * (size // 2))
    assert all(map(torch.equal, before, model.parameters()))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 1 / 0 }}", "the chat template refuses the messages: division by zero"),
        ("{% for", "the chat template refuses the messages"),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ 'a' * 5000000 }}", "expected at most 4,194,304 characters from the chat template, got 5,000,000"),
        ("{{ 'a' * 10000000000 }}", "the chat template takes more than 1024 MiB"),
        ("{{ 'a'.center(10000000000) }}", "the chat template takes more than 1024 MiB"),
        ("{{ '%10000000000d' % 1 }}", "the chat template takes more than 1024 MiB"),
        ("{{ [1] * 10000000000 }}", "the chat template takes more than 1024 MiB"),
        (
            "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
            "the chat template takes more than",
        ),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "the chat template takes more than 1 s of processor time",
        ),
        ("{{ 10 ** (10 ** 9) % 7 }}", "the chat template takes more than 1 s of processor time"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "the chat template refuses the messages"),
    ],
)
def test_hostile_chat_templates(template: str, message: str) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(ReproError, match=message):
        FolderTokenizer(tokenizer, set()).encode_chat([{"role": "user", "content": "x"}])


def test_templates_give_the_text_of_transformers(tmp_path: Path, monkeypatch: Any) -> None:
    # Loading a tokenizer must not run code of the current folder, which may be the model's folder.
    (tmp_path / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    tokenizer = byte_tokenizer()
    used = FolderTokenizer(tokenizer, set())
    used.prepare()
    for content in ("fox", "Zwölf \N{SLIGHTLY SMILING FACE}\n{{ 1 }}", ""):
        messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "a"}]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert used.encode_chat(messages) == tokenizer.encode(text, add_special_tokens=False)


def test_texts_on_which_a_tokenizer_fails() -> None:
    """A panic in the tokenizer's Rust code raises an error that is not derived from `Exception`. This error must become
    a ReproError."""
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.Replace("", "x")
    used = FolderTokenizer(tokenizer, set())
    with pytest.raises(ReproError, match="the tokenizer refuses the text"):
        used.encode("The fox")


def test_commands_that_cannot_be(tmp_path: Path) -> None:
    folder = gpt2_folder(tmp_path / "model")
    status, _, errors = repro("serve", folder, "--capacity", "129")
    assert status == 2 and errors.endswith("error: expected a capacity of at most 128, got 129: choose a smaller one\n")
    status, _, errors = repro("serve", folder, "--cache", "bf16")
    assert status == 2 and "error: (K7) expected a format of blocks for a cache, got bf16: " in errors
    status, _, errors = repro("serve", folder, "--host", "256.1.1.1")
    assert status == 2 and "cannot listen on 256.1.1.1:8000" in errors


def test_tokens_that_the_model_never_gives_end_no_answer(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    folder = gpt2_folder(tmp_path / "model")
    (folder / "generation_config.json").write_text('{"eos_token_id": 50256}')
    # The identity is set here, because capturing the model would take most of the test's time.
    known = identity.ModelIdentity("0" * 64, "1" * 64, "2" * 64, 128, 320)
    monkeypatch.setattr(identity, "identity_of", lambda *_: known)
    assert main(["serve", str(folder), "--port", "0"]) == 2
    assert "expected an eos_token_id from 0 to 319, got 50256" in capsys.readouterr().err
