//===- MapPartition.cpp - Cut launches into pieces ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-partition (Passes.td): chooses for each launch into how many
// pieces each axis of its kernel is cut.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "PartitionCandidates.h"
#include "PartitionSearch.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPPARTITION
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
struct MapPartition : public repro::impl::ReproMapPartitionBase<MapPartition> {
  using ReproMapPartitionBase::ReproMapPartitionBase;
  void runOnOperation() override;
};
} // namespace

void MapPartition::runOnOperation() {
  FailureOr<MappingInput> input = readMappingInput(getOperation(), machine);
  if (failed(input))
    return signalPassFailure();
  if (strategy != "time" && strategy != "batch") {
    getOperation().emitError(
        "expected strategy=time or strategy=batch, got strategy=")
        << strategy;
    return signalPassFailure();
  }
  std::vector<SmallVector<int64_t>> partitions;
  if (strategy == "batch") {
    for (const MappedLaunch &launch : input->launches)
      partitions.push_back(cutBatch(launch, input->machine));
  } else {
    auto found = searchPartitions(input->launches, input->plan.getArena(),
                                  input->machine);
    if (failed(found))
      return signalPassFailure();
    partitions = std::move(*found);
  }
  Builder builder(&getContext());
  for (auto [launch, partition] : llvm::zip_equal(input->launches, partitions))
    launch.dispatch->setAttr(CoresDialect::PartitionAttrHelper::getNameStr(),
                             builder.getDenseI64ArrayAttr(partition));
}
