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
  void add(const MeshTraffic &other);
  /// Returns the seconds of the busiest cut between two columns or two rows of
  /// routers.
  double getSeconds() const;

private:
  const ManyCore &machine;
  /// By axis and router: the channels, and the bytes of the cores.
  std::array<std::vector<double>, 2> channels, read, written;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_MESHTRAFFIC_H
