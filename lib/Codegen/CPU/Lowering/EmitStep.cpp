//===- EmitStep.cpp - A program as one function ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/EmitStep.h"

#include "Codegen/CPU/Lowering/EmitObject.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsARM.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace mlir;
using namespace mlir::repro;
using ::repro_runtime::BufferRef;
using ::repro_runtime::Plan;
using ::repro_runtime::Space;
using ::repro_runtime::Tensor;

/// The alignment of the arena, of scratch memory and of the constants.
static constexpr uint64_t kAlignment = 8;
/// The greatest size of everything that a step addresses: LLVM's objects are
/// smaller than half of the address space.
static constexpr uint64_t kMostBytes = (uint64_t(1) << 31) - 1;

namespace {
/// Adds the step function to a module of kernels.
class StepBuilder {
public:
  StepBuilder(llvm::Module &module, const TranslatedPlan &translated,
              StringRef name)
      : module(module), plan(translated.plan), constants(translated.constants),
        name(name), b(module.getContext()) {}

  void build();
  void addInitial(ArrayRef<StringRef> initial);
  uint64_t getMemoryBytes() const {
    return llvm::alignTo(plan.arenaBytes, kAlignment) + scratchBytes();
  }

private:
  uint64_t scratchBytes() const {
    uint64_t most = 0;
    for (const ::repro_runtime::Kernel &kernel : plan.kernels)
      most = std::max(most, kernel.scratchBytes);
    return llvm::alignTo(most, kAlignment);
  }
  /// Returns the number of elements of the tensor's array, and their bytes.
  std::pair<uint64_t, uint64_t> getElements(const Tensor &tensor) const;
  llvm::StructType *getStruct(ArrayRef<Tensor> tensors);
  /// Adds a parameter for the structure of these tensors, if there are any.
  void addParameter(SmallVectorImpl<llvm::Type *> &types, int &index,
                    bool isPresent);
  llvm::Value *getAddress(const BufferRef &buffer);
  void returnWith(llvm::Value *error);

  llvm::Module &module;
  const Plan &plan;
  StringRef constants;
  std::string name;
  llvm::IRBuilder<> b;
  llvm::Function *step = nullptr;
  llvm::Value *control = nullptr; ///< of the FPU, before the step
  llvm::GlobalVariable *constantData = nullptr;
  int state = -1, inputs = -1, outputs = -1, memory = -1;
};
} // namespace

std::pair<uint64_t, uint64_t>
StepBuilder::getElements(const Tensor &tensor) const {
  // An array of C has at least one element.
  Tensor array = tensor;
  uint64_t count = 1;
  for (uint64_t &extent : array.shape)
    count *= extent = std::max<uint64_t>(extent, 1);
  return {count, array.getBytes() / count};
}

llvm::StructType *StepBuilder::getStruct(ArrayRef<Tensor> tensors) {
  SmallVector<llvm::Type *> members;
  for (const Tensor &tensor : tensors) {
    auto [count, bytes] = getElements(tensor);
    members.push_back(llvm::ArrayType::get(b.getIntNTy(8 * bytes), count));
  }
  return llvm::StructType::get(module.getContext(), members);
}

void StepBuilder::addParameter(SmallVectorImpl<llvm::Type *> &types, int &index,
                               bool isPresent) {
  if (!isPresent)
    return;
  index = types.size();
  types.push_back(b.getPtrTy());
}

llvm::Value *StepBuilder::getAddress(const BufferRef &buffer) {
  auto move = [&](llvm::Value *base, uint64_t bytes) {
    return b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), base, bytes);
  };
  auto member = [&](int parameter, ArrayRef<Tensor> tensors) {
    llvm::Value *base = b.CreateConstInBoundsGEP2_32(
        getStruct(tensors), step->getArg(parameter), 0, buffer.index);
    return move(base, buffer.offset);
  };
  switch (buffer.space) {
  case Space::State:
    return member(state, plan.states);
  case Space::Input:
    return member(inputs, plan.inputs);
  case Space::Output:
    return member(outputs, plan.outputs);
  case Space::Arena:
    return move(step->getArg(memory), buffer.offset);
  case Space::Constant:
    return move(constantData, buffer.offset);
  }
  llvm_unreachable("unknown space");
}

void StepBuilder::returnWith(llvm::Value *error) {
  b.CreateIntrinsic(llvm::Intrinsic::arm_set_fpscr, {}, {control});
  b.CreateRet(error);
}

void StepBuilder::build() {
  SmallVector<llvm::Type *> types;
  addParameter(types, state, !plan.states.empty());
  addParameter(types, inputs, !plan.inputs.empty());
  addParameter(types, outputs, !plan.outputs.empty());
  addParameter(types, memory, getMemoryBytes() != 0);
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      function.addFnAttr(llvm::Attribute::NoInline);
    }
  if (!constants.empty()) {
    auto *data = llvm::ConstantDataArray::getString(
        module.getContext(), constants, /*AddNull=*/false);
    constantData = new llvm::GlobalVariable(
        module, data->getType(), /*isConstant=*/true,
        llvm::GlobalValue::InternalLinkage, data, name + "_constants");
    constantData->setAlignment(llvm::Align(kAlignment));
  }
  step = llvm::Function::Create(
      llvm::FunctionType::get(b.getInt32Ty(), types, /*isVarArg=*/false),
      llvm::Function::ExternalLinkage, name + "_step", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", step));
  // (V2) Rounds to nearest and keeps subnormal numbers.
  control =
      b.CreateIntrinsic(b.getInt32Ty(), llvm::Intrinsic::arm_get_fpscr, {});
  b.CreateIntrinsic(llvm::Intrinsic::arm_set_fpscr, {}, {b.getInt32(0)});
  llvm::Value *error = b.CreateAlloca(b.getInt64Ty());
  b.CreateStore(b.getInt64(0), error);
  llvm::Value *none = llvm::ConstantPointerNull::get(b.getPtrTy());
  llvm::Value *scratch = memory < 0
                             ? none
                             : b.CreateConstInBoundsGEP1_32(
                                   b.getInt8Ty(), step->getArg(memory),
                                   llvm::alignTo(plan.arenaBytes, kAlignment));
  auto getError = [&] {
    return b.CreateTrunc(b.CreateLoad(b.getInt64Ty(), error), b.getInt32Ty());
  };
  for (const ::repro_runtime::Launch &launch : plan.launches) {
    if (launch.check) {
      llvm::Value *failed = getError();
      auto *stop = llvm::BasicBlock::Create(module.getContext(), "", step);
      auto *next = llvm::BasicBlock::Create(module.getContext(), "", step);
      b.CreateCondBr(b.CreateIsNotNull(failed), stop, next);
      b.SetInsertPoint(stop);
      returnWith(failed);
      b.SetInsertPoint(next);
    }
    const ::repro_runtime::Kernel &kernel = plan.kernels[launch.kernel];
    if (kernel.items == 0)
      continue;
    SmallVector<llvm::Value *> arguments;
    for (const BufferRef &buffer : launch.buffers)
      arguments.push_back(getAddress(buffer));
    arguments.append({scratch, error, b.getInt64(0), b.getInt64(kernel.items)});
    b.CreateCall(module.getFunction(kernel.name), arguments);
  }
  returnWith(getError());
}

void StepBuilder::addInitial(ArrayRef<StringRef> initial) {
  llvm::StructType *type = getStruct(plan.states);
  SmallVector<llvm::Constant *> members;
  for (auto [tensor, bytes, member] :
       llvm::zip_equal(plan.states, initial, type->elements()))
    members.push_back(bytes.empty() ? llvm::Constant::getNullValue(member)
                                    : llvm::ConstantDataArray::getRaw(
                                          bytes, getElements(tensor).first,
                                          member->getArrayElementType()));
  auto *global = new llvm::GlobalVariable(
      module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
      llvm::ConstantStruct::get(type, members), name + "_initial");
  global->setAlignment(llvm::Align(kAlignment));
}

/// Adds the bytes of code and of read-only data in the object.
static void measure(StepObject &result, std::string &error) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(result.object, "object"));
  if (!file) {
    error = llvm::toString(file.takeError());
    return;
  }
  for (const llvm::object::SectionRef &section : (*file)->sections()) {
    llvm::object::ELFSectionRef elf(section);
    // Nothing is thrown, so linkers drop the index of exception tables.
    if (!(elf.getFlags() & llvm::ELF::SHF_ALLOC) ||
        elf.getType() == llvm::ELF::SHT_ARM_EXIDX)
      continue;
    (section.isText() ? result.codeBytes : result.constBytes) +=
        section.getSize();
  }
}

/// Refuses a step whose buffers are too large for the address space.
static LogicalResult checkSizes(ModuleOp module, const TranslatedPlan &plan,
                                uint64_t memoryBytes) {
  auto sum = [](ArrayRef<Tensor> tensors) {
    uint64_t bytes = 0;
    for (const Tensor &tensor : tensors)
      bytes = llvm::SaturatingAdd(bytes, tensor.getBytes());
    return bytes;
  };
  std::pair<StringRef, uint64_t> parts[] = {
      {"state", sum(plan.plan.states)},
      {"inputs", sum(plan.plan.inputs)},
      {"outputs", sum(plan.plan.outputs)},
      {"constants", plan.constants.size()},
      {"intermediate results", memoryBytes}};
  uint64_t total = 0;
  for (auto [name, bytes] : parts)
    total = llvm::SaturatingAdd(total, bytes);
  if (total <= kMostBytes)
    return success();
  auto error = module.emitError("expected a step with at most ")
               << kMostBytes
               << " bytes, which a microcontroller can address, got " << total;
  StringRef separator = ": ";
  for (auto [name, bytes] : parts) {
    error << separator << name << " " << bytes;
    separator = ", ";
  }
  return error;
}

FailureOr<StepObject> mlir::repro::emitStep(ModuleOp module,
                                            const TranslatedPlan &plan,
                                            StringRef name,
                                            ArrayRef<StringRef> initial,
                                            const Level &level) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    builder.clone(*function);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*kernels, context, name);
  if (!code)
    return module.emitError("translation to LLVM IR failed");
  StepBuilder step(*code, plan, name);
  if (failed(checkSizes(module, plan, step.getMemoryBytes())))
    return failure();
  step.build();
  if (!initial.empty())
    step.addInitial(initial);
  StepObject result{{}, 0, 0, step.getMemoryBytes()};
  std::string error;
  result.object = emitModule(*code, level, error);
  if (error.empty())
    measure(result, error);
  if (!error.empty())
    return module.emitError(error);
  return result;
}
