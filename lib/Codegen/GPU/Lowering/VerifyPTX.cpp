//===- VerifyPTX.cpp - Only instructions whose bits are defined -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-verify-ptx (Passes.td), run by lib/Pipelines/GPU.cpp: accepts a
// PTX instruction only if the PTX ISA or a certificate of the device's matrix
// unit defines every bit of its result (V3).
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Passes.h"
#include "Target/FloatResults.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYPTX
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The allowed instructions; {a,b} stands for a or b. The PTX ISA defines every
/// bit of their results, including those of NaNs.
static constexpr StringLiteral allowed[] = {
    // Floats: one rounding to nearest even.
    "{add,sub,mul,div}.rn.{f32,f64}",
    "{add,sub,mul}.rn.f32x2",
    "fma.rn.{f32,f64,f32x2}",
    "{sqrt,rcp}.rn.{f32,f64}",
    "{neg,abs,copysign,min,max}.{f32,f64}",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f16,f32,f64}",
    "cvt.rn.{f32,f64}.{s8,s16,s32,s64,u8,u16,u32,u64}",
    "cvt.{rni,rzi,rmi,rpi}.{f32.f32,f64.f64}",
    "cvt.rzi.{s8,s16,s32,s64,u8,u16,u32,u64}.{f32,f64}",
    "cvt.{f32.f16,f64.f16,f64.f32,rn.f32.f64,rn.f16.f32,rn.f16.f64}",
    // Integers.
    "{add,sub,mul.lo,mul.hi,mad.lo,mad.hi,div,rem,min,max}."
    "{s16,s32,s64,u16,u32,u64}",
    "{mul,mad}.wide.{s16,s32,u16,u32}",
    "{neg,abs}.{s16,s32,s64}",
    "{and,or,xor,not}.{pred,b16,b32,b64}",
    "{shl.b,shr.b,shr.s,shr.u}{16,32,64}",
    "shf.{l,r}.{wrap,clamp}.b32",
    "{popc,clz,brev}.{b32,b64}",
    "{bfe.u,bfe.s,bfi.b}{32,64}",
    "{prmt,lop3}.b32",
    "setp.{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}."
    "{b16,b32,b64,s16,s32,s64,u16,u32,u64}",
    "cvt.{s8,s16,s32,s64,u8,u16,u32,u64}.{s8,s16,s32,s64,u8,u16,u32,u64}",
    "mma.sync.aligned.m16n8k{16,32}.row.col.s32.{s8,u8}.{s8,u8}.s32",
    // Moves.
    "selp.{b16,b32,b64,s32,s64,u32,u64,f32,f64}",
    "mov.{pred,b16,b32,b64,u16,u32,u64,s32,s64,f32,f64}",
    "cvta.{global,shared,to.global,to.shared}.u64",
    "ld.param.{b8,b16,b32,b64,u8,u16,u32,u64,f32,f64}",
    "ld.{global,global.nc,shared}{,.v2,.v4}."
    "{b8,b16,b32,b64,s8,s16,s32,s64,u8,u16,u32,u64,f32,f64}",
    "st.{global,shared}{,.v2,.v4}.{b8,b16,b32,b64,u8,u16,u32,u64,f32,f64}",
    // Threads. Atomics change only the error word (E1).
    "{atom,red}.global.max.u64",
    "bar.sync",
    "barrier.sync{,.aligned}",
    "shfl.sync.{up,down,bfly,idx}.b32",
    // Control.
    "bra{,.uni}",
    "ret",
};

/// (M3) Matrix instructions, whose sums depend on the class of the device's
/// matrix unit. These instructions are allowed only with a certificate.
static constexpr StringLiteral tensorCoreOpcodes[] = {
    "mma.sync.aligned.m16n8k{8,16}.row.col.f32.{f16.f16,bf16.bf16}.f32",
    "mma.sync.aligned.m16n8k{8,16}.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k{4,8}.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32",
    "mma.sync.aligned.m16n8k32.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16",
};

/// Adds to `result` all strings for which a pattern such as "add.{f32,f64}"
/// stands.
static void expandPattern(StringRef pattern, llvm::StringSet<> &result) {
  size_t open = pattern.find('{');
  if (open == StringRef::npos) {
    result.insert(pattern);
    return;
  }
  size_t close = pattern.find('}', open);
  SmallVector<StringRef> choices;
  pattern.slice(open + 1, close).split(choices, ',');
  for (StringRef choice : choices)
    expandPattern(
        (pattern.take_front(open) + choice + pattern.drop_front(close + 1))
            .str(),
        result);
}

static llvm::StringSet<> expandAll(ArrayRef<StringLiteral> patterns) {
  llvm::StringSet<> all;
  for (StringRef pattern : patterns)
    expandPattern(pattern, all);
  return all;
}

static bool isAllowed(StringRef opcode, bool tensorCores) {
  static const llvm::StringSet<> opcodes = expandAll(allowed),
                                 sums = expandAll(tensorCoreOpcodes);
  return opcodes.contains(opcode) || (tensorCores && sums.contains(opcode));
}

/// Returns the reason why an instruction that is not one of the allowed ones is
/// rejected.
static StringRef getReason(StringRef opcode) {
  SmallVector<StringRef> parts;
  opcode.split(parts, '.');
  StringRef operation = parts.front();
  auto has = [&](std::initializer_list<StringRef> modifiers) {
    return llvm::any_of(ArrayRef(parts).drop_front(), [&](StringRef part) {
      return llvm::is_contained(modifiers, part);
    });
  };
  auto is = [&](std::initializer_list<StringRef> operations) {
    return llvm::is_contained(operations, operation);
  };
  bool isFloat = has({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "f32x2",
                      "tf32", "e4m3", "e5m2"});
  if (is({"call"}))
    return "calls a function";
  if (is({"atom", "red"}))
    return isFloat ? "adds floats in an order that is not specified"
                   : "races with other threads";
  if (is({"mma", "wmma", "wgmma", "tcgen05"}))
    return "accumulates in an order that is not specified";
  if (has({"ftz"}))
    return "flushes subnormal numbers";
  if (has({"approx", "full"}) ||
      is({"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"}))
    return "approximates";
  if (has({"sat", "relu", "satfinite"}))
    return "saturates";
  if (is({"add", "sub", "mul", "mad", "fma", "div", "sqrt", "rcp"}) &&
      isFloat) {
    if (has({"f16", "f16x2", "bf16", "bf16x2"}))
      return "computes on a storage type (V1)";
    if (has({"rz", "rm", "rp"}))
      return "rounds otherwise than to nearest even";
    return "may be contracted, as it does not name its rounding";
  }
  if (is({"ld", "st"}) && has({"local"}))
    return "uses memory of the thread, which kernels do not need";
  if (is({"ld", "st", "ldu", "prefetch", "membar", "fence"}))
    return "accesses memory in a way that is not on the list";
  return "is not on the list";
}

/// Returns the reason why a directive is rejected; empty if it is allowed.
static StringRef getDirectiveReason(StringRef directive) {
  StringRef word = directive.take_until(
      [](char c) { return isspace(c) || c == '(' || c == ','; });
  if (word == ".visible")
    return directive.contains(".entry ")
               ? ""
               : "defines something that is not a kernel";
  if (word == ".extern" || word == ".shared")
    return directive.contains(".shared ") ? "" : "calls a function";
  if (word == ".func" || word == ".weak" || word == ".callprototype")
    return "calls a function";
  if (word == ".local")
    return "uses memory of the thread, which kernels do not need";
  static constexpr StringLiteral known[] = {
      ".version", ".target",  ".address_size", ".param", ".reg",
      ".maxntid", ".reqntid", ".minnctapersm", ".pragma"};
  return llvm::is_contained(known, word) ? "" : "is not on the list";
}

/// Returns the width in bits of a register, which LLVM encodes in its name; 0
/// for other names.
static unsigned getRegisterBits(StringRef name) {
  return name.starts_with("%rd")   ? 64
         : name.starts_with("%rs") ? 16
         : name.starts_with("%r")  ? 32
                                   : 0;
}

/// Returns the register names in "{a, b}" or in a single name.
static SmallVector<StringRef> splitRegisters(StringRef text) {
  SmallVector<StringRef> registers;
  text.split(registers, ',');
  for (StringRef &name : registers)
    name = name.trim("{} \t\n");
  return registers;
}

namespace {
/// Reads and checks the statements of a PTX module.
class PTXReader {
public:
  /// Is called for each error, with the kernel, the line, the statement and the
  /// reason.
  using Report = function_ref<void(StringRef, unsigned, StringRef, StringRef)>;

  PTXReader(StringRef text, bool tensorCores, Report report)
      : rest(text), tensorCores(tensorCores), report(report) {}
  void read();

private:
  void skipSpace();
  /// Consumes and returns the text before the first character that is in
  /// `ends`, and counts its lines.
  StringRef takeUntil(StringRef ends);
  /// Consumes and returns a statement or label without its terminator.
  StringRef takeStatement();
  void check(StringRef statement, unsigned line);
  /// Records the registers that float instructions write, and the stores that
  /// store only a part of a register.
  void noteFloats(StringRef opcode, StringRef statement, unsigned line);
  /// Reports each store of the kernel that stores only a part of a register
  /// that holds a float.
  void finishKernel();

  struct NarrowStore {
    StringRef name, statement;
    unsigned line;
  };
  llvm::StringSet<> floats;
  SmallVector<NarrowStore> narrowStores;
  StringRef rest, kernel;
  unsigned line = 1;
  bool tensorCores;
  Report report;
};
} // namespace

void PTXReader::skipSpace() {
  while (!rest.empty()) {
    if (rest.starts_with("//")) {
      rest = rest.drop_until([](char c) { return c == '\n'; });
    } else if (rest.front() == '\n') {
      ++line;
      rest = rest.drop_front();
    } else if (isspace(rest.front())) {
      rest = rest.drop_front();
    } else {
      return;
    }
  }
}

StringRef PTXReader::takeUntil(StringRef ends) {
  StringRef taken = rest.take_until([&](char c) { return ends.contains(c); });
  rest = rest.drop_front(taken.size());
  line += taken.count('\n');
  return taken;
}

static bool isMatrixOpcode(StringRef text) {
  return text.starts_with("mma.") && !text.contains(" ");
}

/// The operands of a matrix instruction may be on the following lines.
StringRef PTXReader::takeStatement() {
  const char *begin = rest.begin();
  StringRef taken = takeUntil(";:\n");
  while (rest.starts_with("\n") &&
         (taken.rtrim().ends_with(",") || isMatrixOpcode(taken.rtrim()))) {
    ++line;
    rest = rest.drop_front();
    takeUntil(";:\n");
    taken = StringRef(begin, rest.begin() - begin);
  }
  return taken;
}

void PTXReader::check(StringRef statement, unsigned at) {
  StringRef instruction = statement;
  if (instruction.starts_with("@"))
    instruction =
        instruction.drop_until([](char c) { return isspace(c); }).ltrim();
  StringRef opcode = instruction.take_until(
      [](char c) { return isspace(c) || c == '(' || c == '{'; });
  if (!isAllowed(opcode, tensorCores))
    report(kernel, at, statement, getReason(opcode));
  noteFloats(opcode, instruction, at);
}

void PTXReader::noteFloats(StringRef opcode, StringRef statement, unsigned at) {
  StringRef operands = statement.drop_front(opcode.size());
  if (!opcode.starts_with("st.")) {
    StringRef first = operands.ltrim();
    char end = first.starts_with("{") ? '}' : ',';
    if (repro_target::givesFloat(opcode))
      for (StringRef name : splitRegisters(first.split(end).first))
        floats.insert(name);
    return;
  }
  unsigned bits = 0;
  StringRef type = opcode.rsplit('.').second;
  if (type.drop_front().getAsInteger(10, bits))
    return;
  StringRef stored = operands.split(']').second.ltrim(", \t");
  for (StringRef name : splitRegisters(stored))
    if (getRegisterBits(name) > bits)
      narrowStores.push_back({name, statement, at});
}

void PTXReader::finishKernel() {
  for (const NarrowStore &store : narrowStores)
    if (floats.contains(store.name))
      report(kernel, store.line, store.statement,
             "stores a float in fewer bits, which ptxas converts to an "
             "integer");
  floats.clear();
  narrowStores.clear();
}

void PTXReader::read() {
  for (skipSpace(); !rest.empty(); skipSpace()) {
    unsigned at = line;
    char first = rest.front();
    if (StringRef("{}();,").contains(first)) {
      rest = rest.drop_front();
      continue;
    }
    if (first == '.') {
      StringRef directive = takeUntil(";\n").rtrim();
      if (directive.contains(".entry ")) {
        finishKernel();
        kernel = directive.split(".entry ").second.ltrim();
        kernel =
            kernel.take_until([](char c) { return c == '(' || isspace(c); });
      }
      if (StringRef reason = getDirectiveReason(directive); !reason.empty())
        report(kernel, at, directive, reason);
      continue;
    }
    StringRef statement = takeStatement();
    if (rest.starts_with(":")) { // a label
      rest = rest.drop_front();
      continue;
    }
    if (!rest.starts_with(";")) {
      report(kernel, at, statement.rtrim(), "is not followed by ';'");
      continue;
    }
    check(statement, at);
  }
  finishKernel();
}

namespace {
struct VerifyPTX : public repro::impl::ReproVerifyPTXBase<VerifyPTX> {
  using ReproVerifyPTXBase::ReproVerifyPTXBase;

  void runOnOperation() override;
};
} // namespace

void VerifyPTX::runOnOperation() {
  bool failed = false;
  for (auto binary : getOperation().getOps<gpu::BinaryOp>())
    for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>()) {
      if (object.getFormat() != gpu::CompilationTarget::Assembly) {
        binary.emitError("(V3) expected PTX text");
        failed = true;
        continue;
      }
      auto report = [&](StringRef kernel, unsigned line, StringRef statement,
                        StringRef reason) {
        binary.emitError("(V3) kernel '")
            << kernel << "', line " << line << ": '" << statement << "' "
            << reason;
        failed = true;
      };
      PTXReader(object.getObject().getValue(), tensorCores, report).read();
    }
  if (failed)
    signalPassFailure();
}
