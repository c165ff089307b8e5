//===- TileRuns.h - The tiles that each core runs ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_VERIFICATION_TILERUNS_H
#define REPRO_CODEGEN_CORES_VERIFICATION_TILERUNS_H

#include "Codegen/Cores/Mapping/Mapping.h"
#include "Target/ManyCore.h"

#include <map>

namespace mlir::repro::cores {

/// The tiles that the core of each piece runs, in the order of the launches.
class TileRuns {
public:
  struct Run {
    unsigned launch;
    SmallVector<Interval> tile;
  };

  /// Reads the pieces, tiles and cores of the launches. Emits an error if a
  /// launch does not have them.
  static FailureOr<TileRuns> get(ArrayRef<MappedLaunch> launches,
                                 int64_t columns);

  /// Returns the next tile of a core, or std::nullopt after the last one.
  std::optional<Run> takeNext(ManyCore::Point core);
  /// Returns a core that has not run all its tiles.
  std::optional<ManyCore::Point> findUnfinished() const;
  /// Returns the number of tiles with checks (E1) of each core that has any.
  const std::map<ManyCore::Point, unsigned> &getChecks() const {
    return checks;
  }

  /// Whether a kernel function is that of a tile of the launch.
  bool isFunctionOf(func::FuncOp function, const Run &run);

private:
  struct Piece {
    unsigned launch;
    SmallVector<Interval> range;
  };
  struct Core {
    std::vector<Piece> pieces;
    size_t nextPiece = 0, nextTile = 0;
    SmallVector<SmallVector<Interval>> tiles; ///< of the piece before the next
  };

  explicit TileRuns(ArrayRef<MappedLaunch> launches) : launches(launches) {}
  SmallVector<SmallVector<Interval>> listTiles(const Piece &piece) const;

  ArrayRef<MappedLaunch> launches;
  std::map<ManyCore::Point, Core> cores;
  std::map<ManyCore::Point, unsigned> checks;
  /// The tiles and kernels for which each function has been compared.
  DenseMap<Operation *, std::vector<Run>> known;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_VERIFICATION_TILERUNS_H
