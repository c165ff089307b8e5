# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests which fields of a request are accepted. Every other field must be refused, not ignored."""

from typing import Any

import pytest
from repro_mlir.serving.fields import Refused, read_fields


def completion(**fields: Any) -> Any:
    return read_fields({"prompt": "x", **fields}, "small", chat=False)


def test_defaults() -> None:
    got = completion()
    assert (got.prompt, got.most, got.stop, got.stream, got.usage) == ("x", None, (), False, False)
    assert (got.sampling.temperature, got.sampling.top_p, got.sampling.top_k) == (1.0, 1.0, None)
    chat = read_fields({"messages": [{"role": "user", "content": "x"}]}, "small", chat=True)
    assert chat.most is None and chat.prompt is None and chat.messages == [{"role": "user", "content": "x"}]


def test_a_seed_is_drawn_where_one_is_needed() -> None:
    seeds = {completion().sampling.seed for _ in range(20)}
    assert len(seeds) == 20 and all(0 <= seed < 2**53 for seed in seeds)
    assert completion(temperature=0).sampling.seed == 0
    assert completion(seed=-1).sampling.seed == -1
    assert completion(seed=2**64 - 1, temperature=0).sampling.seed == 2**64 - 1


def test_numbers_are_those_of_f32() -> None:
    assert completion(temperature=0.7).sampling.temperature == 0.699999988079071
    assert completion(top_p=0.1).sampling.top_p == 0.10000000149011612
    assert str(completion(temperature=-0.0).sampling.temperature) == "0.0"
    # This temperature is zero in f32; zero means that the token with the greatest logit is chosen.
    assert completion(temperature=1e-60).sampling.temperature == 0


def test_neutral_values_of_fields_that_are_not_supported() -> None:
    completion(n=1, best_of=1, echo=False, presence_penalty=0.0, frequency_penalty=0, logit_bias={}, user="me")
    completion(n=None, logprobs=None, suffix=None, seed=None, stop=None, temperature=None)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"n": 2}, "n", "n is not supported"),
        ({"n": True}, "n", "n is not supported"),
        ({"echo": 0}, "echo", "echo is not supported"),
        ({"logprobs": 3}, "logprobs", "logprobs is not supported"),
        ({"suffix": ""}, "suffix", "suffix is not supported"),
        ({"presence_penalty": 0.5}, "presence_penalty", "not supported"),
        ({"temprature": 0.5}, "temprature", "unknown field 'temprature'"),
        ({"temprature": None}, "temprature", "unknown field 'temprature'"),
        ({"messages": []}, "messages", "unknown field 'messages'"),
        ({"a\nb" * 100: 1}, ("a b" * 100)[:60], "unknown field"),
        ({"model": "other"}, "model", "expected the model 'small', got 'other'"),
        ({"model": 5}, "model", "expected a string, got a number"),
        ({"prompt": ["a", "b"]}, "prompt", "one prompt for each request"),
        ({"prompt": [1, True]}, "prompt", "one prompt for each request"),
        ({"prompt": {}}, "prompt", "expected a string or an array of tokens"),
        ({"prompt": None}, "prompt", "expected the field prompt"),
        ({"max_tokens": 0}, "max_tokens", "at least 1, got 0"),
        ({"max_tokens": 1.0}, "max_tokens", "at least 1, got 1.0"),
        ({"max_tokens": True}, "max_tokens", "at least 1, got a truth value"),
        ({"temperature": -0.1}, "temperature", "expected a temperature from 0"),
        ({"temperature": 1e39}, "temperature", "expected a temperature from 0"),
        ({"temperature": 10**400}, "temperature", "expected a temperature from 0"),
        ({"temperature": "1"}, "temperature", "expected a number, got a string"),
        ({"temperature": True}, "temperature", "expected a number, got a truth value"),
        ({"top_p": 0}, "top_p", "expected top_p above 0"),
        ({"top_p": 1e-60}, "top_p", "expected top_p above 0"),
        ({"top_p": 1.1}, "top_p", "expected top_p above 0 and at most 1"),
        ({"top_k": 0}, "top_k", "expected a whole number from 1"),
        ({"top_k": 2**53}, "top_k", "expected a whole number from 1"),
        ({"seed": 2**64}, "seed", "expected a whole number of 64 bits"),
        ({"seed": 0.5}, "seed", "expected a whole number of 64 bits"),
        ({"stop": ""}, "stop", "expected 1 to 200 characters, got 0"),
        ({"stop": "x" * 201}, "stop", "expected 1 to 200 characters, got 201"),
        ({"stop": ["a"] * 5}, "stop", "expected at most 4 strings, got 5"),
        ({"stop": ["a", 1]}, "stop", "expected a string or an array of strings"),
        ({"stop": "e\u0301"}, "stop", "expected text in Unicode normalization form C"),
        ({"stream": 1}, "stream", "expected true or false, got a number"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "expected stream_options only with stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options", "include_usage"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        completion(**fields)
    assert message in refused.value.message and refused.value.status in (400, 404)
    assert refused.value.field is not None and refused.value.field.startswith(field)
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "messages",
    [
        None, [], "x", [1], [{}], [{"role": "user"}], [{"role": "tool", "content": "x"}],
        [{"role": [], "content": "x"}], [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}], [{"role": "user", "content": "x", "name": "y"}],
    ],
)  # fmt: skip
def test_messages_that_are_none(messages: Any) -> None:
    with pytest.raises(Refused):
        read_fields({"messages": messages}, "small", chat=True)


@pytest.mark.parametrize("body", [None, 1, "x", [], [{"prompt": "x"}]])
def test_bodies_that_are_not_objects(body: Any) -> None:
    with pytest.raises(Refused, match="expected an object"):
        read_fields(body, "small", chat=False)


def test_two_names_of_one_field() -> None:
    messages = [{"role": "user", "content": "x"}]
    assert read_fields({"messages": messages, "max_completion_tokens": 3}, "small", chat=True).most == 3
    with pytest.raises(Refused, match="expected only one of max_tokens and max_completion_tokens"):
        read_fields({"messages": messages, "max_completion_tokens": 3, "max_tokens": 3}, "small", chat=True)
    with pytest.raises(Refused, match="unknown field"):
        completion(max_completion_tokens=3)
