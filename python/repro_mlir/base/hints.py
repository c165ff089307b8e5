# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adds a hint to an error message that does not say what the user can do."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from types import TracebackType

_OF_SYSTEM = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "give the path of a file",
    errno.EEXIST: "give another path",
    errno.EACCES: "check the permissions of the path",
    errno.EPERM: "check the permissions of the path",
    errno.EROFS: "give a path on another file system",
    errno.ENOSPC: "free space, or give a path on another file system",
    errno.EDQUOT: "free space, or give a path on another file system",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ELOOP: "check the path",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.EADDRINUSE: "give another address or port",
}
"""Hints by the `errno` value of an error of the operating system."""

HINTS = {
    "": "check the arguments of this call",
    "base": "check the value that the message names",
    "base.files": "get this file again, or ask its author to write it again",
    "base.tensors": "give arrays of the expected shape and element type",
    "bundle": "repro compile --help describes bundles",
    "cli": "the command's --help describes its arguments",
    "compilation": "repro targets lists the targets",
    "conformance": "repro vectors --help describes folders and libraries",
    "determinism_report": "repro determinism --help describes files and options",
    "distributed": "start all ranks again with the same arguments",
    "execute": "repro targets lists what this machine runs",
    "frontends": "change the script, model or function that is captured",
    "generation": "check the model and the prompt",
    "gradient_compression": "change the compression method",
    "integrations": "check the model folder and the versions that repro doctor lists",
    "precision": "change the recipe; repro precision --list names the known ones",
    "precision_report": "repro precision --help describes the arguments",
    "program": "write the program again with repro compile",
    "program_training": "change the program or the arguments of training_step",
    "random": "check the arguments of this call",
    "reference": "write the program again with repro compile",
    "resume_check": "repro check-resume --help describes scripts and commands",
    "roofline": "repro roofline --help describes machines and presets",
    "roofline.cores": "repro map --help describes files and machines",
    "runner": "repro doctor says what this machine can do",
    "sandbox": "check the file; REPRO_MLIR_LIMITS changes the limits",
    "sandbox_worker": "check the file; REPRO_MLIR_LIMITS changes the limits",
    "script_runs": "check the script and the targets",
    "serving": "repro serve --help describes the options",
    "tensor_dumps": "repro diff --help describes dumps, patterns and manifests",
    "train": "change the options or batches of the script",
    "verification": "get the receipt or its files again, or check the path",
    "verification.dispute.addresses": "repro dispute --help describes addresses",
    "verification.dispute.folder": "name another folder",
    "verification.dispute.tokens": "repro dispute --help describes tokens",
    "verification.exports": "repro attest --help describes keys and declarations",
    "verification.receipts.choice": "repro verify --help describes --steps and --microbatches",
    "verification.receipts.signing": "give the path of another key",
}
"""Hints by room, for the errors that a room raises: the longest name that begins the module's name counts."""

_TELLS = re.compile(
    r"(?:[:;,] |\()(?:or |then )?(?:add|ask|apt-get|build|call|change|check|choose|compile|convert|delete|do|end|export"
    r"|free|get|give|install|leave|load|make|move|name|open|pass|pip|put|raise|read|record|reduce|remove|repeat|replace"
    r"|report|repro|resume|run|save|see|set|start|take|train|try|use|wait|write) "
    r"|: did you mean |\bdocs/[a-z/-]+\.md\b|(?:see|repro) .*--help\b"
)
"""Finds the part of a message that says what to do."""

_QUOTED = re.compile(r"(?<!\w)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?!\w)")


def with_hint(message: str, traceback: TracebackType | None, given: Iterable[str] = ()) -> str:
    """Returns the message of an error that was raised at `traceback`, with a hint at its end unless the message itself
    says what the user can do.

    Args:
      given: texts of the user, such as paths, that the message may contain and that say nothing to the user.
    """
    for code, hint in _OF_SYSTEM.items():
        if message.endswith(os.strerror(code)):
            return f"{message}: {hint}"
    own = message
    for text in given:
        # Only a text that looks like advice is left out: a text such as "a" is also a part of other words.
        own = own.replace(text, "") if _TELLS.search(text) else own
    return message if _TELLS.search(_QUOTED.sub("", own)) else f"{message}: {hint_of(_module(traceback))}"


def hint_of(module: str) -> str:
    """Returns the hint for errors that a module raises, such as "frontends.torch.scripts"."""
    rooms = [room for room in HINTS if not room or f"{module}.".startswith(f"{room}.")]
    return HINTS[max(rooms, key=len)]


def _module(traceback: TracebackType | None) -> str:
    """Returns the innermost module of this package in a traceback, relative to the package."""
    package = __name__.partition(".")[0] + "."
    found = ""
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        found = name.removeprefix(package) if name.startswith(package) else found
        traceback = traceback.tb_next
    return found
