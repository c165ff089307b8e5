//===- Tensors.h - The contents of the arena --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors share the bytes of the arena. This file finds out which launches
// write and read the same contents, so that a tensor can lie elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_TENSORS_H
#define REPRO_CODEGEN_CORES_MAPPING_TENSORS_H

#include "Digits.h"
#include "Mapping.h"

namespace mlir::repro::cores {

/// An access of a launch, by their numbers.
struct TensorUse {
  unsigned launch, access;
};

/// The contents of a range of the arena, from the launch that writes all of it
/// on. Further launches may overwrite parts.
struct Tensor {
  int64_t begin, end; ///< in bytes
  SmallVector<TensorUse> writers, readers;
  /// The coordinates of all uses; std::nullopt if the tensor has to lie in the
  /// arena.
  std::optional<Digits> digits;

  /// The last launch that uses the tensor.
  unsigned getLast() const;
};

/// The tensors of a plan.
class TensorMap {
public:
  TensorMap(ArrayRef<MappedLaunch> launches, Value arena);

  std::vector<Tensor> tensors;

  /// Returns the number of the tensor that an access reads or writes, or
  /// std::nullopt if the access is not to one tensor of the arena.
  std::optional<unsigned> getRead(TensorUse use) const {
    return find(reads, use);
  }
  std::optional<unsigned> getWritten(TensorUse use) const {
    return find(writes, use);
  }

private:
  using Uses = DenseMap<std::pair<unsigned, unsigned>, unsigned>;

  static std::optional<unsigned> find(const Uses &uses, TensorUse use) {
    auto found = uses.find({use.launch, use.access});
    return found == uses.end() ? std::nullopt : std::optional(found->second);
  }

  Uses reads, writes;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_TENSORS_H
