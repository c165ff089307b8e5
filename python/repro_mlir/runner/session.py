# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the steps of a bundle on a GPU. The state stays in the memory of the GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import combine_digests, tensor_digest
from repro_mlir.base.numerics.overlap import find_overlap
from repro_mlir.base.numerics.tensors import TensorType, require_count, user_array
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.runner.bundle import Bundle
from repro_mlir.runner.device import Device
from repro_mlir.runner.device_array import DeviceArray, device_pointer, on_device
from repro_mlir.runner.driver import DriverError
from repro_mlir.runner.execution import Execution, choose_runnable

_ALIGNMENT = 16
"""The size in bytes of the largest vectors that kernels access."""


class Session(ConstantAttributes):
    """Trains or runs the program of a bundle; every step is one launch of a CUDA graph.

        session = Session("model.rmb")
        outputs = session.step(*session.bundle.recorded_inputs(0))
        print(outputs["loss"], session.state_hash())

    Attributes:
      bundle: the bundle.
      device: the GPU.
      architecture: the architecture of the code that runs.
      image: the loaded image, "cubin" or "PTX".
      steps: the number of steps that have run.
    """

    bundle: Bundle
    device: Device
    architecture: str
    image: str

    def __init__(
        self,
        bundle: Bundle | str | Path,
        device: Device | int = 0,
        *,
        state: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        use_cubin: bool = True,
        architecture: str | None = None,
    ) -> None:
        """
        Args:
          device: the GPU, or its number.
          state, inputs, outputs: arrays on that GPU (with __cuda_array_interface__ or DLPack) by name, to be used in
            place: every step updates such a state, reads such an input and writes such an output. A state begins with
            the present value of its array. The arrays must stay alive and not move. The session allocates the other
            buffers. Addresses must be multiples of 16, and only inputs may share memory with each other.
          use_cubin: whether to try the cubin before the PTX; the bits of the results are the same.
          architecture: the architecture of the code to run; by default the best one for the GPU, with tensor cores if
            they are certified.
        Raises:
          ReproError: the bundle cannot be read or loaded, memory cannot be allocated, or an array does not fit.
        """
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.device = device if isinstance(device, Device) else Device(device)
        self._owns_device = not isinstance(device, Device)
        names = self.bundle.architectures if architecture is None else [architecture]
        self.architecture = choose_runnable(names, self.device, str(self.bundle.path))
        kinds = {"state": self.bundle.state, "input": self.bundle.inputs, "output": self.bundle.outputs}
        bound: dict[tuple[str, int], int] = {}
        for space, given in (("state", state), ("input", inputs), ("output", outputs)):
            bound |= _bind(space, kinds[space], given or {}, self.device)
        _check_disjoint(bound, kinds)
        self._bound = bound
        self._execution = Execution(self.device, self.bundle.code(self.architecture), bound, use_cubin=use_cubin)
        self.image = self._execution.image
        self._steps = 0
        self.reset()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After some errors, every call of the driver fails, so errors of close() must not hide the first one.
        with contextlib.suppress(*([DriverError] if kind else [])):
            self.close()

    def close(self) -> None:
        """Frees everything that the session has allocated on the GPU. Later calls raise ReproError."""
        self._execution.close()
        if self._owns_device:
            self.device.close()

    @property
    def steps(self) -> int:
        """The number of steps that have run since the last `reset`."""
        return self._steps

    @property
    def allocated(self) -> int:
        """The size in bytes of the device memory that the session has allocated."""
        return self._execution.allocated

    def reset(self) -> None:
        """Sets `steps` to 0, and the states to the bundle's initial values, except states in arrays of the caller."""
        if all(("state", i) in self._bound for i in range(len(self.bundle.state))):
            self.device.synchronize_all()
        else:
            self.set_state(
                {
                    kind.name: array
                    for i, (kind, array) in enumerate(zip(self.bundle.state, self.bundle.initial_state(), strict=True))
                    if ("state", i) not in self._bound
                }
            )
        self._steps = 0

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Copies arrays from the CPU to the states with these names. Raises ReproError if a name is unknown, or if the
        type of an array is not that of its state."""
        numbers = {kind.name: i for i, kind in enumerate(self.bundle.state)}
        for name, value in state.items():
            if name not in numbers:
                raise ReproError(f"the program has no state {name}")
            kind = self.bundle.state[numbers[name]]
            array = np.ascontiguousarray(as_array(value, kind, "state"))
            self._execution.write("state", numbers[name], array)
            # The copy is asynchronous and may read from a temporary array, so that array must exist until the copy
            # ends.
            self.device.synchronize()

    def state(self) -> dict[str, np.ndarray]:
        """Returns a copy of each state, by name."""
        return {
            kind.name: self._execution.read("state", i).view(kind.dtype) for i, kind in enumerate(self.bundle.state)
        }

    def on_device(self, space: str = "state") -> dict[str, DeviceArray]:
        """Returns the states, inputs or outputs in GPU memory by name, without a copy.

        They can be passed to torch.as_tensor(..., device="cuda"), cupy.asarray and similar functions until the session
        is closed; the next step changes them.
        """
        # Uses the types in the bundle, because those in the plan do not say which integers are unsigned.
        kinds = {"state": self.bundle.state, "input": self.bundle.inputs, "output": self.bundle.outputs}
        if space not in kinds:
            raise ReproError(f"expected {' or '.join(kinds)}, got {space!r}")
        self._execution.check_open()
        return {
            kind.name: DeviceArray(kind, partial(self._execution.address, space, i), self)
            for i, kind in enumerate(kinds[space])
        }

    def step(self, *inputs: Any) -> dict[str, np.ndarray]:
        """Runs one step.

        Args:
          inputs: an array for each input without a bound array, hyper-parameters first: on the CPU as for `Executable`,
            or on this GPU.
        Returns:
          copies of the outputs, by name.
        Raises:
          ReproError: the number of inputs is wrong, or the type of an input is not the one in the program.
          StepFailed: a check of the program failed; the state is unchanged.
        """
        free = [i for i in range(len(self.bundle.inputs)) if ("input", i) not in self._bound]
        require_count([self.bundle.inputs[i] for i in free], inputs)
        if self._bound:
            # Waits for other streams of the device: another library may still be filling one of the caller's arrays.
            self.device.synchronize_all()
        # Copies to the device are asynchronous, so the variable keeps the arrays alive until the step has ended.
        kept = [self._send(i, value) for i, value in zip(free, inputs, strict=True)]
        self._execution.start()
        self._execution.finish()
        del kept
        self._steps += 1
        return {
            kind.name: user_array(self._execution.read("output", i).view(kind.dtype), kind)
            for i, kind in enumerate(self.bundle.outputs)
        }

    def replay(self, steps: int) -> float:
        """Runs one step and then `steps` more on the present inputs; returns the seconds per step of the latter, by the
        GPU's clock. Does not read outputs or failed checks between the steps. Raises ReproError for fewer than one
        step."""
        if steps < 1:
            raise ReproError(f"expected at least one step to measure, got {steps}")
        self._execution.start()
        start = self.device.event()
        for _ in range(steps):
            self._execution.start()
        seconds = self.device.elapsed(start, self.device.event()) / steps
        self._execution.finish()
        self._steps += steps + 1
        return seconds

    def _send(self, index: int, value: Any) -> Any:
        kind = self.bundle.inputs[index]
        if on_device(value):
            pointer = device_pointer(value, kind, "input", self.device.ordinal, is_written=False)
            self.device.synchronize_all()
            self.device.copy(self._execution.address("input", index), pointer, kind.nbytes)
            return value
        array = np.ascontiguousarray(as_array(value, kind, "input"))
        self._execution.write("input", index, array)
        return array

    def state_hash(self) -> str:
        """Returns the hash of the present state (H3), in hexadecimal."""
        return combine_digests(self.tensor_digests())

    def tensor_digests(self) -> list[bytes]:
        """Returns the hash of each state tensor (H1), in the order of the program."""
        # Reads one tensor at a time: the memory of the CPU need not have room for the whole state.
        return [
            tensor_digest(self._execution.read("state", i), kind.element) for i, kind in enumerate(self.bundle.state)
        ]


def _bind(
    space: str, kinds: Sequence[TensorType], given: Mapping[str, Any], device: Device
) -> dict[tuple[str, int], int]:
    numbers = {kind.name: i for i, kind in enumerate(kinds)}
    unknown = sorted(set(given) - set(numbers))
    if unknown:
        raise ReproError(f"the program has no {space} {unknown[0]}")
    bound = {}
    for name, value in given.items():
        kind = kinds[numbers[name]]
        pointer = device_pointer(value, kind, space, device.ordinal, is_written=space != "input")
        if beyond := pointer % _ALIGNMENT:
            raise ReproError(
                f"{space} {name}: expected an address that is a multiple of {_ALIGNMENT}, as the array is used in "
                f"place, got one {beyond} bytes beyond: a copy of the array has one"
            )
        bound[space, numbers[name]] = pointer
    return bound


def _check_disjoint(bound: Mapping[tuple[str, int], int], kinds: Mapping[str, Sequence[TensorType]]) -> None:
    """Raises ReproError if arrays of the caller overlap and a step writes to one of them, because kernels may cache
    what they read."""
    keys = list(bound)
    overlap = find_overlap((bound[space, i], kinds[space][i].nbytes, space != "input") for space, i in keys)
    if overlap is not None:
        first, second = (f"{space} {kinds[space][i].name}" for space, i in (keys[at] for at in overlap))
        raise ReproError(f"{first} and {second}: expected separate memory, but they overlap")
