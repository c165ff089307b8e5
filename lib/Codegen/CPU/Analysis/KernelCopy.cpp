//===- KernelCopy.cpp - Kernel copies that run without data ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/KernelCopy.h"

#include "dialects/Launch/IR/KernelSignature.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;
using mlir::repro::KernelCopy;
using mlir::repro::KernelWork;

/// The arguments of a kernel that follow its buffers.
enum Other { Scratch, ErrorWord, Begin, End, NumOthers };
static_assert(NumOthers == mlir::repro::launch::KernelSignature::numOthers);

static unsigned getIndex(const Function &kernel, Other other) {
  return kernel.arg_size() - NumOthers + other;
}

/// The maximum scratch size, in bytes, of a kernel in the copy. The copy needs
/// real scratch memory, because sorts and scatters keep lists there.
static constexpr uint64_t kMostScratch = uint64_t(1) << 30;

/// The maximum number of loop iterations of all kernels together, after
/// optimization. This many iterations take about ten seconds.
static constexpr uint64_t kMostIterations = uint64_t(1) << 32;
static constexpr char leftName[] = "repro_iterations_left";

/// The name of the generated function that calls all kernels. The function
/// returns how many kernels finish before their loops have run kMostIterations
/// iterations together.
static constexpr char runName[] = "run";

/// Whether to keep an access to `pointer` because the value may decide a
/// branch. True for accesses to an alloca, and for integers in scratch memory
/// (such as the entries of a scatter's list).
static bool isKept(const Function &kernel, const llvm::Value *pointer,
                   const llvm::Type *type) {
  const llvm::Value *base = getUnderlyingObject(pointer, /*MaxLookup=*/0);
  return isa<AllocaInst>(base) ||
         (base == kernel.getArg(getIndex(kernel, Scratch)) &&
          type->isIntegerTy());
}

KernelCopy::KernelCopy(const llvm::Module &original)
    : module(CloneModule(original)) {
  for (Function &function : *module)
    if (!function.isDeclaration()) {
      function.removeFnAttr("target-cpu");
      function.removeFnAttr("target-features");
      kernels.push_back(&function);
    }
}

static void removeEffectsOf(Function &kernel) {
  for (Instruction &instruction : make_early_inc_range(instructions(kernel))) {
    bool isRemoved = false;
    if (auto *store = dyn_cast<StoreInst>(&instruction)) {
      isRemoved = !isKept(kernel, store->getPointerOperand(),
                          store->getValueOperand()->getType());
    } else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
      isRemoved = !isKept(kernel, load->getPointerOperand(), load->getType());
    } else if (auto *set = dyn_cast<MemSetInst>(&instruction)) {
      isRemoved = !isKept(kernel, set->getDest(), set->getValue()->getType());
    } else if (auto *call = dyn_cast<CallInst>(&instruction)) {
      const Function *called = call->getCalledFunction();
      isRemoved = called &&
                  (call->mayReadOrWriteMemory() || called->isTargetIntrinsic());
    }
    if (!isRemoved)
      continue;
    if (!instruction.getType()->isVoidTy())
      instruction.replaceAllUsesWith(
          Constant::getNullValue(instruction.getType()));
    instruction.eraseFromParent();
  }
}

void KernelCopy::removeEffects() {
  for (Function *kernel : kernels)
    removeEffectsOf(*kernel);
}

uint64_t KernelCopy::getScratchBytes(const StringMap<KernelWork> &work) {
  uint64_t most = 0;
  for (const auto &kernel : work)
    most = std::max(most, kernel.second.scratchBytes);
  return most;
}

void KernelCopy::addRun(const StringMap<KernelWork> &work,
                        function_ref<uint64_t(unsigned)> getBuffer) {
  LLVMContext &context = module->getContext();
  auto *bytes =
      ArrayType::get(llvm::Type::getInt8Ty(context), getScratchBytes(work));
  auto *scratch = new GlobalVariable(
      *module, bytes, /*isConstant=*/false, GlobalVariable::ExternalLinkage,
      ConstantAggregateZero::get(bytes), scratchName);
  scratch->setAlignment(Align(64));
  auto *number = llvm::Type::getInt64Ty(context);
  auto *left = new GlobalVariable(
      *module, number, /*isConstant=*/false, GlobalVariable::InternalLinkage,
      ConstantInt::get(number, kMostIterations), leftName);
  auto *run = Function::Create(llvm::FunctionType::get(number, false),
                               Function::ExternalLinkage, runName, *module);
  // The caller aligns the stack only as the ABI requires, but kernels assume
  // more (alignStack in EmitObject.cpp). `run` therefore realigns the stack, as
  // the entries of kernels do.
  run->addFnAttr("stackrealign");
  IRBuilder<> builder(BasicBlock::Create(context, "", run));
  llvm::Value *finished = builder.getInt64(0);
  for (Function *kernel : kernels) {
    SmallVector<llvm::Value *> arguments;
    for (Argument &argument : kernel->args())
      arguments.push_back(Constant::getNullValue(argument.getType()));
    for (unsigned i = 0; i < getIndex(*kernel, Scratch); ++i)
      if (uint64_t address = getBuffer(i))
        arguments[i] = ConstantExpr::getIntToPtr(builder.getInt64(address),
                                                 builder.getPtrTy());
    arguments[getIndex(*kernel, Scratch)] = scratch;
    arguments[getIndex(*kernel, End)] =
        builder.getInt64(work.lookup(kernel->getName()).items);
    builder.CreateCall(kernel, arguments);
    // The load is volatile so that `optimize` does not fold it: the code that
    // decrements the counter does not exist yet (limitLoops adds it later).
    llvm::Value *isFinished = builder.CreateIsNotNull(
        builder.CreateLoad(number, left, /*isVolatile=*/true));
    finished =
        builder.CreateAdd(finished, builder.CreateZExt(isFinished, number));
    kernel->setLinkage(Function::InternalLinkage);
    // Inlining all kernels would create one large function that is slow to
    // optimize.
    kernel->addFnAttr(llvm::Attribute::NoInline);
  }
  builder.CreateRet(finished);
}

/// Makes each iteration of each loop decrement the counter `left`. `function`
/// returns when the counter reaches 0.
static void limitLoops(Function &function, const LoopInfo &loops,
                       GlobalVariable &left) {
  SmallVector<BasicBlock *> headers;
  for (const Loop *loop : loops.getLoopsInPreorder())
    headers.push_back(loop->getHeader());
  for (BasicBlock *header : headers) {
    BasicBlock::iterator at = header->getFirstInsertionPt();
    IRBuilder<> builder(header, at);
    llvm::Value *before = builder.CreateLoad(left.getValueType(), &left);
    Instruction *branch = SplitBlockAndInsertIfThen(
        builder.CreateIsNull(before), at, /*Unreachable=*/true);
    builder.SetInsertPoint(at);
    builder.CreateStore(builder.CreateSub(before, builder.getInt64(1)), &left);
    ReturnInst::Create(function.getContext(), nullptr, branch->getIterator());
    branch->eraseFromParent();
  }
}

static Error optimize(llvm::Module &module, TargetMachine &machine,
                      StringRef passes) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager graphs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  ModulePassManager pipeline;
  if (Error failed = builder.parsePassPipeline(pipeline, passes))
    return failed;
  pipeline.run(module, modules);
  // An exit condition that depends on data may never hold, because loads from
  // buffers yield 0 in the copy. All loops are therefore limited.
  GlobalVariable &left = *module.getGlobalVariable(leftName, true);
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    const LoopInfo &found = functions.getResult<LoopAnalysis>(function);
    for (const Loop *loop : found.getLoopsInPreorder())
      if (loop->hasNoExitBlocks())
        return createStringError("a loop of " + function.getName() +
                                 " ends by data alone");
    limitLoops(function, found, left);
  }
  return Error::success();
}

Error KernelCopy::load(const StringMap<KernelWork> &work,
                       function_ref<uint64_t(unsigned)> getBuffer,
                       StringRef passes, CodeGenOptLevel level) {
  if (uint64_t bytes = getScratchBytes(work); bytes > kMostScratch)
    return createStringError("a kernel has " + Twine(bytes) +
                             " bytes of scratch memory, expected at most " +
                             Twine(kMostScratch));
  addRun(work, getBuffer);
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto builder = orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder.takeError();
  builder->setCodeGenOptLevel(level);
  auto machine = builder->createTargetMachine();
  if (!machine)
    return machine.takeError();
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple());
  if (Error failed = optimize(*module, **machine, passes))
    return failed;
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager emission;
  if ((*machine)->addPassesToEmitFile(emission, stream, nullptr,
                                      CodeGenFileType::ObjectFile))
    return createStringError("this machine's target emits no object code");
  emission.run(*module);
  auto created = orc::LLJITBuilder().create();
  if (!created)
    return created.takeError();
  jit = std::move(*created);
  return jit->addObjectFile(MemoryBuffer::getMemBufferCopy(
      StringRef(object.data(), object.size()), "kernels"));
}

Error KernelCopy::run() {
  auto found = lookup(runName);
  if (!found)
    return found.takeError();
  uint64_t finished = found->toPtr<uint64_t()>()();
  if (finished == kernels.size())
    return Error::success();
  return createStringError("the loops of " + kernels[finished]->getName() +
                           " run more than " + Twine(kMostIterations) +
                           " times");
}
