//===- MeshTraffic.h - Bytes across the mesh of a chip ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_MESHTRAFFIC_H
#define REPRO_CODEGEN_CORES_MAPPING_MESHTRAFFIC_H

#include "Target/ManyCore.h"

namespace mlir::repro::cores {

/// The bytes that move between the DRAM and the cores of a machine of one chip,
/// and the least time in which they cross the mesh. All channels have the same
/// part of the bytes.
class MeshTraffic {
public:
  explicit MeshTraffic(const ManyCore &machine);

  void add(ManyCore::Point core, double read, double written);
  /// Adds bytes that cores read at once. `first` and `last` are the smallest
  /// and the largest column and row of the cores.
  void addRead(ManyCore::Point first, ManyCore::Point last, double bytes);
  void add(const MeshTraffic &other);
  /// Returns the seconds of the busiest cut between two columns or two rows of
  /// routers.
  double getSeconds() const;

private:
  const ManyCore &machine;
  /// By axis and router: the channels, the bytes that cores read, at the first
  /// and at the last of their routers, and the bytes that cores write.
  std::array<std::vector<double>, 2> channels, readFirst, readLast, written;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_MESHTRAFFIC_H
