# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests a server under load on loopback, with clients that are slow, disconnect, or send invalid requests.

python test/load/serving.py --requests 10000 --concurrent 8

A separate `Generator` computes the expected answers. Exits with 1 if an answer is lost, differs or does not verify,
if memory or the number of files grows, or if the server does not shut down cleanly.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from repro_mlir import Sampling
from repro_mlir.serving import verification
from repro_mlir.serving.receipt import text_hash
from support.http_client import call, head, post, read_reply
from support.small_server import CAPACITY, PIECES, Pieces, SmallServer, known_generator, known_identity

COMPLETIONS = "/v1/completions"
BODY_BYTES = 8192
DISTINCT = 40
"""The number of different questions."""

FAULTS = {
    "slow body": 0.04,
    "slow reader": 0.04,
    "leaves at once": 0.04,
    "leaves in the stream": 0.04,
    "leaves in the body": 0.03,
    "oversized": 0.03,
    "malformed JSON": 0.03,
    "refused field": 0.03,
    "no HTTP": 0.02,
}
"""The share of the requests for each type of faulty or slow client; slow clients get their answers."""

MOST_GROWTH = 64 << 20
"""The maximum number of bytes by which the memory of the server may grow after its first thousand requests."""


def questions() -> list[dict[str, Any]]:
    """Returns DISTINCT requests with different prompts, lengths and sampling parameters."""
    draw = random.Random(1)
    made = []
    for number in range(DISTINCT):
        prompt = [draw.randrange(1, len(PIECES)) for _ in range(draw.randint(1, CAPACITY - 2))]
        question = {"prompt": prompt, "max_tokens": draw.randint(1, CAPACITY - len(prompt) + 1), "seed": number}
        choices = [{"temperature": 0}, {"temperature": 0.8}, {"temperature": 1.5, "top_k": 9, "top_p": 0.75}]
        made.append(question | choices[number % 3])
    return made


def alone() -> Any:
    """Returns a generator with one slot; its prefill chunk and CPU level differ from those of the server."""
    return known_generator(1, 5, "cpu:x86-64-v2")


def expected(question: dict[str, Any]) -> list[int]:
    """Returns the tokens that the server should answer to a request."""
    sampling = Sampling(question["temperature"], question.get("top_k"), question.get("top_p", 1.0), question["seed"])
    return alone().generate([question["prompt"]], question["max_tokens"], sampling, Pieces.stop_tokens)[0]


class Load:
    """The clients, and counts of the answers that they received."""

    def __init__(self, port: int, requests: int, concurrent: int) -> None:
        self.port = port
        self.requests = requests
        self.concurrent = concurrent
        self.questions = questions()
        self.expected = [expected(question) for question in self.questions]
        self.seen: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self.samples: list[dict[str, Any]] = []

    async def run(self, begun: Any) -> None:
        """Sends all requests; calls `begun` before request 1000."""
        numbers = iter(range(self.requests))

        async def client() -> None:
            for number in numbers:
                if number == 1000:
                    begun()
                kind = self._kind(number)
                try:
                    await self._one(number, kind)
                    self.seen[kind] += 1
                except Exception as error:
                    self.errors.append(f"request {number} ({kind}): {type(error).__name__}: {error}")

        await asyncio.gather(*(client() for _ in range(self.concurrent)))

    def _kind(self, number: int) -> str:
        chance = random.Random(number).random()
        for kind, share in FAULTS.items():
            if chance < share:
                return kind
            chance -= share
        return "stream" if number % 2 else "whole"

    async def _one(self, number: int, kind: str) -> None:
        which = random.Random(f"question {number}").randrange(DISTINCT)
        question = {**self.questions[which], "stream": kind in ("stream", "slow reader", "leaves in the stream")}
        data = post(COMPLETIONS, question)
        start = time.perf_counter()
        if kind in ("whole", "stream"):
            reply = await call(self.port, data)
            self.seconds.append(time.perf_counter() - start)
            self._check(number, which, reply, question["stream"])
        elif kind in ("slow body", "slow reader"):
            await self._slowly(number, which, data, kind)
        elif kind.startswith("leaves"):
            await self._leave(number, data, kind)
        else:
            await self._refused(number, kind)

    def _check(self, number: int, which: int, reply: Any, stream: bool) -> None:
        assert reply.status == 200, f"status {reply.status}: {reply.body[:200]!r}"
        answer = reply.events()[-1] if stream else reply.json()
        receipt = answer["receipt"]
        assert receipt["tokens"] == self.expected[which], "another answer"
        assert receipt["prompt"] == self.questions[which]["prompt"], "of another question"
        text = "".join(each["choices"][0]["text"] for each in (reply.events() if stream else [answer]))
        verification.check_itself(receipt, {})
        assert text_hash(text) == receipt["text"], "another text"
        if number % 50 == 0:
            self.samples.append(receipt)

    async def _slowly(self, number: int, which: int, data: bytes, kind: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)
        try:
            if kind == "slow body":
                for part in range(0, len(data), 64):
                    writer.write(data[part : part + 64])
                    await writer.drain()
                    await asyncio.sleep(0.01)
            else:
                writer.write(data)
                await asyncio.sleep(0.3)
            self._check(number, which, await read_reply(reader), kind == "slow reader")
        finally:
            writer.close()

    async def _leave(self, number: int, data: bytes, kind: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data[: len(data) // 2 + 60] if kind == "leaves in the body" else data)
        await writer.drain()
        if kind == "leaves in the stream":
            await reader.read(300)
        if number % 2:
            writer.transport.abort()
        else:
            writer.close()

    async def _refused(self, number: int, kind: str) -> None:
        status, data = {
            "oversized": (413, post(COMPLETIONS, {"prompt": "a" * BODY_BYTES})),
            "malformed JSON": (400, post(COMPLETIONS, [b"{", b"\xff", b'{"prompt": "a", "seed": NaN}'][number % 3])),
            "refused field": (400, post(COMPLETIONS, {"prompt": "a", **[{"n": 2}, {"max_tokens": 10**9}][number % 2]})),
            "no HTTP": (400, head(COMPLETIONS, 0).replace(b"HTTP/1.1", b"nonsense")),
        }[kind]
        reply = await call(self.port, data)
        assert reply.status == status, f"status {reply.status}: {reply.body[:200]!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--concurrent", type=int, default=8)
    options = parser.parse_args()
    settings = {"slots": 4, "options": {"body_bytes": BODY_BYTES}}
    with SmallServer(**settings) as server:
        load = Load(server.port, options.requests, options.concurrent)
        memory = [server.rss()]
        files = server.files()
        start = time.perf_counter()
        asyncio.run(load.run(lambda: memory.append(server.rss())))
        seconds = time.perf_counter() - start
        time.sleep(1)
        memory.append(server.rss())
        left = server.files() - files
        status, output, errors = server.end()
    verified = 0
    for receipt in load.samples:
        try:
            verification.check_model(receipt, known_identity(), {})
            verification.recompute(receipt, alone(), Pieces(), "receipt")
            verified += 1
        except Exception as error:
            load.errors.append(f"a receipt: {error}")
    if memory[-1] - memory[-2] > MOST_GROWTH:
        load.errors.append(f"memory grows from {memory[-2]:,} to {memory[-1]:,} bytes")
    if left > 0:
        load.errors.append(f"{left} files are left open")
    if (status, output, errors) != (0, "ended\n", ""):
        load.errors.append(f"the server ended with {status}: {output!r} {errors!r}")
    ordered = sorted(load.seconds) or [0.0]
    print(
        json.dumps(
            {
                "requests": options.requests,
                "concurrent": options.concurrent,
                "kinds": dict(sorted(load.seen.items())),
                "answered": sum(load.seen[kind] for kind in ("whole", "stream", "slow body", "slow reader")),
                "seconds": round(seconds, 1),
                "p50_ms": round(1000 * ordered[len(ordered) // 2], 1),
                "p99_ms": round(1000 * ordered[len(ordered) * 99 // 100], 1),
                # Resident memory of the server at the start, after a thousand requests and at the end.
                "rss_mb": [round(each / 1e6, 1) for each in memory],
                "receipts_verified": verified,
                "errors": load.errors[:20],
            },
            indent=1,
        )
    )
    return int(bool(load.errors) or sum(load.seen.values()) != options.requests)


if __name__ == "__main__":
    sys.exit(main())
