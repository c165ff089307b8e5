# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes the environment of these tests: the packages of requirements.txt over those of the environment that runs this.

python test/models/environment.py FOLDER
"""

import argparse
import hashlib
import subprocess
import sysconfig
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    base = sysconfig.get_path("purelib")
    made = folder / "made"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + base.encode()).hexdigest()
    if made.exists() and made.read_text() == wanted:
        return
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    # With the .pth files of the other one, of which one leads to the build tree.
    (own / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
    made.write_text(wanted)


if __name__ == "__main__":
    main()
