# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests receipts of answers: a verifier recomputes their claims on any target, and detects each false field."""

import copy
import functools
import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from blake3 import blake3
from repro_mlir import Generator, ReproError, Sampling
from repro_mlir.base.errors import ReceiptWrong
from repro_mlir.base.numerics.hashing import state_hash, tensor_digest
from repro_mlir.generation.identity import ModelIdentity, identity_of, programs_of
from repro_mlir.program.canonical import examine
from repro_mlir.serving import verification
from repro_mlir.serving.api import _Form
from repro_mlir.serving.receipt import Question, content_hash, make_receipt, read_receipt
from repro_mlir.serving.transcript import Transcript
from support.small_server import CAPACITY, Pieces, known_generator, known_identity, small_model

pytest.importorskip("torch_mlir")

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs" / "schemas" / "answer.schema.json").read_text())


VERSIONS = {"repro_mlir": "1", "another": "2"}

QUESTIONS = [
    Question((12, 13, 14), Sampling(), 9, (0,), ()),
    Question((8, 9, 1, 2), Sampling(0.5, seed=2**64 - 1), 12, (0,), ("the ", "q")),
    Question((30,) * 20, Sampling(float(np.float32(1.3)), top_k=5, top_p=float(np.float32(0.9)), seed=7), 29, (), ()),
]


@functools.cache
def receipt(number: int, cache: str | None = None) -> dict[str, Any]:
    """Returns a receipt as a server with three slots makes it, for question number `number`."""
    question, used = QUESTIONS[number], known_generator(3, 8, cache=cache)
    request = used.submit(question.prompt, question.most, question.sampling, question.stop_tokens, logits=True)
    while not request.finished:
        used.step()
    transcript = Transcript(Pieces(), question.most, question.stop_tokens, question.stop)
    for token, logits in zip(request.tokens, request.logits, strict=True):
        if transcript.finish is None:
            transcript.add(token, tensor_digest(logits, "f32"))
    return make_receipt(question, transcript, known_identity(cache=cache), {**VERSIONS, "target": "somewhere"})


def verify(given: dict[str, Any], used: Generator, known: ModelIdentity | None = None) -> Transcript:
    """Checks a receipt as `repro verify --model` does, and returns the recomputed transcript."""
    found, said = verification.find_receipt(json.loads(json.dumps(given)), "answer.json")
    verification.check_itself(found, said)
    verification.check_model(found, known or known_identity(), VERSIONS)
    return verification.recompute(found, used, Pieces(), "answer.json")


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
@pytest.mark.parametrize(
    ("chunk", "target"), [(1, "cpu"), (16, "cpu:x86-64-v2"), (4, "ptx-emulator"), (9, "reference")]
)
@pytest.mark.diagonal(target=["cpu:x86-64-v2", "ptx-emulator"])
def test_answers_verify_on_other_targets(number: int, chunk: int, target: str) -> None:
    if target == "reference" and number:
        pytest.skip("slow")
    transcript = verify(receipt(number), known_generator(1, chunk, target))
    assert transcript.tokens == receipt(number)["tokens"]


def test_the_program_with_one_slot_identifies_the_model() -> None:
    one = known_generator(1, 16, "cpu:x86-64-v2")
    assert one._programs[-1].token._executable.program.hash == known_identity().program
    assert known_generator(3, 8)._programs[-1].token._executable.program.hash != known_identity().program
    other = identity_of(small_model(6), CAPACITY)
    assert other.program == known_identity().program and other.weights != known_identity().weights
    smaller = identity_of(small_model(), CAPACITY - 1)
    assert smaller.program != known_identity().program and smaller.weights == known_identity().weights
    # The identity of the weights is the hash (H3) of the parameters. Weights of linear layers are transposed, as in the
    # program.
    model = small_model()
    linear = {f"{name}.weight" for name, module in model.named_modules() if type(module).__name__ == "Linear"}
    values = [
        (value.detach().t().numpy() if name in linear else value.detach().numpy(), "f32")
        for name, value in model.named_parameters()
    ]
    assert known_identity().weights == state_hash((np.ascontiguousarray(value), element) for value, element in values)


def test_programs_and_weights_can_be_written(tmp_path: Path) -> None:
    programs = programs_of(small_model(), CAPACITY)
    programs.write(tmp_path / "out")
    for name in ("program", "choice"):
        data = (tmp_path / "out" / f"{name}.repro").read_bytes()
        assert examine(data).identity == getattr(known_identity(), name)
    listed = json.loads((tmp_path / "out" / "weights.json").read_text())
    tensors = small_model().state_dict()
    digests = []
    for each in listed:
        value = tensors[each["name"]].t() if each["transposed"] else tensors[each["name"]]
        assert list(value.shape) == each["shape"] and each["element"] == "f32"
        data = value.contiguous().numpy().tobytes()
        head = (
            b"repro-tensor-v1\0" + b"f32".ljust(16, b"\0") + struct.pack(f"<I{value.dim()}Q", value.dim(), *value.shape)
        )
        digests.append(blake3(head + data).digest())
        assert digests[-1].hex() == each["hash"]
    counted = b"repro-state-v1\0\0" + struct.pack("<I", len(digests))
    assert blake3(counted + b"".join(digests)).hexdigest() == known_identity().weights
    # The parameters are the first state tensors of the program; the cache of keys and values follows.
    state = programs.program.state[: len(listed)]
    assert [list(kind.shape) for kind in state] == [each["shape"] for each in listed]
    with pytest.raises(ReproError, match="out: cannot create the folder: File exists"):
        programs.write(tmp_path / "out")


def sealed(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "hash": content_hash(given)}


def flipped(text: str) -> str:
    return ("1" if text[0] != "1" else "2") + text[1:]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "weights": flipped,
    "program": flipped,
    "choice": flipped,
    "capacity": lambda value: value + 1,
    "prompt": lambda value: [*value[:-1], value[-1] - 1],
    "temperature": lambda _: "0000c03f",
    "top_k": lambda _: 2,
    "top_p": lambda _: "0000003f",
    "seed": lambda _: "12",
    "max_tokens": lambda value: value - 1,
    "stop_tokens": lambda value: [*value, 11],
    "stop": lambda value: ["st", *value],
    "tokens": lambda value: [value[0] + 1, *value[1:]],
    "finish": lambda value: "stop" if value == "length" else "length",
    "logits": flipped,
    "text": flipped,
    "hash": flipped,
}
INFORMATION = {"format", "version", "numerics", "environment"}


def test_every_field_has_a_change() -> None:
    assert CHANGES.keys() | INFORMATION == receipt(0).keys()


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("number", range(len(QUESTIONS)))
@pytest.mark.diagonal
def test_a_changed_field_is_seen(name: str, number: int) -> None:
    changed = {**receipt(number), name: CHANGES[name](receipt(number)[name])}
    assert changed != receipt(number)
    with pytest.raises(ReceiptWrong) as wrong:
        verify(changed, known_generator(1, 16, "cpu:x86-64-v2"))
    assert wrong.value.place == "hash"


@pytest.mark.parametrize(
    "name", ["weights", "program", "choice", "capacity", "prompt", "temperature", "tokens", "finish", "logits", "text"]
)
def test_a_changed_field_with_a_matching_hash_is_found(name: str) -> None:
    """Changes one field of an answer and recomputes the receipt's hash. The other fields stay true."""
    changed = sealed({**receipt(2), name: CHANGES[name](receipt(2)[name])})
    with pytest.raises(ReceiptWrong) as wrong:
        verify(changed, known_generator(1, 16, "cpu:x86-64-v2"))
    assert wrong.value.place == name or name in ("prompt", "temperature", "tokens")


@pytest.mark.parametrize("count", [-1, 1])
def test_more_and_fewer_tokens(count: int) -> None:
    tokens = receipt(0)["tokens"]
    changed = sealed({**receipt(0), "tokens": tokens[:-1] if count < 0 else [*tokens, 5]})
    with pytest.raises(ReceiptWrong, match="token"):
        verify(changed, known_generator(1, 16, "cpu:x86-64-v2"))


def test_another_model() -> None:
    with pytest.raises(ReceiptWrong, match="weights"):
        verify(receipt(0), known_generator(1, 16, "cpu:x86-64-v2"), known_identity(6))
    # If another model's answer names the weights of the expected model, verification still fails, at a token or the
    # logits.
    lie = sealed({**receipt(2), "weights": known_identity(6).weights})
    with pytest.raises(ReceiptWrong, match=r"token 0|logits"):
        verify(lie, known_generator(1, 8, "cpu", 6), known_identity(6))


@pytest.mark.exhaustive
def test_a_cache_in_blocks_is_part_of_the_receipt() -> None:
    given, plain = receipt(1, "mxfp4"), receipt(1)
    assert json.loads(given["cache"])["element"] == "f4E2M1FN" and "cache" not in plain
    assert given["logits"] != plain["logits"] and given["weights"] == plain["weights"]
    eight = known_identity(cache="mxfp8")

    def check(each: dict[str, Any]) -> None:
        cache = each.get("cache")
        verify(each, known_generator(1, 16, "cpu:x86-64-v2", cache=cache), known_identity(cache=cache))

    check(given)
    with pytest.raises(ReceiptWrong) as wrong:
        check({**given, "cache": eight.cache})
    assert wrong.value.place == "hash"
    for lie, place in (
        ({**given, "cache": eight.cache}, "program"),
        ({**given, "cache": eight.cache, "program": eight.program}, "logits"),
        ({name: value for name, value in given.items() if name != "cache"}, "program"),
        # A receipt must have the text of the cache format, not a name of the format: one answer must not have two
        # receipts.
        ({**given, "cache": "mxfp4"}, "cache"),
    ):
        with pytest.raises(ReceiptWrong) as wrong:
            check(sealed(lie))
        assert wrong.value.place == place or (place == "logits" and wrong.value.place.startswith("token"))


def test_the_environment_is_not_part_of_the_claim() -> None:
    moved = {**receipt(0), "environment": {"target": "elsewhere", "x": "y"}}
    assert content_hash(moved) == moved["hash"]
    verify(moved, known_generator(1, 1))


def test_another_program_of_other_versions_is_not_an_accusation() -> None:
    """If versions of packages differ, even an honest receipt can name another program than the verifier's. Verification
    then raises an error that does not call the receipt wrong."""
    changed = sealed({**receipt(0), "program": flipped(receipt(0)["program"])})
    with pytest.raises(ReceiptWrong, match="program"):
        verify(changed, known_generator(1, 1))
    changed["environment"] = {"repro_mlir": "1", "another": "3\n"}
    made = "made with repro_mlir 1, another 3, got another, made with repro_mlir 1, another 2"
    with pytest.raises(ReproError, match=made) as error:
        verify(changed, known_generator(1, 1))
    assert not isinstance(error.value, ReceiptWrong)


def test_a_question_that_the_model_does_not_take() -> None:
    for change in ({"prompt": [99]}, {"prompt": []}, {"max_tokens": CAPACITY}, {"stop_tokens": [99]}):
        with pytest.raises(ReceiptWrong, match="prompt"):
            verify(sealed({**receipt(0), **change}), known_generator(1, 1))


def test_the_schema_takes_receipts_and_no_others() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for number in range(len(QUESTIONS)):
        validator.validate(receipt(number))
    validator.validate(receipt(1, "mxfp4"))
    assert set(SCHEMA["required"]) == set(receipt(0))
    assert set(SCHEMA["properties"]) == set(receipt(1, "mxfp4")) == {*receipt(0), "cache"}
    assert not validator.is_valid({**receipt(0), "cache": None})
    for change, message in MALFORMED:
        # A JSON schema cannot express the rules whose errors contain these texts.
        if not any(each in message for each in ("form C", "below 2", "expected a temperature", "top_p above")):
            assert not validator.is_valid({**receipt(0), **change}), change


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"format": "x"}, "format: expected 'repro-answer'"),
    ({"version": 2}, "expected a receipt of version 1, got one of version 2"),
    ({"numerics": 2}, "expected a receipt of numerics 1, got one of numerics 2"),
    ({"extra": 1}, "unknown key 'extra'"),
    ({"weights": "ab"}, "weights: expected 64 lower-case hexadecimal digits"),
    ({"capacity": 0}, "capacity: expected a whole number of at least 1"),
    ({"capacity": 2**53}, "below 2^53"),
    ({"capacity": 1.5}, "capacity: expected a whole number"),
    ({"prompt": 5}, "prompt: expected an array"),
    ({"prompt": [-1]}, "prompt[0]: expected a whole number of at least 0"),
    ({"prompt": [True]}, "prompt[0]: expected a whole number of at least 0"),
    ({"prompt": [2**53]}, "prompt[0]: expected a whole number below 2^53"),
    ({"temperature": 1}, "temperature: expected 8 lower-case hexadecimal digits"),
    ({"temperature": "0000803F"}, "temperature: expected 8 lower-case hexadecimal digits"),
    ({"temperature": "0000c07f"}, "expected a temperature"),
    ({"temperature": "000080bf"}, "expected a temperature"),
    ({"top_p": "00000000"}, "expected top_p above 0"),
    ({"top_k": 0}, "top_k: expected a whole number of at least 1"),
    ({"seed": 5}, "seed: expected the digits"),
    ({"seed": "05"}, "seed: expected the digits"),
    ({"seed": "-5"}, "seed: expected the digits"),
    ({"seed": "٣"}, "seed: expected the digits"),
    ({"seed": str(2**64)}, "below 2^64"),
    ({"max_tokens": 0}, "max_tokens: expected a whole number of at least 1"),
    ({"stop": ["a"] * 5}, "stop: expected at most 4 strings, got 5"),
    ({"stop": [""]}, "stop[0]: expected 1 to 200 characters, got 0"),
    ({"stop": ["e\u0301"]}, "form C"),
    ({"finish": "error"}, "finish: expected 'stop' or 'length'"),
    ({"environment": {"a": 1}}, "environment.a: expected a string"),
]


@pytest.mark.parametrize(("change", "message"), MALFORMED)
def test_malformed_receipts(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ReproError) as error:
        verification.find_receipt({**receipt(0), **change}, "answer.json")
    assert not isinstance(error.value, ReceiptWrong)
    assert message in str(error.value) and str(error.value).startswith("answer.json: ")


@pytest.mark.parametrize("value", [None, 1, [], {}, {"receipt": None}, {"receipt": {}}, {"error": {}}])
def test_other_json(value: Any) -> None:
    with pytest.raises(ReproError, match=re.escape("answer.json: ")):
        verification.find_receipt(value, "answer.json")


@pytest.mark.parametrize("missing", ["format", "logits", "environment"])
def test_a_field_that_is_missing(missing: str) -> None:
    given = copy.deepcopy(receipt(0))
    del given[missing]
    with pytest.raises(ReproError, match=f"expected the key '{missing}', which is missing"):
        read_receipt(given, "answer.json")


def whole(number: int, choice: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Returns an answer as a server sends it, with only the fields that verification compares with the receipt."""
    said = receipt(number)
    usage = {"prompt_tokens": len(said["prompt"]), "completion_tokens": len(said["tokens"])}
    return {"choices": [{"finish_reason": said["finish"], **choice}], "usage": usage, "receipt": said, **others}


def test_a_whole_answer_is_compared() -> None:
    text = verify(receipt(1), known_generator(1, 1)).text
    message = {"role": "assistant", "content": text}
    for said in ({"text": text}, {"message": message}):
        verify(whole(1, said), known_generator(1, 1))
    finish = CHANGES["finish"](receipt(1)["finish"])
    for place, lie in (
        ("text", whole(1, {"text": f"{text}!"})),
        ("finish_reason", whole(1, {"text": text, "finish_reason": finish})),
        ("prompt_tokens", whole(1, {"text": text}, usage={"prompt_tokens": 1, "completion_tokens": 2})),
        ("completion_tokens", whole(1, {"text": text}, usage={**whole(1, {})["usage"], "completion_tokens": None})),
    ):
        with pytest.raises(ReceiptWrong) as wrong:
            verify(lie, known_generator(1, 1))
        assert wrong.value.place is not None and wrong.value.place.rpartition(".")[2] == place
    both = {"text": text, "message": {**message, "content": "another"}}
    event = {"choices": [{"text": "", "finish_reason": receipt(1)["finish"]}], "receipt": receipt(1)}
    choices = ([], [{}], [{"text": 1}], [{"message": None}], "x", ["text"], [{"text": text}] * 2)
    with pytest.raises(ReproError, match=re.escape("unknown field choices[0].text of an answer")):
        verify(whole(1, both), known_generator(1, 1))
    for other in (event, *(whole(1, {}, choices=each) for each in choices)):
        with pytest.raises(ReproError, match="expected the whole answer of a server"):
            verify(other, known_generator(1, 1))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from leaves(each, (*path, key)) if isinstance(each, dict | list) and each else [(*path, key)]


@pytest.mark.parametrize("chat", [False, True])
def test_every_field_of_an_answer_is_compared_or_named(chat: bool) -> None:
    """Changes each value and adds a field to each object: verification must detect the change or report the field as
    not compared."""
    said = receipt(1)
    text = verify(said, known_generator(1, 1)).text
    form = _Form(chat, "small", QUESTIONS[1], known_identity())
    transcript = SimpleNamespace(text=text, finish=said["finish"], tokens=said["tokens"])
    answer = json.loads(json.dumps(form.whole(transcript, said)))  # type: ignore[arg-type]
    found, fields = verification.find_receipt(answer, "answer.json")
    listed = ["receipt.environment", "id", "created", "model"]
    assert verification.check_itself(found, fields) == listed
    for path in leaves(answer):
        name = path[0] if path[0] != "receipt" else ".".join(map(str, path[:2]))
        for other in ("other", 999999, True, None, [1], {"a": 1}):
            changed = copy.deepcopy(answer)
            place = functools.reduce(lambda inner, key: inner[key], path[:-1], changed)
            if type(place[path[-1]]) is type(other) and place[path[-1]] == other:
                continue
            is_free = name in listed and type(place[path[-1]]) is type(other)
            place[path[-1]] = other
            if is_free:
                verification.check_itself(*verification.find_receipt(changed, "answer.json"))
                continue
            with pytest.raises(ReproError):
                verification.check_itself(*verification.find_receipt(changed, "answer.json"))
    objects: list[tuple[Any, ...]] = [(), ("usage",), ("choices", 0), ("receipt",)]
    for path in [*objects, ("choices", 0, "message")] if chat else objects:
        for value in ("call_1", 7, {}, [], {"deep": [1]}):
            changed = copy.deepcopy(answer)
            functools.reduce(lambda inner, key: inner[key], path, changed)["tool_calls"] = value
            with pytest.raises(ReproError, match="tool_calls"):
                verification.find_receipt(changed, "answer.json")
    for name in ("usage.total_tokens", "choices[0].index"):
        # A key that looks like the path of a field is not that field.
        with pytest.raises(ReproError, match=re.escape(f"unknown field '{name}' of an answer")):
            verification.find_receipt({name: 7, **answer}, "answer.json")
    answer["choices"][0]["message" if chat else "refusal"] = {**answer["choices"][0].get("message", {}), "audio": None}
    verification.check_itself(*verification.find_receipt(answer, "answer.json"))


def test_no_weights() -> None:
    assert len(json.dumps(receipt(2))) < 2000
