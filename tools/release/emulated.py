# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a command in a Debian for aarch64 on another machine, in QEMU's user-mode emulator.

apt downloads the packages of Python into build/release, and nothing is installed on this machine. The command sees this
repository in its own place, and processes start other processes as on an Arm machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
EMULATOR = "qemu-aarch64-static"
PACKAGES = ("dash", "libstdc++6", "python3", "python3-venv")

# The start of an ELF file for aarch64, and the bits that count: executables may be position-independent or not.
_START = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xb7\0"
_BITS = b"\xff" * 7 + b"\0" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
# The kernel gives each user namespace its own table of emulators, so that this machine's table stays as it is.
_ENTER = """
set -e
root=$1; sources=$2; shift 2
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
printf %s "$FORMAT" > /proc/sys/fs/binfmt_misc/register
unset FORMAT
for each in /proc /dev /etc/ssl "$sources"; do
  mkdir -p "$root$each"
  mount --rbind "$each" "$root$each"
done
exec chroot "$root" "$@"
"""


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _unpack(suite: str, folder: Path) -> Path:
    """Returns the folder with the unpacked packages, which it downloads below `folder` if they are not there."""
    root, unpacked = folder / "root", folder / "unpacked"
    if unpacked.exists():
        return root
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "etc" / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
    (folder / "apt.conf").write_text(
        'APT::Architecture "arm64"; APT::Architectures { "arm64"; };\n'
        f'Dir::State "{folder}/state"; Dir::State::status "{folder}/status";\n'
        f'Dir::Cache "{folder}/cache"; Dir::Etc "{folder}/etc"; Acquire::Languages "none";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES]):
        subprocess.run(["apt-get", "-qq", *command], check=True, env=environment)
    root.mkdir()
    for package in sorted((folder / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    # The scripts of packages, which do not run, make the rest of a system.
    for name in ("bin", "lib", "sbin"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("root", "tmp"):
        (root / name).mkdir(exist_ok=True)
    for name in ("hosts", "resolv.conf"):
        (root / "etc" / name).write_bytes((Path("/etc") / name).read_bytes())
    unpacked.touch()
    return root


def run(suite: str, command: list[str]) -> int:
    """Returns the exit status of the command.

    Raises:
      FileNotFoundError: a program or the keys of Debian are missing.
    """
    for name in (EMULATOR, "apt-get", "dpkg-deb", "unshare"):
        if shutil.which(name) is None:
            raise FileNotFoundError(
                f"emulated: expected {name}, found none; apt-get install qemu-user-static util-linux"
            )
    if not KEYRING.exists():
        raise FileNotFoundError(f"emulated: expected {KEYRING}, found none; apt-get install debian-archive-keyring")
    root = _unpack(suite, BUILD / f"debian-{suite}-arm64")
    # F opens the emulator now: the command does not see the files of this machine.
    form = f":aarch64:M::{_escaped(_START)}:{_escaped(_BITS)}:{shutil.which(EMULATOR)}:F"
    environment = {**os.environ, "FORMAT": form, "HOME": "/root"}
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ENTER, "sh", str(root), str(ROOT)]
    return subprocess.run([*enter, *command], env=environment, cwd="/").returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", help="bookworm has Python 3.11, trixie has Python 3.13")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="runs in /, and finds programs by absolute paths")
    options = parser.parse_args()
    return run(options.suite, options.command)


if __name__ == "__main__":
    sys.exit(main())
