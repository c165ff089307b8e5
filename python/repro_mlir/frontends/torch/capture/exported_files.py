# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads files of torch.export."""

import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import open_regular
from repro_mlir.frontends.torch.base.errors import CaptureError


def load(path: str | os.PathLike[str]) -> torch.export.ExportedProgram:
    """Loads the exported program of a file; the file's pickles may contain only tensors.

    Raises:
      ReproError: the file cannot be read, is damaged, or was not written by torch.export.
    """
    try:
        # PyTorch does not check the checksums of an archive, so it would load a damaged weight without an error.
        with open_regular(os.fspath(path), follow=True) as file, zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise CaptureError(f"{path}: {damaged} is damaged: its checksum does not match")
        with _tensors_alone():
            return torch.export.load(path)
    except ReproError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CaptureError(f"{path}: expected a file of torch.export.save, which cannot be read: {reason}") from None


_ENVIRONMENT = threading.Lock()
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@contextmanager
def _tensors_alone() -> Iterator[None]:
    """Within the block, sets the environment variable that restricts torch.export.load to unpickling tensors."""
    with _ENVIRONMENT:
        former = os.environ.get(_WEIGHTS_ONLY)
        os.environ[_WEIGHTS_ONLY] = "1"
        try:
            yield
        finally:
            if former is None:
                del os.environ[_WEIGHTS_ONLY]
            else:
                os.environ[_WEIGHTS_ONLY] = former
