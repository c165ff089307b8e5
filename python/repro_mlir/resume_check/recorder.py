# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records, in the process of a user's script, digests of the training state before each optimizer step.

This file imports only the standard library and PyTorch. `import_hook.py` loads it by its path. The record has one JSON
object per line:

- `{"step": k, "optimizer": "...", "state": {...}, "inputs": [...], "data": [...], "gradients": {...}, "labels":
  {...}}`: the k-th call of `Optimizer.step` in this process, k = 1, 2, ..., and the key of the optimizer. `state`
  contains the entries that have changed since the last line, with null for entries that no longer exist. It is read
  before the first forward pass after the last optimizer step. The gradients are those that `Optimizer.step` finds.
- `{"end": true, "state": {...}}`: the state at the end of the process.
- `{"interrupted": true}`: the process ended itself, because the checkpoint exists.
- `{"full": true}`: the record has reached its limit of bytes.
- `{"failed": "..."}`: the recorder itself has failed, for this reason.

The key of an entry consists of its kind, its owner and its name, with tabs in between.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import hashlib
import json
import os
import random
import sys
import sysconfig
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

VARIABLE = "REPRO_MLIR_RESUME_RECORD"
"""The environment variable with the JSON object {"path": the record, "limit": its bytes, "until": a checkpoint}."""

UNREADABLE = "unreadable"
"""The digest of a tensor without readable values; records.py has the same text."""

_TEXT = 80
"""The number of characters of a recorded value."""

_LONGEST_REASON = 300

_MOST_FRAMES, _MOST_VARIABLES, _MOST_MODELS, _MOST_CALLS, _MOST_LEAVES, _DEPTH = 16, 200, 32, 64, 4096, 8

# Entries of a scheduler's state that repeat others, and hyper-parameters that do not change a step.
_BOOKKEEPING = {"_step_count", "_get_lr_called_within_step", "_is_initial", "_last_lr", "verbose"}
_NEUTRAL = {"params", "param_names", "initial_lr", "foreach", "fused"}

# NotImplementedError is a RuntimeError.
_UNREADABLE_ERRORS = (RuntimeError, TypeError, ValueError)

_PACKAGES = ("site-packages", "dist-packages")
_LIBRARY = sysconfig.get_paths()["stdlib"]


def digest(tensor: torch.Tensor) -> str:
    """Returns a digest of a tensor's element type, shape and values, as hexadecimal text; `UNREADABLE` for a tensor
    without readable values, such as one on the device meta."""
    try:
        return _digest_of_values(tensor)
    except _UNREADABLE_ERRORS:
        return UNREADABLE


def _digest_of_values(tensor: torch.Tensor) -> str:
    if hasattr(tensor, "to_local"):
        # A DTensor: this process has one shard.
        tensor = tensor.to_local()
    if hasattr(tensor, "__tensor_flatten__"):
        # A subclass without memory of its own, such as a quantized tensor.
        names, _ = tensor.__tensor_flatten__()
        parts = (_digest_of_values(getattr(tensor, name)) for name in names)
        return _text_digest("\n".join([f"{tensor.dtype}{tuple(tensor.shape)}", *parts]))
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    hashed = hashlib.blake2b(f"{tensor.dtype}{tuple(tensor.shape)}".encode(), digest_size=12)
    held = tensor.resolve_conj().resolve_neg().to("cpu").contiguous()
    size = held.numel() * held.element_size()
    if size and not held.data_ptr():
        raise ValueError("expected a tensor with memory")
    if size:
        hashed.update(memoryview((ctypes.c_char * size).from_address(held.data_ptr())))
    return hashed.hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _array_digest(array: Any) -> str:
    """Returns a digest of an array of NumPy or of a package with the same protocol."""
    if array.dtype.hasobject:
        # The bytes of the array are addresses.
        return _tree_digest(array.tolist())
    header = f"{array.dtype}{array.shape}".encode()
    return hashlib.blake2b(header + array.tobytes(), digest_size=12).hexdigest()


def _is_array(value: Any) -> bool:
    return hasattr(value, "tobytes") and hasattr(getattr(value, "dtype", None), "hasobject")


def _leaves(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yields the values in nested containers: tensors, arrays, numbers, strings."""
    if depth and isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, depth - 1)
    else:
        yield value


def _tree_digest(value: Any) -> str:
    """Returns a digest of the tensors, arrays, numbers and strings in nested containers. Tensors that depend on
    parameters, which are results and not data, are left out."""
    parts = []
    for leaf in islice(_leaves(value), _MOST_LEAVES):
        if isinstance(leaf, torch.Tensor):
            if not leaf.requires_grad:
                parts.append(digest(leaf))
        elif isinstance(leaf, (str, bytes)):
            parts.append(repr(leaf))
        elif (number := _number(leaf)) is not None:
            parts.append(repr(number))
        elif _is_array(leaf):
            parts.append(_array_digest(leaf))
    return _text_digest("\n".join(parts))


def value_text(value: Any) -> str | None:
    """Returns a text of a value that consists of numbers, strings, tensors and arrays, in which long values are
    digests; None for any other value; `UNREADABLE` for a value with an unreadable tensor."""
    try:
        text = repr(_plain(value))
    except _UnknownValue:
        return None
    except _UNREADABLE_ERRORS:
        return UNREADABLE
    return text if len(text) <= _TEXT else f"{text[:40]}... {_text_digest(text)}"


class _UnknownValue(Exception):
    """A value is of a type whose state this file cannot read."""


def _plain(value: Any, depth: int = _DEPTH) -> Any:
    """Returns a value with Python's numbers in place of NumPy's, lists in place of tuples, which checkpoints may not
    tell apart, and digests in place of large tensors and arrays."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    number = _number(value)
    if number is not None:
        return number
    if isinstance(value, torch.Tensor):
        found = _digest_of_values(value)
        is_short = type(value) in (torch.Tensor, torch.nn.Parameter) and value.numel() <= 4
        return value.tolist() if is_short and value.layout == torch.strided else found
    if _is_array(value):
        return value.tolist() if value.size <= 4 and not value.dtype.hasobject else _array_digest(value)
    if depth and isinstance(value, Mapping):
        return {_plain(key, 0): _plain(value[key], depth - 1) for key in value}
    if depth and isinstance(value, (list, tuple)):
        return [_plain(each, depth - 1) for each in value]
    raise _UnknownValue


def _number(value: Any) -> bool | int | float | complex | None:
    """Returns a truth value or a number of Python or NumPy as one of Python, None for any other value. Python refuses
    to print integers with very many bits."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, (float, complex)) or (isinstance(value, int) and value.bit_length() <= 1024):
        return value
    return None


def _user_frames() -> Iterator[FrameType]:
    """Yields the frames of the script's own functions, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None and count < _MOST_FRAMES:
        name = frame.f_code.co_filename
        foreign = name == __file__ or name.startswith(("<frozen", _LIBRARY)) or any(each in name for each in _PACKAGES)
        if not foreign:
            count += 1
            yield frame
        frame = frame.f_back


def _variables() -> Iterator[tuple[str, str, Any]]:
    """Yields function, name and value of the script's variables that are in reach: locals and globals of its frames,
    and attributes of `self`."""
    seen: set[int] = set()
    for frame in _user_frames():
        spaces = [(frame.f_code.co_name, frame.f_locals)]
        owner = frame.f_locals.get("self")
        if owner is not None and not isinstance(owner, torch.nn.Module) and hasattr(owner, "__dict__"):
            spaces.append((frame.f_code.co_name, {f"self.{name}": value for name, value in vars(owner).items()}))
        if id(frame.f_globals) not in seen and frame.f_globals is not frame.f_locals:
            spaces.append(("<module>", frame.f_globals))
        seen.add(id(frame.f_globals))
        for function, space in spaces:
            names = [name for name in list(space) if not name.startswith("_")]
            for name in names[:_MOST_VARIABLES]:
                yield function, name, space.get(name)


class Known:
    """Objects of one kind that the script holds, in the order of their creation."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.has_new = False

    def add(self, value: Any) -> None:
        if not any(value is each for each in self.objects):
            self.objects.append(value)
            self.has_new = True

    def keyed(self) -> list[tuple[str, Any]]:
        """Returns the objects, each with a key that is the same in all runs of the script: the class and a number."""
        names: dict[str, int] = {}
        keyed = []
        for each in self.objects:
            name = type(each).__name__
            names[name] = names.get(name, 0) + 1
            keyed.append((name if names[name] == 1 else f"{name} {names[name]}", each))
        return keyed


def release(kinds: Sequence[Known]) -> None:
    """Forgets the objects that only these lists hold: the script has replaced them, and a resumed run may never have
    had them."""
    references = [[weakref.ref(value) for value in known.objects] for known in kinds]
    for known in kinds:
        known.objects.clear()
    if any(known.has_new for known in kinds):
        # An optimizer with a scheduler refers to itself.
        gc.collect()
    for known, each in zip(kinds, references, strict=True):
        known.objects += [value for value in (reference() for reference in each) if value is not None]
        known.has_new = False


class _Model:
    """A module that the script calls, with the names of its state.

    Attributes:
      key: the same in all runs of the script.
      label: the name of the script's variable, or the class.
    """

    def __init__(self, module: torch.nn.Module, label: str, others: list[_Model]) -> None:
        self.module = module
        self.label = label
        named = [*module.named_parameters(), *module.named_buffers()]
        kind = type(module).__name__
        shape = _text_digest(repr([(name, tuple(tensor.shape)) for name, tensor in named]))[:8]
        count = sum(each.key.startswith(f"{kind} {shape} ") for each in others)
        self.key: str = f"{kind} {shape} {count}"
        try:
            self.saved = set(module.state_dict(keep_vars=True))
        except Exception:
            # A module of a package may refuse to return its state here, or need all ranks for it.
            self.saved = {name for name, _ in named}

    def state(self, done: set[int]) -> Iterator[tuple[str, str]]:
        """Yields the entries of parameters that are not in `done`, of buffers, and of attributes that are numbers."""
        for name, parameter in self.module.named_parameters():
            if id(parameter) not in done:
                yield f"parameter\t{self.key}\t{name}", digest(parameter)
        for name, buffer in self.module.named_buffers():
            kind = "buffer" if name in self.saved else "non-persistent buffer"
            yield f"{kind}\t{self.key}\t{name}", digest(buffer)
        for name, module in self.module.named_modules():
            for attribute, value in vars(module).items():
                number = None if attribute.startswith("_") else _number(value)
                if number is not None:
                    yield f"attribute\t{self.key}\t{name}{'.' if name else ''}{attribute}", repr(number)


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a method that turns the recorder off if it fails, so that the script goes on."""

    @functools.wraps(method)
    def guarded(recorder: Recorder, *arguments: Any) -> None:
        try:
            method(recorder, *arguments)
        except Exception as error:
            recorder.fail(error)

    return guarded


class Recorder:
    """Records one process. Hooks call the public methods."""

    def __init__(self, path: str, limit: int, until: str | None) -> None:
        """
        Args:
          path: the file for the record, which does not exist.
          limit: the maximum size of the record in bytes.
          until: a path; the process ends itself before the first step after this path exists.
        """
        self._path, self._left, self._until = path, limit, until
        self._file: Any = None
        self._process = os.getpid()
        self._is_off = False
        self._steps = 0
        self._depth = 0
        self._begun = False
        self.is_inside = False
        self._recorded: dict[str, str] = {}
        self._state: dict[str, str] = {}
        self._inputs: list[list[str]] = []
        self._data: deque[list[Any]] = deque(maxlen=_MOST_CALLS)
        self._labels: dict[str, str] = {}
        self._named: set[str] = set()
        self.optimizers, self.schedulers, self.scalers, self.loaders = Known(), Known(), Known(), Known()
        self._models: list[_Model] = []
        self._modules: set[int] = set()
        self._positions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._loader_of: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @_guarded
    def called(self, module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Notes a call of a module by the script, before the call."""
        if self._is_out_of_step() or not torch.is_grad_enabled():
            return
        with torch.no_grad():
            model = self._add_model(module)
            if not self._begun:
                self._begin()
            elif model is not None:
                self._state.update(model.state(self._optimized()))
            if len(self._inputs) < _MOST_CALLS:
                self._inputs.append([type(module).__name__, _tree_digest([arguments, keywords])])

    @_guarded
    def loaded(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Notes the begin of an iteration over a DataLoader."""
        try:
            self._positions[iterator] = 0
            self._loader_of[iterator] = loader
        except TypeError:
            # An iterator of a package's DataLoader may not support weak references.
            pass

    @_guarded
    def fetched(self, iterator: Any, batch: Any) -> None:
        """Notes a batch that a DataLoader has returned."""
        if self._is_out_of_step() or iterator not in self._positions:
            return
        self._positions[iterator] += 1
        loader = next((key for key, each in self.loaders.keyed() if each is self._loader_of[iterator]), "DataLoader")
        with torch.no_grad():
            self._data.append([loader, self._positions[iterator], _tree_digest(batch)])

    @_guarded
    def before_step(self, optimizer: Optimizer, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Records a step, before the optimizer changes the parameters. The first argument is the optimizer."""
        if self._depth > 1 or self._is_off or os.getpid() != self._process:
            return
        with torch.no_grad():
            if not self._begun:
                self._begin()
            gradients = {}
            self.optimizers.add(optimizer)
            key = next(key for key, each in self.optimizers.keyed() if each is optimizer)
            # A closure computes the gradients within the step; the parameters still have those of the last step.
            has_closure = any(each is not None for each in (*arguments[1:], *keywords.values()))
            for name, parameter in () if has_closure else _parameters(optimizer):
                gradients[f"{key}\t{name}"] = "none" if parameter.grad is None else digest(parameter.grad)
        self._steps += 1
        line = {"step": self._steps, "state": self._changes(), "inputs": self._inputs, "data": [*self._data]}
        self._write({**line, "optimizer": key, "gradients": gradients, "labels": self._labels})
        self._inputs, self._labels = [], {}
        self._data.clear()

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """Notes that a step runs in the context, also one that raises. Steps of an optimizer may call one another."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._begun = self._begun and self._depth > 0

    @_guarded
    def end(self) -> None:
        """Records the state at the end of the process."""
        if self._steps and not self._is_off and os.getpid() == self._process:
            with torch.no_grad():
                self._state = self._read()
            self._write({"end": True, "state": self._changes()})
            self._is_off = True

    def fail(self, error: Exception) -> None:
        """Records that the recorder has failed, and turns it off."""
        if not self._is_off:
            self._write({"failed": f"{type(error).__name__}: {error}"[:_LONGEST_REASON]})
            self._is_off = True

    def _is_out_of_step(self) -> bool:
        """Returns whether this moment is not part of the preparation of a step: a closure runs within a step, and
        processes of a DataLoader run the same code."""
        return self._is_off or self._depth > 0 or os.getpid() != self._process

    def _begin(self) -> None:
        """Reads the state before a step."""
        self._begun = True
        release((self.optimizers, self.schedulers, self.scalers, self.loaders))
        if self._until is not None and self._steps and os.path.exists(self._until):
            self._write({"interrupted": True})
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(0)
        for _, _, value in list(_variables()):
            if isinstance(value, torch.nn.Module):
                self._add_model(value)
            elif isinstance(value, Optimizer):
                self.optimizers.add(value)
        self._state = self._read()

    def _add_model(self, module: torch.nn.Module) -> _Model | None:
        """Returns a new model, or None for a module without state or a part of a known model."""
        if id(module) in self._modules or len(self._models) == _MOST_MODELS:
            return None
        if next(module.parameters(), None) is None and next(module.buffers(), None) is None:
            return None
        self._modules.update(id(each) for each in module.modules())
        model = _Model(module, self._label_of(module), self._models)
        self._models.append(model)
        self._name(model.key, model.label)
        return model

    def _label_of(self, module: torch.nn.Module) -> str:
        names = (name for _, name, value in _variables() if value is module)
        return next(names, type(module).__name__)

    def _name(self, key: str, label: str) -> None:
        if key not in self._named:
            self._named.add(key)
            self._labels[key] = label

    def _optimized(self) -> set[int]:
        return {id(each) for _, optimizer in self.optimizers.keyed() for _, each in _parameters(optimizer)}

    def _read(self) -> dict[str, str]:
        """Returns all entries of the state."""
        state: dict[str, str] = {}
        names = {
            id(parameter): f"{model.label}.{name}"
            for model in reversed(self._models)
            for name, parameter in model.module.named_parameters()
        }
        for key, optimizer in self.optimizers.keyed():
            state.update(_optimizer_state(key, optimizer))
            for name, parameter in _parameters(optimizer):
                if id(parameter) in names:
                    self._name(f"{key}\t{name}", names[id(parameter)])
        done = self._optimized()
        for model in self._models:
            state.update(model.state(done))
        for key, scheduler in self.schedulers.keyed():
            state.update(_plain_state("scheduler", key, scheduler))
        for key, scaler in self.scalers.keyed():
            state.update(_plain_state("scaler", key, scaler))
        for key, generator in self._generators():
            state[f"rng\t{key}\tstate"] = generator
        for key, loader in self.loaders.keyed():
            epoch = _number(getattr(getattr(loader, "sampler", None), "epoch", None))
            if epoch is not None:
                state[f"attribute\t{key}\tsampler.epoch"] = repr(epoch)
        for function, name, value in _variables():
            number = _number(value)
            if number is not None:
                state.setdefault(f"variable\t{function}\t{name}", repr(number))
        return state

    def _generators(self) -> Iterator[tuple[str, str]]:
        """Yields the name and a digest of the state of each random number generator."""
        yield "Python's random", _text_digest(repr(random.getstate()))
        yield "PyTorch's CPU generator", digest(torch.get_rng_state())
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "random"):
            yield "NumPy's random", _tree_digest(numpy.random.get_state(legacy=False))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            for index in range(torch.cuda.device_count()):
                yield f"PyTorch's generator of cuda:{index}", digest(torch.cuda.get_rng_state(index))
        if torch.backends.mps.is_available():
            yield "PyTorch's generator of mps", digest(torch.mps.get_rng_state())
        found: dict[int, tuple[str, str]] = {}
        for name, value in self._values():
            state = None if id(value) in found else _generator_state(value)
            if state is not None:
                found[id(value)] = name, state
        counts: dict[str, int] = {}
        for name, state in found.values():
            counts[name] = counts.get(name, 0) + 1
            yield f"the generator {name}{'' if counts[name] == 1 else f' ({counts[name]})'}", state

    def _values(self) -> Iterator[tuple[str, Any]]:
        """Yields name and value of everything that may be a generator: variables of the script, attributes of modules,
        and what DataLoaders and their samplers draw from."""
        for _, name, value in _variables():
            yield name, value
        for model in self._models:
            for path, module in model.module.named_modules():
                for name, value in vars(module).items():
                    yield ".".join(filter(None, [model.label, path, name])), value
        for key, loader in self.loaders.keyed():
            sampler = getattr(loader, "sampler", None)
            for each in (loader, sampler, getattr(loader, "batch_sampler", None)):
                yield f"of {key}", getattr(each, "generator", None)

    def _changes(self) -> dict[str, str | None]:
        """Returns the entries that differ from the last line, and remembers the state."""
        changes: dict[str, str | None] = {
            key: value for key, value in self._state.items() if self._recorded.get(key) != value
        }
        changes.update({key: None for key in self._recorded if key not in self._state})
        self._recorded = self._state
        return changes

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        if self._file is None:
            try:
                self._file = open(self._path, "xb", buffering=0)
            except FileExistsError:
                # Another process of the same run trains too.
                open(f"{self._path}.second", "wb").close()
                self._is_off = True
                return
        self._left -= len(data)
        if self._left < 0:
            data, self._is_off = b'{"full": true}\n', True
        self._file.write(data)


def _generator_state(value: Any) -> str | None:
    """Returns a text for the state of a random number generator, None for any other value."""
    if isinstance(value, torch.Generator):
        return digest(value.get_state())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return _text_digest(repr(value.getstate()))
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    if numpy is not None and isinstance(value, numpy.Generator):
        return _tree_digest(value.bit_generator.state)
    if numpy is not None and isinstance(value, numpy.BitGenerator):
        return _tree_digest(value.state)
    if numpy is not None and isinstance(value, numpy.RandomState):
        return _tree_digest(value.get_state(legacy=False))
    own = sys.modules.get("repro_mlir.random.generator")
    if own is not None and isinstance(value, own.Generator):
        return repr(value.get_state())
    return None


def _parameters(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    for index, group in enumerate(optimizer.param_groups):
        for number, parameter in enumerate(group["params"]):
            yield f"{index}.{number}", parameter


def _optimizer_state(key: str, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    for index, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            text = None if name in _NEUTRAL else value_text(value)
            if text is not None:
                yield f"hyper-parameter\t{key}\t{name} of group {index}", text
    for number, parameter in _parameters(optimizer):
        yield f"parameter\t{key}\t{number}", digest(parameter)
        entries = optimizer.state.get(parameter)
        for name, value in entries.items() if isinstance(entries, Mapping) else ():
            text = digest(value) if isinstance(value, torch.Tensor) else value_text(value)
            if text is not None:
                yield f"optimizer state\t{key}\t{number}\t{name}", text


def _plain_state(kind: str, key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields the numbers in the `state_dict` of a scheduler or a scaler."""
    try:
        entries = value.state_dict()
    except Exception:
        # The object is incomplete, such as a scheduler whose constructor has failed.
        return
    for name, entry in entries.items():
        text = None if name in _BOOKKEEPING else value_text(entry)
        if text is not None:
            yield f"{kind}\t{key}\t{name}", text


def start() -> None:
    """Starts to record this process, as the environment variable `VARIABLE` says."""
    options = json.loads(os.environ[VARIABLE])
    recorder = Recorder(options["path"], options["limit"], options.get("until"))
    _watch_modules(recorder)
    _watch_loaders(recorder)
    _watch_constructors(recorder)
    _watch_steps(recorder)
    register_optimizer_step_pre_hook(recorder.before_step)
    atexit.register(recorder.end)


def _watch_modules(recorder: Recorder) -> None:
    call = torch.nn.Module.__call__

    @functools.wraps(call)
    def watched(module: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
        if recorder.is_inside or torch.compiler.is_compiling():
            return call(module, *arguments, **keywords)
        recorder.is_inside = True
        try:
            recorder.called(module, arguments, keywords)
            return call(module, *arguments, **keywords)
        finally:
            recorder.is_inside = False

    torch.nn.Module.__call__ = watched  # type: ignore[method-assign]


def _watch_loaders(recorder: Recorder) -> None:
    begin = DataLoader.__iter__
    watched_classes = set()

    def watch_class(kind: Any) -> None:
        fetch = kind.__next__

        @functools.wraps(fetch)
        def watched_next(iterator: Any) -> Any:
            batch = fetch(iterator)
            recorder.fetched(iterator, batch)
            return batch

        kind.__next__ = watched_next
        watched_classes.add(kind)

    @functools.wraps(begin)
    def watched_iter(loader: DataLoader[Any]) -> Any:
        iterator = begin(loader)
        recorder.loaders.add(loader)
        if type(iterator) not in watched_classes:
            watch_class(type(iterator))
        recorder.loaded(loader, iterator)
        return iterator

    DataLoader.__iter__ = watched_iter  # type: ignore[method-assign]


def _watch_constructors(recorder: Recorder) -> None:
    """Notes the optimizers, schedulers and scalers that the script creates."""

    def create(kind: type[Any], *_: Any, **__: Any) -> Any:
        scheduler = object.__new__(kind)
        recorder.schedulers.add(scheduler)
        return scheduler

    # The constructors of some schedulers do not call the one of LRScheduler.
    LRScheduler.__new__ = create  # type: ignore[assignment]
    _watch_constructor(Optimizer, recorder.optimizers)
    _watch_constructor(torch.amp.GradScaler, recorder.scalers)


def _watch_constructor(kind: Any, known: Known) -> None:
    construct = kind.__init__

    @functools.wraps(construct)
    def watched(value: Any, *arguments: Any, **keywords: Any) -> None:
        construct(value, *arguments, **keywords)
        known.add(value)

    kind.__init__ = watched


def _watch_steps(recorder: Recorder) -> None:
    """Notes begin and end of each step. PyTorch calls no hook at the end of a step that raises."""
    add_hooks = Optimizer.profile_hook_step

    def add(step: Callable[..., Any]) -> Callable[..., Any]:
        hooked = add_hooks(step)

        @functools.wraps(hooked)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            with recorder.in_step():
                return hooked(*arguments, **keywords)

        return watched

    Optimizer.profile_hook_step = staticmethod(add)  # type: ignore[assignment]
