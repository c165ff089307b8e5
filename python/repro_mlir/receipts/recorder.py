# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Receipts of runs by `Trainer`, and going on after a run was cut off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import blake3
import numpy as np

from ..errors import ReceiptWrong, ReproError
from ..hashing import tensor_bytes, tensor_digests
from ..program import Program
from . import writer
from .commitments import Commitment, commit
from .comparison import differences
from .environment import describe
from .form import NUMERICS, STEPS, Header, Seal, Signature
from .options import ReceiptOptions
from .signing import PrivateKey
from .step_log import StoredInputs, loss_of


class Recorder:
    """Writes the receipt of one run.

    A step is recorded by `take`, then the step itself, then `commit`. The state is hashed before a step too: nobody
    else may have written it since the step before.

    Attributes:
      state: the state tensors by name; the run goes on from here and changes them in place.
      steps: how many steps are recorded. A resumed run begins at its last checkpoint; steps that the receipt has beyond
        it are computed again and compared.
      cursor: how many batches have been taken from the data, those of failed steps included.
    """

    def __init__(
        self, options: ReceiptOptions, program: Program, target: str, threads: int, nonfinite_loss: str = "warn"
    ) -> None:
        """Begins a receipt, or goes on with one.

        Args:
          options: where and how it is written.
          program: what is run, with the state in which the run begins.
          target, threads: for information.
          nonfinite_loss: see `Header`.
        Raises:
          ReproError: there is a receipt already, or one of another run, or of one that has stopped, or it cannot be
            written.
        """
        if options.checkpoint_every < 1:
            raise ReproError(f"expected at least 1 step between checkpoints, got {options.checkpoint_every}")
        self._path = Path(options.path)
        self._program = program
        self._key = PrivateKey(options.sign) if options.sign is not None else None
        self._inputs = StoredInputs(program.inputs)
        header = Header(
            NUMERICS,
            program.hash,
            Signature.of(program),
            commit(program, 0, program.initial).root.hex(),
            blake3.blake3(program.text.encode()).hexdigest(),
            options.store_batches,
            options.checkpoint_every,
            describe(target, threads),
            _script(options.script),
            nonfinite_loss,
        )
        try:
            header.dump()
        except ValueError as error:
            raise ReproError(f"the receipt cannot name the program's tensors: {error}") from None
        try:
            if not self._path.exists():
                writer.create(self._path, header, program)
            elif not options.resume:
                raise ReproError(f"{self._path} exists: resume it, or give the receipt another name")
            self._writer = writer.ReceiptWriter(self._path, header)
        except OSError as error:
            raise self._cannot_write(error) from None
        self.state = self._writer.state
        self.steps = self._writer.kept
        self.cursor = self._writer.log[self.steps].commitment.cursor if self.steps else 0
        if self.steps and nonfinite_loss == "stop":
            loss = loss_of(self._writer.log[self.steps], header.signature)
            if loss is not None and not math.isfinite(loss):
                self._writer.close()
                raise ReproError(f"{self._path}: the run has stopped, as step {self.steps} gave the loss {loss}")
        self._record = b""
        # The step that has been computed and hashed, while it is not recorded.
        self._computed: Commitment | None = None
        # No step runs while the hashing threads do.
        self._hashers = ThreadPoolExecutor(threads, "repro-hash")
        self._last = self._digests()

    def work_on(self, state: dict[str, np.ndarray]) -> None:
        """Goes on with other arrays, which get the values of `state` and take its place."""
        for name, array in state.items():
            array[...] = self.state[name]
        self.state = state

    def take(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Begins a step.

        Args:
          inputs: in the order of the program.
        Returns:
          what the step must read: copies with canonical NaNs (V4), as the receipt has them.
        Raises:
          ReproError: somebody else has written the state since the last step.
        """
        self._check_untouched(self._last)
        self._record = self._inputs.encode(inputs)
        return self._inputs.decode(self._record, f"step {self.steps + 1}")

    def skip(self) -> None:
        """Says that the step of `take` has failed: the receipt counts its batch and has no record of it."""
        self.cursor += 1

    def commit(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Records that the step has run, with the inputs of `take`; may be called again where it was cut short.

        Raises:
          ReproError: it could not be written.
          ReceiptWrong: a step computed again is not the one that the receipt has.
        """
        if self._computed is None:
            arrays = self._arrays()
            self._computed = commit(self._program, self.cursor + 1, arrays, inputs, outputs, self._hashers)
        self.finish(outputs)

    @property
    def can_finish(self) -> bool:
        """Whether a step that was cut short has been hashed, so that it can still be recorded."""
        return self._computed is not None

    def finish(self, outputs: Sequence[np.ndarray]) -> None:
        """Writes the record of the step that has been hashed; raises as `commit`."""
        computed = self._computed
        if computed is None:
            return
        step = self.steps + 1
        if step <= self._writer.recorded:
            self._compare(step, computed)
        else:
            with self._writing():
                self._writer.append(step, computed, self._record, self._loss(outputs))
        if step % self._writer.header.checkpoint_every == 0:
            self._keep(step, computed.state)
        self._last, self.cursor, self.steps, self._computed = computed.state, computed.cursor, step, None

    def seal(self) -> Seal:
        """Ends the run: keeps the last state and writes seal.json.

        Raises:
          ReproError: the receipt has more steps than this run, or cannot be written, or somebody else has written the
            state since the last step.
        """
        if self.steps < self._writer.recorded:
            raise ReproError(f"{self._path}: has {self._writer.recorded} steps, this run ended after {self.steps}")
        self._keep(self.steps, self._last)
        with self._writing():
            return self._writer.seal(self.steps, self._last, self._key)

    def close(self) -> None:
        """Ends the threads and closes the files; without `seal` the receipt is one to resume."""
        self._hashers.shutdown()
        self._writer.close()

    def _arrays(self) -> list[np.ndarray]:
        return [self.state[kind.name] for kind in self._program.state]

    def _digests(self) -> tuple[bytes, ...]:
        kinds = self._program.state
        arrays = self._arrays()
        return tuple(
            tensor_digests([(array, kind.element) for array, kind in zip(arrays, kinds, strict=True)], self._hashers)
        )

    def _check_untouched(self, digests: Sequence[bytes]) -> None:
        for kind, expected, actual in zip(self._program.state, digests, self._digests(), strict=True):
            if expected != actual:
                raise ReproError(
                    f"state {kind.name} has been written since step {self.steps}, and a receipt cannot say that: "
                    f"write the former values back, or begin another receipt; {self._path} can be resumed"
                )

    def _keep(self, step: int, digests: Sequence[bytes]) -> None:
        """Keeps the state, which must have these digests still."""
        self._check_untouched(digests)
        with self._writing():
            self._writer.keep(step, self._arrays())

    def _compare(self, step: int, commitment: Commitment) -> None:
        """A step computed again must be the one that was recorded before the run was cut off."""
        recorded = self._writer.log[step].commitment
        signature = self._writer.header.signature
        for place, expected, actual in differences(signature, recorded, commitment):
            raise ReceiptWrong(place, f"not as {self._path / STEPS} has it", step, expected, actual)

    def _loss(self, outputs: Sequence[np.ndarray]) -> bytes | None:
        for kind, array in zip(self._program.outputs, outputs, strict=True):
            if kind.name == "loss" and not kind.shape:
                return tensor_bytes(array, kind.element)
        return None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> ReproError:
        return ReproError(f"cannot write {error.filename or self._path}: {error.strerror}")


def _script(path: str | Path | None) -> tuple[str, str] | None:
    if path is None:
        return None
    try:
        return Path(path).name, blake3.blake3(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ReproError(f"cannot read {path}: {error.strerror}") from None
