//===- GPU.cpp - Python bindings for NVIDIA devices -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/GPU.h"
#include "FirstError.h"

#include "mlir/Bindings/Python/Nanobind.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

static nb::tuple compile(MlirModule module, const std::string &architecture,
                         bool timing) {
  std::vector<std::string> parts;
  MlirLogicalResult result;
  FirstError error(mlirModuleGetContext(module));
  {
    nb::gil_scoped_release release;
    result = reproGPUCompile(
        module, mlirStringRefCreate(architecture.data(), architecture.size()),
        timing,
        [](MlirStringRef part, void *data) {
          static_cast<std::vector<std::string> *>(data)->emplace_back(
              part.data, part.length);
        },
        &parts);
  }
  if (mlirLogicalResultIsFailure(result))
    throw nb::value_error(error.message.empty() ? "compilation failed"
                                                : error.message.c_str());
  return nb::make_tuple(nb::str(parts[0].data(), parts[0].size()),
                        nb::bytes(parts[1].data(), parts[1].size()),
                        nb::bytes(parts[2].data(), parts[2].size()));
}

void bindGPU(nb::module_ &m) {
  m.def(
      "gpu_architectures",
      [] {
        std::string text;
        reproGPUArchitectures(append, &text);
        return text;
      },
      "The names of the GPU architectures, separated by ', '.");
  m.def("compile_gpu", &compile, nb::arg("module"),
        nb::arg("architecture") = "sm_75", nb::arg("timing") = false,
        "Compiles a canonical module for an architecture; the result is its "
        "PTX, the bytes of its launch plan and its constants. Raises "
        "ValueError with the first error.");
}
