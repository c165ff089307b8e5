//===- PlanReader.cpp - What a plan says ----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Buffers/PlanReader.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::launch;

/// Appends the elements as they lie in memory: little-endian, an i1 as a byte.
static LogicalResult appendElements(Location loc, ElementsAttr attr,
                                    std::string &bytes) {
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  Type element = attr.getElementType();
  if (!dense || !(element.isIntOrIndexOrFloat()))
    return emitError(loc, "expected a dense constant, got ") << attr.getType();
  unsigned width = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  if (width != 1 && !llvm::isPowerOf2_32(width))
    return emitError(loc, "expected elements of 1, 8, 16, 32 or 64 bits, got ")
           << element;
  auto append = [&](const APInt &value) {
    uint64_t bits = value.getZExtValue();
    for (unsigned i = 0; i < llvm::divideCeil(width, 8); ++i)
      bytes += static_cast<char>(bits >> (8 * i));
  };
  if (isa<FloatType>(element)) {
    for (const APFloat &value : dense.getValues<APFloat>())
      append(value.bitcastToAPInt());
  } else {
    for (const APInt &value : dense.getValues<APInt>())
      append(value);
  }
  return success();
}

FailureOr<PlanOp> mlir::repro::findPlan(ModuleOp module) {
  auto plans = module.getOps<PlanOp>();
  if (!llvm::hasSingleElement(plans))
    return module.emitError("expected one 'launch.plan', which "
                            "repro-plan-buffers makes of 'main'");
  return *plans.begin();
}

static ::repro_runtime::Tensor describe(Value buffer, Attribute name) {
  auto type = cast<MemRefType>(buffer.getType());
  ::repro_runtime::Tensor tensor;
  tensor.name = cast<StringAttr>(name).str();
  llvm::raw_string_ostream(tensor.element) << type.getElementType();
  tensor.bytes = getBufferBytes(type);
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  return tensor;
}

void PlanReader::readTensors(::repro_runtime::Plan &result) {
  const Attribute *name = plan.getNames().begin();
  auto read = [&](ArrayRef<BlockArgument> buffers,
                  std::vector<::repro_runtime::Tensor> &tensors) {
    for (BlockArgument buffer : buffers)
      tensors.push_back(describe(buffer, *name++));
  };
  read(plan.getStates(), result.states);
  read(plan.getInputs(), result.inputs);
  read(plan.getOutputs(), result.outputs);
  result.arenaBytes =
      getBufferBytes(cast<MemRefType>(plan.getArena().getType()));
  for (auto message : plan.getMessages().getAsRange<StringAttr>())
    result.messages.push_back(message.str());
}

FailureOr<::repro_runtime::BufferRef> PlanReader::locate(Value buffer) {
  using ::repro_runtime::BufferRef;
  using ::repro_runtime::Space;
  uint64_t offset = 0;
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    offset += view.getOffset();
    buffer = view.getSource();
  }
  if (auto argument = dyn_cast<BlockArgument>(buffer)) {
    uint64_t index = argument.getArgNumber();
    if (index < plan.getNumStates())
      return BufferRef{Space::State, uint32_t(index), offset};
    index -= plan.getNumStates();
    if (index < plan.getNumInputs())
      return BufferRef{Space::Input, uint32_t(index), offset};
    index -= plan.getNumInputs();
    if (index < plan.getNumOutputs())
      return BufferRef{Space::Output, uint32_t(index), offset};
    return BufferRef{Space::Arena, 0, offset};
  }
  auto constant = buffer.getDefiningOp<ConstantOp>();
  auto [place, isFirst] = offsets.try_emplace(constant, 0);
  if (isFirst) {
    constants.resize(llvm::alignTo(constants.size(), 64));
    place->second = constants.size();
    if (failed(
            appendElements(constant.getLoc(), constant.getValue(), constants)))
      return failure();
  }
  return BufferRef{Space::Constant, 0, place->second + offset};
}
