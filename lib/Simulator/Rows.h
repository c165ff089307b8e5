//===- Rows.h - Strided parts of memories -----------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_ROWS_H
#define REPRO_SIMULATOR_ROWS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace repro_simulator {

/// One or two strided parts of memories with the same extents, as the rows of
/// contiguous bytes that they consist of, in order.
class Rows {
public:
  /// The strides are in bytes; `first` and `second` may be the same.
  Rows(uint64_t elementBytes, const std::vector<uint64_t> &extents,
       const std::vector<uint64_t> &first, const std::vector<uint64_t> &second)
      : rowBytes(elementBytes) {
    size_t outer = extents.size();
    // Inner dimensions that are contiguous in both parts belong to a row.
    for (; outer > 0; --outer) {
      uint64_t extent = extents[outer - 1];
      if (extent != 1 &&
          (first[outer - 1] != rowBytes || second[outer - 1] != rowBytes))
        break;
      rowBytes *= extent;
    }
    for (size_t i = 0; i < outer; ++i)
      if (extents[i] != 1)
        dims.push_back({extents[i], first[i], second[i]});
    for (const Dim &dim : dims)
      if (dim.extent == 0)
        rowBytes = 0;
  }

  /// The bytes of a row, 0 if the parts are empty.
  uint64_t getRowBytes() const { return rowBytes; }

  /// Calls `each` with the offsets of each row in the two parts.
  template <typename Each>
  void forEach(Each each) const {
    if (rowBytes == 0)
      return;
    std::vector<uint64_t> index(dims.size());
    uint64_t first = 0, second = 0;
    for (;;) {
      each(first, second);
      size_t dim = dims.size();
      for (;;) {
        if (dim == 0)
          return;
        --dim;
        first += dims[dim].first;
        second += dims[dim].second;
        if (++index[dim] < dims[dim].extent)
          break;
        first -= dims[dim].first * dims[dim].extent;
        second -= dims[dim].second * dims[dim].extent;
        index[dim] = 0;
      }
    }
  }

private:
  struct Dim {
    uint64_t extent, first, second;
  };
  std::vector<Dim> dims;
  uint64_t rowBytes;
};

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_ROWS_H
