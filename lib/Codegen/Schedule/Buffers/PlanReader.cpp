//===- PlanReader.cpp - Translates launch plans ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::launch;

/// Appends the elements of `attr` as they are in memory: little-endian, with an
/// i1 as a byte.
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
  tensor.name = llvm::json::fixUTF8(cast<StringAttr>(name).getValue());
  llvm::raw_string_ostream(tensor.element) << type.getElementType();
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  return tensor;
}

void mlir::repro::translateTensors(PlanOpInterface plan,
                                   ::repro_runtime::Plan &result) {
  ArrayAttr names = plan.getNames();
  const Attribute *name = names.begin();
  auto translate = [&](ArrayRef<BlockArgument> buffers,
                       std::vector<::repro_runtime::Tensor> &tensors) {
    for (BlockArgument buffer : buffers)
      tensors.push_back(describe(buffer, *name++));
  };
  translate(plan.getStates(), result.states);
  translate(plan.getInputs(), result.inputs);
  translate(plan.getOutputs(), result.outputs);
  result.arenaBytes =
      getBufferBytes(cast<MemRefType>(plan.getArena().getType()));
  for (auto message : plan.getMessages().getAsRange<StringAttr>())
    result.messages.push_back(llvm::json::fixUTF8(message.getValue()));
}

/// Whether the plan format can represent the launch configuration of a GPU
/// kernel.
static bool fitsDevice(DispatchOp dispatch) {
  return llvm::all_of(*dispatch.getGrid(), llvm::isInt<32>) &&
         llvm::all_of(*dispatch.getBlock(), llvm::isInt<32>) &&
         llvm::isInt<32>(dispatch.getSharedBytes().value_or(0));
}

FailureOr<TranslatedPlan>
mlir::repro::translatePlan(ModuleOp module,
                           ::repro_runtime::Processor processor,
                           DescribeKernel describe) {
  FailureOr<PlanOp> found = findPlan(module);
  if (failed(found))
    return failure();
  PlanOp op = *found;
  TranslatedPlan result;
  ::repro_runtime::Plan &plan = result.plan;
  plan.processor = processor;
  translateTensors(op, plan);
  PlanReader reader(op);
  llvm::DenseMap<Attribute, uint32_t> kernels;
  for (auto dispatch : op.getBody().getOps<DispatchOp>()) {
    std::optional<ArrayRef<int64_t>> grid = dispatch.getGrid();
    bool isOnDevice = processor == ::repro_runtime::Processor::GPU;
    if (grid.has_value() != isOnDevice)
      return dispatch.emitError("expected a launch of a ")
             << (isOnDevice ? "device kernel, which repro-expand-device-kernels"
                            : "kernel without a grid, which "
                              "repro-expand-kernels")
             << " makes";
    if (isOnDevice && !fitsDevice(dispatch))
      return dispatch.emitError("expected a grid, a block and shared memory of "
                                "sizes below 2^31");
    auto [number, isNew] =
        kernels.try_emplace(dispatch.getKernel(), plan.kernels.size());
    if (isNew) {
      ::repro_runtime::Kernel kernel;
      kernel.name = dispatch.getKernel().getLeafReference().str();
      if (failed(describe(dispatch, kernel)))
        return failure();
      plan.kernels.push_back(std::move(kernel));
    }
    ::repro_runtime::Launch launch{number->second, dispatch.getChecked(), {}};
    if (isOnDevice)
      llvm::copy(*grid, launch.grid.begin());
    for (Value operand : dispatch.getBuffers()) {
      auto buffer = reader.locate(operand);
      if (failed(buffer))
        return failure();
      launch.buffers.push_back(*buffer);
    }
    plan.launches.push_back(std::move(launch));
  }
  result.constants = reader.takeConstants();
  plan.constantBytes = result.constants.size();
  return result;
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
