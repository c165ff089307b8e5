//===- PlanReader.cpp - What a planned main says --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "Codegen/Schedule/Buffers/Kernel.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::repro;

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

static ::repro_runtime::Tensor describe(func::FuncOp main, unsigned index) {
  auto type = cast<MemRefType>(main.getArgumentTypes()[index]);
  ::repro_runtime::Tensor tensor;
  if (auto name = main.getArgAttrOfType<StringAttr>(index, "repro.name"))
    tensor.name = name.str();
  llvm::raw_string_ostream(tensor.element) << type.getElementType();
  tensor.bytes = getBufferBytes(type);
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  return tensor;
}

PlanReader::PlanReader(ModuleOp module) : module(module), symbols(module) {}

LogicalResult PlanReader::readTensors(::repro_runtime::Plan &plan) {
  main = symbols.lookup<func::FuncOp>("main");
  auto count = [&](StringRef name) -> int64_t {
    auto attr = main->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  if (!main || main.isExternal() || !main->hasAttr(planOutputsAttrName))
    return module.emitError("expected a 'main' that repro-plan-buffers placed");
  inputs = count(planStatesAttrName);
  outputs = inputs + count(planInputsAttrName);
  arena = outputs + count(planOutputsAttrName);
  for (int64_t i = 0; i < arena; ++i)
    (i < inputs    ? plan.states
     : i < outputs ? plan.inputs
                   : plan.outputs)
        .push_back(describe(main, i));
  plan.arenaBytes =
      getBufferBytes(cast<MemRefType>(main.getArgumentTypes()[arena]));
  if (auto messages = module->getAttrOfType<ArrayAttr>(messagesAttrName))
    for (auto message : messages.getAsRange<StringAttr>())
      plan.messages.push_back(message.str());
  return success();
}

FailureOr<::repro_runtime::BufferRef> PlanReader::locate(Operation *launch,
                                                         Value buffer) {
  using ::repro_runtime::BufferRef;
  using ::repro_runtime::Space;
  // Kernels take buffers of offset 0: a cast takes the offset out of the type,
  // and views of the arena have one in bytes.
  uint64_t offset = 0;
  Value root = buffer;
  while (Value source = getViewSource(root)) {
    auto type = cast<MemRefType>(source.getType());
    if (auto inArena = root.getDefiningOp<memref::ViewOp>())
      offset += *getConstantIntValue(inArena.getByteShift());
    else if (root.getDefiningOp<UnrealizedConversionCastOp>() &&
             type.getNumElements() > 0)
      offset += type.getStridesAndOffset().second *
                getElementBytes(type.getElementType());
    root = source;
  }
  if (auto argument = dyn_cast<BlockArgument>(root)) {
    int64_t index = argument.getArgNumber();
    if (index < inputs)
      return BufferRef{Space::State, uint32_t(index), offset};
    if (index < outputs)
      return BufferRef{Space::Input, uint32_t(index - inputs), offset};
    if (index < arena)
      return BufferRef{Space::Output, uint32_t(index - outputs), offset};
    return BufferRef{Space::Arena, 0, offset};
  }
  auto get = root.getDefiningOp<memref::GetGlobalOp>();
  if (!get)
    return launch->emitError("expected buffers that repro-plan-buffers placed");
  auto global = symbols.lookup<memref::GlobalOp>(get.getName());
  auto [place, isFirst] = offsets.try_emplace(global, 0);
  if (isFirst) {
    constants.resize(llvm::alignTo(constants.size(), 64));
    place->second = constants.size();
    auto value = dyn_cast_or_null<ElementsAttr>(
        global.getInitialValue().value_or(Attribute()));
    if (!value)
      return global.emitError("expected a constant with a value");
    if (failed(appendElements(global.getLoc(), value, constants)))
      return failure();
  }
  return BufferRef{Space::Constant, 0, place->second + offset};
}
