//===- BlockCounts.cpp - How often blocks of code run --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/BlockCounts.h"

#include "dialects/Launch/IR/KernelSignature.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

using namespace llvm;
using mlir::repro::KernelWork;

static constexpr char countsName[] = "repro_counts";
static constexpr char entryName[] = "repro_count";

/// What a kernel is given behind its buffers.
enum Other { Scratch, ErrorWord, Begin, End, NumOthers };
static_assert(NumOthers == mlir::repro::launch::KernelSignature::numOthers);

static unsigned getIndex(const Function &kernel, Other other) {
  return kernel.arg_size() - NumOthers + other;
}

/// Whether an access may decide the course: one to memory of the call itself,
/// and a number in scratch memory, as the lists of a scatter have.
static bool isKept(const Function &kernel, const Value *pointer,
                   const Type *type) {
  const Value *base = getUnderlyingObject(pointer, /*MaxLookup=*/0);
  return isa<AllocaInst>(base) ||
         (base == kernel.getArg(getIndex(kernel, Scratch)) &&
          type->isIntegerTy());
}

/// Whether it is an instruction of a processor, which this machine's may lack.
static bool isOfProcessor(const CallInst &call) {
  const Function *called = call.getCalledFunction();
  return called && called->isTargetIntrinsic();
}

/// Leaves nothing but control flow and what decides it; other loads, and what
/// instructions of a processor compute, give zero.
static void removeEffects(Function &kernel) {
  for (Instruction &instruction : make_early_inc_range(instructions(kernel))) {
    bool isRemoved = false;
    if (auto *store = dyn_cast<StoreInst>(&instruction))
      isRemoved = !isKept(kernel, store->getPointerOperand(),
                          store->getValueOperand()->getType());
    else if (auto *load = dyn_cast<LoadInst>(&instruction))
      isRemoved = !isKept(kernel, load->getPointerOperand(), load->getType());
    else if (auto *set = dyn_cast<MemSetInst>(&instruction))
      isRemoved = !isKept(kernel, set->getDest(), set->getValue()->getType());
    else if (auto *call = dyn_cast<CallInst>(&instruction))
      isRemoved = call->mayReadOrWriteMemory() || isOfProcessor(*call);
    if (!isRemoved)
      continue;
    if (!instruction.getType()->isVoidTy())
      instruction.replaceAllUsesWith(
          Constant::getNullValue(instruction.getType()));
    instruction.eraseFromParent();
  }
}

/// Adds to an element of the counts at the beginning of each block.
static void addCounters(Function &function, GlobalVariable &counts,
                        unsigned &next) {
  for (BasicBlock &block : function) {
    IRBuilder<> builder(&block, block.getFirstInsertionPt());
    Value *place = builder.CreateConstInBoundsGEP2_64(counts.getValueType(),
                                                      &counts, 0, next++);
    Value *before = builder.CreateLoad(builder.getInt64Ty(), place);
    builder.CreateStore(builder.CreateAdd(before, builder.getInt64(1)), place);
  }
}

/// Defines the function that calls each kernel with all its work items.
static void addEntry(Module &module, ArrayRef<Function *> kernels,
                     const StringMap<KernelWork> &work) {
  uint64_t most = 0;
  for (const auto &kernel : work)
    most = std::max(most, kernel.second.scratchBytes);
  auto *bytes = ArrayType::get(Type::getInt8Ty(module.getContext()), most);
  auto *scratch = new GlobalVariable(
      module, bytes, /*isConstant=*/false, GlobalVariable::InternalLinkage,
      ConstantAggregateZero::get(bytes), "scratch");
  scratch->setAlignment(Align(64));
  auto *type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
  auto *entry =
      Function::Create(type, Function::ExternalLinkage, entryName, module);
  // As the entries of kernels: their callers align the stack.
  entry->addFnAttr("stackrealign");
  IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", entry));
  for (Function *kernel : kernels) {
    SmallVector<Value *> arguments;
    for (Argument &argument : kernel->args())
      arguments.push_back(Constant::getNullValue(argument.getType()));
    arguments[getIndex(*kernel, Scratch)] = scratch;
    arguments[getIndex(*kernel, End)] =
        builder.getInt64(work.lookup(kernel->getName()).items);
    builder.CreateCall(kernel, arguments);
    kernel->setLinkage(Function::InternalLinkage);
    // Inlined, they would be one function that takes long to optimize.
    kernel->addFnAttr(Attribute::NoInline);
  }
  builder.CreateRetVoid();
}

static Error optimize(Module &module, TargetMachine &machine) {
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
  // Dead code first, then loops that count become their numbers.
  if (Error failed = builder.parsePassPipeline(
          pipeline,
          "ipsccp,function(adce,simplifycfg,instcombine<no-verify-fixpoint>,"
          "loop-simplify,lcssa,loop-mssa(loop-rotate,licm),"
          "loop(indvars,loop-deletion),instcombine<no-verify-fixpoint>,"
          "simplifycfg,"
          "loop-mssa(loop-rotate,licm),loop(indvars,loop-deletion))"))
    return failed;
  pipeline.run(module, modules);
  // With zeros for what is loaded, what decides a loop may never end it.
  for (Function &function : module)
    if (!function.isDeclaration())
      for (Loop *loop :
           functions.getResult<LoopAnalysis>(function).getLoopsInPreorder())
        if (loop->hasNoExitBlocks())
          return createStringError("a loop of " + function.getName() +
                                   " ends by data alone");
  return Error::success();
}

/// Runs the entry and gives the counts.
static Expected<SmallVector<uint64_t>> run(Module &module, unsigned count) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto builder = orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder.takeError();
  auto machine = builder->createTargetMachine();
  if (!machine)
    return machine.takeError();
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  if (Error failed = optimize(module, **machine))
    return failed;
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager emission;
  if ((*machine)->addPassesToEmitFile(emission, stream, nullptr,
                                      CodeGenFileType::ObjectFile))
    return createStringError("this machine's target emits no object code");
  emission.run(module);
  auto jit = orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  if (Error failed = (*jit)->addObjectFile(MemoryBuffer::getMemBuffer(
          StringRef(object.data(), object.size()), "counts",
          /*RequiresNullTerminator=*/false)))
    return failed;
  auto entry = (*jit)->lookup(entryName);
  if (!entry)
    return entry.takeError();
  auto counts = (*jit)->lookup(countsName);
  if (!counts)
    return counts.takeError();
  entry->toPtr<void()>()();
  const auto *begin = counts->toPtr<const uint64_t *>();
  return SmallVector<uint64_t>(begin, begin + count);
}

/// Gives loops the blocks before and behind them that code generation would
/// add, without a count of their own.
static void simplifyLoops(Function &function) {
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (Loop *loop : loops)
    simplifyLoop(loop, &dominators, &loops, /*SE=*/nullptr, /*AC=*/nullptr,
                 /*MSSAU=*/nullptr, /*PreserveLCSSA=*/false);
}

std::string mlir::repro::nameBlocksByCount(Module &module,
                                           const StringMap<KernelWork> &work) {
  for (Function &function : module)
    if (!function.isDeclaration())
      simplifyLoops(function);
  std::unique_ptr<Module> copy = CloneModule(module);
  SmallVector<Function *> kernels;
  for (Function &function : *copy)
    if (!function.isDeclaration())
      kernels.push_back(&function);
  unsigned count = 0;
  for (Function *kernel : kernels)
    count += kernel->size();
  auto *type =
      ArrayType::get(llvm::Type::getInt64Ty(copy->getContext()), count);
  auto *counts = new GlobalVariable(
      *copy, type, /*isConstant=*/false, GlobalVariable::ExternalLinkage,
      ConstantAggregateZero::get(type), countsName);
  unsigned next = 0;
  for (Function *kernel : kernels) {
    kernel->removeFnAttr("target-cpu");
    kernel->removeFnAttr("target-features");
    removeEffects(*kernel);
    addCounters(*kernel, *counts, next);
  }
  addEntry(*copy, kernels, work);
  Expected<SmallVector<uint64_t>> found = run(*copy, count);
  if (!found)
    return "cannot count how often blocks run: " + toString(found.takeError());
  next = 0;
  for (Function &function : module)
    for (BasicBlock &block : function)
      block.setName("runs." + Twine((*found)[next++]) + ".");
  return {};
}
