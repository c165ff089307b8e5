# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Renders chat templates in a child process with limited resources, because a template is a program that comes with a
model."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock, Timer
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import foreign

TEXT_LIMIT = 1 << 22
"""The limit on characters of a conversation, because a template can write more text than memory can hold as tokens."""

PROCESSOR_SECONDS = 1
MEMORY_BYTES = 1 << 30
"""The memory that a template may use, beyond what the child uses before it receives the template."""

_START_SECONDS = 60
"""The time limit for the child's imports."""

_WALL_SECONDS = 9
"""The wall-clock limit for one conversation, including waits: the server tokenizes a text within 10 s."""

# The program of the child process. SIGVTALRM gets its default action, which ends the process, because a handler in
# Python could not interrupt a long operation in C, such as a power of large integers.
_CHILD = """
import json, os, resource, signal, sys
from transformers.utils.chat_template_utils import render_jinja_template
seconds, memory, most = map(int, sys.argv[1:])
signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
pages = int(open("/proc/self/statm").read().split()[0])
allowed = pages * os.sysconf("SC_PAGE_SIZE") + memory
resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
replies = sys.stdout
sys.stdout = sys.stderr
print("ready", file=replies, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        (text,), _ = render_jinja_template(
            conversations=[request["messages"]], chat_template=request["template"], add_generation_prompt=True,
            **request["variables"],
        )
        reply = {"text": text} if len(text) <= most else {"length": len(text)}
        reply = json.dumps(reply)
    except MemoryError:
        reply = json.dumps({"memory": True})
    except BaseException as error:
        reply = json.dumps({"error": (str(error) or type(error).__name__)[:1000]})
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(reply, file=replies, flush=True)
"""


class TemplateRenderer:
    """Renders conversations with one template. Methods may be called from several threads."""

    def __init__(self, template: str, variables: Mapping[str, Any]) -> None:
        """
        Args:
          template: a Jinja template, as transformers accepts it.
          variables: the values of variables that the template reads, such as special tokens.
        """
        self._fixed = {"template": template, "variables": dict(variables)}
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        self._is_ready = False

    def start(self) -> None:
        """Starts the child process, which takes seconds to be ready. Does not wait for it."""
        with self._lock:
            self._start()

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Returns the text of a conversation up to the model's next message.

        Raises:
          ReproError: the template rejects the messages, writes more than `TEXT_LIMIT` characters, or exceeds
            `PROCESSOR_SECONDS` or `MEMORY_BYTES`.
        """
        with self._lock:
            child = self._ready_child()
            assert child.stdin is not None and child.stdout is not None
            try:
                with _killed_after(_WALL_SECONDS, child):
                    child.stdin.write(json.dumps({**self._fixed, "messages": list(messages)}) + "\n")
                    child.stdin.flush()
                    line = child.stdout.readline()
            except BrokenPipeError:
                line = ""
        reply = json.loads(line) if line.endswith("\n") else {}
        if "text" in reply:
            text: str = reply["text"]
            return text
        if "length" in reply:
            raise ReproError(
                f"expected at most {TEXT_LIMIT:,} characters from the chat template, got {reply['length']:,}"
            )
        if "error" in reply:
            raise ReproError(f"the chat template refuses the messages: {foreign(reply['error'])}")
        limit = f"{MEMORY_BYTES >> 20} MiB" if reply else f"{PROCESSOR_SECONDS} s of processor time"
        raise ReproError(f"the chat template takes more than {limit}")

    def _ready_child(self) -> subprocess.Popen[str]:
        child = self._start()
        if not self._is_ready:
            assert child.stdout is not None
            with _killed_after(_START_SECONDS, child):
                line = child.stdout.readline()
            if line != "ready\n":
                raise ReproError("cannot start the process for chat templates")
            self._is_ready = True
        return child

    def _start(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            limits = map(str, (PROCESSOR_SECONDS, MEMORY_BYTES, TEXT_LIMIT))
            # The child exits when the server does, because that closes the child's stdin. -P keeps modules in the
            # current folder from being imported.
            self._child = subprocess.Popen(
                [sys.executable, "-Pc", _CHILD, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            # communicate() also closes the child's pipes.
            self._child.communicate()
            self._child, self._is_ready = None, False


@contextlib.contextmanager
def _killed_after(seconds: float, child: subprocess.Popen[str]) -> Iterator[None]:
    """A context manager that kills the child if the block takes longer than `seconds`."""
    timer = Timer(seconds, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
