//===- LaunchDialect.cpp - Launches of kernels on buffers -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Launch/IR/Launch.h"

#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/PlanTensors.h"

#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::launch;

#include "dialects/Launch/IR/LaunchDialect.cpp.inc"
#include "dialects/Launch/IR/LaunchEnums.cpp.inc"
#include "dialects/Launch/IR/PlanOpInterface.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Launch/IR/LaunchAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Launch/IR/LaunchOps.cpp.inc"

void LaunchDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Launch/IR/LaunchOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Launch/IR/LaunchAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

std::optional<Access> launch::getAccess(FunctionOpInterface kernel,
                                        unsigned index) {
  auto access = kernel.getArgAttrOfType<AccessAttr>(
      index, LaunchDialect::AccessAttrHelper::getNameStr());
  return access ? std::optional(access.getValue()) : std::nullopt;
}

LogicalResult WorkAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t items, int64_t grain,
                               int64_t scratchBytes) {
  if (items < 0 || grain < 1 || scratchBytes < 0)
    return emitError() << "expected items and scratch_bytes of at least 0 and "
                          "a grain of at least 1, got "
                       << items << ", " << scratchBytes << " and " << grain;
  return success();
}

LogicalResult LaunchDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() == WorkAttrHelper::getNameStr()) {
    if (!isa<FunctionOpInterface>(op) || !isa<WorkAttr>(attr.getValue()))
      return op->emitOpError("expected launch.work to be a #launch.work of a "
                             "kernel function");
  } else if (attr.getName() == MessageAttrHelper::getNameStr()) {
    auto number = dyn_cast<IntegerAttr>(attr.getValue());
    if (!number || !number.getType().isSignlessInteger(64) ||
        number.getInt() < 0)
      return op->emitOpError("expected launch.message to be a number of 64 "
                             "bits that is at least 0");
  } else if (attr.getName() == MessagesAttrHelper::getNameStr() ||
             attr.getName() == TilesAttrHelper::getNameStr()) {
    bool isOfModule = attr.getName() == MessagesAttrHelper::getNameStr();
    auto texts = dyn_cast<ArrayAttr>(attr.getValue());
    if (!texts || !llvm::all_of(texts, llvm::IsaPred<StringAttr>) ||
        !(isOfModule ? isa<ModuleOp>(op) : isa<FunctionOpInterface>(op)))
      return op->emitOpError("expected ")
             << attr.getName().getValue() << " to be an array of strings of a "
             << (isOfModule ? "module" : "kernel function");
  } else {
    return op->emitOpError("has an attribute that the launch dialect does not "
                           "have: ")
           << attr.getName().getValue();
  }
  return success();
}

LogicalResult LaunchDialect::verifyRegionArgAttribute(Operation *op,
                                                      unsigned region,
                                                      unsigned argument,
                                                      NamedAttribute attr) {
  if (attr.getName() != AccessAttrHelper::getNameStr() ||
      !isa<AccessAttr>(attr.getValue()) || !isa<FunctionOpInterface>(op))
    return op->emitOpError("expected launch.access of argument ")
           << argument << " to be a #launch<access ...> of a kernel, got "
           << attr.getName().getValue() << " = " << attr.getValue();
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

int64_t launch::getElementBytes(Type element) {
  if (element.isIndex())
    return 8;
  return llvm::PowerOf2Ceil(
      llvm::divideCeil(element.getIntOrFloatBitWidth(), 8));
}

bool launch::hasRowMajorStrides(MemRefType type) {
  int64_t product = 1;
  return llvm::all_of(type.getShape(), [&](int64_t size) {
    return !llvm::MulOverflow(product, std::max<int64_t>(size, 1), product);
  });
}

int64_t launch::getBufferBytes(MemRefType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

std::optional<int64_t> launch::getExtent(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (!type || !type.hasStaticShape() || !hasRowMajorStrides(type) ||
      !type.getElementType().isIntOrIndexOrFloat() ||
      failed(type.getStridesAndOffset(strides, offset)) || offset != 0)
    return std::nullopt;
  if (llvm::is_contained(type.getShape(), 0))
    return 0;
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides)) {
    int64_t step = 0;
    if (stride < 0 || llvm::MulOverflow(size - 1, stride, step) ||
        llvm::AddOverflow(last, step, last))
      return std::nullopt;
  }
  int64_t bytes = 0;
  if (llvm::AddOverflow(last, int64_t(1), last) ||
      llvm::MulOverflow(last, getElementBytes(type.getElementType()), bytes))
    return std::nullopt;
  return bytes;
}

//===----------------------------------------------------------------------===//
// PlanOp
//===----------------------------------------------------------------------===//

static constexpr StringLiteral nameAttrName = "repro.name";

ParseResult
launch::parsePlanTensors(OpAsmParser &parser, OperationState &result,
                         SmallVectorImpl<OpAsmParser::Argument> &arguments) {
  Builder &builder = parser.getBuilder();
  auto parseArguments = [&](StringRef keyword, StringRef count) {
    size_t before = arguments.size();
    if (parser.parseKeyword(keyword) ||
        parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                                 /*allowType=*/true, /*allowAttrs=*/true))
      return failure();
    if (!count.empty())
      result.addAttribute(count,
                          builder.getI64IntegerAttr(arguments.size() - before));
    return success();
  };
  if (failed(parseArguments("states", "num_states")) ||
      failed(parseArguments("inputs", "num_inputs")) ||
      failed(parseArguments("outputs", "num_outputs")))
    return failure();
  SmallVector<Attribute> names;
  for (const OpAsmParser::Argument &argument : arguments) {
    StringAttr name = argument.attrs
                          ? argument.attrs.getAs<StringAttr>(nameAttrName)
                          : StringAttr();
    names.push_back(name ? name : builder.getStringAttr(""));
  }
  result.addAttribute("names", builder.getArrayAttr(names));
  return parseArguments("arena", {});
}

void launch::printPlanTensors(OpAsmPrinter &printer, PlanOpInterface plan) {
  unsigned position = 0;
  ArrayAttr names = plan.getNames();
  auto printArguments = [&](StringRef keyword,
                            ArrayRef<BlockArgument> arguments) {
    printer << ' ' << keyword << '(';
    llvm::interleaveComma(arguments, printer, [&](BlockArgument argument) {
      NamedAttrList attributes;
      if (position < names.size())
        if (auto name = cast<StringAttr>(names[position]); !name.empty())
          attributes.set(nameAttrName, name);
      printer.printRegionArgument(argument, attributes);
      ++position;
    });
    printer << ')';
  };
  printArguments("states", plan.getStates());
  printArguments("inputs", plan.getInputs());
  printArguments("outputs", plan.getOutputs());
  printArguments("arena", plan.getArena());
}

ParseResult launch::parsePlanBody(OpAsmParser &parser, OperationState &result,
                                  ArrayRef<OpAsmParser::Argument> arguments) {
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

LogicalResult launch::verifyPlanTensors(PlanOpInterface plan) {
  uint64_t arguments = plan.getBody().getNumArguments();
  // Subtract the three counts one by one, because their sum may overflow 64
  // bits.
  uint64_t left = arguments;
  for (uint64_t count :
       {plan.getNumStates(), plan.getNumInputs(), plan.getNumOutputs()}) {
    if (count > left)
      return plan->emitOpError("has ")
             << arguments << " arguments, expected " << plan.getNumStates()
             << " states, " << plan.getNumInputs() << " inputs, "
             << plan.getNumOutputs() << " outputs and an arena";
    left -= count;
  }
  if (left != 1)
    return plan->emitOpError(
               "expected one argument after the outputs, the arena, "
               "got ")
           << left;
  if (plan.getNames().size() != arguments - 1)
    return plan->emitOpError(
               "expected a name, perhaps an empty one, of each of ")
           << arguments - 1 << " states, inputs and outputs, got "
           << plan.getNames().size();
  for (Type type : plan.getBody().getArgumentTypes()) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer || !buffer.getLayout().isIdentity() || !getExtent(buffer) ||
        buffer.getMemorySpace())
      return plan->emitOpError(
                 "expected buffers of static shape that begin at their "
                 "first byte, got ")
             << type;
  }
  auto arena = cast<MemRefType>(plan.getArena().getType());
  if (arena.getRank() != 1 || !arena.getElementType().isInteger(8))
    return plan->emitOpError("expected an arena of bytes, got ") << arena;
  return success();
}

ParseResult PlanOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr symbol;
  SmallVector<OpAsmParser::Argument> arguments;
  int64_t live = 0;
  ArrayAttr messages;
  if (parser.parseSymbolName(symbol, getSymNameAttrName(result.name),
                             result.attributes) ||
      parsePlanTensors(parser, result, arguments) ||
      parser.parseKeyword("live") || parser.parseInteger(live) ||
      parser.parseKeyword("messages") || parser.parseAttribute(messages))
    return failure();
  result.addAttribute(getLiveBytesAttrName(result.name),
                      builder.getI64IntegerAttr(live));
  result.addAttribute(getMessagesAttrName(result.name), messages);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parsePlanBody(parser, result, arguments);
}

void PlanOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printPlanTensors(printer, *this);
  printer << " live " << getLiveBytes() << " messages " << getMessages();
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getNumStatesAttrName(), getNumInputsAttrName(),
       getNumOutputsAttrName(), getNamesAttrName(), getLiveBytesAttrName(),
       getMessagesAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult PlanOp::verify() {
  if (failed(verifyPlanTensors(*this)))
    return failure();
  int64_t bytes = cast<MemRefType>(getArena().getType()).getDimSize(0);
  if (getLiveBytes() > uint64_t(bytes))
    return emitOpError("has an arena of ")
           << bytes << " bytes, but " << getLiveBytes()
           << " bytes of temporaries live at once";
  return success();
}

LogicalResult PlanOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<DispatchOp, ViewOp, ConstantOp>(op))
      return op.emitError("expected launches, views and constants in a plan, "
                          "got '")
             << op.getName() << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// DispatchOp
//===----------------------------------------------------------------------===//

LogicalResult DispatchOp::verify() {
  if (getGrid().has_value() != getBlock().has_value())
    return emitOpError("expected both a grid and a block, or neither");
  if (getSharedBytes() && !getGrid())
    return emitOpError("expected a grid with shared memory");
  for (std::optional<ArrayRef<int64_t>> sizes : {getGrid(), getBlock()})
    if (sizes && (sizes->size() != 3 ||
                  llvm::any_of(*sizes, [](int64_t size) { return size < 1; })))
      return emitOpError("expected three positive sizes of a grid or a block");
  return success();
}

bool launch::isReadOnly(Value buffer) {
  if (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  if (buffer.getDefiningOp<ConstantOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto plan =
      argument ? dyn_cast<PlanOpInterface>(argument.getOwner()->getParentOp())
               : PlanOpInterface();
  return plan && llvm::is_contained(plan.getInputs(), argument);
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  SymbolRefAttr kernel = getKernel();
  Operation *root =
      symbolTable.lookupNearestSymbolFrom(*this, kernel.getRootReference());
  // A code operation contains kernels as bytes, so there is no function with
  // which to compare the buffers.
  if (root && !kernel.getNestedReferences().empty() &&
      !root->hasTrait<OpTrait::SymbolTable>() &&
      !isa<FunctionOpInterface>(root))
    return success();
  auto function = dyn_cast_or_null<FunctionOpInterface>(
      symbolTable.lookupNearestSymbolFrom(*this, kernel));
  if (!function)
    return emitOpError("expected a kernel function, got '") << kernel << "'";
  unsigned others =
      getGrid() ? DeviceKernelSignature::numOthers : KernelSignature::numOthers;
  ArrayRef<Type> types = function.getArgumentTypes();
  if (types.size() != getBuffers().size() + others)
    return emitOpError("has ")
           << getBuffers().size() << " buffers, but '" << kernel << "' takes "
           << types.size() << " arguments, of which " << others
           << " are not buffers";
  if (!getGrid() && llvm::any_of(types, llvm::IsaPred<MemRefType>) &&
      !KernelSignature::endsArguments(types))
    return emitOpError("expected '")
           << kernel
           << "' to take scratch memory, an error word, and the begin "
           << "and end of its share after its buffers";
  for (auto [index, buffer] : llvm::enumerate(getBuffers())) {
    // After lowering to a target's dialect, buffers are pointers, whose types
    // cannot be compared.
    if (isa<MemRefType>(types[index]) && types[index] != buffer.getType())
      return emitOpError("has a buffer of type ")
             << buffer.getType() << ", but '" << kernel << "' takes "
             << types[index];
    if (getAccess(function, index).value_or(Access::Read) != Access::Read &&
        isReadOnly(buffer))
      return emitOpError("lets '")
             << kernel << "' write a constant or an input";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ViewOp, ConstantOp
//===----------------------------------------------------------------------===//

Value ViewOp::getViewSource() { return getSource(); }

LogicalResult ViewOp::verify() {
  if (getSource().getDefiningOp<ViewOp>())
    return emitOpError("expected a view of a buffer, not of another view");
  auto source = dyn_cast<MemRefType>(getSource().getType());
  auto result = dyn_cast<MemRefType>(getType());
  std::optional<int64_t> available = getExtent(source);
  std::optional<int64_t> needed = getExtent(result);
  if (!available || !needed)
    return emitOpError("expected buffers of static shape and strides without "
                       "an offset");
  if (source.getMemorySpace() != result.getMemorySpace())
    return emitOpError("expected a result in the memory space of the source, "
                       "got ")
           << source << " and " << result;
  if (*needed == 0)
    return success();
  if (int64_t(getOffset()) > *available - *needed)
    return emitOpError("has ") << *needed << " bytes at byte " << getOffset()
                               << " of a buffer of " << *available << " bytes";
  if (getOffset() % getElementBytes(result.getElementType()))
    return emitOpError("expected an offset that is a multiple of the bytes of "
                       "an element, got ")
           << getOffset();
  return success();
}

LogicalResult ConstantOp::verify() {
  auto type = dyn_cast<MemRefType>(getType());
  ShapedType value = getValue().getShapedType();
  if (!type || !type.getLayout().isIdentity() || !getExtent(type) ||
      type.getMemorySpace() || type.getShape() != value.getShape() ||
      type.getElementType() != value.getElementType())
    return emitOpError("expected a buffer of the elements of ") << value;
  return success();
}
