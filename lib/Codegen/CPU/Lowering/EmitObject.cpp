//===- EmitObject.cpp - Emits object code from the LLVM dialect -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/EmitObject.h"

#include "Codegen/CPU/Lowering/NarrowCounters.h"
#include "Codegen/CPU/Lowering/SingleLaneStores.h"
#include "Codegen/CPU/Lowering/SoftArithmetic.h"
#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of operations in an object. Only an object with a single
/// kernel may have more. This number is constant, so that the bytes depend only
/// on the program, and small, so that all threads of a compilation have work.
static constexpr size_t opsPerObject = 8192;

/// No pass vectorizes (kernels are vectorized already), unrolls loops or
/// changes floating-point bits (V3). The passes that widen induction variables
/// and remove dead stores are left out, because they took 20 % and 25 % of the
/// compile time and did not make kernels faster.
static constexpr char passes[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm),gvn,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

/// The first passes for microcontrollers, before `narrowCounters`: neither
/// their instructions nor the routines that replace the others have vectors.
static constexpr char scalarPasses[] =
    "ipsccp,function(scalarizer<load-store>,sroa,early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

/// Whether an object may refer to an external symbol. Library functions that
/// compute are not allowed, except the exact routines of lib/Runtime. On a
/// microcontroller, only a core of many, whose functions are separate, provides
/// a symbol: that of its matrix array.
static bool isKnownExternal(StringRef symbol, const Level &level,
                            bool separate) {
  if (level.isMicrocontroller)
    return separate && symbol == "repro_multiply_bytes";
  return symbol == "memcpy" || symbol == "memset" || symbol == "memmove" ||
         symbol.starts_with("repro_");
}

static void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeARMTargetInfo();
    LLVMInitializeARMTarget();
    LLVMInitializeARMTargetMC();
    LLVMInitializeARMAsmPrinter();
  });
}

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const Level &level, bool separate, std::string &error) {
  initializeTargets();
  llvm::Triple triple(level.triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // (V3) Never fuses a multiplication and an addition of the program.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.FunctionSections = separate;
  // The code of a microcontroller has no table of addresses: it refers to its
  // constants relative to the program counter.
  auto model = level.isMicrocontroller ? llvm::Reloc::ROPI : llvm::Reloc::PIC_;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, level.cpu, level.features, options, model, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

std::string mlir::repro::getEntryName(StringRef kernel) {
  return ("repro_entry_" + kernel).str();
}

/// Lets all functions assume a stack aligned to a vector, so that no spilled
/// vector crosses a cache line. Kernel entries align the stack (addEntry),
/// because LLVM does not add realignment after register allocation.
static void alignStack(llvm::Module &module, const Level &level) {
  constexpr int64_t abiBits = 128;
  if (level.vectorWidth > abiBits)
    module.setOverrideStackAlignment(level.vectorWidth / 8);
}

/// Defines the entry of a kernel. All entries have one signature. The entry
/// unpacks the array of buffers and calls the kernel. If `items` is given, the
/// entry contains the kernel, and runs that number of work items.
static void addEntry(llvm::Module &module, llvm::Function &kernel,
                     std::optional<int64_t> items) {
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> builder(context);
  llvm::Type *pointer = builder.getPtrTy(), *i64 = builder.getInt64Ty();
  auto *type = llvm::FunctionType::get(builder.getVoidTy(),
                                       {pointer, pointer, pointer, i64, i64},
                                       /*isVarArg=*/false);
  auto *entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                       getEntryName(kernel.getName()), module);
  entry->setVisibility(llvm::GlobalValue::HiddenVisibility);
  // The caller aligns the stack only as the ABI requires; alignStack needs
  // more.
  entry->addFnAttr("stackrealign");
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", entry));
  constexpr unsigned others = launch::KernelSignature::numOthers;
  unsigned buffers = kernel.arg_size() - others;
  SmallVector<llvm::Value *> arguments;
  for (unsigned i = 0; i < buffers; ++i) {
    llvm::Value *slot =
        builder.CreateConstInBoundsGEP1_32(pointer, entry->getArg(0), i);
    arguments.push_back(builder.CreateLoad(pointer, slot));
  }
  for (unsigned i = 0; i < others; ++i)
    arguments.push_back(entry->getArg(1 + i));
  if (items) {
    arguments[arguments.size() - 2] = builder.getInt64(0);
    arguments.back() = builder.getInt64(*items);
    kernel.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  builder.CreateCall(&kernel, arguments);
  builder.CreateRetVoid();
  kernel.setLinkage(llvm::GlobalValue::InternalLinkage);
}

/// Defines the table `repro_kernels` of kernel entries.
static void addTable(llvm::Module &module, ArrayRef<std::string> kernels) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *entryType =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  SmallVector<llvm::Constant *> entries;
  for (const std::string &kernel : kernels) {
    auto *entry =
        llvm::Function::Create(entryType, llvm::Function::ExternalLinkage,
                               getEntryName(kernel), module);
    entry->setVisibility(llvm::GlobalValue::HiddenVisibility);
    entries.push_back(entry);
  }
  // A program without kernels gets one null entry: loaders reject empty tables.
  if (entries.empty())
    entries.push_back(llvm::ConstantPointerNull::get(pointer));
  auto *type = llvm::ArrayType::get(pointer, entries.size());
  new llvm::GlobalVariable(
      module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
      llvm::ConstantArray::get(type, entries), "repro_kernels");
}

/// Returns the name of an external symbol that isKnownExternal rejects, or an
/// error message if `object` cannot be read; otherwise an empty string.
static std::string findUnknownExternal(StringRef object, const Level &level,
                                       bool separate) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(object, "object"));
  if (!file)
    return llvm::toString(file.takeError());
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      continue;
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
        !isKnownExternal(*name, level, separate))
      return name->str();
  }
  return {};
}

/// Optimizes `module` and returns its object code. If `prepare` is given, calls
/// it on the optimized code and returns assembly instead.
static std::string compile(llvm::Module &module, const Level &level,
                           bool separate, PrepareAssembly prepare,
                           std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(level, separate, error);
  if (!machine)
    return {};
  module.setDataLayout(machine->createDataLayout());
  module.setTargetTriple(machine->getTargetTriple());
  alignStack(module, level);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("target-features", machine->getTargetFeatureString());
    function.addFnAttr("prefer-vector-width",
                       std::to_string(level.vectorWidth));
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // The code memory of a core is small.
    if (separate && level.isMicrocontroller) {
      function.addFnAttr(llvm::Attribute::OptimizeForSize);
      function.addFnAttr(llvm::Attribute::MinSize);
    }
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  auto optimize = [&](StringRef text) {
    llvm::ModulePassManager pipeline;
    if (llvm::Error failed = builder.parsePassPipeline(pipeline, text))
      error = llvm::toString(std::move(failed));
    else
      pipeline.run(module, modules);
  };
  if (separate)
    optimize("always-inline,globaldce");
  if (level.isMicrocontroller) {
    optimize(scalarPasses);
    for (llvm::Function &function : module)
      if (!function.isDeclaration())
        functions.invalidate(function, narrowCounters(function, functions));
  }
  optimize(passes);
  if (!error.empty())
    return {};
  // Stores are replaced after all passes, because the passes turn masks into
  // constants.
  replaceSingleLaneStores(module);
  if (level.isMicrocontroller)
    expandSoftArithmetic(module);
  if (separate)
    shareSoftRoutines(module);
  if (prepare) {
    error = prepare(module);
    if (!error.empty())
      return {};
    machine->Options.MCOptions.AsmVerbose = true;
  }

  SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager emission;
  auto form = prepare ? llvm::CodeGenFileType::AssemblyFile
                      : llvm::CodeGenFileType::ObjectFile;
  if (machine->addPassesToEmitFile(emission, stream, nullptr, form)) {
    error = "the target emits no code";
    return {};
  }
  emission.run(module);
  return std::string(bytes.begin(), bytes.end());
}

/// Returns the number of work items of a kernel.
static std::optional<int64_t> getItems(LLVM::LLVMFuncOp kernel) {
  launch::WorkAttr work =
      launch::LaunchDialect::WorkAttrHelper(kernel.getContext())
          .getAttr(kernel);
  return work ? std::optional(work.getItems()) : std::nullopt;
}

/// Returns the functions of the kernels, divided into one list per object.
static FailureOr<SmallVector<SmallVector<LLVM::LLVMFuncOp>>>
divide(ModuleOp module, ArrayRef<std::string> kernels) {
  SymbolTable symbols(module);
  SmallVector<SmallVector<LLVM::LLVMFuncOp>> parts;
  size_t size = opsPerObject; // of the last part
  for (const std::string &name : kernels) {
    auto function = symbols.lookup<LLVM::LLVMFuncOp>(name);
    if (!function)
      return module.emitError("expected the kernel '")
             << name << "' as an llvm.func";
    size_t ops = 0;
    function.walk([&](Operation *) { ++ops; });
    if (size + ops > opsPerObject) {
      parts.emplace_back();
      size = 0;
    }
    parts.back().push_back(function);
    size += ops;
  }
  return parts;
}

/// Returns one new MLIR module for each list of `divided`, so that each can be
/// translated in an LLVM context of its own.
static SmallVector<OwningOpRef<ModuleOp>>
copyParts(ModuleOp module, ArrayRef<SmallVector<LLVM::LLVMFuncOp>> divided) {
  SmallVector<OwningOpRef<ModuleOp>> parts;
  for (ArrayRef<LLVM::LLVMFuncOp> functions : divided) {
    OwningOpRef<ModuleOp> part = ModuleOp::create(module.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(part->getBody());
    for (auto function : module.getOps<LLVM::LLVMFuncOp>())
      if (function.isExternal())
        builder.clone(*function);
    for (LLVM::LLVMFuncOp function : functions)
      builder.clone(*function);
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Calls `emit` for each index below `count`, on several threads if `jobs` > 1.
/// `emit` stores an error message in its second argument, or leaves it empty.
static LogicalResult
emitAll(ModuleOp module, size_t count, unsigned jobs,
        llvm::function_ref<void(size_t, std::string &)> emit) {
  SmallVector<std::string> errors(count);
  auto one = [&](size_t index) { emit(index, errors[index]); };
  if (jobs > 1 && module.getContext()->isMultithreadingEnabled()) {
    parallelFor(module.getContext(), 0, count, one);
  } else {
    for (size_t i = 0; i < count; ++i)
      one(i);
  }
  for (const std::string &error : errors)
    if (!error.empty())
      return module.emitError(error);
  return success();
}

/// Compiles the module like emitModule.
static std::string emit(llvm::Module &module, const Level &level, bool separate,
                        std::string &error) {
  std::string object = compile(module, level, separate, /*prepare=*/{}, error);
  if (!error.empty())
    return {};
  if (std::string symbol = findUnknownExternal(object, level, separate);
      !symbol.empty())
    error = "(V3) code generation for " + level.name + " calls '" + symbol +
            "', which is not an exact routine of the runtime";
  return object;
}

std::string mlir::repro::emitModule(llvm::Module &module, const Level &level,
                                    std::string &error) {
  return emit(module, level, /*separate=*/false, error);
}

FailureOr<SmallVector<std::string>>
mlir::repro::emitObjects(ModuleOp module, ArrayRef<std::string> kernels,
                         const Level &level, unsigned jobs, bool separate) {
  FailureOr<SmallVector<SmallVector<LLVM::LLVMFuncOp>>> divided =
      divide(module, kernels);
  if (failed(divided))
    return failure();
  SmallVector<OwningOpRef<ModuleOp>> parts = copyParts(module, *divided);
  SmallVector<std::string> objects(parts.size() + 1);
  auto emitOne = [&](size_t index, std::string &error) {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> code;
    if (index == parts.size()) {
      code = std::make_unique<llvm::Module>("table", context);
      addTable(*code, kernels);
    } else {
      code = translateModuleToLLVMIR(*parts[index], context, "kernels");
      if (!code) {
        error = "translation to LLVM IR failed";
        return;
      }
      for (LLVM::LLVMFuncOp function : (*divided)[index])
        addEntry(*code, *code->getFunction(function.getName()),
                 separate ? getItems(function) : std::nullopt);
    }
    // The table refers to the entries of the other objects.
    objects[index] = index < parts.size() ? emit(*code, level, separate, error)
                                          : compile(*code, level, separate,
                                                    /*prepare=*/{}, error);
  };
  if (failed(emitAll(module, objects.size(), jobs, emitOne)))
    return failure();
  return objects;
}

FailureOr<SmallVector<std::string>>
mlir::repro::emitAssembly(ModuleOp module, ArrayRef<std::string> kernels,
                          const Level &level, unsigned jobs,
                          PrepareAssembly prepare) {
  FailureOr<SmallVector<SmallVector<LLVM::LLVMFuncOp>>> divided =
      divide(module, kernels);
  if (failed(divided))
    return failure();
  SmallVector<OwningOpRef<ModuleOp>> parts = copyParts(module, *divided);
  SmallVector<std::string> texts(parts.size());
  auto emit = [&](size_t index, std::string &error) {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> code =
        translateModuleToLLVMIR(*parts[index], context, "kernels");
    if (code)
      texts[index] = compile(*code, level, /*separate=*/false, prepare, error);
    else
      error = "translation to LLVM IR failed";
  };
  if (failed(emitAll(module, texts.size(), jobs, emit)))
    return failure();
  return texts;
}
