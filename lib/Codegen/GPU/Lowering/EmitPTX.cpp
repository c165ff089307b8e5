//===- EmitPTX.cpp - From the LLVM dialect to PTX -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-emit-ptx (Passes.td), run by lib/Pipelines/GPU.cpp: replaces each
// gpu.module by a gpu.binary with PTX text. Neither LLVM's passes nor its
// backend may contract or approximate floating-point operations or flush
// subnormals.
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Passes.h"
#include "Target/Architecture.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEMITPTX
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The LLVM passes. No pass unrolls loops: loops that should be unrolled are
/// emitted unrolled.
static constexpr char passes[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm),loop(indvars),gvn,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,simplifycfg,dse,infer-alignment)";

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

/// Returns the PTX version (as an LLVM feature) that the matrix instructions
/// need; empty if LLVM's default for the architecture suffices.
static StringRef getVersion(const Architecture &architecture,
                            gpu::GPUModuleOp kernels) {
  bool hasFloat8 =
      kernels
          .walk([](LLVM::CallIntrinsicOp op) {
            StringRef name = op.getIntrin();
            bool isFloat8 = name.contains(".e4m3") || name.contains(".e5m2");
            return isFloat8 ? WalkResult::interrupt() : WalkResult::advance();
          })
          .wasInterrupted();
  if (hasFloat8)
    return "+ptx87";
  // For the oldest matrix units, LLVM's default PTX version lacks the matrix
  // instructions on f16, so a newer version is requested.
  bool isOld =
      architecture.matrixUnit && !architecture.matrixUnit->hasDepth16();
  return isOld ? "+ptx65" : "";
}

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const Architecture &architecture, StringRef version,
                    std::string &error) {
  initializeTarget();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // (V3) Never fuses a multiplication and an addition of the program.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, architecture.name, version, options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Gives all atomics relaxed ordering and device scope. Atomics only change the
/// error word, on which no other work within a launch depends.
static void relaxAtomics(llvm::Module &module) {
  llvm::SyncScope::ID device =
      module.getContext().getOrInsertSyncScopeID("device");
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : block)
        if (auto *atomic = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) {
          atomic->setOrdering(llvm::AtomicOrdering::Monotonic);
          atomic->setSyncScopeID(device);
        }
}

/// Returns a copy of a 16-bit or 32-bit value, made by an inline `mov` that no
/// optimization can remove.
static llvm::Value *separate(llvm::IRBuilder<> &builder, llvm::Value *value) {
  llvm::Type *type = value->getType();
  bool isHalf = type->getIntegerBitWidth() == 16;
  llvm::InlineAsm *move = llvm::InlineAsm::get(
      llvm::FunctionType::get(type, {type}, /*isVarArg=*/false),
      isHalf ? "mov.b16 $0, $1;" : "mov.b32 $0, $1;", isHalf ? "=h,h" : "=r,r",
      /*hasSideEffects=*/false);
  return builder.CreateCall(move, value);
}

/// Inserts a `mov` before a store that may store only the low bits of a
/// register. Without the `mov`, ptxas would convert a float in the register to
/// an integer and store the integer.
static void separateStore(llvm::StoreInst &store) {
  llvm::IRBuilder<> builder(&store);
  llvm::Value *value = store.getValueOperand();
  llvm::Type *type = value->getType();
  unsigned width = type->getScalarSizeInBits();
  // A 32-bit value needs the `mov` only if it results from a truncation.
  bool isTruncated = llvm::isa<llvm::TruncInst>(value);
  if (!type->isIntOrIntVectorTy() || llvm::isa<llvm::Constant>(value) ||
      width > 32 || (width == 32 && !isTruncated))
    return;
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  unsigned bits = width * (vector ? vector->getNumElements() : 1);
  if (vector && bits % 32 == 0) {
    // Packs the elements into 32-bit words, so that the store stays one access.
    vector = llvm::FixedVectorType::get(builder.getInt32Ty(), bits / 32);
    value = builder.CreateBitCast(value, vector);
  }
  auto part = [&](llvm::Value *element) {
    llvm::Type *narrow = element->getType();
    if (narrow->getIntegerBitWidth() >= 16)
      return separate(builder, element);
    auto *truncation = llvm::dyn_cast<llvm::TruncInst>(element);
    llvm::Value *wide = builder.CreateZExtOrTrunc(
        truncation ? truncation->getOperand(0) : element, builder.getInt16Ty());
    return builder.CreateTrunc(separate(builder, wide), narrow);
  };
  if (!vector) {
    value = part(value);
  } else {
    for (unsigned i = 0; i < vector->getNumElements(); ++i)
      value = builder.CreateInsertElement(
          value, part(builder.CreateExtractElement(value, i)), i);
  }
  store.setOperand(0, value);
}

static void separateStores(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : llvm::make_early_inc_range(block))
        if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
          separateStore(*store);
}

/// Marks matrix instructions as convergent, which LLVM's intrinsics are not.
/// All threads of a warp must execute a matrix instruction together, so no pass
/// may move it into a branch.
static void markConvergent(llvm::Module &module) {
  for (llvm::Function &function : module)
    if (function.getName().starts_with("llvm.nvvm.mma."))
      for (llvm::User *user : function.users())
        llvm::cast<llvm::CallBase>(user)->setConvergent();
}

static std::string emit(llvm::Module &module, llvm::TargetMachine &machine,
                        std::string &error) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
  relaxAtomics(module);
  markConvergent(module);
  // Kernels are vectorized already. Without this attribute, the backend could
  // load 16 bytes at once where only 12 bytes of a buffer remain.
  for (llvm::Function &function : module)
    function.addFnAttr(llvm::Attribute::NoImplicitFloat);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager pipeline;
  if (llvm::Error failed = builder.parsePassPipeline(pipeline, passes)) {
    error = llvm::toString(std::move(failed));
    return {};
  }
  pipeline.run(module, modules);
  separateStores(module);

  SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager emission;
  if (machine.addPassesToEmitFile(emission, stream, nullptr,
                                  llvm::CodeGenFileType::AssemblyFile)) {
    error = "the target emits no assembly";
    return {};
  }
  emission.run(module);
  return std::string(text.begin(), text.end());
}

namespace {
struct EmitPTX : public repro::impl::ReproEmitPTXBase<EmitPTX> {
  using ReproEmitPTXBase::ReproEmitPTXBase;

  void runOnOperation() override;
  LogicalResult emitModule(gpu::GPUModuleOp kernels,
                           const Architecture &architecture);
};
} // namespace

LogicalResult EmitPTX::emitModule(gpu::GPUModuleOp kernels,
                                  const Architecture &architecture) {
  OwningOpRef<ModuleOp> source = ModuleOp::create(kernels.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(source->getBody());
  for (Operation &op : *kernels.getBody()) {
    if (!isa<LLVM::LLVMDialect>(op.getDialect()))
      return op.emitOpError("expected the LLVM dialect");
    builder.clone(op);
  }
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(
      architecture, getVersion(architecture, kernels), error);
  if (!machine)
    return kernels.emitError(error);
  // The translation reads the alignment of accesses from the data layout.
  (*source)->setAttr(
      LLVM::LLVMDialect::getDataLayoutAttrName(),
      builder.getStringAttr(
          machine->createDataLayout().getStringRepresentation()));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(*source, context, kernels.getName());
  if (!module)
    return kernels.emitError("translation to LLVM IR failed");
  std::string text = emit(*module, *machine, error);
  if (!error.empty())
    return kernels.emitError(error);
  builder.setInsertionPoint(kernels);
  auto target = NVVM::NVVMTargetAttr::get(
      builder.getContext(), /*optLevel=*/3, "nvptx64-nvidia-cuda",
      architecture.name, /*features=*/"", /*flags=*/nullptr, /*files=*/nullptr);
  auto object = gpu::ObjectAttr::get(
      builder.getContext(), target, gpu::CompilationTarget::Assembly,
      builder.getStringAttr(text), /*properties=*/nullptr, /*kernels=*/nullptr);
  gpu::BinaryOp::create(builder, kernels.getLoc(), kernels.getName(),
                        /*offloadingHandler=*/nullptr,
                        SmallVector<Attribute>{object});
  kernels.erase();
  return success();
}

void EmitPTX::runOnOperation() {
  std::string error;
  FailureOr<Architecture> architecture = getArchitecture(arch, error);
  if (failed(architecture)) {
    getOperation().emitError(error);
    return signalPassFailure();
  }
  for (auto kernels :
       llvm::make_early_inc_range(getOperation().getOps<gpu::GPUModuleOp>()))
    if (failed(emitModule(kernels, *architecture)))
      return signalPassFailure();
}
