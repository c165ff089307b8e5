//===- ExpandDeviceKernels.cpp - Kernel functions to device kernels -------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/KernelContract.h"
#include "Codegen/CPU/Kernels/StructuredKernels.h"
#include "Codegen/GPU/Kernels/DeviceKernels.h"
#include "Codegen/GPU/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDDEVICEKERNELS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

static constexpr StringLiteral deviceModuleName = "device";

//===----------------------------------------------------------------------===//
// Kernels of one kernel function
//===----------------------------------------------------------------------===//

DeviceKernelFactory::DeviceKernelFactory(func::FuncOp function, Operation *op,
                                         gpu::GPUModuleOp module,
                                         int64_t failureWords,
                                         const Architecture &architecture,
                                         ArrayRef<int64_t> alignments)
    : function(function), op(op), module(module), failureWords(failureWords),
      architecture(architecture), alignments(alignments) {}

LogicalResult DeviceKernelFactory::createKernel(
    StringRef suffix,
    function_ref<LogicalResult(DeviceBuilder &, Operation *)> build) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  unsigned buffers = function.getNumArguments() - numTrailingKernelArgs;
  SmallVector<Type> types(function.getArgumentTypes().take_front(buffers));
  types.push_back(MemRefType::get({ShapedType::kDynamic}, builder.getI8Type()));
  types.push_back(MemRefType::get({1}, builder.getI64Type()));
  std::string name = function.getSymName().str();
  if (!suffix.empty())
    name += "_" + suffix.str();
  auto kernel = gpu::GPUFuncOp::create(builder, op->getLoc(), name,
                                       builder.getFunctionType(types, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                  builder.getUnitAttr());
  Block &body = kernel.getBody().front();
  IRMapping mapping;
  for (unsigned i = 0; i < buffers; ++i) {
    mapping.map(function.getArgument(i), body.getArgument(i));
    if (DictionaryAttr attrs = function.getArgAttrDict(i))
      kernel.setArgAttrs(i, attrs);
    kernel.setArgAttr(i, "llvm.align",
                      builder.getI64IntegerAttr(alignments[i]));
    // What nobody writes may be read through another cache.
    auto access = kernel.getArgAttrOfType<StringAttr>(i, accessAttrName);
    if (access && access == "read" && kernel.getArgAttr(i, "llvm.noalias"))
      kernel.setArgAttr(i, "llvm.readonly", builder.getUnitAttr());
  }
  builder.setInsertionPointToEnd(&body);
  Operation *copy = nullptr;
  for (Operation &inner : function.getBody().front().without_terminator()) {
    Operation *clone = builder.clone(inner, mapping);
    if (&inner == op)
      copy = clone;
  }
  gpu::ReturnOp::create(builder, op->getLoc());
  DeviceBuilder b(kernel, copy, workspace, failureWords, architecture);
  if (failed(build(b, copy))) {
    kernel.erase();
    return failure();
  }
  b.finish();
  if (b.isEmpty()) {
    kernel.erase();
    return success();
  }
  LaunchShape launch = b.getLaunch();
  auto toI32 = [](ArrayRef<int64_t> sizes) {
    return SmallVector<int32_t>(sizes.begin(), sizes.end());
  };
  kernel.setKnownBlockSize(toI32(launch.block));
  kernel.setKnownGridSize(toI32(launch.grid));
  if (launch.blocksPerProcessor > 1)
    kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    builder.getI32IntegerAttr(launch.blocksPerProcessor));
  kernels.push_back({kernel, std::move(launch)});
  return success();
}

void DeviceKernelFactory::finish() {
  for (Kernel &kernel : kernels) {
    gpu::GPUFuncOp function = kernel.function;
    unsigned index = function.getNumArguments() - 2;
    Block &entry = function.getBody().front();
    BlockArgument argument = entry.getArgument(index);
    SmallVector<Type> types(function.getFunctionType().getInputs());
    if (!argument.use_empty()) {
      types[index] = MemRefType::get(
          {workspace.getSize()}, IntegerType::get(argument.getContext(), 8));
      argument.setType(types[index]);
      function.setFunctionType(
          FunctionType::get(function.getContext(), types, {}));
      continue;
    }
    // eraseArgument() does not know of tiles behind the arguments.
    SmallVector<DictionaryAttr> attrs;
    for (unsigned i = 0; i < types.size(); ++i)
      attrs.push_back(function.getArgAttrDict(i));
    attrs.erase(attrs.begin() + index);
    types.erase(types.begin() + index);
    entry.eraseArgument(index);
    function.removeArgAttrsAttr();
    function.setFunctionType(
        FunctionType::get(function.getContext(), types, {}));
    for (auto [i, dictionary] : llvm::enumerate(attrs))
      if (dictionary)
        function.setArgAttrs(i, dictionary);
  }
}

static LogicalResult expandAnyFold(DeviceKernelFactory &factory, FoldOp op) {
  if (isa_and_present<ExactAttr>(op.getOrderAttr()))
    return device::expandExact(factory, op);
  if (succeeded(device::expandContraction(factory, op)) ||
      succeeded(device::expandFold(factory, op)))
    return success();
  factory.create<FoldOp>("", &cpu::expandLiteralFold);
  return success();
}

static LogicalResult expandKernels(DeviceKernelFactory &factory,
                                   Operation *op) {
  if (isa<linalg::GenericOp>(op))
    factory.create<linalg::GenericOp>("", &device::expandElementwise);
  else if (isa<memref::CopyOp>(op))
    factory.create<memref::CopyOp>("", &device::expandCopy);
  else if (auto fold = dyn_cast<FoldOp>(op))
    return expandAnyFold(factory, fold);
  else if (isa<ArgReduceOp>(op))
    factory.create<ArgReduceOp>("", &cpu::expandArgReduce);
  else if (auto scatter = dyn_cast<ScatterOp>(op))
    device::expandScatter(factory, scatter);
  else if (isa<ScanOp>(op))
    factory.create<ScanOp>("", &cpu::expandScan);
  else if (isa<SortOp>(op))
    factory.create<SortOp>("", &cpu::expandSort);
  return success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

namespace {
struct ExpandDeviceKernels
    : public repro::impl::ReproExpandDeviceKernelsBase<ExpandDeviceKernels> {
  using ReproExpandDeviceKernelsBase::ReproExpandDeviceKernelsBase;

  void runOnOperation() override;

private:
  LogicalResult expand(func::FuncOp function);
  void launchKernels(func::FuncOp main);
  LogicalResult guardKernels(func::FuncOp main);

  LogicalResult findAlignments();

  gpu::GPUModuleOp device;
  FailureOr<Architecture> architecture;
  int64_t failureWords = 0;
  /// Of each buffer that a kernel function takes, in all its calls.
  DenseMap<Operation *, SmallVector<int64_t>> alignments;
  llvm::StringMap<DeviceKernelFactory> factories;
};
} // namespace

LogicalResult ExpandDeviceKernels::expand(func::FuncOp function) {
  FailureOr<Operation *> op = cpu::findKernelBody(function);
  if (failed(op))
    return failure();
  if (!*op)
    return success();
  if (!cpu::isStructuredOp(**op))
    return (*op)->emitError("expected one structured operation in a kernel of "
                            "a device, got '")
           << (*op)->getName() << "'";
  DeviceKernelFactory factory(function, *op, device, failureWords,
                              *architecture, alignments.lookup(function));
  if (failed(expandKernels(factory, *op)))
    return failure();
  factory.finish();
  factories.try_emplace(function.getSymName(), std::move(factory));
  return success();
}

/// Tensors of the caller begin at multiples of this, as the arena does.
static constexpr int64_t kBaseAlignment = 16;

LogicalResult ExpandDeviceKernels::findAlignments() {
  PlanReader reader(getOperation());
  ::repro_runtime::Plan plan;
  if (failed(reader.readTensors(plan)))
    return failure();
  for (auto call : reader.getMain().getOps<func::CallOp>()) {
    auto function = reader.getSymbols().lookup<func::FuncOp>(call.getCallee());
    unsigned buffers = call.getNumOperands() - numTrailingKernelArgs;
    SmallVector<int64_t> &found =
        alignments.try_emplace(function, buffers, kBaseAlignment).first->second;
    for (unsigned i = 0; i < buffers; ++i) {
      auto place = reader.locate(call, call.getOperand(i));
      if (failed(place))
        return failure();
      found[i] = llvm::MinAlign(found[i], place->offset);
    }
  }
  return success();
}

void ExpandDeviceKernels::launchKernels(func::FuncOp main) {
  unsigned arenaIndex = main.getNumArguments() - 1;
  BlockArgument arena = main.getArgument(arenaIndex);
  int64_t planned = cast<MemRefType>(arena.getType()).getDimSize(0);
  int64_t workspaceBegin = (planned + 255) / 256 * 256, end = planned;
  OpBuilder builder(main.getContext());
  auto errorType = MemRefType::get({1}, builder.getI64Type());
  (void)main.insertArgument(main.getNumArguments(), errorType, {},
                            main.getLoc());
  Value error = main.getArguments().back();
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, main.getLoc(), value);
  };
  for (auto call : llvm::make_early_inc_range(main.getOps<func::CallOp>())) {
    auto found = factories.find(call.getCallee());
    if (found == factories.end())
      continue;
    DeviceKernelFactory &factory = found->second;
    builder.setInsertionPoint(call);
    for (const DeviceKernelFactory::Kernel &kernel : factory.getKernels()) {
      gpu::GPUFuncOp function = kernel.function;
      SmallVector<Value> operands(
          call.getOperands().drop_back(numTrailingKernelArgs));
      // Unused, the workspace is no argument.
      if (function.getNumArguments() == operands.size() + 2) {
        auto type =
            cast<MemRefType>(function.getArgument(operands.size()).getType());
        end = std::max(end, workspaceBegin + type.getDimSize(0));
        operands.push_back(memref::ViewOp::create(builder, call.getLoc(), type,
                                                  arena, index(workspaceBegin),
                                                  ValueRange()));
      }
      operands.push_back(error);
      auto dims = [&](ArrayRef<int64_t> sizes) {
        return gpu::KernelDim3{index(sizes[0]), index(sizes[1]),
                               index(sizes[2])};
      };
      Value shared;
      if (kernel.launch.sharedBytes)
        shared = arith::ConstantIntOp::create(builder, call.getLoc(),
                                              kernel.launch.sharedBytes, 32);
      auto launch = gpu::LaunchFuncOp::create(
          builder, call.getLoc(), function, dims(kernel.launch.grid),
          dims(kernel.launch.block), shared, operands);
      if (Attribute check = call->getAttr(checkAttrName))
        launch->setAttr(checkAttrName, check);
    }
    call.erase();
  }
  arena.setType(MemRefType::get({end}, builder.getI8Type()));
  main.setFunctionType(builder.getFunctionType(
      main.getBody().getArgumentTypes(), main.getResultTypes()));
}

/// (E1) a kernel that must have no effect after a failed check looks for one
/// first. It has no check of its own, so that all its threads see the same.
LogicalResult ExpandDeviceKernels::guardKernels(func::FuncOp main) {
  if (!failureWords)
    return success();
  llvm::SetVector<Operation *> guarded;
  bool mayHaveFailed = false;
  for (auto launch : main.getOps<gpu::LaunchFuncOp>()) {
    mayHaveFailed |= launch->hasAttr(checkAttrName);
    if (mayHaveFailed)
      guarded.insert(device.lookupSymbol(launch.getKernelName()));
  }
  for (Operation *op : guarded) {
    auto kernel = cast<gpu::GPUFuncOp>(op);
    BlockArgument error = kernel.getArgument(kernel.getNumArguments() - 1);
    if (!error.use_empty())
      return kernel.emitError("(E1) expected no check in a kernel that is "
                              "launched after the last one");
    Block *entry = &kernel.getBody().front();
    Block *body = entry->splitBlock(entry->begin());
    Block *exit = new Block();
    kernel.getBody().push_back(exit);
    OpBuilder builder = OpBuilder::atBlockEnd(exit);
    Location loc = kernel.getLoc();
    gpu::ReturnOp::create(builder, loc);
    builder.setInsertionPointToEnd(entry);
    Value at = arith::ConstantIndexOp::create(builder, loc, 0);
    Value word = memref::LoadOp::create(builder, loc, error, at);
    Value none = arith::ConstantIntOp::create(builder, loc, 0, 64);
    Value hasFailed = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::ne, word, none);
    cf::CondBranchOp::create(builder, loc, hasFailed, exit, body);
  }
  return success();
}

void ExpandDeviceKernels::runOnOperation() {
  ModuleOp module = getOperation();
  std::string error;
  architecture = getArchitecture(arch, error);
  if (failed(architecture)) {
    module.emitError(error);
    return signalPassFailure();
  }
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !main->hasAttr(planOutputsAttrName)) {
    module.emitError("expected a 'main' that repro-plan-buffers placed");
    return signalPassFailure();
  }
  if (auto messages = module->getAttrOfType<ArrayAttr>(messagesAttrName))
    failureWords = messages.size();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  device = gpu::GPUModuleOp::create(builder, module.getLoc(), deviceModuleName);
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                  builder.getUnitAttr());
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPrivate() && !function.isExternal())
      functions.push_back(function);
  if (failed(findAlignments()))
    return signalPassFailure();
  for (func::FuncOp function : functions)
    if (failed(expand(function)))
      return signalPassFailure();
  launchKernels(main);
  if (failed(guardKernels(main)))
    return signalPassFailure();
  for (func::FuncOp function : functions)
    function.erase();
}
