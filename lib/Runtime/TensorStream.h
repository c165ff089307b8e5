//===- TensorStream.h - What all plans contain ------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bytes and the limits of tensors and texts, which launch plans and the
// plans of many cores share.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_TENSORSTREAM_H
#define REPRO_RUNTIME_TENSORSTREAM_H

#include "ByteStream.h"

namespace repro_runtime {

/// The limit of every size: addresses have 48 bits. Sums of sizes, and products
/// of sizes and thread counts, cannot overflow.
constexpr uint64_t mostBytes = uint64_t(1) << 48;

bool isUTF8(const std::string &text);

void writeTensors(ByteWriter &writer, const std::vector<Tensor> &tensors);
void readTensors(ByteReader &reader, std::vector<Tensor> &tensors);

/// Returns what is wrong with a tensor, or nothing.
Error checkTensor(const Tensor &tensor);

/// Returns the first error that `check` returns for an element, prefixed with
/// `what` and the index of the element.
template <typename T, typename Check>
Error checkEach(const char *what, const std::vector<T> &elements, Check check) {
  for (size_t i = 0; i < elements.size(); ++i)
    if (Error error = check(elements[i]); !error.empty())
      return what + std::to_string(i) + " " + error;
  return {};
}

} // namespace repro_runtime

#endif // REPRO_RUNTIME_TENSORSTREAM_H
