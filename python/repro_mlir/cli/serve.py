# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro serve: serves a model over HTTP and returns a receipt with each answer."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command, needed_packages
from repro_mlir.cli.target import add_target

if TYPE_CHECKING:
    from repro_mlir.generation.generator import Generator
    from repro_mlir.generation.identity import ModelIdentity
    from repro_mlir.serving.tokenizer import Tokenizer

_CAPACITY = 2048
"""The default maximum number of tokens per request; a model with fewer positions or --capacity overrides it."""

_NOTES = """examples:
  repro serve model --port 8000
  repro serve model --slots 8 --capacity 1024 --cache mxfp8

exit status:
  0    ended by SIGINT or SIGTERM, after the answers that were running; a second signal ends it at once
  2    could not start, or failed
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro serve`."""
    command = add_command(commands, "serve", _serve, "serve a model over HTTP, with a receipt for each answer")
    command.epilog = _NOTES
    command.add_argument("folder", metavar="DIR", help="a model of transformers and its tokenizer (safetensors)")
    add_target(command)
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (127.0.0.1)")
    command.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="the port to listen on, 0 for any free one (8000)"
    )
    command.add_argument("--name", metavar="NAME", help="the model's name for clients (the directory's name)")
    command.add_argument(
        "--capacity", type=positive, metavar="N", help=f"tokens of a request, prompt included ({_CAPACITY} or less)"
    )
    command.add_argument("--slots", type=positive, default=4, metavar="N", help="requests computed at a time (4)")
    command.add_argument("--chunk", type=positive, default=32, metavar="N", help="tokens of a prompt at a time (32)")
    command.add_argument(
        "--cache",
        metavar="FORMAT",
        help="the format of cached keys and values: a recipe's name, or a format in JSON (f32)",
    )
    command.add_argument("--waiting", type=positive, default=64, metavar="N", help="requests that may wait (64)")
    command.add_argument("--connections", type=positive, default=256, metavar="N", help="open connections (256)")
    command.add_argument(
        "--body-bytes", type=positive, default=1 << 18, metavar="N", help="bytes of a request, at most (262144)"
    )
    command.add_argument(
        "--grace", type=positive, default=30, metavar="S", help="seconds in which running answers may end (30)"
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _serve(options: argparse.Namespace) -> int:
    from repro_mlir.execute.executable import check_runs
    from repro_mlir.execute.executor import name_for_others

    with needed_packages():
        from repro_mlir.integrations.model_folder import versions
        from repro_mlir.serving.options import ServerOptions
        from repro_mlir.serving.server import bind, listen, serve

    limits = ServerOptions(
        waiting=options.waiting,
        connections=options.connections,
        body_bytes=options.body_bytes,
        grace_seconds=options.grace,
    )
    check_runs(options.target)
    with bind(options.host, options.port) as bound:
        generator, tokenizer, identity = _load(options)
        name = options.name or Path(options.folder).resolve().name
        url = listen(bound)
        report = {"url": url, "name": name, "target": options.target, **vars(identity)}
        report["cache_bytes"] = generator.cache_bytes
        if options.json:
            tell(json.dumps(report))
        else:
            tell(f"weights  {identity.weights}", f"program  {identity.program}")
            tell(f"cache    {generator.cache_bytes} bytes, {identity.cache or 'f32'}", f"serving  {name} at {url}/v1")
        environment = {**versions(), "target": name_for_others(options.target)}
        if not serve(bound, generator, tokenizer, identity, name, environment, options.slots, limits):
            # Exits at once: a normal exit of Python would wait for the thread that is still computing.
            os._exit(0)
    return 0


def _load(options: argparse.Namespace) -> tuple[Generator, Tokenizer, ModelIdentity]:
    """Loads the model in the directory; returns its generator, tokenizer and identity."""
    from repro_mlir.generation.generator import Generator
    from repro_mlir.generation.identity import identity_of
    from repro_mlir.integrations.model_folder import ModelFolder

    folder = ModelFolder(options.folder)
    capacity = options.capacity or min(_CAPACITY, folder.positions)
    folder.check_capacity(capacity)
    folder.tokenizer.prepare()
    identity = identity_of(folder.model, capacity, options.cache)
    beyond = max(folder.tokenizer.stop_tokens, default=0)
    if beyond >= identity.vocabulary:
        most = identity.vocabulary - 1
        raise ReproError(f"{folder.path}: expected an eos_token_id from 0 to {most}, got {beyond}")
    generator = Generator(
        folder.model,
        capacity,
        slots=options.slots,
        chunk=options.chunk,
        cache=options.cache,
        target=options.target,
        threads=options.threads,
    )
    return generator, folder.tokenizer, identity
