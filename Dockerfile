# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The package with PyTorch for CPUs, from the wheels in dist (make release):
#   docker build --tag repro-mlir .
#   docker run --rm --volume "$PWD:/work" repro-mlir verify run.receipt
FROM debian:12-slim

RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=torch,sign
# PyPI's builds of PyTorch contain CUDA, with gigabytes that the image does not use.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=bind,source=dist,target=/wheels \
    python3 -m venv /opt/repro-mlir \
 && /opt/repro-mlir/bin/pip install --no-cache-dir --find-links /wheels --extra-index-url "$TORCH_INDEX" "repro-mlir[$EXTRAS]"

RUN useradd --create-home repro
USER repro
WORKDIR /work
ENV PATH=/opt/repro-mlir/bin:$PATH
ENTRYPOINT ["repro"]
CMD ["--help"]
