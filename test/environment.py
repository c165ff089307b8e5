# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates a separate environment for tests whose packages conflict with the project's.

python test/environment.py REQUIREMENTS FOLDER [--over] [--no-deps]

With --over, the new environment also has the packages of the environment that runs this script; the packages of the
requirements take precedence. With --no-deps, pip installs only the packages that the requirements name.
"""

import argparse
import hashlib
import subprocess
import sysconfig
import venv
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--over", action="store_true")
    parser.add_argument("--no-deps", action="store_true")
    options = parser.parse_args()
    base = sysconfig.get_path("purelib") if options.over else ""
    made = options.folder / "made"
    wanted = hashlib.sha256(options.requirements.read_bytes() + base.encode()).hexdigest()
    if made.exists() and made.read_text() == wanted:
        return
    venv.create(options.folder, with_pip=True, clear=True)
    python = options.folder / "bin" / "python"
    if base:
        command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        own = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
        # addsitedir also processes the .pth files in the base environment's folder, one of which adds the build tree.
        (own / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    only = ["--no-deps"] if options.no_deps else []
    subprocess.run([python, "-m", "pip", "install", "--quiet", *only, "-r", options.requirements], check=True)
    made.write_text(wanted)


if __name__ == "__main__":
    main()
