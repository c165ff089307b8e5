# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the reference of the dialect and the passes from their TableGen descriptions."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    mlir = Path(sysconfig.get_path("purelib")) / "mlir"
    generate = [str(mlir / "bin" / "mlir-tblgen"), "-I", str(ROOT), "-I", str(mlir / "include")]
    operations = ROOT / "dialects" / "Repro" / "IR" / "ReproOps.td"
    jobs = [(["-gen-dialect-doc", "-dialect=repro"], operations, target / "dialect.md")]
    for passes in sorted((ROOT / "dialects").rglob("Passes.td")):
        name = "-".join(passes.parent.relative_to(ROOT / "dialects").parts).lower()
        jobs.append((["-gen-pass-doc"], passes, target / f"passes-{name}.md"))
    for options, source, output in jobs:
        subprocess.run([*generate, *options, str(source), "-o", str(output)], check=True)
        print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
