//===- ExpandDeviceKernels.cpp - Kernel functions to device kernels -------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-device-kernels (Passes.td), run by lib/Pipelines/GPU.cpp:
// replaces each kernel function by device kernels, and each launch of the
// function by launches of these kernels. The architecture determines tiles and
// instructions, but not the bits of the results.
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Kernels/DeviceKernels.h"
#include "Codegen/GPU/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/KernelContract.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"
#include "dialects/Launch/IR/KernelSignature.h"

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
// Device kernels of one kernel function
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
  unsigned buffers = launch::KernelSignature(function).getNumBuffers();
  SmallVector<Type> types(function.getArgumentTypes().take_front(buffers));
  llvm::append_range(types, launch::DeviceKernelSignature::getOtherTypes(
                                function.getContext()));
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
    // Loads from buffers that no thread writes may use the read-only cache.
    if (launch::getAccess(kernel, i) == launch::Access::Read &&
        kernel.getArgAttr(i, "llvm.noalias"))
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
    Block &entry = function.getBody().front();
    BlockArgument argument =
        launch::DeviceKernelSignature(function).getWorkspace();
    unsigned index = argument.getArgNumber();
    SmallVector<Type> types(function.getFunctionType().getInputs());
    if (!argument.use_empty()) {
      types[index] = MemRefType::get(
          {workspace.getSize()}, IntegerType::get(argument.getContext(), 8));
      argument.setType(types[index]);
      function.setFunctionType(
          FunctionType::get(function.getContext(), types, {}));
      continue;
    }
    // Erases the argument without eraseArgument(), which does not support
    // functions with shared-memory tiles: the tiles are block arguments that
    // follow those of the function.
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
  void launchKernels();
  LogicalResult guardKernels();

  LogicalResult findAlignments();
  LogicalResult verifyMessages(func::FuncOp function);

  launch::PlanOp plan;
  gpu::GPUModuleOp device;
  FailureOr<Architecture> architecture;
  int64_t failureWords = 0;
  /// For each kernel function, the alignment in bytes that all its launches
  /// guarantee for each buffer.
  DenseMap<Operation *, SmallVector<int64_t>> alignments;
  llvm::StringMap<DeviceKernelFactory> factories;
};
} // namespace

LogicalResult ExpandDeviceKernels::expand(func::FuncOp function) {
  FailureOr<Operation *> op = findKernelBody(function);
  if (failed(op) || failed(verifyMessages(function)))
    return failure();
  if (!*op)
    return success();
  auto kernel = dyn_cast<DeviceKernelOpInterface>(*op);
  if (!kernel)
    return (*op)->emitError("expected one structured operation in a kernel of "
                            "a device, got '")
           << (*op)->getName() << "'";
  // The launch plan does not launch this function.
  if (!alignments.contains(function))
    return success();
  DeviceKernelFactory factory(function, *op, device, failureWords,
                              *architecture, alignments.lookup(function));
  if (failed(kernel.createKernels(factory)))
    return failure();
  factory.finish();
  factories.try_emplace(function.getSymName(), std::move(factory));
  return success();
}

/// (E1) Verifies that the number of each check in `function` is the number of a
/// message of the plan.
LogicalResult ExpandDeviceKernels::verifyMessages(func::FuncOp function) {
  launch::LaunchDialect::MessageAttrHelper message(function.getContext());
  return failure(function
                     .walk([&](Operation *op) {
                       IntegerAttr number = message.getAttr(op);
                       if (!number || number.getInt() < failureWords)
                         return WalkResult::advance();
                       op->emitOpError("(E1) expected a number of the plan's ")
                           << failureWords << " messages, got "
                           << number.getInt();
                       return WalkResult::interrupt();
                     })
                     .wasInterrupted());
}

/// The alignment in bytes of the caller's tensors and of the arena.
static constexpr int64_t kBaseAlignment = 16;

LogicalResult ExpandDeviceKernels::findAlignments() {
  PlanReader reader(plan);
  SymbolTable symbols(getOperation());
  for (auto dispatch : plan.getBody().getOps<launch::DispatchOp>()) {
    auto function = dyn_cast_or_null<func::FuncOp>(
        symbols.lookup(dispatch.getKernel().getRootReference()));
    if (!function || !function.isPrivate() || function.isExternal())
      return dispatch.emitOpError(
                 "expected a kernel that is a private function "
                 "with a body, got '")
             << dispatch.getKernel() << "'";
    SmallVector<int64_t> &found =
        alignments
            .try_emplace(function, dispatch.getBuffers().size(), kBaseAlignment)
            .first->second;
    for (auto [alignment, buffer] :
         llvm::zip_equal(found, dispatch.getBuffers())) {
      auto place = reader.locate(buffer);
      if (failed(place))
        return failure();
      alignment = llvm::MinAlign(alignment, place->offset);
    }
  }
  return success();
}

void ExpandDeviceKernels::launchKernels() {
  BlockArgument arena = plan.getArena();
  int64_t planned = cast<MemRefType>(arena.getType()).getDimSize(0);
  int64_t workspaceBegin = (planned + 255) / 256 * 256, end = planned;
  OpBuilder builder(plan.getContext());
  for (auto dispatch : llvm::make_early_inc_range(
           plan.getBody().getOps<launch::DispatchOp>())) {
    auto found = factories.find(dispatch.getKernel().getRootReference());
    if (found == factories.end())
      continue;
    DeviceKernelFactory &factory = found->second;
    builder.setInsertionPoint(dispatch);
    for (const DeviceKernelFactory::Kernel &kernel : factory.getKernels()) {
      gpu::GPUFuncOp function = kernel.function;
      SmallVector<Value> buffers(dispatch.getBuffers());
      // A kernel that does not use the workspace has no argument for it.
      launch::DeviceKernelSignature arguments(function);
      if (arguments.hasWorkspace(buffers.size())) {
        auto type = cast<MemRefType>(arguments.getWorkspace().getType());
        end = std::max(end, workspaceBegin + type.getDimSize(0));
        buffers.push_back(launch::ViewOp::create(builder, dispatch.getLoc(),
                                                 type, arena, workspaceBegin));
      }
      const LaunchShape &shape = kernel.launch;
      launch::DispatchOp::create(
          builder, dispatch.getLoc(),
          SymbolRefAttr::get(device.getSymNameAttr(),
                             {FlatSymbolRefAttr::get(function)}),
          buffers, builder.getDenseI64ArrayAttr(shape.grid),
          builder.getDenseI64ArrayAttr(shape.block),
          shape.sharedBytes ? builder.getI64IntegerAttr(shape.sharedBytes)
                            : IntegerAttr(),
          dispatch.getCheckedAttr());
    }
    dispatch.erase();
  }
  arena.setType(MemRefType::get({end}, builder.getI8Type()));
}

/// (E1) Inserts a test of the error word at the start of each kernel that must
/// have no effect after a failed check. Such a kernel has no checks of its own,
/// so all its threads read the same value.
LogicalResult ExpandDeviceKernels::guardKernels() {
  if (!failureWords)
    return success();
  llvm::SetVector<Operation *> guarded;
  bool mayHaveFailed = false;
  for (auto dispatch : plan.getBody().getOps<launch::DispatchOp>()) {
    mayHaveFailed |= dispatch.getChecked();
    if (mayHaveFailed)
      guarded.insert(
          device.lookupSymbol(dispatch.getKernel().getLeafReference()));
  }
  for (Operation *op : guarded) {
    auto kernel = cast<gpu::GPUFuncOp>(op);
    BlockArgument error = launch::DeviceKernelSignature(kernel).getError();
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
  FailureOr<launch::PlanOp> found = findPlan(module);
  if (failed(found))
    return signalPassFailure();
  plan = *found;
  failureWords = plan.getMessages().size();
  if (Operation *taken = module.lookupSymbol(deviceModuleName)) {
    taken->emitError("expected no symbol '")
        << deviceModuleName << "' before there are kernels of a device";
    return signalPassFailure();
  }
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  device = gpu::GPUModuleOp::create(builder, module.getLoc(), deviceModuleName);
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPrivate() && !function.isExternal())
      functions.push_back(function);
  if (failed(findAlignments()))
    return signalPassFailure();
  for (func::FuncOp function : functions)
    if (failed(expand(function)))
      return signalPassFailure();
  launchKernels();
  if (failed(guardKernels()))
    return signalPassFailure();
  for (func::FuncOp function : functions)
    function.erase();
}
