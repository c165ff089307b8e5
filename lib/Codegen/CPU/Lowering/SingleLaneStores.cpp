//===- SingleLaneStores.cpp - Replaces masked stores of one lane ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/SingleLaneStores.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include <optional>

/// If `mask` is a constant with exactly one set lane, returns the number of
/// this lane; otherwise std::nullopt.
static std::optional<unsigned> getSingleLane(const llvm::Value *mask) {
  const auto *constant = llvm::dyn_cast<llvm::Constant>(mask);
  const auto *type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (!constant || !type)
    return std::nullopt;
  std::optional<unsigned> single;
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    const llvm::Constant *element = constant->getAggregateElement(lane);
    if (!element || !element->isOneValue())
      continue;
    if (single)
      return std::nullopt;
    single = lane;
  }
  return single;
}

void mlir::repro::replaceSingleLaneStores(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (!store || store->getIntrinsicID() != llvm::Intrinsic::masked_store)
        continue;
      llvm::Value *vector = store->getArgOperand(0);
      std::optional<unsigned> lane = getSingleLane(store->getArgOperand(2));
      if (!lane)
        continue;
      llvm::IRBuilder<> builder(store);
      llvm::Value *element = builder.CreateExtractElement(vector, *lane);
      llvm::Value *place = builder.CreateConstInBoundsGEP1_32(
          element->getType(), store->getArgOperand(1), *lane);
      uint64_t bytes =
          module.getDataLayout().getTypeStoreSize(element->getType());
      builder.CreateAlignedStore(
          element, place,
          llvm::commonAlignment(store->getParamAlign(1).valueOrOne(),
                                *lane * bytes));
      store->eraseFromParent();
    }
}
