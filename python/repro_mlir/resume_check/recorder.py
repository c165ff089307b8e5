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
import ctypes
import functools
import hashlib
import json
import os
import random
import sys
import sysconfig
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

VARIABLE = "REPRO_MLIR_RESUME_RECORD"
"""The environment variable with the JSON object {"path": the record, "limit": its bytes, "until": a checkpoint}."""

_TEXT = 80
"""The number of characters of a recorded value."""

_LONGEST_REASON = 300

_MOST_FRAMES, _MOST_VARIABLES, _MOST_MODELS, _MOST_CALLS, _MOST_LEAVES, _DEPTH = 16, 200, 32, 64, 4096, 8

# Entries of a scheduler's state that repeat others, and hyper-parameters that do not change a step.
_BOOKKEEPING = {"_step_count", "_get_lr_called_within_step", "_is_initial", "_last_lr", "verbose"}
_NEUTRAL = {"params", "param_names", "initial_lr", "foreach", "fused"}

_PACKAGES = ("site-packages", "dist-packages")
_LIBRARY = sysconfig.get_paths()["stdlib"]


def digest(tensor: torch.Tensor) -> str:
    """Returns a digest of a tensor's element type, shape and values, as hexadecimal text; "unreadable" for a tensor
    without readable values, such as one on the device meta."""
    try:
        return _digest_of_values(tensor)
    except (RuntimeError, TypeError, ValueError):
        # NotImplementedError is a RuntimeError.
        return "unreadable"


def _digest_of_values(tensor: torch.Tensor) -> str:
    if hasattr(tensor, "to_local"):
        # A DTensor: this process has one shard.
        tensor = tensor.to_local()
    if hasattr(tensor, "__tensor_flatten__"):
        # A subclass without memory of its own, such as a quantized tensor.
        names, _ = tensor.__tensor_flatten__()
        parts = [f"{tensor.dtype}{tuple(tensor.shape)}", *(digest(getattr(tensor, name)) for name in names)]
        return _text_digest("\n".join(parts))
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
    for index, leaf in enumerate(_leaves(value)):
        if index == _MOST_LEAVES:
            break
        if isinstance(leaf, torch.Tensor):
            if not leaf.requires_grad:
                parts.append(digest(leaf))
        elif hasattr(leaf, "tobytes"):
            parts.append(hashlib.blake2b(leaf.tobytes(), digest_size=12).hexdigest())
        elif isinstance(leaf, str) or _is_number(leaf):
            parts.append(repr(leaf))
    return _text_digest("\n".join(parts))


def _value_text(value: Any) -> str | None:
    """Returns a short text of a number, a string, a short list of numbers or a tensor; None for any other value."""
    if isinstance(value, torch.Tensor):
        return repr(value.tolist())[:_TEXT] if value.numel() <= 4 else digest(value)
    if value is None or isinstance(value, str) or _is_number(value):
        text = repr(value)
        return text if len(text) <= _TEXT else f"{text[:40]}... {_text_digest(text)}"
    if isinstance(value, (list, tuple, dict)):
        leaves = list(_leaves(value))
        if all(leaf is None or isinstance(leaf, (str, torch.Tensor)) or _is_number(leaf) for leaf in leaves):
            text = repr(value)
            is_short = len(text) <= _TEXT and not any(isinstance(leaf, torch.Tensor) for leaf in leaves)
            return text if is_short else _tree_digest(value)
    return None


def _is_number(value: Any) -> bool:
    """Returns whether a value is a truth value or a number; Python refuses to print integers with very many bits."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 1024)


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


class _Known:
    """Objects of one kind, with a key for each that is the same in all runs of the script: the class and a number."""

    def __init__(self) -> None:
        self.keyed: list[tuple[str, Any]] = []
        self._new: list[Any] = []

    def add(self, value: Any) -> None:
        self._new.append(weakref.ref(value))

    def update(self) -> list[tuple[str, Any]]:
        """Gives keys to the new objects that are still alive, in the order of their creation; returns all objects."""
        for each in self._new:
            value = each()
            if value is not None and not any(value is old for _, old in self.keyed):
                name = type(value).__name__
                count = sum(type(old).__name__ == name for _, old in self.keyed)
                self.keyed.append((name if count == 0 else f"{name} {count + 1}", value))
        self._new = []
        return self.keyed


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
                if not attribute.startswith("_") and _is_number(value):
                    yield f"attribute\t{self.key}\t{name}{'.' if name else ''}{attribute}", repr(value)


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
        self.optimizers, self.schedulers, self.scalers, self.loaders = _Known(), _Known(), _Known(), _Known()
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
        loader = next((key for key, each in self.loaders.update() if each is self._loader_of[iterator]), "DataLoader")
        with torch.no_grad():
            self._data.append([loader, self._positions[iterator], _tree_digest(batch)])

    @_guarded
    def before_step(self, optimizer: Optimizer, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Records a step, before the optimizer changes the parameters. The first argument is the optimizer."""
        self._depth += 1
        if self._depth > 1 or self._is_off or os.getpid() != self._process:
            return
        with torch.no_grad():
            if not self._begun:
                self._begin()
            gradients = {}
            self.optimizers.add(optimizer)
            key = next(key for key, each in self.optimizers.update() if each is optimizer)
            # A closure computes the gradients within the step; the parameters still have those of the last step.
            has_closure = any(each is not None for each in (*arguments[1:], *keywords.values()))
            for name, parameter in () if has_closure else _parameters(optimizer):
                gradients[f"{key}\t{name}"] = "none" if parameter.grad is None else digest(parameter.grad)
        self._steps += 1
        line = {"step": self._steps, "state": self._changes(), "inputs": self._inputs, "data": [*self._data]}
        self._write({**line, "optimizer": key, "gradients": gradients, "labels": self._labels})
        self._inputs, self._labels = [], {}
        self._data.clear()

    def after_step(self, *_: Any) -> None:
        """Notes the end of a step."""
        self._depth -= 1
        if self._depth == 0:
            self._begun = False

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
        return {id(each) for _, optimizer in self.optimizers.update() for _, each in _parameters(optimizer)}

    def _read(self) -> dict[str, str]:
        """Returns all entries of the state."""
        state: dict[str, str] = {}
        names = {
            id(parameter): f"{model.label}.{name}"
            for model in reversed(self._models)
            for name, parameter in model.module.named_parameters()
        }
        for key, optimizer in self.optimizers.update():
            state.update(_optimizer_state(key, optimizer))
            for name, parameter in _parameters(optimizer):
                if id(parameter) in names:
                    self._name(f"{key}\t{name}", names[id(parameter)])
        done = self._optimized()
        for model in self._models:
            state.update(model.state(done))
        for key, scheduler in self.schedulers.update():
            state.update(_plain_state("scheduler", key, scheduler))
        for key, scaler in self.scalers.update():
            state.update(_plain_state("scaler", key, scaler))
        for key, generator in self._generators():
            state[f"rng\t{key}\tstate"] = generator
        for key, loader in self.loaders.update():
            epoch = getattr(getattr(loader, "sampler", None), "epoch", None)
            if _is_number(epoch):
                state[f"attribute\t{key}\tsampler.epoch"] = repr(epoch)
        for function, name, value in _variables():
            if _is_number(value):
                state.setdefault(f"variable\t{function}\t{name}", repr(value))
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
        for _, name, value in _variables():
            if isinstance(value, torch.Generator):
                found[id(value)] = name, digest(value.get_state())
            elif isinstance(value, random.Random):
                found[id(value)] = name, _text_digest(repr(value.getstate()))
            elif numpy is not None and isinstance(value, numpy.random.Generator):
                found[id(value)] = name, _tree_digest(value.bit_generator.state)
            elif numpy is not None and isinstance(value, numpy.random.RandomState):
                found[id(value)] = name, _tree_digest(value.get_state(legacy=False))
        for key, loader in self.loaders.update():
            generator = getattr(loader, "generator", None)
            if isinstance(generator, torch.Generator):
                found.setdefault(id(generator), (f"of {key}", digest(generator.get_state())))
        for name, state in found.values():
            yield f"the generator {name}", state

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


def _parameters(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    for index, group in enumerate(optimizer.param_groups):
        for number, parameter in enumerate(group["params"]):
            yield f"{index}.{number}", parameter


def _optimizer_state(key: str, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    for index, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            text = None if name in _NEUTRAL else _value_text(value)
            if text is not None:
                yield f"hyper-parameter\t{key}\t{name} of group {index}", text
    for number, parameter in _parameters(optimizer):
        yield f"parameter\t{key}\t{number}", digest(parameter)
        entries = optimizer.state.get(parameter)
        for name, value in entries.items() if isinstance(entries, Mapping) else ():
            text = _value_text(value) if not isinstance(value, torch.Tensor) else digest(value)
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
        text = None if name in _BOOKKEEPING else _value_text(entry)
        if text is not None:
            yield f"{kind}\t{key}\t{name}", text


def start() -> None:
    """Starts to record this process, as the environment variable `VARIABLE` says."""
    options = json.loads(os.environ[VARIABLE])
    recorder = Recorder(options["path"], options["limit"], options.get("until"))
    _watch_modules(recorder)
    _watch_loaders(recorder)
    _watch_constructors(recorder)
    register_optimizer_step_pre_hook(recorder.before_step)
    register_optimizer_step_post_hook(recorder.after_step)
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


def _watch_constructor(kind: Any, known: _Known) -> None:
    construct = kind.__init__

    @functools.wraps(construct)
    def watched(value: Any, *arguments: Any, **keywords: Any) -> None:
        construct(value, *arguments, **keywords)
        known.add(value)

    kind.__init__ = watched
