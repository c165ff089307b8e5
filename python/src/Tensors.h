//===- Tensors.h - Tensors of the C API as Python objects -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PYTHON_TENSORS_H
#define REPRO_PYTHON_TENSORS_H

#include "mlir-c/Support.h"

#include "nanobind/nanobind.h"

/// Returns a tensor as (name, element type, shape).
inline nanobind::tuple toTuple(MlirStringRef name, MlirStringRef element,
                               const uint64_t *shape, intptr_t rank) {
  nanobind::list extents;
  for (intptr_t dim = 0; dim < rank; ++dim)
    extents.append(shape[dim]);
  return nanobind::make_tuple(nanobind::str(name.data, name.length),
                              nanobind::str(element.data, element.length),
                              nanobind::tuple(extents));
}

#endif // REPRO_PYTHON_TENSORS_H
