# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors that a step stores in attributes of modules, for example for inspection: a later step must not read them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.torch_internals import FakeTensor, get_proxy_mode, get_proxy_slot
from repro_mlir.frontends.torch.lower.graph_hash import contents_of
from repro_mlir.frontends.torch.objects.changing_values import is_stand_in
from repro_mlir.frontends.torch.trace.known_values import follows_from_constants


class KeptTensors:
    """The tensors that the traces of one step store in attributes of modules, or in lists and dicts in such
    attributes."""

    def __init__(self, modules: Iterable[tuple[str, torch.nn.Module]]) -> None:
        self._former: dict[int, tuple[str, Any, Any]] = {}
        self._examples: dict[int, torch.Tensor] = {}
        self._constant: set[int] = set()
        for name, module in modules:
            self._note(name, vars(module))

    def _note(self, name: str, container: Any) -> None:
        """Records a copy of a dict or list, and of the dicts and lists inside it."""
        if isinstance(container, dict | list) and id(container) not in self._former:
            self._former[id(container)] = name, container, container.copy()
            for key, value in _items(container):
                # The entries of `_buffers`, `_modules` and `_parameters` are named as attributes of the module.
                inner = key if isinstance(key, str) else f"[{key!r}]"
                self._note(name if inner in ("_buffers", "_modules", "_parameters") else f"{name}.{inner}", value)

    def note_constants(self) -> None:
        """Records the stored tensors that depend on constants alone; must be called at the end of the trace."""
        mode: Any = get_proxy_mode()
        for _, value in self._entries():
            for each in self._traced_in(value, set()):
                slot = get_proxy_slot(each, mode.tracer, None) if isinstance(each, FakeTensor) else None
                if slot is not None and follows_from_constants(slot.proxy.node):
                    self._constant.add(id(each))

    def check(self, graph: torch.fx.GraphModule, trace: Callable[[], torch.fx.GraphModule]) -> None:
        """Raises CaptureError if a later step differs because of the tensors that this step has stored.

        Args:
          graph: the graph that `trace` returned; `trace` is called again if any tensor was stored.
        """
        names = [name for name, value in self._entries() if not self._is_constant(value)]
        if not names:
            return
        self._give_examples()
        line = ""
        try:
            again = trace()
            constants = [node for node in again.graph.nodes if node.op == "get_attr"]
            read = [node for node in constants if id(getattr(again, str(node.target))) in self._examples]
            if not read and _is_same(graph, again):
                return
            line = next((f"{origin_of_node(user)}: " for node in read for user in node.users), "")
        except CaptureError:
            pass
        raise CaptureError(
            f"{line}a later step reads the value that this step stores in {names[0]}, which a compiled step does not "
            "write: use a buffer of the model (register_buffer)"
        )

    def _entries(self) -> Iterator[tuple[str, Any]]:
        """Yields the names and values of those entries of dicts and lists that contain tensors of a trace."""
        for name, container, _ in self._former.values():
            for key, value in _items(container):
                if id(value) not in self._former and self._is_traced(value):
                    yield f"{name}.{key}" if isinstance(key, str) else f"{name}[{key!r}]", value

    def _is_constant(self, value: Any) -> bool:
        traced = [*self._traced_in(value, set())]
        return bool(traced) and all(id(each) in self._constant for each in traced)

    def _give_examples(self) -> None:
        """Replaces the stored tensors by ordinary tensors, so that the second trace shows where the step reads them."""
        self._put_back(self._is_constant)
        seen = set[int]()
        for _, container, _ in [*self._former.values()]:
            self._example(container, seen)

    def _example(self, value: Any, seen: set[int]) -> Any:
        """Returns the value with example tensors; modifies lists and dicts in place."""
        if isinstance(value, FakeTensor):
            shape = [extent if isinstance(extent, int) else 1 for extent in value.shape]
            example = torch.zeros(shape, dtype=value.dtype)
            self._examples[id(example)] = example
            return example
        if isinstance(value, tuple):
            items = [self._example(each, seen) for each in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, list | dict) and id(value) not in seen:
            seen.add(id(value))
            for key, each in [*_items(value)]:
                if self._is_traced(each):
                    value[key] = self._example(each, seen)
        return value

    def restore(self) -> None:
        """Restores the entries from before the traces: tensors of a trace are invalid outside of it."""
        self._put_back(self._is_traced)

    def _put_back(self, is_chosen: Callable[[Any], bool]) -> None:
        # In reverse order, because inner containers were noted after their outer containers.
        for _, container, kept in reversed([*self._former.values()]):
            if isinstance(container, list):
                if any(map(is_chosen, container)):
                    container[:] = kept
                continue
            for key in [key for key, value in container.items() if is_chosen(value)]:
                del container[key]
                if key in kept:
                    container[key] = kept[key]

    def _is_traced(self, value: Any) -> bool:
        """Whether the value is or contains a tensor of a trace."""
        return any(True for _ in self._traced_in(value, set()))

    def _traced_in(self, value: Any, seen: set[int]) -> Iterator[Any]:
        """Yields the tensors of a trace in a value; `seen` contains the containers that have been visited."""
        if not isinstance(value, list | tuple | set | frozenset | dict):
            if isinstance(value, FakeTensor) or id(value) in self._examples or is_stand_in(value):
                yield value
        elif id(value) not in seen:
            seen.add(id(value))
            for each in value.values() if isinstance(value, dict) else value:
                yield from self._traced_in(each, seen)


@contextlib.contextmanager
def kept_tensors(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterator[KeptTensors]:
    """Within the block, finds the tensors that traces store in attributes of modules; restores the attributes
    afterwards."""
    kept = KeptTensors(modules)
    try:
        yield kept
    finally:
        kept.restore()


def _is_same(one: torch.fx.GraphModule, other: torch.fx.GraphModule) -> bool:
    contents = contents_of(one), contents_of(other)
    # `contents_of` returns None for graphs with operators of the user, complex constants or dynamic shapes. Such graphs
    # are compared by their generated code.
    return one.code == other.code if None in contents else contents[0] == contents[1]


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    return container.items() if isinstance(container, dict) else enumerate(container)
