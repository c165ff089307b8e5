//===- ChipTraffic.h - Bytes between chips ----------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_CHIPTRAFFIC_H
#define REPRO_CODEGEN_CORES_MAPPING_CHIPTRAFFIC_H

#include "DramLayout.h"
#include "Target/ManyCore.h"

#include <array>
#include <vector>

namespace mlir::repro::cores {

/// The bytes that move between the DRAM of each chip and the cores of each
/// chip, and the least time that they need.
class ChipTraffic {
public:
  explicit ChipTraffic(const ManyCore &machine);

  /// Adds bytes of a tensor that the cores of a chip read or write. They come
  /// from all parts of the tensor.
  void add(const DramTensor &tensor, int64_t chip, double bytes, bool reads);
  void add(const ChipTraffic &other);

  double getBytes() const;
  /// Returns the seconds of the busiest chip's channels.
  double getDramSeconds() const;
  /// Returns the seconds of the links between chips: those of the busiest chip,
  /// and those of the busiest cut between two columns or rows of chips.
  double getLinkSeconds() const;

private:
  void addAll(int64_t chip, double bytes, bool reads);
  void addPart(int64_t home, int64_t chip, double bytes, bool reads);
  std::array<int64_t, 2> getPoint(int64_t chip) const;

  const ManyCore &machine;
  std::array<int64_t, 2> extents;   ///< the columns and the rows of chips
  std::vector<double> dram;         ///< by chip
  std::vector<double> out, in;      ///< by chip, over its links
  double outOfAll = 0, inOfAll = 0; ///< over the links of each chip
  double dramOfAll = 0;             ///< of each chip
  /// By axis, by direction (ascending first), and by cut.
  std::array<std::array<std::vector<double>, 2>, 2> cuts;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_CHIPTRAFFIC_H
