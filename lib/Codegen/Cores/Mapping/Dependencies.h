//===- Dependencies.h - What pieces wait for --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H
#define REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H

#include "Homes.h"

namespace mlir::repro::cores {

/// Sets the releases and acquires of all pieces: a piece waits for the pieces
/// of former launches on other cores that write bytes which it accesses, or
/// access bytes that it writes. A core waits for all releases of a launch to it
/// at the same time, before its first piece that needs one of them. An order
/// that follows from others is not made again. Since pieces only wait for
/// former launches, no cycle exists.
///
/// A piece also waits for those that copy from its core what the piece
/// overwrites: the tensors that lie in cores share memory with others and with
/// the buffers of tiles. `bufferBytes` is the number of bytes, from the begin
/// of a core's memory on, that the buffers of a launch's tiles take.
void findDependencies(ArrayRef<MappedLaunch> launches,
                      MutableArrayRef<std::vector<PlacedPiece>> pieces,
                      unsigned numCores, const Homes &homes,
                      ArrayRef<int64_t> bufferBytes);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H
