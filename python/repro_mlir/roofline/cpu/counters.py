# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hardware and kernel event counters of threads of this process (perf_event_open(2)), where available."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Collection, Sequence
from types import TracebackType

from repro_mlir.base.errors import ReproError

# The type and the number of each event (linux/perf_event.h): hardware events first, then software events.
_EVENTS = {
    "cycles": (0, 0),
    "instructions": (0, 1),
    "branch_misses": (0, 5),
    "l1_read_misses": (3, 0x10000),
    "cache_misses": (0, 3),
    "page_faults": (1, 2),
    "processor_nanoseconds": (1, 1),
}
EVENTS = tuple(_EVENTS)
"""The names of the events, counted in user mode; the CPU defines which cache level `cache_misses` refers to."""

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
_CLOSE_ON_EXEC = 8
# The structure perf_event_attr in its first published version.
_ATTRIBUTE = struct.Struct("<IIQQQQQIIQ")
# Flags: pinned (the event never shares its counter), exclude_kernel and exclude_hv.
_FLAGS = 1 << 2 | 1 << 5 | 1 << 6


def threads_of_process() -> set[int]:
    """Returns the kernel's IDs of the threads of this process.

    Raises:
      ReproError: the system does not list threads.
    """
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except OSError as error:
        raise ReproError(f"cannot list the threads of this process: {error}") from None


class Counters:
    """Counters of the events of a set of threads. The counters run until they are closed.

    Attributes:
      names: the counted events, a subset of `EVENTS`.
      descriptors: file descriptors with eight-byte values, grouped by event, one for each thread.
      refused: for each event that is not counted, the reason, by the name of the event.
    """

    def __init__(self, threads: Collection[int]):
        """Opens the counters.

        Args:
          threads: thread IDs, at least one.
        """
        self.refused: dict[str, str] = {}
        self._threads = len(threads)
        found: dict[str, list[int]] = {}
        for name, (kind, number) in _EVENTS.items():
            opened: list[int] = []
            for thread in sorted(threads):
                try:
                    opened.append(_open(kind, number, thread))
                except OSError as error:
                    self.refused[name] = error.strerror or str(error)
                    break
            if len(opened) == len(threads):
                found[name] = opened
            else:
                _close(opened)
        self.names = tuple(found)
        self.descriptors = [each for opened in found.values() for each in opened]

    def added(self, counts: Sequence[int | None]) -> dict[str, int]:
        """Returns the sum of the counts of all threads for each event. `counts` has one count for each descriptor; a
        missing count is None.

        An event whose count is missing for any thread is refused from then on.
        """
        found = {}
        for i, name in enumerate(self.names):
            parts = counts[i * self._threads : (i + 1) * self._threads]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                found[name] = sum(known)
            else:
                # Reading a pinned event fails once another program has taken its counter.
                self.refused[name] = "another program has the counter"
        return found

    def __enter__(self) -> Counters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _close(self.descriptors)


def _open(kind: int, number: int, thread: int) -> int:
    call = _SYSTEM_CALL.get(platform.machine())
    if call is None:
        raise OSError(f"the system call number of perf_event_open is unknown for {platform.machine()}")
    attribute = _ATTRIBUTE.pack(kind, _ATTRIBUTE.size, number, 0, 0, 0, _FLAGS, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    opened = library.syscall(
        ctypes.c_long(call), attribute, ctypes.c_int(thread), ctypes.c_int(-1), ctypes.c_int(-1), _CLOSE_ON_EXEC
    )
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(opened)


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)
