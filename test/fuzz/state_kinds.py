# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# ruff: noqa: E501

"""Types of Python state that a step may read, and ways to change the state between two steps.

A `Kind` is the source of a module with two functions: `read()` returns a number that depends on the state, and
`change()` changes the state. Most kinds combine a holder (an object or container), a way to read it and a way to change
it.
"""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_HEAD = """\
import argparse, array, builtins, collections, contextvars, copy, dataclasses, enum, functools, io, itertools
import math, operator, os, random, threading, time, types, typing, weakref
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
"""


@dataclass(frozen=True)
class Kind:
    """A type of state.

    Attributes:
      name: the holder, the way to read it and the way to change it, such as "object: attribute: other object".
      setup, read, change: Python source. `setup` defines the state; `read` is an expression, or a function body with
        `return`.
      refused: whether a step that reads the state is refused, because its changes cannot be detected.
    """

    name: str
    setup: str
    read: str
    change: str = "h.w = 4.0"
    refused: bool = False

    def module(self) -> Any:
        """Returns a new module with the state and the functions `read` and `change`."""
        body = self.read if "return" in self.read else f"return {self.read}"
        lines = [_HEAD, self.setup, "def read():", *_indented(body), "def change():", *_indented(self.change)]
        name = "state_kind"
        source = "\n".join(lines) + "\n"
        path = f"/state_kinds/{abs(hash(self.name))}.py"
        linecache.cache[path] = len(source), None, source.splitlines(True), path
        module = types.ModuleType(name)
        module.__file__ = path
        sys.modules[name] = module
        exec(compile(source, path, "exec"), vars(module))
        return module


def _indented(body: str) -> list[str]:
    return [f"    {line}" for line in body.splitlines()]


# Holders of an attribute `w`, which is initially 1.0: maps a holder's name to the source that creates the holder as
# `h`.
_ATTRIBUTE_HOLDERS = {
    "object": "class C: pass\nh = C(); h.w = 1.0",
    "class": "class C: w = 1.0\nh = C",
    "base class": "class B: w = 1.0\nclass C(B): pass\nh = C",
    "object of a class attribute": "class C: w = 1.0\nh = C()",
    "dataclass": "@dataclasses.dataclass\nclass C:\n    w: float = 1.0\nh = C()",
    "dataclass with slots": "@dataclasses.dataclass(slots=True)\nclass C:\n    w: float\nh = C(1.0)",
    "SimpleNamespace": "h = types.SimpleNamespace(w=1.0)",
    "argparse.Namespace": "h = argparse.Namespace(w=1.0)",
    "Python module": "h = types.ModuleType('h'); h.__file__ = '/state_kinds/h.py'; h.w = 1.0",
    "function": "def h(): pass\nh.w = 1.0",
    "partial": "h = functools.partial(math.sqrt, 4); h.w = 1.0",
    "torch module": "h = nn.ReLU(); h.w = 1.0",
    "subclass of dict": "class C(dict): pass\nh = C(); h.w = 1.0",
    "subclass of list": "class C(list): pass\nh = C(); h.w = 1.0",
    "subclass of float": "class C(float): pass\nh = C(2.0); h.w = 1.0",
    "subclass of tuple": "class C(tuple): pass\nh = C(); h.w = 1.0",
    "subclass of str": "class C(str): pass\nh = C(); h.w = 1.0",
    "thread-local": "h = threading.local(); h.w = 1.0",
    "subclass of thread-local": "class C(threading.local): pass\nh = C(); h.w = 1.0",
    "enum member": "class E(enum.Enum): A = 1\nh = E.A; h.w = 1.0",
    "exception": "h = ValueError('x'); h.w = 1.0",
    "subclass of ndarray": "class C(np.ndarray): pass\nh = np.zeros(2).view(C); h.w = 1.0",
    "tensor attribute": "h = torch.zeros(2); h.w = 1.0",
    "subclass of Thread": "class C(threading.Thread): pass\nh = C(); h.w = 1.0",
    "subclass of partial": "class C(functools.partial): pass\nh = C(math.sqrt, 4); h.w = 1.0",
    "subclass of module": "class C(types.ModuleType): pass\nh = C('h'); h.w = 1.0",
    "subclass of property": "class C(property): pass\nh = C(); h.w = 1.0",
    "subclass of UserDict": "class C(collections.UserDict): pass\nh = C(); h.w = 1.0",
    "metaclass": "class M(type): w = 1.0\nclass C(metaclass=M): pass\nh = C",
    "distribution": "h = torch.distributions.Normal(0.0, 1.0); h.w = 1.0",
    "string buffer": "class C(io.StringIO): pass\nh = C(); h.w = 1.0",
}

_ATTRIBUTE_READS = {
    "attribute": "h.w",
    "getattr": "getattr(h, 'w')",
    "getattr of a computed name": "getattr(h, ''.join(['w']))",
    "attrgetter": "operator.attrgetter('w')(h)",
    "alias": "x = h\nreturn x.w",
    "element of a list": "return [h][0].w",
    "function of a function": "def inner(x): return x.w\nreturn sum(inner(each) for each in [h])",
    "map of getattr": "return sum(map(getattr, [h], ['w']))",
}
_FEWER_READS = ("attribute", "getattr of a computed name")
_MANY_READS = ("object", "class", "SimpleNamespace", "Python module", "dataclass with slots", "torch module")

_ATTRIBUTE_CHANGES = {
    "set": "h.w = 4.0",
    "setattr": "setattr(h, 'w', 4.0)",
    "other object": "global h\nk = h\n{setup}\nh.w = 4.0",
}


def _attributes() -> Iterator[Kind]:
    for holder, setup in _ATTRIBUTE_HOLDERS.items():
        reads = _ATTRIBUTE_READS if holder in _MANY_READS else _FEWER_READS
        for read in reads:
            yield Kind(f"{holder}: {read}: set", setup, _ATTRIBUTE_READS[read], "h.w = 4.0")
        if "\n" not in setup and holder != "function":
            change = _ATTRIBUTE_CHANGES["other object"].format(setup=setup)
            yield Kind(f"{holder}: attribute: other object", setup, "h.w", change)
        # The attribute does not exist when the step is captured.
        empty = setup.replace("; h.w = 1.0", "").replace("\nh.w = 1.0", "")
        if empty != setup:
            yield Kind(f"{holder}: getattr with a default: new", empty, "getattr(h, 'w', 1.0)", "h.w = 4.0")
            yield Kind(f"{holder}: hasattr: new", empty, "return 3.0 if hasattr(h, 'w') else 1.0", "h.w = 4.0")


_CONTAINERS = {
    "list": ("h = [1.0, 2.0]", "h[0] = 4.0"),
    "dict": ("h = {0: 1.0, 1: 2.0}", "h[0] = 4.0"),
    "deque": ("h = collections.deque([1.0, 2.0])", "h[0] = 4.0"),
    "OrderedDict": ("h = collections.OrderedDict([(0, 1.0), (1, 2.0)])", "h[0] = 4.0"),
    "defaultdict": ("h = collections.defaultdict(float, {0: 1.0, 1: 2.0})", "h[0] = 4.0"),
    "Counter": ("h = collections.Counter({0: 1, 1: 2})", "h[0] = 4"),
    "UserDict": ("h = collections.UserDict({0: 1.0, 1: 2.0})", "h[0] = 4.0"),
    "UserList": ("h = collections.UserList([1.0, 2.0])", "h[0] = 4.0"),
    "ChainMap": ("h = collections.ChainMap({}, {0: 1.0, 1: 2.0})", "h.maps[1][0] = 4.0"),
    "ChainMap of the first": ("h = collections.ChainMap({}, {0: 1.0, 1: 2.0})", "h[0] = 4.0"),
    "mappingproxy": ("d = {0: 1.0, 1: 2.0}\nh = types.MappingProxyType(d)", "d[0] = 4.0"),
    "array": ("h = array.array('d', [1.0, 2.0])", "h[0] = 4.0"),
    "bytearray": ("h = bytearray([1, 2])", "h[0] = 4"),
    "memoryview": ("b = bytearray([1, 2])\nh = memoryview(b)", "b[0] = 4"),
    "NumPy array": ("h = np.array([1.0, 2.0])", "h[0] = 4.0"),
    "NumPy array of objects": ("h = np.array([1.0, 2.0], dtype=object)", "h[0] = 4.0"),
    "list in a tuple": ("l = [1.0, 2.0]\nk = (l,)\nh = l", "k[0][0] = 4.0"),
    "subclass of list": ("class C(list): pass\nh = C([1.0, 2.0])", "h[0] = 4.0"),
    "subclass of dict": ("class C(dict): pass\nh = C({0: 1.0, 1: 2.0})", "h[0] = 4.0"),
    "list with its own getitem": (
        "class C(list):\n    k = 1.0\n    def __getitem__(self, i): return self.k * super().__getitem__(i)\nh = C([1.0, 2.0])",
        "C.k = 4.0",
    ),
    "WeakValueDictionary": (
        "class V: pass\nv = V(); v.w = 1.0\nz = weakref.WeakValueDictionary({0: v})\n"
        "class H:\n    def __getitem__(self, i): return z[i].w\n    def __len__(self): return 1\nh = H()",
        "v.w = 4.0",
    ),
    "lazy sequence": (
        "class H:\n    data = [1.0]\n    def __getitem__(self, i): return self.data[i]\nh = H()",
        "h.data[0] = 4.0",
    ),
    "masked array": ("h = np.ma.array([1.0, 2.0], mask=[0, 0])", "h[0] = 4.0"),
}
_CONTAINER_READS = {
    "element": "float(h[0])",
    "operator": "float(operator.getitem(h, 0))",
    "sum of elements": "float(sum(h[i] for i in range(1)))",
    "itemgetter": "float(operator.itemgetter(0)(h))",
}

# Containers that grow after the step is captured; most are empty before. Setup, ways to read, and the change that adds
# an element.
_GROWING = {
    "list": (
        "h = []",
        ["if h: return 2.0\nreturn 1.0", "1.0 + len(h)", "1.0 + sum(h)", "max(h, default=1.0)"],
        "h.append(4.0)",
    ),
    "dict": (
        "h = {}",
        [
            "if h: return 2.0\nreturn 1.0",
            "h.get('a', 1.0)",
            "2.0 if 'a' in h else 1.0",
            "1.0 + sum(h.values())",
            "dict(w=1.0, **h).get('a', 2.0)",
            "float(len([*h.items()]) + 1)",
        ],
        "h['a'] = 4.0",
    ),
    "set": ("h = set()", ["if h: return 2.0\nreturn 1.0", "2.0 if 4.0 in h else 1.0", "1.0 + len(h)"], "h.add(4.0)"),
    "deque": ("h = collections.deque()", ["if h: return 2.0\nreturn 1.0", "1.0 + sum(h)"], "h.append(4.0)"),
    "OrderedDict": (
        "h = collections.OrderedDict()",
        ["h.get('a', 1.0)", "if h: return 2.0\nreturn 1.0"],
        "h['a'] = 4.0",
    ),
    "Counter": ("h = collections.Counter()", ["1.0 + h['a']", "1.0 + sum(h.values())"], "h.update('a')"),
    "UserDict": ("h = collections.UserDict()", ["h.get('a', 1.0)", "if h: return 2.0\nreturn 1.0"], "h['a'] = 4.0"),
    "UserList": ("h = collections.UserList()", ["1.0 + sum(h)", "if h: return 2.0\nreturn 1.0"], "h.append(4.0)"),
    "ChainMap": ("h = collections.ChainMap({}, {})", ["h.get('a', 1.0)", "2.0 if 'a' in h else 1.0"], "h['a'] = 4.0"),
    "ChainMap's maps": ("h = collections.ChainMap({})", ["h.get('a', 1.0)"], "h.maps.append({'a': 4.0})"),
    "bytearray": ("h = bytearray()", ["1.0 + sum(h)", "if h: return 2.0\nreturn 1.0"], "h.append(4)"),
    "array": ("h = array.array('d')", ["1.0 + sum(h)"], "h.append(4.0)"),
    "keys of a dict": ("d = {}\nh = d.keys()", ["1.0 + len(h)"], "d['a'] = 4.0"),
    "values of a dict": ("d = {}\nh = d.values()", ["1.0 + sum(h)"], "d['a'] = 4.0"),
    "items of a dict": ("d = {'a': 1.0}\nh = d.items()", ["sum(v for _, v in h)"], "d['a'] = 4.0"),
    "ModuleList": ("h = nn.ModuleList()", ["1.0 + len(h)"], "h.append(nn.ReLU())"),
    "nested list": ("h = [[]]", ["1.0 + len(h[0])"], "h[0].append(4.0)"),
    "list in an object": ("class C: pass\no = C(); o.items = []", ["2.0 if o.items else 1.0"], "o.items.append(4.0)"),
    "WeakSet": ("class V: pass\nv = V()\nh = weakref.WeakSet()", ["1.0 + len(h)"], "h.add(v)"),
    "list of a default": ("def f(x, acc=[]): return 1.0 + len(acc)", ["f(1)"], "f.__defaults__[0].append(1)"),
    "dict of a keyword default": (
        "def f(x, *, acc={}): return 1.0 + len(acc)",
        ["f(1)"],
        "f.__kwdefaults__['acc']['a'] = 1",
    ),
}

# Containers: setup, a way to read, and ways to change the container other than replacing an element.
_MUTATIONS = {
    "list": (
        "h = [1.0, 2.0, 3.0]",
        "h[0] + 10 * h[1]",
        [
            "h.reverse()",
            "h.insert(0, 5.0)",
            "del h[0]",
            "h[:] = [7.0, 8.0]",
            "h *= 2; h[0] = 6.0",
            "h.pop(0)",
            "h.sort(reverse=True)",
            "h += [1.0]; h.pop(0)",
        ],
    ),
    "dict": (
        "h = {'a': 1.0, 'b': 2.0}",
        "float(len(h)) + sum(h.values()) + ('c' in h)",
        [
            "h['c'] = h.pop('b')",
            "h.update(a=3.0)",
            "h.clear()",
            "h.pop('a')",
            "h.setdefault('c', 1.0)",
            "h |= {'a': 9.0}",
        ],
    ),
    "set": ("h = {1.0, 2.0}", "float(sum(h))", ["h.discard(1.0)", "h |= {5.0}", "h.clear()"]),
    "order of an OrderedDict": (
        "h = collections.OrderedDict(a=1.0, b=2.0)",
        "next(iter(h.values()))",
        ["h.move_to_end('a')"],
    ),
    "order of a dict": ("h = {'a': 1.0, 'b': 2.0}", "float([*h][0] == 'a') + 1.0", ["h['a'] = h.pop('a')"]),
    "deque": ("h = collections.deque([1.0, 2.0])", "h[0]", ["h.rotate(1)", "h.popleft()", "h.appendleft(3.0)"]),
}


def _containers() -> Iterator[Kind]:
    for holder, (setup, change) in _CONTAINERS.items():
        for read, source in _CONTAINER_READS.items():
            yield Kind(f"{holder}: {read}: set", setup, source, change)
    for holder, (setup, reads, change) in _GROWING.items():
        for read in reads:
            yield Kind(f"{holder}: {read.partition(chr(10))[0]}: filled", setup, read, change)
    for holder, (setup, read, changes) in _MUTATIONS.items():
        for change in changes:
            text = f"global h\n{change}" if any(mark in change for mark in ("*=", "+=", "|=")) else change
            yield Kind(f"{holder}: {read}: {change}", setup, read, text)


_NET = "class Base(nn.Module):\n    def act(self): return 1.0\nclass Net(Base): pass\nnet = Net()"
_SET_W = "global W\nW = 4.0"
_REPLACED = "def g(*a, **k): return 4.0\n"

# Functions, by name: the setup, a way to read the state, and the change, by default that of `Kind`.
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "global": ("W = 1.0", "W", _SET_W),
    "global that comes later": ("", "try: return W\nexcept NameError: return 1.0", _SET_W),
    "global that goes": ("W = 4.0", "try: return W\nexcept NameError: return 1.0", "global W\ndel W"),
    "global by globals()": ("W = 1.0", "globals()['W']", _SET_W),
    "global by globals(), computed": ("W = 1.0", "globals().get(''.join(['W']), 2.0)", _SET_W),
    "global of eval": ("W = 1.0", "eval('W')", _SET_W),
    "attribute by eval": ("h = types.SimpleNamespace(w=1.0)", "eval('h.w')"),
    "global of exec": ("W = 1.0", "d = {}\nexec('x = W', globals(), d)\nreturn d['x']", _SET_W),
    "global of an inner function": ("W = 1.0", "def f(): return W\nreturn f()", _SET_W),
    "global of a comprehension": ("W = 1.0", "sum([W for _ in range(2)])", _SET_W),
    "global of a lambda": ("W = 1.0\nf = lambda: W", "f()", _SET_W),
    "global of a generator": ("W = 1.0\ndef f():\n    yield W", "sum(f())", _SET_W),
    "builtin that is hidden later": ("", "max(1.0, 2.0)", "global max\nmax = lambda a, b: 4.0"),
    "builtin that is replaced": ("", "pow(2.0, 1)", "builtins.pow = lambda a, b: 4.0"),
    "enclosing variable": (
        "def make():\n    w = 1.0\n    def f(): return w\n    def s(v):\n        nonlocal w\n        w = v\n    return f, s\nf, s = make()",
        "f()",
        "s(4.0)",
    ),
    "enclosing variable that comes later": (
        "def make():\n    def f():\n        try: return w\n        except NameError: return 1.0\n    def s():\n        nonlocal w\n        w = 4.0\n    if 0: w = 0\n    return f, s\nf, s = make()",
        "f()",
        "s()",
    ),
    "cell contents": (
        "def make(w):\n    def f(): return w\n    return f\nf = make(1.0)",
        "f()",
        "f.__closure__[0].cell_contents = 4.0",
    ),
    "code": ("def f(): return 1.0\ndef g(): return 4.0", "f()", "f.__code__ = g.__code__"),
    "code of a method": (
        "class C:\n    def f(self): return 1.0\ndef g(self): return 4.0\nh = C()",
        "h.f()",
        "C.f.__code__ = g.__code__",
    ),
    "code of a lambda in a dict": ("t = {'a': lambda: 1.0}", "t['a']()", "t['a'].__code__ = (lambda: 4.0).__code__"),
    "code of a decorated function": (
        "def d(f):\n    @functools.wraps(f)\n    def g(*a): return f(*a)\n    return g\n@d\ndef f(): return 1.0",
        "f()",
        "f.__wrapped__.__code__ = (lambda: 4.0).__code__",
    ),
    "code under no_grad": (
        "@torch.no_grad()\ndef f(): return 1.0",
        "f()",
        "f.__wrapped__.__code__ = (lambda: 4.0).__code__",
    ),
    "defaults": ("def f(w=1.0): return w", "f()", "f.__defaults__ = (4.0,)"),
    "keyword defaults": ("def f(*, w=1.0): return w", "f()", "f.__kwdefaults__['w'] = 4.0"),
    "new keyword defaults": ("def f(*, w=1.0): return w", "f()", "f.__kwdefaults__ = {'w': 4.0}"),
    "defaults of a method": (
        "class C:\n    def f(self, w=1.0): return w\nh = C()",
        "h.f()",
        "C.f.__defaults__ = (4.0,)",
    ),
    "defaults of __init__": (
        "class C:\n    def __init__(self, w=1.0): self.w = w",
        "C().w",
        "C.__init__.__defaults__ = (4.0,)",
    ),
    "global of __init__": ("W = 1.0\nclass C:\n    def __init__(self): self.w = W", "C().w", _SET_W),
    "global of __post_init__": (
        "W = 1.0\n@dataclasses.dataclass\nclass C:\n    w: float = 0.0\n    def __post_init__(self): self.w = W",
        "C().w",
        _SET_W,
    ),
    "global of __new__": (
        "W = 1.0\nclass C:\n    def __new__(cls):\n        o = object.__new__(cls); o.w = W; return o",
        "C().w",
        _SET_W,
    ),
    "attribute of a function": ("def f(): return f.w\nf.w = 1.0", "f()", "f.w = 4.0"),
    "vars of a function": ("def f(): return 1\nf.w = 1.0", "vars(f)['w']", "f.w = 4.0"),
    "function that is replaced": ("def f(): return 1.0", "f()", "global f\nf = lambda: 4.0"),
    "keywords of a partial": ("def f(w): return w\nh = functools.partial(f, w=1.0)", "h()", "h.keywords['w'] = 4.0"),
    "keywords of a partial, updated": (
        "def f(w=0.0): return w\nh = functools.partial(f)",
        "h() + 1.0",
        "h.keywords.update(w=4.0)",
    ),
    "argument of a partial": ("def f(l): return l[0]\nh = functools.partial(f, [1.0])", "h()", "h.args[0][0] = 4.0"),
    "state of a partial": (
        "def f(w): return w\nh = functools.partial(f, 1.0)",
        "h()",
        "h.__setstate__((f, (4.0,), {}, None))",
    ),
    "function of a partial": (
        "def f(): return 1.0\nh = functools.partial(f)",
        "h()",
        "f.__code__ = (lambda: 4.0).__code__",
    ),
    "partial in a partial": (
        "def f(a, w): return a * w\nh = functools.partial(functools.partial(f, w=[1.0][0]), 1.0)",
        "h()",
        "h.keywords['w'] = 4.0",
    ),
    "partial method": (
        "class C:\n    def f(self, w): return w\n    g = functools.partialmethod(f, w=1.0)\nh = C()",
        "h.g()",
        "vars(C)['g'].keywords['w'] = 4.0",
    ),
    "bound method": ("class C:\n    w = 1.0\n    def f(self): return self.w\nh = C().f", "h()", "h.__self__.w = 4.0"),
    "bound method of a builtin": ("d = {'a': 1.0}\nh = d.get", "h('a')", "d['a'] = 4.0"),
    "method-wrapper": ("d = [1.0]\nh = d.__len__", "float(h())", "d.append(4.0)"),
    "static method": (
        "class C:\n    @staticmethod\n    def f(): return 1.0",
        "C.f()",
        "C.f = staticmethod(lambda: 4.0)",
    ),
    "class method": ("class C:\n    w = 1.0\n    @classmethod\n    def f(cls): return cls.w", "C.f()", "C.w = 4.0"),
    "method that is replaced": ("class C:\n    def f(self): return 1.0\nh = C()", "h.f()", "C.f = lambda self: 4.0"),
    "method of an object": ("class C:\n    def f(self): return 1.0\nh = C()", "h.f()", "h.f = lambda: 4.0"),
    "inherited method": (
        "class B:\n    def f(self): return 1.0\nclass C(B): pass\nh = C()",
        "h.f()",
        "C.f = lambda self: 4.0",
    ),
    "method of a base": (
        "class B:\n    def f(self): return 1.0\nclass C(B): pass\nh = C()",
        "h.f()",
        "B.f = lambda self: 4.0",
    ),
    "super": (
        "class B:\n    w = 1.0\nclass C(B):\n    w = 2.0\n    def f(self): return super().w\nh = C()",
        "h.f()",
        "B.w = 4.0",
    ),
    "bases": ("class A:\n    w = 1.0\nclass B:\n    w = 4.0\nclass C(A): pass\nh = C()", "h.w", "C.__bases__ = (B,)"),
    "class of an object": ("class A:\n    w = 1.0\nclass B:\n    w = 4.0\nh = A()", "h.w", "h.__class__ = B"),
    "class of a dict": ("class A(dict):\n    w = 1.0\nclass B(dict):\n    w = 4.0\nh = A()", "h.w", "h.__class__ = B"),
    "__dict__ of an object": ("class A: pass\nh = A(); h.w = 1.0", "h.w", "h.__dict__ = {'w': 4.0}"),
    "__dict__ that is updated": ("class A: pass\nh = A(); h.w = 1.0", "h.w", "h.__dict__.update(w=4.0)"),
    "__dict__ that is read": ("class A: pass\nh = A(); h.w = 1.0", "h.__dict__[''.join(['w'])]"),
    "vars": ("class A: pass\nh = A(); h.w = 1.0", "vars(h)[''.join(['w'])]"),
    "vars of a namespace": ("h = types.SimpleNamespace(w=1.0)", "sum(vars(h).values())"),
    "vars of a module": (
        "h = types.ModuleType('h'); h.__file__ = '/state_kinds/h.py'; h.w = 1.0",
        "vars(h)[''.join(['w'])]",
    ),
    "vars of a class": ("class h: w = 1.0", "vars(h)[''.join(['w'])]"),
    "dir": ("class A: pass\nh = A()", "2.0 if 'w' in dir(h) else 1.0"),
    "namespace that is compared": (
        "h = types.SimpleNamespace(w=1.0)",
        "2.0 if h == types.SimpleNamespace(w=1.0) else 1.0",
    ),
    "namespace as text": ("h = types.SimpleNamespace(w=1.0)", "2.0 if '1.0' in repr(h) else 1.0"),
    "dataclass that is compared": (
        "@dataclasses.dataclass\nclass C:\n    w: float = 1.0\nh = C()",
        "2.0 if h == C() else 1.0",
    ),
    "asdict": ("@dataclasses.dataclass\nclass C:\n    w: float = 1.0\nh = C()", "sum(dataclasses.asdict(h).values())"),
    "astuple": ("@dataclasses.dataclass\nclass C:\n    w: float = 1.0\nh = C()", "dataclasses.astuple(h)[0]"),
    "fields": (
        "@dataclasses.dataclass\nclass C:\n    w: float = 1.0\nh = C()",
        "sum(getattr(h, f.name) for f in dataclasses.fields(h))",
    ),
    "replace": (
        "@dataclasses.dataclass\nclass C:\n    w: float = 1.0\n    z: float = 0.0\nh = C()",
        "sum(dataclasses.asdict(dataclasses.replace(h, z=1.0)).values())",
    ),
    "copy": ("class A: pass\nh = A(); h.w = 1.0", "sum(vars(copy.copy(h)).values())"),
    "deepcopy": ("class A: pass\nh = A(); h.w = 1.0", "sum(vars(copy.deepcopy(h)).values())"),
    "format": ("h = types.SimpleNamespace(w=1.0)", "float('{0.w}'.format(h))"),
    "match of a class": (
        "class C:\n    __match_args__ = ('w',)\n    w = 1.0\nh = C()",
        "match h:\n    case C(w): return w\nreturn 0.0",
    ),
    "match of a keyword": ("class C: w = 1.0\nh = C()", "match h:\n    case C(w=x): return x\nreturn 0.0"),
    "match of a mapping": ("h = {'w': 1.0}", "match h:\n    case {'w': x}: return x\nreturn 0.0", "h['w'] = 4.0"),
    "frozen dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass C:\n    w: float = 1.0\nh = C()",
        "h.w",
        "object.__setattr__(h, 'w', 4.0)",
    ),
    "object.__getattribute__": ("class C: pass\nh = C(); h.w = 1.0", "object.__getattribute__(h, ''.join(['w']))"),
    "property": (
        "class C:\n    _w = 1.0\n    @property\n    def w(self): return self._w\nh = C()",
        "h.w",
        "h._w = 4.0",
    ),
    "property that is replaced": (
        "class C:\n    @property\n    def w(self): return 1.0\nh = C()",
        "h.w",
        "C.w = property(lambda self: 4.0)",
    ),
    "property of a global": ("W = 1.0\nclass C:\n    @property\n    def w(self): return W\nh = C()", "h.w", _SET_W),
    "descriptor": (
        "class D:\n    def __init__(self): self.v = 1.0\n    def __get__(self, o, t): return self.v\nclass C: w = D()\nh = C()",
        "h.w",
        "vars(C)['w'].v = 4.0",
    ),
    "descriptor of weak keys": (
        "class D:\n    def __init__(self): self.d = weakref.WeakKeyDictionary()\n    def __get__(self, o, t): return self.d.get(o, 1.0)\n"
        "    def __set__(self, o, v): self.d[o] = v\nclass C: w = D()\nh = C()",
        "h.w",
    ),
    "cached property": (
        "class C:\n    v = 1.0\n    @functools.cached_property\n    def w(self): return self.v\nh = C()",
        "h.w",
        "del h.w\nh.v = 4.0",
    ),
    "__getattr__": (
        "class C:\n    def __init__(self): self.data = {'w': 1.0}\n    def __getattr__(self, k): return self.data[k]\nh = C()",
        "h.w",
        "h.data['w'] = 4.0",
    ),
    "__getattribute__": (
        "T = {'w': 1.0}\nclass C:\n    def __getattribute__(self, k): return T[k]\nh = C()",
        "h.w",
        "T['w'] = 4.0",
    ),
    "__getattr__ of a module": (
        "h = types.ModuleType('h'); h.__file__ = '/state_kinds/h.py'\nT = {'w': 1.0}\nh.__getattr__ = lambda k: T[k]",
        "h.w",
        "T['w'] = 4.0",
    ),
    "__getitem__": (
        "class C:\n    def __init__(self): self.s = 1.0\n    def __getitem__(self, k): return self.s\nh = C()",
        "h[0]",
        "h.s = 4.0",
    ),
    "__call__": ("class C:\n    s = 1.0\n    def __call__(self): return self.s\nh = C()", "h()", "h.s = 4.0"),
    "__call__ that is replaced": (
        "class C:\n    def __call__(self): return 1.0\nh = C()",
        "h()",
        "C.__call__ = lambda self: 4.0",
    ),
    "__len__": ("class C:\n    s = 1\n    def __len__(self): return self.s\nh = C()", "float(len(h))", "h.s = 4"),
    "__bool__": (
        "class C:\n    s = True\n    def __bool__(self): return self.s\nh = C()",
        "2.0 if h else 1.0",
        "h.s = False",
    ),
    "__float__": ("class C:\n    s = 1.0\n    def __float__(self): return self.s\nh = C()", "float(h)", "h.s = 4.0"),
    "__contains__": (
        "class C:\n    s = [1]\n    def __contains__(self, k): return k in self.s\nh = C()",
        "2.0 if 4 in h else 1.0",
        "h.s.append(4)",
    ),
    "__eq__": (
        "class C:\n    s = 1\n    def __eq__(self, o): return self.s == o\nh = C()",
        "2.0 if h == 1 else 1.0",
        "h.s = 4",
    ),
    "__iter__": (
        "class C:\n    s = [1.0]\n    def __iter__(self): return iter(self.s)\nh = C()",
        "sum(h)",
        "h.s.append(4.0)",
    ),
    "__enter__": (
        "class C:\n    s = 1.0\n    def __enter__(self): return self.s\n    def __exit__(self, *a): pass\nh = C()",
        "with h as w: return w",
        "h.s = 4.0",
    ),
    "__missing__": (
        "class C(dict):\n    s = 1.0\n    def __missing__(self, k): return self.s\nh = C()",
        "h['a']",
        "h.s = 4.0",
    ),
    "__mul__": ("class C:\n    s = 1.0\n    def __mul__(self, o): return self.s * o\nh = C()", "h * 1.0", "h.s = 4.0"),
    "__instancecheck__": (
        "class M(type):\n    s = True\n    def __instancecheck__(cls, o): return M.s\nclass C(metaclass=M): pass",
        "2.0 if isinstance(1, C) else 1.0",
        "M.s = False",
    ),
    "__class_getitem__": (
        "class C:\n    s = 1.0\n    def __class_getitem__(cls, k): return cls.s",
        "C[0]",
        "C.s = 4.0",
    ),
    "__init_subclass__": (
        "W = 1.0\nclass B:\n    def __init_subclass__(cls): cls.w = W",
        "class C(B): pass\nreturn C.w",
        _SET_W,
    ),
    "registered class": (
        "import abc\nclass A(abc.ABC): pass\nclass C: pass\nh = C()",
        "2.0 if isinstance(h, A) else 1.0",
        "A.register(C)",
    ),
    "factory of a defaultdict": (
        "h = collections.defaultdict(lambda: 1.0)",
        "h.copy()['a']",
        "h.default_factory = lambda: 4.0",
    ),
    "singledispatch": ("@functools.singledispatch\ndef f(x): return 1.0", "f(1)", "f.register(int, lambda x: 4.0)"),
    "cache": ("T = [1.0]\n@functools.lru_cache\ndef f(): return T[0]", "f()", "T[0] = 4.0\nf.cache_clear()"),
    "cache without a bound": (
        "T = [1.0]\n@functools.cache\ndef f(x): return T[0]",
        "f(1)",
        "T[0] = 4.0\nf.cache_clear()",
    ),
    "cache that is kept": ("T = [1.0]\n@functools.lru_cache\ndef f(): return T[0]\nf()", "f()", "T[0] = 4.0"),
    "cache of a list": ("@functools.cache\ndef f(): return [1.0]", "f()[0]", "f()[0] = 4.0"),
    "cached method": (
        "class C:\n    s = 1.0\n    @functools.cache\n    def f(self): return self.s\nh = C()",
        "h.f()",
        "h.s = 4.0\nC.f.cache_clear()",
    ),
    "context variable": ("v = contextvars.ContextVar('v', default=1.0)", "v.get()", "v.set(4.0)"),
    "context variable without a default": ("v = contextvars.ContextVar('v')", "v.get(1.0)", "v.set(4.0)"),
    "list in a context variable": ("v = contextvars.ContextVar('v', default=[1.0])", "v.get()[0]", "v.get()[0] = 4.0"),
    "weak reference": ("class C: pass\no = C(); o.w = 1.0\nr = weakref.ref(o)", "r().w", "o.w = 4.0"),
    "weak reference that dies": (
        "class C: pass\no = C()\nr = weakref.ref(o)",
        "1.0 if r() is None else 2.0",
        "global o\ndel o",
    ),
    "weak method": (
        "class C:\n    w = 1.0\n    def f(self): return self.w\no = C()\nr = weakref.WeakMethod(o.f)",
        "r()()",
        "o.w = 4.0",
    ),
    "slot that is empty": ("class C: __slots__ = ('w',)\nh = C()", "getattr(h, 'w', 1.0)"),
    "slot of a base": ("class B: __slots__ = ('w',)\nclass C(B): __slots__ = ('z',)\nh = C(); h.w = 1.0", "h.w"),
    "slot by its descriptor": ("class C: __slots__ = ('w',)\nh = C(); h.w = 1.0", "C.w.__get__(h)"),
    "named tuple of a list": ("N = collections.namedtuple('N', 'w')\nh = N([1.0])", "h.w[0]", "h.w[0] = 4.0"),
    "defaults of a named tuple": (
        "N = collections.namedtuple('N', 'w', defaults=[1.0])",
        "N().w",
        "N.__new__.__defaults__ = (4.0,)",
    ),
    "enum member's value": ("class E(enum.Enum): A = 1.0", "E.A.value", "E.A._value_ = 4.0"),
    "dict of enum members": ("class E(enum.Enum): A = 1\nT = {E.A: 1.0}", "T[E.A]", "T[E.A] = 4.0"),
    "slice": ("class C: pass\nc = [2]\nh = slice(0, 1)", "float(len([1, 2, 3][h]))", "global h\nh = slice(0, 2)"),
    "attrgetter in a variable": (
        "h = types.SimpleNamespace(deep=types.SimpleNamespace(w=1.0))\ng = operator.attrgetter('.'.join(['deep', 'w']))",
        "g(h)",
        "h.deep.w = 4.0",
    ),
    "methodcaller": (
        "class C:\n    w = 1.0\n    def f(self): return self.w\nh = C()\ng = operator.methodcaller('f')",
        "g(h)",
    ),
    "getattr in a variable": ("h = types.SimpleNamespace(w=1.0)\ng = getattr", "g(h, ''.join(['w']))"),
    "getattr in a partial": (
        "h = types.SimpleNamespace(w=1.0)\ng = functools.partial(getattr, h, ''.join(['w']))",
        "g()",
    ),
    "os.environ": ("os.environ['REPRO_W'] = '1'", "float(os.environ['REPRO_W'])", "os.environ['REPRO_W'] = '4'"),
    "os.environ.get": (
        "os.environ.pop('REPRO_W', None)",
        "float(os.environ.get('REPRO_W', '1'))",
        "os.environ['REPRO_W'] = '4'",
    ),
    "os.getenv": ("os.environ['REPRO_W'] = '1'", "float(os.getenv('REPRO_W', '1'))", "os.environ['REPRO_W'] = '4'"),
    "in os.environ": (
        "os.environ.pop('REPRO_W', None)",
        "2.0 if 'REPRO_W' in os.environ else 1.0",
        "os.environ['REPRO_W'] = '4'",
    ),
    "environ of another name": (
        "from os import environ as E\nE['REPRO_W'] = '1'",
        "float(E['REPRO_W'])",
        "E['REPRO_W'] = '4'",
    ),
    "os.environb": ("os.environ['REPRO_W'] = '1'", "float(os.environb[b'REPRO_W'])", "os.environ['REPRO_W'] = '4'"),
    "imported in the step": (
        "m = types.ModuleType('state_kind_cfg'); m.__file__ = '/state_kinds/c.py'; m.w = 1.0\nimport sys\nsys.modules['state_kind_cfg'] = m",
        "import state_kind_cfg\nreturn state_kind_cfg.w",
        "m.w = 4.0",
    ),
    "imported from in the step": (
        "m = types.ModuleType('state_kind_cfg'); m.__file__ = '/state_kinds/c.py'; m.w = 1.0\nimport sys\nsys.modules['state_kind_cfg'] = m",
        "from state_kind_cfg import w\nreturn w",
        "m.w = 4.0",
    ),
    "sys.modules": (
        "m = types.ModuleType('state_kind_cfg'); m.__file__ = '/state_kinds/c.py'; m.w = 1.0\nimport sys\nsys.modules['state_kind_cfg'] = m",
        "sys.modules['state_kind_cfg'].w",
        "m.w = 4.0",
    ),
    "importlib": (
        "m = types.ModuleType('state_kind_cfg'); m.__file__ = '/state_kinds/c.py'; m.w = 1.0\nimport sys, importlib\nsys.modules['state_kind_cfg'] = m",
        "importlib.import_module('state_kind_cfg').w",
        "m.w = 4.0",
    ),
    "module that is replaced": (
        "m = types.ModuleType('state_kind_cfg'); m.__file__ = '/state_kinds/c.py'; m.w = 1.0\nimport sys\nsys.modules['state_kind_cfg'] = m",
        "import state_kind_cfg\nreturn state_kind_cfg.w",
        "n = types.ModuleType('state_kind_cfg'); n.__file__ = m.__file__; n.w = 4.0\nsys.modules['state_kind_cfg'] = n",
    ),
    "sys.flags of a path": ("import sys", "float(len(sys.path))", "sys.path.append('/state_kinds')"),
    "math.pi": ("", "math.pi", "math.pi = 4.0"),
    "math.sqrt": (_REPLACED, "math.sqrt(1.0)", "math.sqrt = g"),
    "inherited method of a module": (_NET, "net.act()", "Net.act = lambda self: 4.0"),
    "method of a base of a module": (_NET, "net.act()", "Base.act = lambda self: 4.0"),
    "code of a module's method": (_NET, "net.act()", "Base.act.__code__ = (lambda self: 4.0).__code__"),
    "torch.relu": ("", "torch.relu(torch.ones(()))", "torch.relu = lambda x: 4 * x"),
    "torch.add": ("", "torch.add(torch.ones(()), 1.0)", "torch.add = lambda x, y: 4 * x"),
    "F.relu": ("", "F.relu(torch.ones(()))", "F.relu = lambda x: 4 * x"),
    "F.gelu by a computed name": ("", "getattr(F, ''.join(['ge', 'lu']))(torch.ones(()))", "F.gelu = lambda x: 4 * x"),
    "F.relu in nn.ReLU": ("net = nn.ReLU()", "net(torch.ones(()))", "F.relu = lambda x, inplace=False: 4 * x"),
    "nn.ReLU.forward": ("net = nn.ReLU()", "net(torch.ones(()))", "nn.ReLU.forward = lambda self, x: 4 * x"),
    "code of nn.ReLU.forward": (
        "net = nn.ReLU()",
        "net(torch.ones(()))",
        "nn.ReLU.forward.__code__ = (lambda self, x: 4 * x).__code__",
    ),
    "nn.ReLU.__call__": ("net = nn.ReLU()", "net(torch.ones(()))", "nn.ReLU.__call__ = lambda self, x: 4 * x"),
    "nn.Module.__call__": (
        "net = nn.ReLU()",
        "net(torch.ones(()))",
        "nn.Module.__call__ = lambda self, *a, _f=nn.Module.__call__: 4 * _f(self, *a)",
    ),
    "nn.ReLU": ("", "nn.ReLU()(torch.ones(()))", "nn.ReLU = nn.Tanh"),
    "Tensor.relu": ("", "torch.ones(()).relu()", "torch.Tensor.relu = lambda x: 4 * x"),
    "Tensor.__add__": ("", "torch.ones(()) + 1.0", "torch.Tensor.__add__ = lambda x, y: 4 * x"),
    "torch.nn.functional.softplus": (
        "",
        "torch.nn.functional.softplus(torch.ones(()))",
        "torch.nn.functional.softplus = lambda x: 4 * x",
    ),
    "autograd function": (
        "W = [1.0]\nclass Fn(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x * W[0]\n"
        "    @staticmethod\n    def backward(ctx, g): return g * W[0]",
        "Fn.apply(torch.ones(()))",
        "W[0] = 4.0",
    ),
    "autograd function that is replaced": (
        "class Fn(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x * 1.0\n"
        "    @staticmethod\n    def backward(ctx, g): return g",
        "Fn.apply(torch.ones(()))",
        "Fn.forward = staticmethod(lambda ctx, x: x * 4.0)",
    ),
    "parameter of a distribution": (
        "h = torch.distributions.Normal(0.0, 1.0)",
        "h.log_prob(torch.ones(()))",
        "h.scale = torch.tensor(4.0)",
    ),
    "tensor": ("h = torch.ones(())", "h", "h.fill_(4.0)"),
    "tensor's data": ("h = torch.ones(())", "h", "h.data = torch.tensor(4.0)"),
    "tensor by NumPy": ("h = torch.ones(2)", "h[0]", "h.numpy()[0] = 4.0"),
    "element of a tensor": ("h = torch.ones(2)", "float(h[0])", "h[0] = 4.0"),
    "tensor of another module": (
        "h = nn.Linear(1, 1); nn.init.ones_(h.weight)",
        "h.weight.detach().sum()",
        "h.weight.data.fill_(4.0)",
    ),
    "buffer of another module": ("h = nn.BatchNorm1d(1)", "h.running_mean.sum() + 1.0", "h.running_mean.fill_(4.0)"),
    "mode of another module": ("h = nn.Dropout(1.0)", "2.0 if h.training else 1.0", "h.eval()"),
    "hook of another module": ("h = nn.ReLU()", "h(torch.ones(()))", "h.register_forward_hook(lambda m, i, o: 4 * o)"),
    "scheduler's rate": (
        "_o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)\nh = torch.optim.lr_scheduler.StepLR(_o, 1, 0.5)",
        "h.get_last_lr()[0]",
        "_o.step(); h.step()",
    ),
    "rate of another optimizer": (
        "h = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)",
        "h.param_groups[0]['lr']",
        "h.param_groups[0]['lr'] = 4.0",
    ),
    "state of another optimizer": (
        "h = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)",
        "float(len(h.state)) + 1.0",
        "h.state['a'] = 1.0",
    ),
    "module-level tuple of lists": ("T = ([1.0], [2.0])", "T[0][0]", "T[0][0] = 4.0"),
    "class registry": (
        "class R:\n    items = {}\n    @classmethod\n    def get(cls, k): return cls.items.get(k, 1.0)",
        "R.get('a')",
        "R.items['a'] = 4.0",
    ),
    "singleton": (
        "class S:\n    _one = None\n    def __new__(cls):\n        if cls._one is None: cls._one = object.__new__(cls); cls._one.w = 1.0\n        return cls._one\nS()",
        "S().w",
        "S().w = 4.0",
    ),
    "getter of a hidden object": ("_c = types.SimpleNamespace(w=1.0)\ndef get(): return _c", "get().w", "_c.w = 4.0"),
    "stack of contexts": (
        "_s = [1.0]\nimport contextlib\n@contextlib.contextmanager\ndef ctx():\n    yield _s[-1]",
        "with ctx() as w: return w",
        "_s.append(4.0)",
    ),
    "reduce": ("T = [1.0, 2.0]", "functools.reduce(operator.add, T)", "T.append(4.0)"),
    "sorted by a key": ("W = {1: 1.0, 2: 2.0}", "float(sorted([1, 2], key=W.get)[0])", "W[1] = 5.0"),
    "generic alias": ("class C(typing.Generic[typing.TypeVar('T')]):\n    w = 1.0\nh = C[int]", "h().w", "C.w = 4.0"),
    "recursion": ("def f(n): return 1.0 if n == 0 else f(n - 1) * K\nK = 1.0", "f(2)", "global K\nK = 2.0"),
    "coroutine": (
        "W = 1.0\nasync def f(): return W\ndef run(c):\n    try: c.send(None)\n    except StopIteration as e: return e.value",
        "run(f())",
        _SET_W,
    ),
    "shape of a tensor": ("h = torch.ones(4)", "float(h.shape[0])", "h.unsqueeze_(0)"),
    "shape of an array": ("h = np.ones(4)", "float(h.shape[0])", "h.shape = (2, 2)"),
    "requires_grad": ("h = torch.ones(())", "2.0 if h.requires_grad else 1.0", "h.requires_grad_()"),
    "gradient that is absent": (
        "h = torch.ones((), requires_grad=True)",
        "1.0 if h.grad is None else 2.0",
        "h.grad = torch.ones(())",
    ),
    "version of a tensor": ("h = torch.ones(())", "1.0 + h._version", "h.add_(0)"),
    "number of threads": (
        "",
        "1.0 + torch.get_num_threads() % 2",
        "torch.set_num_threads(torch.get_num_threads() % 2 + 1)",
    ),
    "flag of torch.backends": (
        "",
        "2.0 if torch.backends.cudnn.benchmark else 1.0",
        "torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark",
    ),
    "flag in a module of torch.backends": (
        "",
        "2.0 if torch.backends.mha.get_fastpath_enabled() else 1.0",
        "torch.backends.mha.set_fastpath_enabled(not torch.backends.mha.get_fastpath_enabled())",
    ),
    "deterministic algorithms": (
        "",
        "2.0 if torch.are_deterministic_algorithms_enabled() else 1.0",
        "torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled())",
    ),
    "torch.__version__": ("", "float(len(torch.__version__))", "torch.__version__ = '2.0'"),
    "NumPy's printing": (
        "",
        "1.0 + np.get_printoptions()['precision'] % 2",
        "np.set_printoptions(precision=1 + np.get_printoptions()['precision'] % 2)",
    ),
    "level of a logger": (
        "import logging\nh = logging.getLogger('zz'); h.setLevel(10)",
        "float(h.level)",
        "h.setLevel(40)",
    ),
    "level of a logger's parent": (
        "import logging\nlogging.getLogger('zy').setLevel(10)\nh = logging.getLogger('zy.b')",
        "2.0 if h.isEnabledFor(20) else 1.0",
        "logging.getLogger('zy').setLevel(40)",
    ),
    "level of an adapted logger": (
        "import logging\nlog = logging.getLogger('zx'); h = logging.LoggerAdapter(log, {}); log.setLevel(10)",
        "2.0 if h.isEnabledFor(20) else 1.0",
        "log.setLevel(40)",
    ),
    "handlers of a logger": (
        "import logging\nh = logging.getLogger('zw'); h.propagate = False; h.handlers.clear()",
        "2.0 if h.hasHandlers() else 1.0",
        "h.addHandler(logging.NullHandler())",
    ),
    "precision of decimal numbers": (
        "import decimal\nh = decimal.Decimal(1)",
        "float(h / 3)",
        "decimal.getcontext().prec = 3",
    ),
    "rounding of decimal numbers": (
        "import decimal",
        "float(decimal.Decimal('2.5').quantize(decimal.Decimal(1)))",
        "decimal.getcontext().rounding = decimal.ROUND_UP",
    ),
    "getattr of builtins": (
        "import builtins\nclass V: pass\nh = V(); h.scale = 2.0; name = 'sca'",
        "builtins.getattr(h, name + 'le')",
        "h.scale = 4.0",
    ),
    "getattr by another name": (
        "fetch = getattr\nclass V: pass\nh = V(); h.scale = 2.0; name = 'sca'",
        "fetch(h, name + 'le')",
        "h.scale = 4.0",
    ),
    "members of an object": (
        "import inspect\nclass V: pass\nh = V()",
        "1.0 + len(inspect.getmembers(h))",
        "h.another = 1",
    ),
    "finalizer": (
        "class V: pass\nv = V()\nh = weakref.finalize(v, print)",
        "2.0 if h.alive else 1.0",
        "h.detach()",
    ),
    "attribute of a user's handler": (
        "import logging\nclass H(logging.Handler):\n    scale = 1.0\nh = H()",
        "h.scale",
        "H.scale = 4.0",
    ),
    "fp32_precision": (
        "",
        "2.0 if torch.backends.mkldnn.matmul.fp32_precision == 'ieee' else 1.0",
        "m = torch.backends.mkldnn.matmul; m.fp32_precision = 'tf32' if m.fp32_precision == 'ieee' else 'ieee'",
    ),
    "docstring of a function": ("def f(): 'a'", "float(len(f.__doc__))", "f.__doc__ = 'abcd'"),
    "name of a function": ("def f(): 'a'", "float(len(f.__name__))", "f.__name__ = 'abcd'"),
    "annotations of a function": (
        "def f(): pass\nf.__annotations__ = {'a': 1.0}",
        "f.__annotations__['a']",
        "f.__annotations__ = {'a': 4.0}",
    ),
    "docstring of a class": ("class C: 'a'", "float(len(C.__doc__))", "C.__doc__ = 'abcd'"),
    "subclasses": ("class C: pass", "1.0 + len(C.__subclasses__())", "C.derived = type('D', (C,), {})"),
    "random state that is read": ("h = random.Random(1)", "float(h.getstate()[1][0] % 7) + 1.0", "h.seed(5)"),
}

_REFUSED = {
    "iterator": ("h = iter([1.0, 4.0, 5.0, 6.0])", "next(h)", "pass"),
    "count": ("h = itertools.count(1.0)", "next(h)", "pass"),
    "cycle": ("h = itertools.cycle([1.0, 4.0])", "next(h)", "pass"),
    "generator": ("def g():\n    yield 1.0\n    yield 4.0\n    yield 5.0\nh = g()", "next(h)", "pass"),
    "generator that is sent to": (
        "def g():\n    x = 1.0\n    while True: x = (yield x) or x\nh = g(); next(h)",
        "h.send(None)",
        "h.send(4.0)",
    ),
    "chain": ("h = itertools.chain([1.0], [4.0, 5.0])", "next(h)", "pass"),
    "zip": ("h = zip([1.0, 4.0, 5.0], [1, 2, 3])", "next(h)[0]", "pass"),
    "map": ("h = map(float, [1, 4, 5])", "next(h)", "pass"),
    "enumerate": ("h = enumerate([1.0, 4.0, 5.0])", "next(h)[1]", "pass"),
    "reversed": ("h = reversed([1.0, 4.0, 5.0])", "next(h)", "pass"),
    "string buffer": ("h = io.StringIO('1.0')", "float(h.getvalue())", "h.seek(0); h.write('4.0')"),
    "bytes buffer": ("h = io.BytesIO(b'1.0')", "float(h.getvalue())", "h.seek(0); h.write(b'4.0')"),
    "file": (
        "open('/tmp/state_kind', 'w').write('1.0')\nh = open('/tmp/state_kind')",
        "float(h.read(3) or 2.0)",
        "h.seek(0)",
    ),
    "open": (
        "open('/tmp/state_kind', 'w').write('1.0')",
        "float(open('/tmp/state_kind').read())",
        "open('/tmp/state_kind', 'w').write('4.0')",
    ),
    "path": (
        "import pathlib\nh = pathlib.Path('/tmp/state_kind'); h.write_text('1.0')",
        "float(h.read_text())",
        "h.write_text('4.0')",
    ),
    "array of a file": (
        "np.save('/tmp/state_kind.npy', np.ones(1))",
        "float(np.load('/tmp/state_kind.npy')[0])",
        "np.save('/tmp/state_kind.npy', 4 * np.ones(1))",
    ),
    "bytes of a file": (
        "np.ones(1).tofile('/tmp/state_kind')",
        "float(np.fromfile('/tmp/state_kind')[0])",
        "(4 * np.ones(1)).tofile('/tmp/state_kind')",
    ),
    "lock": ("h = threading.Lock()", "2.0 if h.locked() else 1.0", "h.acquire()"),
    "module that may be there": ("import importlib.util", "2.0 if importlib.util.find_spec('zz') else 1.0", "pass"),
    "NumPy's bit generator": (
        "h = np.random.PCG64(1)",
        "float(h.state['state']['state'] % 7) + 1.0",
        "h.random_raw(3)",
    ),
    "NumPy's iterator": ("h = np.arange(1.0, 9.0).flat", "float(next(h))", "pass"),
    "seed of a generator": (
        "h = torch.Generator().manual_seed(1)",
        "float(h.initial_seed())",
        "h.manual_seed(2)",
    ),
    "os.path.exists": (
        "open('/tmp/state_kind', 'w').close()",
        "2.0 if os.path.exists('/tmp/state_kind') else 1.0",
        "os.remove('/tmp/state_kind')",
    ),
    "time.time": ("", "time.time() % 7 + 1.0", "pass"),
    "time.perf_counter": ("", "time.perf_counter() % 7 + 1.0", "pass"),
    "time in a variable": ("from time import monotonic as now", "now() % 7 + 1.0", "pass"),
    "datetime.now": ("import datetime", "datetime.datetime.now().microsecond + 1.0", "pass"),
    "random.random": ("", "random.random() + 1.0", "pass"),
    "own random generator": ("h = random.Random(1)", "h.random() + 1.0", "pass"),
    "new random generator": ("", "random.Random().random() + 1.0", "pass"),
    "os.urandom": ("", "os.urandom(1)[0] + 1.0", "pass"),
    "uuid": ("import uuid", "uuid.uuid4().int % 7 + 1.0", "pass"),
    "secrets": ("import secrets", "secrets.randbelow(7) + 1.0", "pass"),
    "NumPy's random numbers": ("", "np.random.rand() + 1.0", "pass"),
    "own NumPy generator": ("h = np.random.default_rng(1)", "h.random() + 1.0", "pass"),
    "queue": ("import queue\nh = queue.SimpleQueue(); h.put(1.0); h.put(4.0); h.put(5.0)", "h.get()", "pass"),
    "counter that the step changes": ("n = [1.0]", "n[0] += 1.0\nreturn n[0]", "pass"),
    "global that the step changes": ("n = 1.0", "global n\nn += 1.0\nreturn n", "pass"),
    "list that the step fills": ("n = [1.0]", "n.append(1.0)\nreturn float(len(n))", "pass"),
    "database": (
        "import sqlite3\nh = sqlite3.connect(':memory:')",
        "float(h.execute('select 1').fetchone()[0])",
        "pass",
    ),
    "ctypes": ("import ctypes\nh = ctypes.c_double(1.0)", "h.value", "h.value = 4.0"),
    "structure of ctypes": (
        "import ctypes\nclass S(ctypes.Structure): _fields_ = [('w', ctypes.c_double)]\nh = S(1.0)",
        "h.w",
    ),
    "weak proxy": ("class C: pass\no = C(); o.w = 1.0\nh = weakref.proxy(o)", "h.w", "o.w = 4.0"),
    "frame": ("import sys", "float(sys._getframe(0).f_lineno * 0 + len(sys.argv)) + time.process_time()", "pass"),
    "memory map": ("import mmap\nh = mmap.mmap(-1, 8); h[0] = 1", "float(h[0])", "h[0] = 4"),
    "iterator in an object": ("class C: pass\nh = C(); h.it = iter([1.0, 4.0, 5.0])", "next(h.it)", "pass"),
    "iterator of a partial": ("h = functools.partial(next, iter([1.0, 4.0, 5.0]))", "h()", "pass"),
    "bound next": ("h = iter([1.0, 4.0, 5.0]).__next__", "h()", "pass"),
    "id": ("class C: pass\nh = [C()]", "float(os.getpid() % 2) + 1.0", "pass"),
    "reference count": ("h = [1.0]\nimport sys", "float(sys.getrefcount(h))", "global k\nk = h"),
}


def kinds() -> list[Kind]:
    """Returns all kinds in a fixed order; names are unique."""
    found = [*_attributes(), *_containers()]
    found += (Kind(name, *source) for name, source in _FUNCTIONS.items())
    found += (Kind(f"refused: {name}", *source, refused=True) for name, source in _REFUSED.items())
    assert len({kind.name for kind in found}) == len(found)
    return found
