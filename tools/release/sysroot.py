# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Unpacks the C and C++ libraries of Debian 11, against which the compiler's wheels are linked.

A wheel needs the versions of functions that these libraries have, not those of the machine that builds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

MIRROR = "http://deb.debian.org/debian/pool/main"
"""The signature of a package is not checked: the digests below are the authority."""

_GCC = "10"
_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}

# By package: version, then the SHA-256 for amd64 and arm64.
_PACKAGES = {
    "g/glibc/libc6": (
        "2.31-13+deb11u11",
        "05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282",
        "baaa9aa184e2f21738c5819055e6740cc5b22f198e3f416e33f82b40ff6933d8",
    ),
    "g/glibc/libc6-dev": (
        "2.31-13+deb11u11",
        "e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3",
        "28d478134722dcd4b0bd2045a199301d18713bf95947b9fce66634e7aeacab2e",
    ),
    "l/linux/linux-libc-dev": (
        "5.10.223-1",
        "e3be603bd12377bb90fcfb0f2048ca3a81c886e49d6f09945b82159d1c54f7b2",
        "8b6374a64412d33eac61d74f77b8f932da4b8a707ea8a614791e2a35b8917618",
    ),
    "libx/libxcrypt/libcrypt-dev": (
        "4.4.18-4",
        "8b04bf00b8c43360d9ba3adec209db290168ba3526d4aef3175fb84372b1bebf",
        "5309fdf445acc72794b9d134e9625746ffad2b865c6432abcd08ef097587bde1",
    ),
    "g/gcc-10/libgcc-s1": (
        "10.2.1-6",
        "e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf",
        "e2fcdb378d3c1ad1bcb64d4fb6b37aab44011152beca12a4944f435a2582df1f",
    ),
    "g/gcc-10/libgcc-10-dev": (
        "10.2.1-6",
        "3b711374092b84e732c4e73cf33e02cff02e34a5f105eb6467de8d9038e4cd9d",
        "80fc73d339ada2e194175afe83cd89014565242153b6e3c2128849d8817da367",
    ),
    "g/gcc-10/libstdc++6": (
        "10.2.1-6",
        "5c155c58935870bf3b4bfe769116841c0d286a74f59eccfd5645693ac23f06b1",
        "7869aa540cc46e9f3d4267d5bde2af0e5b429a820c1d6f1a4cfccfe788c31890",
    ),
    "g/gcc-10/libstdc++-10-dev": (
        "10.2.1-6",
        "20b1f56863dcc5f187d6cb53b2aa6149bd013be4ec67e10c2c31a22fda619a01",
        "cee7ca63613b50a8a51cc670db385c7e6d1181b72c94148fc8b7992e4570782d",
    ),
}


def _download(name: str, machine: str, folder: Path) -> Path:
    """Returns the package `name` for `machine`, from `folder` if it was downloaded before.

    Raises:
      ValueError: the downloaded package is not the one whose digest is in the table.
    """
    version, *digests = _PACKAGES[name]
    digest = digests[list(_DEBIAN).index(machine)]
    path = folder / f"{name.rsplit('/', 1)[1]}_{version}_{_DEBIAN[machine]}.deb"
    if not path.exists():
        address = f"{MIRROR}/{name.rsplit('/', 1)[0]}/{path.name}"
        with urllib.request.urlopen(address, timeout=120) as source:
            data = source.read()
        if (found := hashlib.sha256(data).hexdigest()) != digest:
            raise ValueError(f"sysroot: expected sha256 {digest} of {address}, found {found}; try again later")
        path.write_bytes(data)
    return path


def sysroot(machine: str, folder: Path) -> Path:
    """Returns the folder with the libraries for `machine` (x86_64 or aarch64), which it unpacks below `folder`."""
    if shutil.which("dpkg-deb") is None:
        raise FileNotFoundError("sysroot: expected dpkg-deb, found none; install Debian's package dpkg")
    root = folder / f"sysroot-{machine}"
    unpacked = root / "unpacked"
    wanted = hashlib.sha256(repr(_PACKAGES).encode()).hexdigest()
    if unpacked.exists() and unpacked.read_text() == wanted:
        return root
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name in _PACKAGES:
        subprocess.run(["dpkg-deb", "-x", str(_download(name, machine, folder)), str(root)], check=True)
    for link in root.rglob("*"):
        if link.is_symlink() and os.readlink(link).startswith("/"):
            target = root / os.readlink(link).lstrip("/")
            link.unlink()
            link.symlink_to(os.path.relpath(target, link.parent))
    unpacked.write_text(wanted)
    return root


def compiler_flags(machine: str, root: Path, compiler: str) -> dict[str, list[str]]:
    """Returns the flags for both languages (CFLAGS) and for C++ (CXXFLAGS) with which GCC, called `compiler`, takes
    start files, libraries and headers only from `root`, except GCC's own headers."""
    triple = f"{machine}-linux-gnu"
    own = subprocess.run(
        [compiler, "-print-file-name=include"], check=True, capture_output=True, text=True
    ).stdout.strip()
    places = f"usr/lib/gcc/{triple}/{_GCC}", f"usr/lib/{triple}", f"lib/{triple}"
    common = [f"--sysroot={root}", *(f"-B{root}/{place}" for place in places), "-nostdinc"]
    c = [own, f"{root}/usr/include/{triple}", f"{root}/usr/include"]
    cxx = [f"{root}/usr/include/c++/{_GCC}", f"{root}/usr/include/{triple}/c++/{_GCC}", *c]
    return {
        name: [*common, *(f"-isystem{each}" for each in found)] for name, found in (("CFLAGS", c), ("CXXFLAGS", cxx))
    }
