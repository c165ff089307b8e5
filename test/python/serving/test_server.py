# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests a server on loopback: an answer depends only on its request, and a fault gives one clear error."""

import asyncio
import json
import re
import signal
import socket
import time
from typing import Any

import pytest
from repro_mlir.serving import verification
from support.http_client import Reply, ask, call, get, head, post, read_reply
from support.small_server import CAPACITY, PIECES, Pieces, SmallServer, known_generator, known_identity

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def check(answer: dict[str, Any]) -> dict[str, Any]:
    """Verifies an answer as `repro verify --model` does and returns its receipt."""
    receipt, said = verification.find_receipt(answer, "answer")
    verification.check_itself(receipt, said)
    verification.check_model(receipt, known_identity(), {})
    verification.recompute(receipt, known_generator(1, 5, "cpu:x86-64-v2"), Pieces(), "answer")
    return receipt


def error(reply: Reply) -> dict[str, Any]:
    """Returns the error in a reply, after checking that it has the fields of OpenAI's errors."""
    value = reply.json()
    assert value.keys() == {"error"} and value["error"].keys() == {"message", "type", "param", "code"}
    assert reply.headers["content-type"] == "application/json"
    return value["error"]


def test_served_models(server: SmallServer) -> None:
    assert get(server.port, "/health").json() == {"status": "ok"}
    (model,) = get(server.port, "/v1/models").json()["data"]
    assert model == get(server.port, "/v1/models/small").json()
    assert (model["id"], model["object"], model["capacity"]) == ("small", "model", CAPACITY)
    assert (model["weights"], model["program"]) == (known_identity().weights, known_identity().program)


def test_a_completion_and_its_receipt(server: SmallServer) -> None:
    question = {"model": "small", "prompt": "the stop", "max_tokens": 20, "temperature": 0.8, "seed": 3}
    answer = ask(server.port, COMPLETIONS, question).json()
    receipt = check(answer)
    assert answer["object"] == "text_completion" and answer["id"].startswith("cmpl-")
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == receipt["finish"] and choice["index"] == 0
    assert choice["text"] == Pieces().decode(receipt["tokens"])
    assert receipt["prompt"] == Pieces().encode("the stop") and receipt["seed"] == "3"
    assert answer["usage"] == {
        "prompt_tokens": len(receipt["prompt"]),
        "completion_tokens": len(receipt["tokens"]),
        "total_tokens": len(receipt["prompt"]) + len(receipt["tokens"]),
    }
    again = ask(server.port, COMPLETIONS, {**question, "prompt": receipt["prompt"]}).json()
    assert again["receipt"] == receipt and again["id"] != answer["id"]


def test_a_conversation(server: SmallServer) -> None:
    messages = [{"role": "system", "content": "be"}, {"role": "user", "content": "a cat"}]
    answer = ask(server.port, CHAT, {"messages": messages, "max_completion_tokens": 7, "seed": 1}).json()
    receipt = check(answer)
    assert answer["object"] == "chat.completion" and receipt["max_tokens"] == 7
    assert receipt["prompt"] == Pieces().encode("be.a cat.")
    assert answer["choices"][0]["message"]["role"] == "assistant"
    events = ask(
        server.port, CHAT, {"messages": messages, "max_completion_tokens": 7, "seed": 1, "stream": True}
    ).events()
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-1]["receipt"] == receipt and {each["object"] for each in events} == {"chat.completion.chunk"}
    text = "".join(each["choices"][0]["delta"].get("content", "") for each in events)
    assert text == answer["choices"][0]["message"]["content"]


def test_without_max_tokens_a_completion_is_short(server: SmallServer) -> None:
    for length, most in ((3, 16), (CAPACITY - 4, 5), (CAPACITY, 1)):
        answer = ask(server.port, COMPLETIONS, {"prompt": [12] * length, "seed": 1}).json()
        assert answer["receipt"]["max_tokens"] == most


def test_without_max_tokens_a_conversation_has_all_the_room(server: SmallServer) -> None:
    answer = ask(server.port, CHAT, {"messages": [{"role": "user", "content": "a" * 40}], "seed": 1}).json()
    assert answer["receipt"]["max_tokens"] == CAPACITY - 41 + 1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stop", [[], ["st", "é", "a"]])
@pytest.mark.diagonal
def test_a_stream_has_the_text_of_the_whole_answer(server: SmallServer, seed: int, stop: list[str]) -> None:
    question = {"prompt": "x", "max_tokens": 40, "seed": seed, "stop": stop, "temperature": 1.5}
    whole = ask(server.port, COMPLETIONS, question).json()
    events = ask(
        server.port, COMPLETIONS, {**question, "stream": True, "stream_options": {"include_usage": True}}
    ).events()
    usage = events.pop()
    assert usage["usage"] == whole["usage"] and usage["choices"] == []
    assert "".join(each["choices"][0]["text"] for each in events) == whole["choices"][0]["text"]
    assert [each["choices"][0]["finish_reason"] for each in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert events[-1]["receipt"] == whole["receipt"] and len({each["id"] for each in events}) == 1
    assert not any(each in whole["choices"][0]["text"] for each in stop)
    check(whole)


def test_a_seed_that_the_server_drew_is_in_the_receipt(server: SmallServer) -> None:
    answers = [ask(server.port, COMPLETIONS, {"prompt": "a", "max_tokens": 30}).json() for _ in range(2)]
    seeds = [answer["receipt"]["seed"] for answer in answers]
    assert seeds[0] != seeds[1]
    for answer, seed in zip(answers, seeds, strict=True):
        check(answer)
        again = ask(server.port, COMPLETIONS, {"prompt": "a", "max_tokens": 30, "seed": int(seed)}).json()
        assert again["receipt"] == answer["receipt"]
    greedy = [ask(server.port, COMPLETIONS, {"prompt": "a", "temperature": 0}).json()["receipt"] for _ in range(2)]
    assert greedy[0] == greedy[1] and greedy[0]["seed"] == "0"


WRONG: list[tuple[Any, int, str]] = [
    (b"", 400, "the body: expected JSON"),
    (b"{", 400, "the body: expected JSON"),
    (b"\xff\xfe", 400, "the body: expected JSON in UTF-8"),
    (b'{"prompt": "\\ud800"}', 400, "the body: expected JSON in UTF-8"),
    (b'{"prompt": "a", "temperature": NaN}', 400, "NaN is not a finite number"),
    (b'{"prompt": "a", "temperature": 1e999}', 400, "1e999 is not a finite number"),
    (b'{"prompt": "a", "prompt": "b"}', 400, "a key occurs twice"),
    (b"[" * 4000, 400, "at most 32 levels"),
    (b'{"prompt": "a", "seed": ' + b"9" * 3000 + b"}", 400, "expected a whole number of 64 bits"),
    ([], 400, "expected an object, got an array"),
    ({}, 400, "expected the field prompt"),
    ({"prompt": ""}, 400, "prompt: expected at least one token, got none"),
    ({"prompt": []}, 400, "prompt: expected at least one token, got none"),
    ({"prompt": "A"}, 400, "prompt: no token for b'A'"),
    ({"prompt": [len(PIECES)]}, 400, f"prompt: expected tokens from 0 to {len(PIECES) - 1}, got {len(PIECES)}"),
    ({"prompt": [-1]}, 400, "got -1"),
    ({"prompt": [2**70]}, 400, f"got {2**70}"),
    ({"prompt": [5] * (CAPACITY + 1)}, 400, f"a prompt of {CAPACITY + 1} tokens and 1 new ones are more than"),
    ({"prompt": [5] * 900, "max_tokens": 1}, 400, "a prompt of 900 tokens"),
    ({"prompt": "a", "max_tokens": CAPACITY + 1}, 400, f"more than the capacity of {CAPACITY}"),
    ({"prompt": "a", "max_tokens": 10**300}, 400, f"more than the capacity of {CAPACITY}"),
    ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens: expected a whole number of at least 1"),
    ({"prompt": "a", "temperature": -1}, 400, "temperature: expected a temperature from 0"),
    ({"prompt": "a", "n": 2}, 400, "n is not supported"),
    ({"prompt": "a", "tools": []}, 400, "unknown field 'tools'"),
    ({"prompt": "a", "\ud800"[:0] + "x\x00" * 100: 1}, 400, "unknown field"),
    ({"prompt": "a", "model": "other"}, 404, "got 'other'"),
    ({"prompt": "a" * 5000}, 413, "expected a body of at most 4,096 bytes"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_requests_that_are_none(server: SmallServer, number: int) -> None:
    value, status, message = WRONG[number]
    reply = ask(server.port, COMPLETIONS, value)
    assert reply.status == status and message in error(reply)["message"]
    assert error(reply)["type"] == "invalid_request_error" and len(error(reply)["message"]) < 300


def test_a_conversation_that_the_template_refuses(server: SmallServer) -> None:
    reply = ask(server.port, CHAT, {"messages": [{"role": "user", "content": "A"}]})
    assert reply.status == 400 and error(reply)["param"] == "messages"


def test_other_paths_methods_types_and_hosts(server: SmallServer) -> None:
    assert error(get(server.port, "/v1/nothing"))["message"] == "GET /v1/nothing: Not Found"
    assert get(server.port, COMPLETIONS).status == 405 and get(server.port, f"{COMPLETIONS}/").status == 404
    assert error(get(server.port, "/v1/models/x%20y"))["code"] == "model_not_found"
    assert ask(server.port, COMPLETIONS, {"prompt": "a"}, content_type="text/plain").status == 415
    assert ask(server.port, COMPLETIONS, {"prompt": "a"}, content_type="application/json; charset=utf-8").status == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[::1].evil.example"):
        assert ask(server.port, COMPLETIONS, {"prompt": "a"}, host=host).status == 421, host
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:80"):
        assert ask(server.port, COMPLETIONS, {"prompt": "a"}, host=host).status == 200, host


def run(*calls: Any) -> list[Any]:
    async def together() -> list[Any]:
        return await asyncio.gather(*calls)

    return asyncio.run(together())


def test_many_at_a_time_with_faults_are_not_mixed_up(server: SmallServer) -> None:
    """Every third of 240 clients disconnects. Each of the others gets the answer that it would get alone."""
    questions = [
        {"prompt": prompt, "max_tokens": 25, "seed": seed, "temperature": 1.2}
        for seed, prompt in enumerate(["the ", "stop a b c", "é€", "?", "quick brown fox jumps", "zz"])
    ]
    alone = [ask(server.port, COMPLETIONS, question).json() for question in questions]
    for answer in alone:
        check(answer)
    assert len({answer["receipt"]["hash"] for answer in alone}) == len(questions)
    gate = asyncio.Semaphore(12)

    async def one(number: int) -> None:
        which = number % len(questions)
        stream = number % 2 == 0
        async with gate:
            if number % 3 == 0:
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                data = post(COMPLETIONS, {**questions[which], "stream": stream})
                writer.write(data[: len(data) - (number % 9 == 0)])
                await writer.drain()
                await asyncio.sleep(0.001 * (number % 7))
                writer.close()
                return
            reply = await call(server.port, post(COMPLETIONS, {**questions[which], "stream": stream}))
        assert reply.status == 200
        answer = reply.events()[-1] if stream else reply.json()
        assert answer["receipt"] == alone[which]["receipt"]

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(240)))

    asyncio.run(all_of_them())


def test_requests_over_one_connection_one_after_the_other_and_at_once(server: SmallServer) -> None:
    questions = [{"prompt": "a b", "max_tokens": 4 + i, "seed": i} for i in range(5)]
    alone = [ask(server.port, COMPLETIONS, question).json()["receipt"] for question in questions]

    async def pipelined() -> list[Reply]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"".join(post(COMPLETIONS, question) for question in questions) + post(COMPLETIONS, b"{"))
        replies = [await read_reply(reader) for _ in range(len(questions) + 1)]
        writer.write(post(COMPLETIONS, questions[0]))
        replies.append(await read_reply(reader))
        writer.close()
        return replies

    *replies, wrong, last = asyncio.run(pipelined())
    assert [reply.json()["receipt"] for reply in [*replies, last]] == [*alone, alone[0]] and wrong.status == 400


async def closed_after(reader: asyncio.StreamReader, start: float) -> float:
    """Reads and drops data until the peer closes the connection. Returns the seconds since `start`."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - start


def test_slow_and_endless_bodies(server: SmallServer) -> None:
    async def slow() -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head(COMPLETIONS, 100) + b'{"prompt')
        reply = await read_reply(reader)
        writer.close()
        return reply

    async def slow_but_whole() -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in post(COMPLETIONS, {"prompt": "a"}):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.002)
        reply = await read_reply(reader)
        writer.close()
        return reply

    async def endless() -> tuple[Reply, float]:
        """Sends a chunked body that does not end."""
        start = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"POST {COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )

        async def send() -> None:
            try:
                while True:
                    writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                pass

        sending = asyncio.ensure_future(send())
        reply = await read_reply(reader)
        seconds = await closed_after(reader, start)
        await sending
        return reply, seconds

    late, whole, (large, seconds) = run(slow(), slow_but_whole(), endless())
    assert late.status == 408 and error(late)["code"] == "request_timeout"
    assert whole.status == 200 and large.status == 413 and seconds < 20


def test_connections_without_a_request_are_closed(server: SmallServer) -> None:
    async def silent(data: bytes) -> float:
        start = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        seconds = await closed_after(reader, start)
        writer.close()
        return seconds

    after_an_answer = head("/health", 0, method="GET")
    seconds = run(*(silent(data) for data in (b"", b"POST /v1/compl", b"\r\n", after_an_answer)))
    assert all(each < 10 for each in seconds), seconds


def test_a_connection_that_is_used_stays(server: SmallServer) -> None:
    async def used() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(8):
            writer.write(post(COMPLETIONS, {"prompt": "a", "max_tokens": 2}))
            assert (await read_reply(reader)).status == 200
            await asyncio.sleep(0.55)
        writer.close()

    run(used())


def test_bytes_that_are_not_http(server: SmallServer) -> None:
    async def send(data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        got = await reader.read(1 << 16)
        writer.close()
        return got

    negative = head(COMPLETIONS, 5).replace(b"content-length: 5", b"content-length: -5")
    large = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 3_000_000 + b"\r\n\r\n"
    two = head(COMPLETIONS, 5).replace(b"content-length: 5", b"content-length: 5\r\ncontent-length: 6")
    *others, last = run(*(send(data) for data in (b"\x16\x03\x01" * 20, b"nonsense\r\n\r\n", negative, two, large)))
    assert all(got.startswith(b"HTTP/1.1 400 ") for got in others), others
    assert last == b"" or last.startswith(b"HTTP/1.1 431 ")


def test_heads_that_are_not_clear(server: SmallServer) -> None:
    """A request head that can be read in two ways is refused with a status, and the connection is closed."""
    body = json.dumps({"prompt": [1], "max_tokens": 1}).encode()
    plain = head(COMPLETIONS, len(body))
    length = f"content-length: {len(body)}".encode()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    def changed(old: bytes, new: bytes, content: bytes = body) -> bytes:
        assert old in plain
        return plain.replace(old, new) + content

    refused = [
        (400, changed(length, length + b"\r\ntransfer-encoding: chunked", chunks)),
        (400, changed(length, b"transfer-encoding: chunked\r\n" + length, chunks)),
        (400, changed(length, length + b"\r\n" + length)),
        (400, changed(length, length + b", %d" % len(body))),
        (400, changed(length, b"content-length: +5")),
        (501, changed(length, b"transfer-encoding: gzip, chunked", chunks)),
        (400, changed(length, b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", chunks)),
        (400, changed(length, b"transfer-encoding : chunked", chunks)),
        (415, changed(length, length + b"\r\ncontent-encoding: gzip")),
        (415, changed(b"application/json", b"application/json; charset=utf-16")),
        (400, changed(b"content-type", b"content-type: text/plain\r\ncontent-type")),
        (417, changed(length, length + b"\r\nexpect: something")),
        *((505, changed(b"HTTP/1.1", version)) for version in (b"HTTP/9.9", b"HTTP/1.9", b"HTTP/2.0")),
        (400, changed(b"HTTP/1.1", b"HTTP/1.0").replace(length, b"transfer-encoding: chunked")),
        (400, changed(b"POST /", b"POST http://127.0.0.1/")),
        (400, changed(b"POST /", b"POST http://evil.example/")),
        (400, changed(b"POST /", b"POST //evil.example/")),
        (400, b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (400, b"CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (400, changed(length, b"x: a\r\n b\r\n" + length)),
        (400, changed(length, length.replace(b": ", b":\r\n "))),
        (400, plain.replace(b"\r\n", b"\n") + body),
        (400, changed(length, b"x: a\ny: b\r\n" + length)),
        (400, changed(length, b"x: a\ry: b\r\n" + length)),
        (400, changed(length, b"x: a\0b\r\n" + length)),
        (431, changed(length, b"x: " + b"a" * 70_000 + b"\r\n" + length)),
        (431, changed(length, b"x: a\r\n" * 101 + length)),
        *(
            (421, changed(b"127.0.0.1", host))
            for host in (
                b"localhost:8911@evil.example",
                b"localhost:abc",
                b"localhost:99999",
                b"localhost, evil.example",
            )
        ),
    ]
    taken = [
        plain + body,
        changed(length, b"transfer-encoding: chunked", chunks),
        changed(length, b"transfer-encoding: chunked", chunks.replace(b"\r\n", b";name=value\r\n", 1)),
        changed(length, length + b"\r\ncontent-encoding: identity"),
        changed(b"application/json", b"application/json; charset=UTF-8"),
        changed(b"127.0.0.1", b"localhost:"),
    ]

    async def send(data: bytes, wait: bool) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        # With `wait`, reads until the connection is closed, otherwise only the head of the reply.
        got = await asyncio.wait_for(reader.read() if wait else reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        return got

    for status, data in refused:
        (got,) = run(send(data, True))
        assert got.startswith(b"HTTP/1.1 %d " % status) and got.count(b"HTTP/1.1") == 1, (status, data[:200], got)
    for data in taken:
        (got,) = run(send(data, False))
        assert got.startswith(b"HTTP/1.1 200 "), (data, got)
    # The second request on a connection is checked, too: here, its head is refused.
    (got,) = run(send(plain + body + refused[0][1], True))
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"400"]


def test_a_server_that_is_full() -> None:
    with SmallServer(quick=True, slots=1, delay=0.05, options={"waiting": 2, "connections": 20}) as small:
        question = {"prompt": "a", "max_tokens": 20, "temperature": 0, "stop": []}
        asked = [call(small.port, post(COMPLETIONS, question)) for _ in range(12)]
        replies = run(*asked)
        statuses = sorted(reply.status for reply in replies)
        assert statuses == [200] * 3 + [429] * 9
        full = next(reply for reply in replies if reply.status == 429)
        assert error(full)["code"] == "queue_full" and error(full)["type"] == "rate_limit_error"
        assert full.headers["retry-after"] == "1"
        assert ask(small.port, COMPLETIONS, {**question, "max_tokens": 1}).status == 200
        connections = [socket.create_connection(("127.0.0.1", small.port)) for _ in range(45)]
        time.sleep(0.2)
        assert small.files() < 65
        for each in connections:
            each.close()
        assert small.end()[0] == 0


def test_the_places_of_clients_that_left_come_back() -> None:
    """If clients disconnect, their slots are free at once. Computing their answers would take nine more seconds."""
    with SmallServer(quick=True, slots=1, delay=0.2, options={"waiting": 2}) as small:
        question = {"prompt": "a", "max_tokens": CAPACITY, "stream": True}
        for _ in range(3):
            leave(small.port, question)
        deadline = time.monotonic() + 5
        while ask(small.port, COMPLETIONS, {"prompt": "a", "max_tokens": 1}).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert small.end()[0] == 0


def leave(port: int, question: dict[str, Any]) -> None:
    """Sends a request and closes the connection after the first bytes of the reply."""

    async def go() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(COMPLETIONS, question))
        await reader.read(10)
        writer.close()

    asyncio.run(go())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_answers_end_before_the_server_does(number: signal.Signals) -> None:
    with SmallServer(quick=True, delay=0.02) as small:
        question = {"prompt": "a", "max_tokens": 30, "seed": 4}

        async def asked() -> list[Reply]:
            calls = [
                asyncio.ensure_future(call(small.port, post(COMPLETIONS, {**question, "stream": stream})))
                for stream in (False, True, False, True, False)
            ]
            idle = await asyncio.open_connection("127.0.0.1", small.port)
            await asyncio.sleep(0.3)
            small.process.send_signal(number)
            replies = list(await asyncio.gather(*calls))
            idle[1].close()
            return replies

        replies = asyncio.run(asked())
        receipts = [(reply.events()[-1] if i % 2 else reply.json())["receipt"] for i, reply in enumerate(replies)]
        assert all(receipt == receipts[0] for receipt in receipts)
        assert small.process.communicate(timeout=30) == ("ended\n", "") and small.process.returncode == 0
        with pytest.raises(OSError):
            get(small.port, "/health")


def test_answers_that_take_longer_than_the_grace_time_are_given_up() -> None:
    with SmallServer(quick=True, delay=0.5, options={"grace_seconds": 1}) as small:

        async def asked() -> Any:
            question = {"prompt": "a", "max_tokens": 40, "temperature": 0}
            calls = [call(small.port, post(COMPLETIONS, {**question, "stream": s})) for s in (False, True)]
            pending = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0.5)
            small.process.send_signal(signal.SIGTERM)
            return await pending

        start = time.monotonic()
        whole, stream = asyncio.run(asked())
        assert (isinstance(whole, Exception) or whole.status in (500, 503)) and isinstance(stream, Exception)
        assert small.process.wait(20) == 0 and time.monotonic() - start < 10


def test_a_step_that_does_not_end_blocks_no_client() -> None:
    with SmallServer(quick=True, delay=30, options={"grace_seconds": 1, "step_seconds": 0.2}) as small:

        async def asked() -> Any:
            pending = asyncio.ensure_future(call(small.port, post(COMPLETIONS, {"prompt": "a"})))
            await asyncio.sleep(0.5)
            small.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(pending, return_exceptions=True)

        (reply,) = asyncio.run(asked())
        assert isinstance(reply, Exception) or reply.status in (500, 503)
        assert small.process.communicate(timeout=10) == ("in a step\n", "") and small.process.returncode == 0


def test_a_second_signal_ends_it_now() -> None:
    with SmallServer(quick=True, delay=0.5) as small:

        async def asked() -> Any:
            call_ = call(small.port, post(COMPLETIONS, {"prompt": "a", "max_tokens": 40, "temperature": 0}))
            pending = asyncio.ensure_future(call_)
            await asyncio.sleep(0.5)
            small.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            small.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(pending, return_exceptions=True)

        (reply,) = asyncio.run(asked())
        assert isinstance(reply, Exception) and small.process.wait(5) == -signal.SIGTERM


def test_a_fault_of_the_engine_ends_everything() -> None:
    with SmallServer(quick=True, delay=0.02, fails_after=10) as small:
        question = {"prompt": "a", "max_tokens": 40, "temperature": 0}
        replies = run(*(call(small.port, post(COMPLETIONS, {**question, "stream": s})) for s in (False, True) * 4))
        for i, reply in enumerate(replies):
            if i % 2 == 0:
                assert reply.status == 500 and error(reply)["code"] == "engine_failed"
            else:
                last = reply.body.decode().split("\n\n")[-2]
                assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_failed"
        output, errors = small.process.communicate(timeout=30)
        assert small.process.returncode == 2 and output == ""
        assert errors == "serve: error: the engine failed: RuntimeError: a fault of the test: start the server again\n"


def test_two_servers_at_one_port_and_one_after_it_was_killed(server: SmallServer) -> None:
    with pytest.raises(AssertionError, match=r"cannot listen on 127\.0\.0\.1:[0-9]+: Address already in use"):
        _ = SmallServer(quick=True, port=server.port).port
    with SmallServer(quick=True) as killed:
        leave(killed.port, {"prompt": "a", "stream": True})
        killed.process.kill()
        killed.process.communicate()
        with SmallServer(quick=True, port=killed.port) as next_one:
            assert get(next_one.port, "/health").status == 200
            assert next_one.end()[0] == 0


def test_a_client_that_never_reads() -> None:
    """If a client never reads its reply, the memory for the reply is bounded, the connection is closed, and other
    clients are served."""

    async def never(port: int) -> float:
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.connect(("127.0.0.1", port))
        connected.setblocking(False)
        start = time.monotonic()
        question = post(COMPLETIONS, {"prompt": "a", "max_tokens": 40, "stream": True})
        try:
            while time.monotonic() - start < 30:
                await asyncio.get_running_loop().sock_sendall(connected, question)
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        connected.close()
        return time.monotonic() - start

    async def both(port: int) -> tuple[float, Reply]:
        return await asyncio.gather(never(port), call(port, post(COMPLETIONS, {"prompt": "a", "max_tokens": 3})))

    with SmallServer(quick=True, buffer=4096, options={"write_seconds": 1.0}) as small:
        seconds, reply = asyncio.run(both(small.port))
        assert reply.status == 200 and 1 < seconds < 20
        assert get(small.port, "/health").status == 200 and small.end() == (0, "ended\n", "")
