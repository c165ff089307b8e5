# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Gives repro diff --dumps files that are damaged, lie about their sizes, or would execute code if unpickled: each must
give one clear error (status 2), in bounded time and memory."""

import collections
import functools
import io
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.cli.main import main
from repro_mlir.tensor_dumps.comparison import compare_sides
from repro_mlir.tensor_dumps.listing import list_side
from repro_mlir.tensor_dumps.pickle_machine import interpret
from repro_mlir.tensor_dumps.report import text_lines

ARRAY = np.linspace(-1, 1, 1000, dtype=np.float32)


def npy(array: np.ndarray = ARRAY, **options: Any) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, array, **options)
    return data.getvalue()


def npy_of_header(text: str, body: bytes = b"") -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + body


def safetensors(header: Any, body: bytes = bytes(64), size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + body


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def checkpoint(pickled: bytes, storage: bytes = bytes(64)) -> bytes:
    return zipped({"x/data.pkl": pickled, "x/byteorder": b"little", "x/data/0": storage})


class _Reference:
    """Pickled as the call `function(*arguments)`, whose function is only a name in the pickle."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def tensor_pickle(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, key: str = "0", count: int = 1
) -> bytes:
    """Returns the pickle of a list of f32 tensors, as torch.save writes it, without PyTorch."""
    numbers = [b"(" + b"".join(b"L%dL\n" % each for each in values) + b"t" for values in (shape, strides)]
    one = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
        + b"X" + struct.pack("<I", len(key)) + key.encode() + b"X\3\0\0\0cpuK\1tQ"
        + b"L%dL\n" % offset + numbers[0] + numbers[1] + b"\x89ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip
    return b"\x80\2](" + one * count + b"e."


def damaged_npz() -> bytes:
    """Returns an .npz file whose compressed data begins with a block of a type that does not exist."""
    data = bytearray(zipped({"x.npy": npy()}, zipfile.ZIP_DEFLATED))
    data[30 + len("x.npy")] |= 6
    return bytes(data)


def deflate_bomb() -> bytes:
    """Returns an .npz file whose member declares 4,128 bytes and has 64 MiB."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = stream.compress(npy()) + b"".join(stream.compress(bytes(1 << 20)) for _ in range(64)) + stream.flush()
    data = bytearray(zipped({"x.npy": npy()}, zipfile.ZIP_DEFLATED))
    local, central = data.index(b"PK\3\4"), data.index(b"PK\1\2")
    name_end = local + 30 + len("x.npy")
    (old,) = struct.unpack_from("<I", data, local + 18)
    struct.pack_into("<I", data, local + 18, len(packed))
    struct.pack_into("<I", data, central + 20, len(packed))
    end = data.rindex(b"PK\5\6")
    (directory,) = struct.unpack_from("<I", data, end + 16)
    struct.pack_into("<I", data, end + 16, directory + len(packed) - old)
    return bytes(data[:name_end]) + packed + bytes(data[name_end + old :])


def long_member() -> bytes:
    """Returns a checkpoint with a view of 12 GB, and a member that declares almost 4 GiB, of which views may have a
    multiple."""
    members = {"x/data.pkl": tensor_pickle((3 * 10**9,), (0,)), "x/data/0": bytes(64), "x/data/1": bytes(2)}
    data = bytearray(zipped(members))
    struct.pack_into("<II", data, data.rindex(b"PK\1\2") + 20, 2**32 - 16, 2**32 - 16)
    return bytes(data)


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }"
FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty": ("x.npy", lambda: b"", "got an empty file"),
    "text": ("x.npy", lambda: b"hello, world", "got another file"),
    "truncated npy": ("x.npy", lambda: npy()[:-1], "the file is truncated or its header is wrong"),
    "truncated npy header": ("x.npy", lambda: npy()[:40], "got another header"),
    "longer npy": ("x.npy", lambda: npy() + b"0", "expected 4,128 bytes for this header, got 4,129"),
    "huge npy": ("x.npy", lambda: npy_of_header(HUGE, bytes(64)), "expected 4,000,000,000,"),
    "negative npy": ("x.npy", lambda: npy_of_header(HUGE.replace("(1000000", "(-1")), "of at least 0"),
    "endless npy": ("x.npy", lambda: npy_of_header(HUGE.replace("1000000,", f"0x{'f' * 5000},")), "an extent above"),
    "endless negative npy": (
        "x.npy", lambda: npy_of_header(HUGE.replace("1000000,", f"-0x{'f' * 5000},")), "an extent above",
    ),
    "nested npy header": ("x.npy", lambda: npy_of_header("(" * 9000), "got another header"),
    "code as header": ("x.npy", lambda: npy_of_header("__import__('os').abort()"), "got another header"),
    "objects": ("x.npy", lambda: npy(np.array([_Reference(os.system, "touch ran")], object)), "of Python objects"),
    "records": ("x.npy", lambda: npy(np.zeros(3, [("a", "f4")])), "got elements of [('a', '<f4')]"),
    "texts": ("x.npy", lambda: npy(np.array(["a"])), "got elements of <U1"),
    "truncated npz": ("x.npz", lambda: zipped({"x.npy": npy()})[:-30], "no end-of-directory record"),
    "damaged npz": ("x.npz", damaged_npz, "expected compressed data, got damaged data"),
    "other members": ("x.npz", lambda: zipped({"x.txt": b""}), "an unknown member"),
    "zip bomb": ("x.npz", lambda: zipped({"x.npy": npy(np.zeros(65 << 20, "f4"))}, 8), "bytes of members in a file"),
    "lying zip bomb": ("x.npz", deflate_bomb, "expected 4,128 bytes of decompressed data, got more"),
    "truncated safetensors": (
        "x.safetensors", lambda: safetensors({"x": entry([16], 0, 64)})[:-1], "truncated or tensors overlap",
    ),
    "long header": ("x.safetensors", lambda: safetensors({"x": entry([16], 0, 64)}, size=2**63), "got a header of"),
    "huge safetensors": (
        "x.safetensors", lambda: safetensors({"x": entry([10**6, 10**6], 0, 64)}), "expected 4,000,000,000,000 bytes",
    ),
    "small safetensors": ("x.safetensors", lambda: safetensors({"x": entry([2], 0, 64)}), "expected 8 bytes for shape"),
    "overlap": (
        "x.safetensors", lambda: safetensors({"x": entry([16], 0, 64), "y": entry([8], 32, 64)}), "tensors overlap",
    ),
    "wrong dtype": ("x.safetensors", lambda: safetensors({"x": entry([16], 0, 64, "F31")}), "got 'F31'"),
    "no JSON": ("x.safetensors", lambda: safetensors(b"{'x'"), "expected JSON"),
    "nested JSON": ("x.safetensors", lambda: safetensors(b'{"x":' * 10**5), "nested at most 32 levels deep"),
    "twice": ("x.safetensors", lambda: safetensors(b'{"x": {}, "x": {}}'), "a key occurs twice"),
    "bare pickle": ("x.pt", lambda: pickle.dumps(_Reference(os.system, "touch ran")), "which was not executed"),
    "os.system": ("x.pt", lambda: checkpoint(pickle.dumps(_Reference(os.system, "touch ran"), 2)), "got posix.system"),
    "protocol 4": ("x.pt", lambda: checkpoint(pickle.dumps(_Reference(os.system, "touch ran"), 4)), "got posix.system"),
    "partial": ("x.pt", lambda: checkpoint(pickle.dumps(functools.partial(print, 1))), "got functools.partial"),
    "defaultdict": ("x.pt", lambda: checkpoint(pickle.dumps(collections.defaultdict(list))), "got collections.default"),
    "no end": ("x.pt", lambda: checkpoint(b"\x80\2]q\0"), "data.pkl: expected a pickle, got damaged data"),
    "long text": ("x.pt", lambda: checkpoint(b"\x80\4\x8d" + b"\xff" * 7 + b"\0."), "data.pkl: expected a pickle"),
    "huge tensor": ("x.pt", lambda: checkpoint(tensor_pickle((10**12,), (1,))), "expected 4,000,000,000,000 bytes"),
    "huge view": ("x.pt", lambda: checkpoint(tensor_pickle((10**6, 10**6), (0, 0))), "expected tensors of at most"),
    "many views": (
        "x.pt", lambda: checkpoint(tensor_pickle((10**6,), (0,), count=100)), "expected tensors of at most 268,435,456",
    ),
    "outside": ("x.pt", lambda: checkpoint(tensor_pickle((16,), (1,), offset=1)), "the file is truncated"),
    "negative": ("x.pt", lambda: checkpoint(tensor_pickle((16,), (-1,))), "a tensor of impossible shape"),
    "dimensions": ("x.pt", lambda: checkpoint(tensor_pickle((1,) * 99, (1,) * 99)), "more than 64 dimensions"),
    "33 dimensions": ("x.pt", lambda: checkpoint(tensor_pickle((1,) * 33, (1,) * 33)), "at most 32 dimensions, got 33"),
    "no storage": ("x.pt", lambda: checkpoint(tensor_pickle((16,), (1,), key="../0")), "uncompressed member ../0"),
    "long member": ("x.pt", long_member, "got member x/data/1, which lies outside of the file"),
    "byte order": (
        "x.pt", lambda: zipped({"x/data.pkl": tensor_pickle((1,), (1,)), "x/byteorder": b"mixed", "x/data/0": b"1234"}),
        "the member byteorder to contain little or big",
    ),
    "two pickles": (
        "x.pt", lambda: zipped({"x/data.pkl": pickle.dumps({"a": 1}), "y/data.pkl": pickle.dumps({"a": 2})}),
        "with one data.pkl, got a zip file with 2",
    ),
    "truncated checkpoint": (
        "x.pt",
        lambda: checkpoint(tensor_pickle((16,), (1,)))[:-1],
        "expected a checkpoint of torch.save, got a damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_hostile_files_give_one_error(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data, message = FILES[case]
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data())
    assert main(["diff", "--dumps", name, name]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out, printed.err
    assert os.listdir() == [name]


def shared_lists(depth: int, width: int) -> bytes:
    value: Any = []
    for _ in range(depth):
        value = [value] * width
    return pickle.dumps(value)


# Encodes the string that pickle.dumps stores as the third object once more.
COPY = b"c_codecs\nencode\nh\2X\6\0\0\0latin1\x86R"


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        (shared_lists(20, 10), "at most 1,000,000 values"),
        (shared_lists(40, 1), "in at most 32 nested containers"),
        (b"\x80\2]q\0h\0a.", "in at most 32 nested containers"),
        (pickle.dumps({"x" * 2000: 1}), "names of at most 1000 characters"),
        (pickle.dumps({10**9999: 1}, 2), "a key of a dict that is neither"),
        (pickle.dumps([b"x" * 4_000_000], 2)[:-2] + COPY * 900 + b"e.", "got repeated copies of an object"),
        (b"\x80\2]q\0(]q\1(" + b"K\1" * 999 + b"e" + b"cbuiltins\nset\nh\1\x85R" * 900 + b"e.", "got repeated copies"),
        (pickle.dumps([b"x" * 4_000_000] * 99), "names and texts of at most 268,435,456 characters"),
    ],
)
def test_hostile_containers(tmp_path: Path, capsys: pytest.CaptureFixture, pickled: bytes, message: str) -> None:
    (tmp_path / "x.pt").write_bytes(checkpoint(pickled))
    assert main(["diff", "--dumps", str(tmp_path / "x.pt"), str(tmp_path / "x.pt")]) == 2
    assert message in capsys.readouterr().err


def test_links_and_special_files(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.save(tmp_path / "secret.npy", ARRAY)
    (tmp_path / "a" / "inner").mkdir(parents=True)
    run = ["diff", "--dumps", str(tmp_path / "a"), str(tmp_path / "a")]
    for path, link, message in (
        ("x.npy", tmp_path / "secret.npy", "got a symbolic link"),
        ("y.npy", None, "got a FIFO"),
        ("folder", tmp_path, "expected files that end in"),
    ):
        place = tmp_path / "a" / path
        os.mkfifo(place) if link is None else place.symlink_to(link)
        assert main(run) == 2
        assert message in capsys.readouterr().err
        place.unlink()
    np.save(tmp_path / "a" / "z.npy", ARRAY)
    (tmp_path / "a" / "folder").symlink_to(tmp_path)
    assert main(run) == 0
    assert "(1 other files ignored)" in capsys.readouterr().out
    # A file that the user names may be a link.
    (tmp_path / "named.npy").symlink_to(tmp_path / "secret.npy")
    assert main(["diff", "--dumps", str(tmp_path / "named.npy"), str(tmp_path / "secret.npy")]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"file": "../secret.npy", "name": "x"}', "expected a file in this folder, got ../secret.npy"),
        ('{"file": "/etc/passwd", "name": "x"}', "expected a file in this folder, got /etc/passwd"),
        ('{"file": "link/secret.npy", "name": "x"}', "expected a file in this folder, got link/secret.npy"),
        ('{"file": "x.npy"}', "line 1: expected the key 'name'"),
        ('{"file": "x.npy", "name": "x", "step": -1}', "expected a whole number"),
        ('{"file": "x.npy", "name": "x"}\n{"file": "x.npy", "name": "y"}', "got two lines for a tensor"),
        ('{"file": "x.npy", "name": "x", "tensor": "y"}', "expected a tensor 'y' in x.npy"),
        ("[" * 100, "nested at most 32 levels deep"),
        ("{" + " " * 70_000 + "}", "at most 65,536 bytes"),
        ("", "expected tensors, got none"),
    ],
)
def test_hostile_manifests(tmp_path: Path, capsys: pytest.CaptureFixture, line: str, message: str) -> None:
    np.save(tmp_path / "secret.npy", ARRAY)
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    np.save(folder / "x.npy", ARRAY)
    (folder / "manifest.jsonl").write_text(line)
    assert main(["diff", "--dumps", str(folder), str(folder)]) == 2
    assert message in capsys.readouterr().err


def test_a_colon_and_a_backslash_are_signs_of_names(tmp_path: Path) -> None:
    """Only Windows gives them a meaning in paths."""
    name = "layer:0\\weight.npy"
    np.save(tmp_path / name, ARRAY)
    (tmp_path / "manifest.jsonl").write_text(json.dumps({"file": name, "name": "x"}))
    assert [key for key, _ in list_side(str(tmp_path)).entries.items()] == [(None, "x")]


def valid_files() -> dict[str, bytes]:
    tensors = {"x": entry([4, 3], 0, 48), "y": entry([32], 48, 64, "F4")}
    views = tensor_pickle((4, 2), (2, 1), offset=1, count=2)
    return {
        "x.npy": npy(np.asfortranarray(ARRAY.reshape(10, 100))),
        "x.npz": zipped({"x.npy": npy(), "y.npy": npy(ARRAY > 0)}, zipfile.ZIP_DEFLATED),
        "x.safetensors": safetensors(tensors),
        "x.pt": checkpoint(views),
        "y.pt": checkpoint(pickle.dumps({"a": [1, 2.5, {"b": (None, "text", {3, 4}, b"bytes")}], 7: 2**70})),
    }


def check_damaged_files(folder: Path, rounds: int, seed: int) -> int:
    """Changes bytes of valid files, or cuts them, and compares them with the originals: each must be equal, differ, or
    raise ReproError. Returns the number of the errors."""
    rng = np.random.default_rng(seed)
    errors = 0
    for name, data in valid_files().items():
        (folder / name).write_bytes(data)
        original = list_side(str(folder / name))
        assert compare_sides(original, original).is_equal
        damaged = folder / f"damaged-{name}"
        for _ in range(rounds):
            changed = bytearray(data)
            for _ in range(rng.integers(1, 4)):
                changed[rng.integers(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)])
            damaged.write_bytes(changed[: rng.integers(len(data))] if rng.random() < 0.1 else changed)
            try:
                text_lines(compare_sides(original, list_side(str(damaged))))
            except ReproError:
                errors += 1
    return errors


def test_damaged_files(tmp_path: Path) -> None:
    assert 100 < check_damaged_files(tmp_path, 100, 0) < 500


@pytest.mark.exhaustive
def test_many_damaged_files(tmp_path: Path) -> None:
    assert check_damaged_files(tmp_path, 10_000, 1) > 10_000


def test_a_pickle_calls_nothing() -> None:
    """Each name of this process's modules is refused, whatever it is; none is looked up."""
    for module, name in (("os", "system"), ("builtins", "eval"), ("builtins", "getattr"), ("no_module", "x")):
        data = f"c{module}\n{name}\n(S'raise AssertionError'\ntR.".encode()
        with pytest.raises(Exception, match=f"got {module}.{name}; the pickle was not executed"):
            interpret(data, "x")
    assert "no_module" not in sys.modules


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Compares files of 320 MiB, sparse on disk, in a process that may use 256 MiB of data."""
    count = 5 << 24
    header = npy_of_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}")
    for name in "ab":
        with open(tmp_path / f"{name}.npy", "wb") as file:
            file.write(header)
            file.truncate(len(header) + 4 * count)
    with open(tmp_path / "b.npy", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x80")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))

    run = [sys.executable, "-m", "repro_mlir", "diff", "--dumps", "a.npy", "b.npy", "--json"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limit, env=environment)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["differences"][0]["first"]["index"] == [count - 1]
