//===- CoresDialect.cpp - Programs of cores -------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Cores/IR/Cores.h"

#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/PlanTensors.h"

#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static ParseResult parseCores(OpAsmParser &parser, DenseI64ArrayAttr &cores);
static void printCores(OpAsmPrinter &printer, Operation *op,
                       DenseI64ArrayAttr cores);
static ParseResult
parseAccessedBuffers(OpAsmParser &parser,
                     SmallVectorImpl<OpAsmParser::UnresolvedOperand> &buffers,
                     DenseI32ArrayAttr &accesses);
static void printAccessedBuffers(OpAsmPrinter &printer, Operation *op,
                                 OperandRange buffers,
                                 DenseI32ArrayAttr accesses);

#include "dialects/Cores/IR/CoresDialect.cpp.inc"
#include "dialects/Cores/IR/CoresEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Cores/IR/CoresAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Cores/IR/CoresTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Cores/IR/CoresOps.cpp.inc"

void CoresDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Cores/IR/CoresOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Cores/IR/CoresAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Cores/IR/CoresTypes.cpp.inc"
      >();
}

LogicalResult CoresDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attr) {
  if (attr.getName() == PartitionAttrHelper::getNameStr() ||
      attr.getName() == TileAttrHelper::getNameStr() ||
      attr.getName() == MulticastAttrHelper::getNameStr() ||
      attr.getName() == PlaceAttrHelper::getNameStr()) {
    auto numbers = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    if (!numbers || !isa<launch::DispatchOp>(op) ||
        llvm::any_of(numbers.asArrayRef(), [](int64_t n) { return n < 0; }))
      return op->emitOpError("expected ")
             << attr.getName().getValue()
             << " to be an array<i64> of numbers that are at least 0, of a "
                "launch";
    return success();
  }
  if (attr.getName() == HomeAttrHelper::getNameStr()) {
    auto numbers = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    if (!numbers || !isa<launch::DispatchOp>(op) ||
        llvm::any_of(numbers.asArrayRef(), [](int64_t n) { return n < -1; }))
      return op->emitOpError("expected cores.home to be an array<i64> of "
                             "numbers that are at least -1, of a launch");
    return success();
  }
  if (attr.getName() == ScratchAttrHelper::getNameStr()) {
    auto bytes = dyn_cast<IntegerAttr>(attr.getValue());
    if (!bytes || !bytes.getType().isSignlessInteger(64) ||
        bytes.getInt() < 0 || !isa<launch::PlanOp, FunctionOpInterface>(op))
      return op->emitOpError("expected cores.scratch to be a number of 64 bits "
                             "of a launch plan or a kernel function that is "
                             "at least 0");
    return success();
  }
  if (attr.getName() == OverflowAttrHelper::getNameStr()) {
    if (!isa<StringAttr>(attr.getValue()) || !isa<ModuleOp>(op))
      return op->emitOpError("expected cores.overflow to be a string of a "
                             "module");
    return success();
  }
  if (attr.getName() == MatrixAttrHelper::getNameStr()) {
    if (!isa<MatrixAttr>(attr.getValue()) ||
        op->getName().getStringRef() != "repro.fold")
      return op->emitOpError(
          "expected cores.matrix to be a #cores.matrix of a repro.fold");
    return success();
  }
  if (attr.getName() != CyclesAttrHelper::getNameStr())
    return op->emitOpError("has an attribute that the cores dialect does not "
                           "have: ")
           << attr.getName().getValue();
  auto cycles = dyn_cast<IntegerAttr>(attr.getValue());
  if (!cycles || !cycles.getType().isSignlessInteger(64) ||
      cycles.getInt() < 0 || !isa<FunctionOpInterface>(op))
    return op->emitOpError("expected cores.cycles to be a number of 64 bits of "
                           "a kernel function that is at least 0");
  return success();
}

LogicalResult MatrixAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rows, int64_t columns, int64_t slice) {
  if (rows < 1 || columns < 1 || slice < 1)
    return emitError() << "expected numbers that are at least 1";
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static bool liesIn(MemRefType type, Memory memory) {
  auto space = dyn_cast_if_present<MemoryAttr>(type.getMemorySpace());
  return space && space.getValue() == memory;
}

bool cores::isLocal(MemRefType type) { return liesIn(type, Memory::Local); }

bool cores::isRemote(MemRefType type) { return liesIn(type, Memory::Remote); }

static MemRefType moveTo(MemRefType type, Memory memory) {
  return MemRefType::Builder(type).setMemorySpace(
      MemoryAttr::get(type.getContext(), memory));
}

MemRefType cores::getLocalType(MemRefType type) {
  return moveTo(type, Memory::Local);
}

MemRefType cores::getRemoteType(MemRefType type) {
  return moveTo(type, Memory::Remote);
}

MemRefType cores::getDramType(MemRefType type) {
  return MemRefType::Builder(type).setMemorySpace({});
}

/// Returns an error unless the buffer lies in the data memory of a core and its
/// elements follow each other without gaps.
static LogicalResult verifyDenseLocal(Operation *op, Type type) {
  auto buffer = dyn_cast<MemRefType>(type);
  if (buffer && isLocal(buffer) && buffer.getLayout().isIdentity() &&
      launch::getExtent(buffer))
    return success();
  return op->emitOpError("expected a buffer of static shape without gaps in "
                         "#cores.memory<local>, got ")
         << type;
}

//===----------------------------------------------------------------------===//
// Lists of cores
//===----------------------------------------------------------------------===//

static ParseResult parseCores(OpAsmParser &parser, DenseI64ArrayAttr &cores) {
  SmallVector<int64_t> numbers;
  auto parseCore = [&]() -> ParseResult {
    return failure(
        parser.parseLSquare() || parser.parseInteger(numbers.emplace_back()) ||
        parser.parseComma() || parser.parseInteger(numbers.emplace_back()) ||
        parser.parseRSquare());
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseCore))
    return failure();
  cores = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printCores(OpAsmPrinter &printer, Operation *op,
                       DenseI64ArrayAttr cores) {
  ArrayRef<int64_t> numbers = cores.asArrayRef();
  printer << '[';
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    printer << (i ? ", " : "") << '[' << numbers[i] << ", " << numbers[i + 1]
            << ']';
  printer << ']';
}

static SmallVector<std::array<int64_t, 2>> toPoints(ArrayRef<int64_t> numbers) {
  SmallVector<std::array<int64_t, 2>> points;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    points.push_back({numbers[i], numbers[i + 1]});
  return points;
}

static DenseI64ArrayAttr fromPoints(Builder &builder,
                                    ArrayRef<std::array<int64_t, 2>> points) {
  SmallVector<int64_t> numbers;
  for (auto [x, y] : points)
    numbers.append({x, y});
  return builder.getDenseI64ArrayAttr(numbers);
}

static LogicalResult verifyCores(Operation *op, ArrayRef<int64_t> numbers) {
  if (numbers.empty() || numbers.size() % 2)
    return op->emitOpError("expected one or more cores");
  llvm::SmallDenseSet<std::pair<int64_t, int64_t>> seen;
  for (auto [x, y] : toPoints(numbers)) {
    if (x < 0 || y < 0 || x > INT32_MAX || y > INT32_MAX)
      return op->emitOpError("expected columns and rows of cores from 0 to "
                             "2^31 - 1, got [")
             << x << ", " << y << "]";
    if (!seen.insert({x, y}).second)
      return op->emitOpError("contains core [") << x << ", " << y << "] twice";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// PlanOp
//===----------------------------------------------------------------------===//

ParseResult PlanOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr symbol, machine;
  SmallVector<OpAsmParser::Argument> arguments;
  ArrayAttr messages;
  if (parser.parseSymbolName(symbol, getSymNameAttrName(result.name),
                             result.attributes) ||
      parser.parseKeyword("machine") ||
      parser.parseAttribute(machine, getMachineAttrName(result.name),
                            result.attributes) ||
      launch::parsePlanTensors(parser, result, arguments) ||
      parser.parseKeyword("messages") ||
      parser.parseAttribute(messages, getMessagesAttrName(result.name),
                            result.attributes) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return launch::parsePlanBody(parser, result, arguments);
}

void PlanOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " machine " << getMachineAttr();
  launch::printPlanTensors(printer, *this);
  printer << " messages " << getMessages();
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getMachineAttrName(), getNumStatesAttrName(),
       getNumInputsAttrName(), getNumOutputsAttrName(), getNamesAttrName(),
       getMessagesAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult PlanOp::verify() { return launch::verifyPlanTensors(*this); }

LogicalResult PlanOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<ProgramOp, RemoteOp, launch::ViewOp, launch::ConstantOp>(op))
      return op.emitError("expected programs, views, constants and memories of "
                          "cores in a plan, got '")
             << op.getName() << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  if (getCore().size() != 2)
    return emitOpError("expected the column and the row of a core");
  if (failed(verifyCores(*this, getCore())))
    return failure();
  if (getBody().getNumArguments() != 1)
    return emitOpError("expected one argument, the data memory, got ")
           << getBody().getNumArguments();
  Type type = getLocal().getType();
  if (failed(verifyDenseLocal(*this, type)))
    return failure();
  auto local = cast<MemRefType>(type);
  if (local.getRank() != 1 || !local.getElementType().isInteger(8))
    return emitOpError("expected a data memory of bytes, got ") << type;
  int64_t bytes = getLocalBytes();
  if (getScratch().size() != 2 || getScratchOffset() < 0 ||
      getScratchBytes() < 0)
    return emitOpError("expected the offset and the bytes of scratch memory");
  if (getScratchOffset() > bytes ||
      getScratchBytes() > bytes - getScratchOffset())
    return emitOpError("has ")
           << getScratchBytes() << " bytes of scratch memory at byte "
           << getScratchOffset() << " of " << bytes;
  if (getScratchOffset() % 64)
    return emitOpError("expected an offset of the scratch memory that is a "
                       "multiple of 64, got ")
           << getScratchOffset();
  if (bytes < 8 || int64_t(getError()) > bytes - 8)
    return emitOpError("has an error word of 8 bytes at byte ")
           << getError() << " of " << bytes;
  if (getError() % 8)
    return emitOpError("expected an offset of the error word that is a "
                       "multiple of 8, got ")
           << getError();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<launch::ViewOp, CopyOp, WaitOp, RunOp, SendOp, ReleaseOp,
             AcquireOp, CheckOp>(op))
      return op.emitError("expected views and operations of a core in a "
                          "program, got '")
             << op.getName() << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// RemoteOp, CopyOp, SendOp
//===----------------------------------------------------------------------===//

LogicalResult RemoteOp::verify() {
  if (getCore().size() != 2)
    return emitOpError("expected the column and the row of a core");
  if (failed(verifyCores(*this, getCore())))
    return failure();
  auto type = cast<MemRefType>(getMemory().getType());
  if (!isRemote(type) || !type.getLayout().isIdentity() ||
      !launch::getExtent(type))
    return emitOpError("expected bytes in #cores.memory<remote>, got ") << type;
  return success();
}

LogicalResult CopyOp::verify() {
  auto source = dyn_cast<MemRefType>(getSource().getType());
  auto target = dyn_cast<MemRefType>(getTarget().getType());
  if (!source || !target || !launch::getExtent(source) ||
      !launch::getExtent(target))
    return emitOpError("expected buffers of static shape and strides without "
                       "an offset");
  if (source.getShape() != target.getShape() ||
      source.getElementType() != target.getElementType())
    return emitOpError("expected buffers of the same shape and element type, "
                       "got ")
           << source << " and " << target;
  for (MemRefType type : {source, target})
    if (type.getMemorySpace() && !isLocal(type) && !isRemote(type))
      return emitOpError("expected buffers in the DRAM, which have no memory "
                         "space, or in #cores.memory, got ")
             << type;
  if (isRemote(target))
    return emitOpError("writes the memory of another core, which only "
                       "cores.send does");
  if (!isLocal(source) && !isLocal(target))
    return emitOpError("expected at least one buffer in #cores.memory<local>");
  if (launch::isReadOnly(getTarget()))
    return emitOpError("writes a constant or an input");
  return success();
}

void SendOp::build(OpBuilder &builder, OperationState &state, Value source,
                   ArrayRef<std::array<int64_t, 2>> cores, int64_t offset,
                   int64_t counter) {
  build(builder, state, TransferType::get(builder.getContext()), source,
        fromPoints(builder, cores), offset, counter);
}

SmallVector<std::array<int64_t, 2>> SendOp::listCores() {
  return toPoints(getCores());
}

LogicalResult SendOp::verify() {
  if (failed(verifyCores(*this, getCores())) ||
      failed(verifyDenseLocal(*this, getSource().getType())))
    return failure();
  auto program = cast<ProgramOp>((*this)->getParentOp());
  // The program is verified after its operations.
  if (program.getCore().size() == 2 &&
      llvm::is_contained(
          listCores(), std::array<int64_t, 2>{program.getX(), program.getY()}))
    return emitOpError("sends to its own core");
  return success();
}

//===----------------------------------------------------------------------===//
// RunOp
//===----------------------------------------------------------------------===//

static ParseResult
parseAccessedBuffers(OpAsmParser &parser,
                     SmallVectorImpl<OpAsmParser::UnresolvedOperand> &buffers,
                     DenseI32ArrayAttr &accesses) {
  SmallVector<int32_t> numbers;
  auto parseBuffer = [&]() -> ParseResult {
    auto location = parser.getCurrentLocation();
    std::string access;
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    access = word.str();
    if (succeeded(parser.parseOptionalVerticalBar())) {
      if (parser.parseKeyword(&word))
        return failure();
      access += "|" + word.str();
    }
    auto value = launch::symbolizeAccess(access);
    if (!value)
      return parser.emitError(location, "expected read, write or read|write, "
                                        "got ")
             << access;
    numbers.push_back(int32_t(*value));
    return parser.parseOperand(buffers.emplace_back());
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::None, parseBuffer))
    return failure();
  accesses = parser.getBuilder().getDenseI32ArrayAttr(numbers);
  return success();
}

static void printAccessedBuffers(OpAsmPrinter &printer, Operation *op,
                                 OperandRange buffers,
                                 DenseI32ArrayAttr accesses) {
  llvm::interleaveComma(
      llvm::zip_equal(buffers, accesses.asArrayRef()), printer, [&](auto pair) {
        auto [buffer, access] = pair;
        printer << launch::stringifyAccess(launch::Access(access)) << ' '
                << buffer;
      });
}

void RunOp::build(OpBuilder &builder, OperationState &state,
                  FunctionOpInterface kernel, ValueRange buffers) {
  SmallVector<int32_t> accesses;
  for (unsigned i = 0; i < buffers.size(); ++i)
    accesses.push_back(int32_t(*launch::getAccess(kernel, i)));
  build(builder, state, kernel.getName(), buffers, accesses);
}

LogicalResult RunOp::verify() {
  if (getBuffers().empty())
    return emitOpError("expected at least one buffer");
  if (getAccesses().size() != getBuffers().size())
    return emitOpError("expected an access of each of ")
           << getBuffers().size() << " buffers, got " << getAccesses().size();
  for (int32_t access : getAccesses())
    if (access < 1 || access > 3)
      return emitOpError("expected accesses of number 1, 2 or 3, got ")
             << access;
  for (Type type : getBuffers().getTypes())
    if (failed(verifyDenseLocal(*this, type)))
      return failure();
  return success();
}

LogicalResult RunOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto function =
      dyn_cast_or_null<FunctionOpInterface>(symbolTable.lookupNearestSymbolFrom(
          (*this)->getParentOp()->getParentOp(), getKernelAttr()));
  if (!function)
    return emitOpError("expected a kernel function, got '")
           << getKernelAttr() << "'";
  ArrayRef<Type> types = function.getArgumentTypes();
  constexpr unsigned others = launch::KernelSignature::numOthers;
  if (types.size() != getBuffers().size() + others)
    return emitOpError("has ")
           << getBuffers().size() << " buffers, but '" << getKernel()
           << "' takes " << types.size() << " arguments, of which " << others
           << " are not buffers";
  if (llvm::any_of(types, llvm::IsaPred<MemRefType>) &&
      !launch::KernelSignature::endsArguments(types))
    return emitOpError("expected '")
           << getKernel()
           << "' to take scratch memory, an error word, and the begin "
           << "and end of its share after its buffers";
  for (auto [index, buffer] : llvm::enumerate(getBuffers())) {
    // After lowering to a target's dialect, buffers are pointers, whose types
    // cannot be compared.
    auto type = dyn_cast<MemRefType>(types[index]);
    if (type && type != getDramType(cast<MemRefType>(buffer.getType())))
      return emitOpError("has a buffer of type ")
             << buffer.getType() << ", but '" << getKernel() << "' takes "
             << type;
    std::optional<launch::Access> access = launch::getAccess(function, index);
    if (access && int32_t(*access) != getAccesses()[index])
      return emitOpError("has an access ")
             << launch::stringifyAccess(launch::Access(getAccesses()[index]))
             << " of buffer " << index << ", but '" << getKernel()
             << "' declares " << launch::stringifyAccess(*access);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ReleaseOp, CheckOp
//===----------------------------------------------------------------------===//

void ReleaseOp::build(OpBuilder &builder, OperationState &state,
                      int64_t counter, ArrayRef<std::array<int64_t, 2>> cores) {
  build(builder, state, builder.getI64IntegerAttr(counter),
        fromPoints(builder, cores));
}

SmallVector<std::array<int64_t, 2>> ReleaseOp::listCores() {
  return toPoints(getCores());
}

LogicalResult ReleaseOp::verify() { return verifyCores(*this, getCores()); }

LogicalResult CheckOp::verify() {
  return verifyDenseLocal(*this, getWords().getType());
}
