# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The HTTP endpoints of the server, in the format of OpenAI's API (docs/guides/serving.md)."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.json_text import parse
from repro_mlir.base.printing import foreign, tell
from repro_mlir.generation.identity import ModelIdentity
from repro_mlir.serving.answer import completion_object, system_fingerprint, token_counts
from repro_mlir.serving.engine import Answer, Engine, EngineFailed, Full
from repro_mlir.serving.fields import Fields, Refused, check_model, read_fields
from repro_mlir.serving.options import ServerOptions
from repro_mlir.serving.receipt import Question, make_receipt
from repro_mlir.serving.tokenizer import Tokenizer
from repro_mlir.serving.transcript import Transcript

_TYPES = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
"""The error types by HTTP status; every other status is an error of the request."""


_SHORT = 16
"""The default number of tokens of a completion, as in OpenAI's API."""


class Api:
    """The web application: its endpoints, and the code that computes the answer to a request."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        identity: ModelIdentity,
        name: str,
        options: ServerOptions,
        environment: Mapping[str, str],
    ) -> None:
        """Creates the application.

        Args:
          name: the name of the model, for clients.
          environment: facts about the machine and software that compute answers, for the receipts.
        """
        self._engine = engine
        self._tokenizer = tokenizer
        self._identity = identity
        self._name = name
        self._options = options
        self._environment = environment
        self._created = int(time.time())
        self._stop_tokens = tuple(sorted(tokenizer.stop_tokens))
        # One thread makes all calls, since tokenizers need not be thread-safe.
        self._encoder = ThreadPoolExecutor(1, "tokenizer")
        routes = [
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
        ]
        if tokenizer.has_chat:
            routes.append(Route("/v1/chat/completions", self._chat, methods=["POST"]))
        self.application = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _http_error,
                Refused: _refused,
                ClientDisconnect: _gone,
                Exception: _fault,
            },
        )
        self.application.router.redirect_slashes = False

    # --- Endpoints ---

    async def _completions(self, request: Request) -> Response:
        return await self._answer(request, chat=False)

    async def _chat(self, request: Request) -> Response:
        return await self._answer(request, chat=True)

    async def _models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._described()]})

    async def _model(self, request: Request) -> Response:
        check_model(request.path_params["name"], self._name)
        return _json(self._described())

    def _described(self) -> dict[str, Any]:
        return {
            "id": self._name,
            "object": "model",
            "created": self._created,
            "owned_by": "local",
            "weights": self._identity.weights,
            "program": self._identity.program,
            "choice": self._identity.choice,
            "capacity": self._identity.capacity,
            "vocabulary": self._identity.vocabulary,
        }

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ending"}, 503) if self._engine.ends else _json({"status": "ok"})

    # --- Questions and answers ---

    async def _answer(self, request: Request, *, chat: bool) -> Response:
        fields = read_fields(await self._body(request), self._name, chat=chat)
        try:
            self._engine.reserve()
        except Full:
            raise Refused(429, "too many requests are waiting: try again later", code="queue_full") from None
        except EngineFailed:
            raise Refused(503, "the server is ending", code="ending") from None
        try:
            question = await self._question(fields)
        except BaseException:
            self._engine.release()
            raise
        try:
            answer = self._engine.ask(question)
        except EngineFailed:
            raise Refused(503, "the server is ending", code="ending") from None
        form = _Form(chat, self._name, question, self._identity)
        if fields.stream:
            return _Stream(self._events(answer, form, fields), lambda: self._engine.cancel(answer))
        return await self._whole(request, answer, form)

    async def _body(self, request: Request) -> Any:
        """Reads the body of a request, within the limits; returns its parsed JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # Web pages can send other content types without a CORS preflight. Rejecting these types protects a server
            # on this machine from web pages.
            raise Refused(
                415, f"expected content-type application/json, got {foreign(kind, 60)!r}", code="content_type"
            )
        limit = self._options.body_bytes
        too_large = Refused(413, f"expected a body of at most {limit:,} bytes", code="request_too_large")
        length = request.headers.get("content-length")
        if length is not None and int(length) > limit:
            raise too_large
        data = bytearray()
        try:
            async with asyncio.timeout(self._options.body_seconds):
                async for chunk in request.stream():
                    data += chunk
                    if len(data) > limit:
                        raise too_large
        except TimeoutError:
            raise Refused(
                408, f"expected the whole body within {self._options.body_seconds:g} s", code="request_timeout"
            ) from None
        try:
            return parse(bytes(data), "the body", limit)
        except ReproError as error:
            raise Refused(400, str(error), code="invalid_json") from None

    async def _question(self, fields: Fields) -> Question:
        """Returns the question that a request asks, with its prompt as tokens."""
        where = "messages" if fields.prompt is None else "prompt"
        if isinstance(fields.prompt, list):
            prompt = fields.prompt
        elif fields.prompt is None:
            prompt = await self._encoded(self._tokenizer.encode_chat, fields.messages, where)
        else:
            prompt = await self._encoded(self._tokenizer.encode, fields.prompt, where)
        if not prompt:
            raise Refused(400, f"{where}: expected at least one token, got none", where, "invalid_value")
        wrong = next((token for token in prompt if not 0 <= token < self._identity.vocabulary), None)
        if wrong is not None:
            most = self._identity.vocabulary - 1
            got = foreign(str(wrong), 40)
            raise Refused(400, f"{where}: expected tokens from 0 to {most}, got {got}", where, "invalid_value")
        # The last new token is never read by the model, so it needs no position in the cache.
        room = self._identity.capacity - len(prompt) + 1
        most = fields.most or max(1, room if fields.prompt is None else min(room, _SHORT))
        if most > room:
            raise Refused(
                400,
                f"a prompt of {len(prompt)} tokens and {foreign(str(most), 40)} new ones are more than the capacity of "
                f"{self._identity.capacity}",
                where if room < 1 else "max_tokens",
                "context_length_exceeded",
            )
        return Question(tuple(prompt), fields.sampling, most, self._stop_tokens, fields.stop)

    async def _encoded(self, encode: Callable[[Any], list[int]], given: Any, where: str) -> list[int]:
        """Calls `encode` on the tokenizer's thread; returns the tokens of the text or messages of a field."""
        seconds = self._options.encode_seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._encoder, encode, given)
        except TimeoutError:
            # A call that has not begun is cancelled. A running call cannot be stopped, even if its template never ends.
            raise Refused(503, f"{where}: the tokenizer took over {seconds:g} s", where, "tokenizer_timeout") from None
        except ReproError as error:
            raise Refused(400, f"{where}: {error}", where, "invalid_value") from None

    def close(self, seconds: float) -> bool:
        """Shuts down the tokenizer's thread; returns whether it has ended within `seconds`."""
        last = self._encoder.submit(int)
        self._encoder.shutdown(wait=False)
        return not wait((last,), seconds).not_done

    async def _pieces(self, answer: Answer, transcript: Transcript) -> AsyncIterator[str]:
        """Reads the tokens of an answer into `transcript` until the answer ends; yields the pieces of the text."""
        while transcript.finish is None:
            yield transcript.add(*await answer.next())

    def _transcript(self, question: Question) -> Transcript:
        return Transcript(self._tokenizer, question.most, question.stop_tokens, question.stop)

    async def _whole(self, request: Request, answer: Answer, form: _Form) -> Response:
        """Waits for the whole answer; returns it in one response."""
        transcript = self._transcript(answer.question)

        async def collect() -> None:
            async for _ in self._pieces(answer, transcript):
                pass

        collecting = asyncio.ensure_future(collect())
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((collecting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not collecting.done():
                raise ClientDisconnect
            try:
                collecting.result()
            except EngineFailed:
                raise Refused(500, "the server has failed", code="engine_failed") from None
        finally:
            # Needed even if the answer has ended, since a stop string ends it without the engine's knowledge.
            self._engine.cancel(answer)
            for task in (collecting, leaving):
                task.cancel()
            await asyncio.gather(collecting, leaving, return_exceptions=True)
        receipt = make_receipt(answer.question, transcript, self._identity, self._environment)
        return _json(form.whole(transcript, receipt))

    async def _events(self, answer: Answer, form: _Form, fields: Fields) -> AsyncIterator[bytes]:
        """Yields the events of a streamed answer as bytes: its pieces of text, then the receipt."""
        transcript = self._transcript(answer.question)
        if form.chat:
            yield _event(form.chunk({"role": "assistant", "content": ""}))
        try:
            async for piece in self._pieces(answer, transcript):
                if piece:
                    yield _event(form.chunk(piece))
        except EngineFailed:
            yield _event(_error(500, "the server has failed", code="engine_failed"))
            return
        except Exception as error:
            _tell_fault(error)
            yield _event(_error(500, "internal error", code="internal_error"))
            return
        receipt = make_receipt(answer.question, transcript, self._identity, self._environment)
        yield _event({**form.chunk({} if form.chat else "", transcript.finish), "receipt": receipt})
        if fields.usage:
            yield _event({**form.chunk(None), "usage": form.usage(transcript)})
        yield b"data: [DONE]\n\n"


async def _left(request: Request) -> None:
    """Returns when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """A response of server-sent events. Calls `after` when the events end for any reason, such as a disconnect of the
    client."""

    def __init__(self, events: AsyncIterator[bytes], after: Callable[[], None]) -> None:
        super().__init__(events, headers={"cache-control": "no-store"}, media_type="text/event-stream")
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._after()


class _Form:
    """Builds the JSON of the response to one request."""

    def __init__(self, chat: bool, model: str, question: Question, identity: ModelIdentity) -> None:
        self.chat = chat
        self._question = question
        self._head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": completion_object(chat),
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": system_fingerprint(identity.program, identity.weights),
        }

    def whole(self, transcript: Transcript, receipt: dict[str, Any]) -> dict[str, Any]:
        """Returns the JSON of a complete answer."""
        said: dict[str, Any] = (
            {"message": {"role": "assistant", "content": transcript.text}} if self.chat else {"text": transcript.text}
        )
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": transcript.finish}
        return {**self._head, "choices": [choice], "usage": self.usage(transcript), "receipt": receipt}

    def chunk(self, said: str | dict[str, str] | None, finish: str | None = None) -> dict[str, Any]:
        """Returns the JSON of an event of a stream. The choice in the event has `said`, a text or the delta of a
        message; if `said` is None, the event has no choice."""
        head = {**self._head, "object": "chat.completion.chunk"} if self.chat else self._head
        if said is None:
            return {**head, "choices": []}
        if self.chat:
            part: dict[str, Any] = {"delta": {"content": said} if isinstance(said, str) else said}
        else:
            part = {"text": said}
        return {**head, "choices": [{"index": 0, **part, "logprobs": None, "finish_reason": finish}]}

    def usage(self, transcript: Transcript) -> dict[str, int]:
        """Returns the field `usage`, with the token counts."""
        return token_counts(len(self._question.prompt), len(transcript.tokens))


def _dump(value: Any) -> bytes:
    # json.dumps escapes all characters beyond ASCII. So the bytes can represent every string, including lone
    # surrogates.
    return json.dumps(value, separators=(",", ":")).encode()


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_dump(value), status, headers, "application/json")


def _event(value: Any) -> bytes:
    return b"data: " + _dump(value) + b"\n\n"


def _error(status: int, message: str, field: str | None = None, code: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"retry-after": "1"} if error.status in (429, 503) else None
    return _json(_error(error.status, error.message, error.field, error.code), error.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Returns the response to an error that Starlette has raised, such as an unknown path or method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {foreign(request.url.path, 80)}: {error.detail}"
    return _json(_error(error.status_code, message), error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """Returns the response for a client that has disconnected. The response is not sent."""
    return Response(status_code=499)


async def _fault(request: Request, error: Exception) -> Response:
    """Prints an internal error, and returns a response without its details."""
    _tell_fault(error)
    return _json(_error(500, "internal error", code="internal_error"), 500)


def _tell_fault(error: Exception) -> None:
    tell(f"repro serve: internal error: {type(error).__name__}: {foreign(str(error))}", stream=sys.stderr)
