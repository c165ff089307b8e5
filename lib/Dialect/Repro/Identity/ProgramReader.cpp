//===- ProgramReader.cpp - Canonical programs from their bytes ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/ProgramReader.h"

#include "Dialect/Repro/Identity/CanonicalOps.h"
#include "Dialect/Repro/Identity/CanonicalShapes.h"
#include "Dialect/Repro/Identity/IndexSum.h"
#include "Dialect/Repro/Identity/ProgramWriter.h"
#include "Dialect/Repro/Identity/StoredBlockFormat.h"
#include "Dialect/Repro/Identity/StoredFormat.h"
#include "Dialect/Repro/Identity/StoredNumbers.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Numbers and strings
//===----------------------------------------------------------------------===//

namespace {
/// Reads numbers and strings from untrusted bytes. Each count is checked
/// against the number of remaining bytes before it is used.
class Cursor {
public:
  Cursor(StringRef file, size_t begin, size_t end, MLIRContext *context)
      : file(file), position(begin), end(end), context(context) {}

  /// Reports an error at the current byte.
  InFlightDiagnostic error() const { return errorAt(position); }
  InFlightDiagnostic errorAt(size_t where) const {
    return emitError(UnknownLoc::get(context), "(H2) byte ")
           << where << " of the stored program: ";
  }

  size_t getPosition() const { return position; }
  size_t getLeft() const { return end - position; }
  /// Returns the bytes from `start` to the current byte.
  StringRef getRead(size_t start) const { return file.slice(start, position); }

  LogicalResult readBytes(size_t size, StringRef &bytes);
  /// Reads a little-endian number of `bytes` bytes.
  LogicalResult readNumber(uint64_t &value, unsigned bytes = 8);
  /// Reads a number that must be below `limit`.
  LogicalResult readBelow(uint64_t limit, StringRef what, uint64_t &value,
                          unsigned bytes = 8);
  /// Reads the number of elements that follow. Fails if the remaining bytes
  /// cannot contain this number of elements of at least `least` bytes.
  LogicalResult readCount(StringRef what, size_t least, size_t &count);
  LogicalResult readString(StringRef &text);
  LogicalResult readText(StringAttr &text);
  LogicalResult readNumbers(StringRef what, SmallVectorImpl<int64_t> &values);
  LogicalResult expectEnd(StringRef what) const;

private:
  StringRef file;
  size_t position, end;
  MLIRContext *context;
};
} // namespace

LogicalResult Cursor::readBytes(size_t size, StringRef &bytes) {
  if (size > getLeft())
    return error() << "expected " << size << " bytes, got " << getLeft();
  bytes = file.substr(position, size);
  position += size;
  return success();
}

LogicalResult Cursor::readNumber(uint64_t &value, unsigned bytes) {
  StringRef digits;
  if (failed(readBytes(bytes, digits)))
    return failure();
  char buffer[8] = {};
  llvm::copy(digits, buffer);
  value = llvm::support::endian::read64le(buffer);
  return success();
}

LogicalResult Cursor::readBelow(uint64_t limit, StringRef what, uint64_t &value,
                                unsigned bytes) {
  size_t start = position;
  if (failed(readNumber(value, bytes)))
    return failure();
  if (value >= limit)
    return errorAt(start) << "expected " << what << " below " << limit
                          << ", got " << value;
  return success();
}

LogicalResult Cursor::readCount(StringRef what, size_t least, size_t &count) {
  size_t start = position;
  uint64_t value;
  if (failed(readNumber(value)))
    return failure();
  if (value > getLeft() / least)
    return errorAt(start) << "expected no more " << what
                          << " than the file holds, got " << value;
  count = value;
  return success();
}

LogicalResult Cursor::readString(StringRef &text) {
  size_t size;
  return failure(failed(readCount("characters", 1, size)) ||
                 failed(readBytes(size, text)));
}

/// Reads a name, message or location, which must be UTF-8.
LogicalResult Cursor::readText(StringAttr &text) {
  size_t start = position;
  StringRef bytes;
  if (failed(readString(bytes)))
    return failure();
  if (!llvm::json::isUTF8(bytes))
    return errorAt(start) << "expected UTF-8";
  text = StringAttr::get(context, bytes);
  return success();
}

LogicalResult Cursor::readNumbers(StringRef what,
                                  SmallVectorImpl<int64_t> &values) {
  size_t count;
  if (failed(readCount(what, 8, count)))
    return failure();
  values.resize(count);
  for (int64_t &value : values) {
    uint64_t number;
    if (failed(readNumber(number)))
      return failure();
    value = int64_t(number);
  }
  return success();
}

LogicalResult Cursor::expectEnd(StringRef what) const {
  if (getLeft() == 0)
    return success();
  return error() << "expected the end of " << what << ", got " << getLeft()
                 << " bytes more";
}

//===----------------------------------------------------------------------===//
// Sections other than the body
//===----------------------------------------------------------------------===//

namespace {
/// The messages of assertions, in program order.
class Messages {
public:
  Messages(std::optional<Cursor> section) : section(section) {}

  LogicalResult begin();
  LogicalResult readNext(const Cursor &body, StringAttr &text);
  LogicalResult expectEnd() const;

private:
  std::optional<Cursor> section;
  size_t left = 0;
};

/// The source locations of operations, in program order.
class Origins {
public:
  Origins(std::optional<Cursor> section, MLIRContext *context)
      : section(section), context(context) {}

  LogicalResult begin();
  LogicalResult readNext(Location &location);
  LogicalResult expectEnd() const;

private:
  std::optional<Cursor> section;
  MLIRContext *context;
  SmallVector<StringAttr> texts;
};
} // namespace

LogicalResult Messages::begin() {
  if (!section)
    return success();
  return section->readCount("messages", 8, left);
}

LogicalResult Messages::readNext(const Cursor &body, StringAttr &text) {
  if (left == 0)
    return body.error() << "expected a message for each assertion";
  --left;
  return section->readText(text);
}

LogicalResult Messages::expectEnd() const {
  return section ? section->expectEnd("the messages") : success();
}

LogicalResult Origins::begin() {
  if (!section)
    return success();
  size_t count;
  if (failed(section->readCount("texts", 8, count)))
    return failure();
  texts.resize(count);
  for (StringAttr &text : texts)
    if (failed(section->readText(text)))
      return failure();
  return success();
}

LogicalResult Origins::readNext(Location &location) {
  location = UnknownLoc::get(context);
  if (!section)
    return success();
  uint64_t name, file, line, column;
  if (failed(section->readBelow(texts.size() + 1, "a text", name, 4)) ||
      failed(section->readBelow(texts.size() + 1, "a text", file, 4)) ||
      failed(section->readNumber(line, 4)) ||
      failed(section->readNumber(column, 4)))
    return failure();
  if (file)
    location = FileLineColLoc::get(texts[file - 1], line, column);
  if (name)
    location = NameLoc::get(texts[name - 1], location);
  return success();
}

LogicalResult Origins::expectEnd() const {
  return section ? section->expectEnd("the origins") : success();
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

/// The maximum nesting of bodies: an operation with a body cannot contain
/// another one.
static constexpr unsigned kMaxNesting = 1;

namespace {
/// Builds a module from the body of a stored program
/// (docs/verification/identity.md). The module may be invalid: MLIR's verifiers
/// and verifyCanonicalProgram check it afterwards.
class BodyReader {
public:
  BodyReader(Cursor bytes, Messages messages, Origins origins,
             MLIRContext *context)
      : bytes(bytes), messages(messages), origins(origins), context(context),
        unknown(UnknownLoc::get(context)) {}

  LogicalResult readProgram(ModuleOp module, func::FuncOp &main);

private:
  LogicalResult readElementType(Type &type);
  LogicalResult readType(Type &type);
  LogicalResult readTypes(SmallVectorImpl<Type> &types);
  LogicalResult readElement(Type type, APInt &value);
  LogicalResult readConstant(Type type, Attribute &value);
  LogicalResult readSum(unsigned numDims, unsigned depth, AffineExpr &sum);
  LogicalResult readTerm(unsigned numDims, unsigned depth, AffineExpr &term,
                         StringRef &written);
  LogicalResult readMaps(Attribute &maps);
  LogicalResult readReassociation(Attribute &groups);
  LogicalResult readIterators(Attribute &iterators);
  LogicalResult readAccumulator(size_t start, bool isOfBlocks,
                                Attribute &accumulator);
  LogicalResult readOrder(Attribute &order);
  LogicalResult readSegments(size_t numOperands, Attribute &segments);
  LogicalResult readAttribute(const CanonicalAttribute &attribute,
                              TypeRange resultTypes, size_t numOperands,
                              Attribute &value);
  LogicalResult readOperands(SmallVectorImpl<Value> &operands);
  LogicalResult checkArguments(linalg::GenericOp op, size_t start);
  LogicalResult readOp(OpBuilder &builder, unsigned depth);
  LogicalResult readBlock(Block &block, unsigned depth);

  Cursor bytes;
  Messages messages;
  Origins origins;
  MLIRContext *context;
  Location unknown;
  /// The values defined so far; null for values of a body that has ended.
  SmallVector<Value> values;
};
} // namespace

LogicalResult BodyReader::readElementType(Type &type) {
  size_t start = bytes.getPosition();
  StringRef padded;
  if (failed(bytes.readBytes(16, padded)))
    return failure();
  StringRef name = padded.take_until([](char c) { return c == '\0'; });
  Builder b(context);
  type = llvm::StringSwitch<Type>(name)
             .Case("f64", b.getF64Type())
             .Case("f32", b.getF32Type())
             .Case("bf16", b.getBF16Type())
             .Case("f16", b.getF16Type())
             .Case("f8E4M3FN", b.getType<Float8E4M3FNType>())
             .Case("f8E5M2", b.getType<Float8E5M2Type>())
             .Case("f6E3M2FN", b.getType<Float6E3M2FNType>())
             .Case("f6E2M3FN", b.getType<Float6E2M3FNType>())
             .Case("f4E2M1FN", b.getType<Float4E2M1FNType>())
             .Case("f8E8M0FNU", b.getType<Float8E8M0FNUType>())
             .Case("i1", b.getI1Type())
             .Case("i8", b.getI8Type())
             .Case("i16", b.getIntegerType(16))
             .Case("i32", b.getI32Type())
             .Case("i64", b.getI64Type())
             .Case("index", b.getIndexType())
             .Default(nullptr);
  if (!type ||
      padded.drop_front(name.size()).find_first_not_of('\0') != StringRef::npos)
    return bytes.errorAt(start)
           << "expected the name of an element type in 16 bytes";
  return success();
}

LogicalResult BodyReader::readType(Type &type) {
  size_t start = bytes.getPosition();
  uint64_t isTensor;
  Type element;
  if (failed(bytes.readBelow(2, "a kind of type", isTensor, 1)) ||
      failed(readElementType(element)))
    return failure();
  type = element;
  if (!isTensor)
    return success();
  SmallVector<int64_t> shape;
  if (failed(bytes.readNumbers("dimensions", shape)))
    return failure();
  if (element.isIndex() ||
      llvm::any_of(shape, [](int64_t extent) { return extent < 0; }))
    return bytes.errorAt(start) << "expected a tensor of static shape with "
                                   "elements of (V1)";
  auto tensor = RankedTensorType::get(shape, element);
  type = tensor;
  if (!isWithinLimits(tensor))
    return bytes.errorAt(start) << "(A4) expected a tensor of at most 24 "
                                   "dimensions and 2^40 bytes";
  return success();
}

LogicalResult BodyReader::readTypes(SmallVectorImpl<Type> &types) {
  size_t count;
  if (failed(bytes.readCount("types", 17, count)))
    return failure();
  types.resize(count);
  for (Type &type : types)
    if (failed(readType(type)))
      return failure();
  return success();
}

static unsigned getStoredBits(Type element) {
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

static Attribute getScalar(Type type, const APInt &bits) {
  auto number = dyn_cast<FloatType>(type);
  if (!number)
    return IntegerAttr::get(type, bits);
  return FloatAttr::get(number, APFloat(number.getFloatSemantics(), bits));
}

LogicalResult BodyReader::readElement(Type type, APInt &value) {
  unsigned bits = getStoredBits(type);
  size_t start = bytes.getPosition();
  uint64_t number;
  if (failed(bytes.readNumber(number, (bits + 7) / 8)))
    return failure();
  if (bits == 1 && number > 1)
    return bytes.errorAt(start) << "expected 0 or 1, got " << number;
  if (bits < 8 && number >> bits)
    return bytes.errorAt(start)
           << "(V1) expected " << bits << " bits, got " << number;
  value = APInt(bits, number);
  return success();
}

LogicalResult BodyReader::readConstant(Type type, Attribute &value) {
  size_t start = bytes.getPosition();
  uint64_t isSplat;
  if (failed(bytes.readBelow(2, "a form of constant", isSplat, 1)))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    APInt bits;
    if (isSplat)
      return bytes.errorAt(start) << "expected the elements of a scalar";
    if (failed(readElement(type, bits)))
      return failure();
    value = getScalar(type, bits);
    return success();
  }
  // The number of elements is below 2^40 because the type has been checked.
  Type element = tensor.getElementType();
  size_t count = isSplat ? 1 : tensor.getNumElements();
  if (isSplat && tensor.getNumElements() < 2)
    return bytes.errorAt(start) << "expected the elements of less than two";
  StringRef data;
  if (failed(bytes.readBytes(count * ((getStoredBits(element) + 7) / 8), data)))
    return failure();
  ArrayRef<char> raw(data.data(), data.size());
  if (element.isInteger(1)) {
    if (data.find_first_not_of(StringRef("\0\1", 2)) != StringRef::npos)
      return bytes.errorAt(start) << "expected elements that are 0 or 1";
    value = DenseElementsAttr::get(
        tensor,
        ArrayRef(reinterpret_cast<const bool *>(raw.data()), raw.size()));
    return success();
  }
  if (unsigned bits = getStoredBits(element);
      bits < 8 &&
      llvm::any_of(
          raw,
          [&](char byte) { return static_cast<unsigned char>(byte) >> bits; }))
    return bytes.errorAt(start)
           << "(V1) expected elements of " << bits << " bits";
  // MLIR stores elements in native byte order; the format is little-endian.
  static_assert(llvm::endianness::native == llvm::endianness::little);
  value = DenseElementsAttr::getFromRawBuffer(tensor, raw);
  return success();
}

LogicalResult BodyReader::readSum(unsigned numDims, unsigned depth,
                                  AffineExpr &sum) {
  uint64_t constant;
  size_t count;
  if (failed(bytes.readNumber(constant)) ||
      failed(bytes.readCount("terms", 17, count)))
    return failure();
  if (count > IndexSum::kMaxTerms)
    return bytes.error() << "expected at most " << IndexSum::kMaxTerms
                         << " terms";
  SmallVector<IndexSum::Term> terms;
  StringRef previous;
  for (size_t i = 0; i < count; ++i) {
    size_t start = bytes.getPosition();
    uint64_t factor;
    AffineExpr term;
    StringRef written;
    if (failed(bytes.readNumber(factor)) ||
        failed(readTerm(numDims, depth, term, written)))
      return failure();
    if (!factor || (i && previous >= written))
      return bytes.errorAt(start)
             << "expected terms in ascending order with factors other than 0";
    previous = written;
    terms.emplace_back(term, factor);
  }
  sum = IndexSum::build(terms, constant, context);
  return success();
}

/// Reads a term without its factor, and sets `written` to the bytes that were
/// read.
LogicalResult BodyReader::readTerm(unsigned numDims, unsigned depth,
                                   AffineExpr &term, StringRef &written) {
  size_t start = bytes.getPosition();
  uint64_t kind, number;
  if (failed(bytes.readBelow(4, "a kind of term", kind, 1)))
    return failure();
  if (!kind) {
    if (failed(bytes.readBelow(numDims, "a dimension", number)))
      return failure();
    term = getAffineDimExpr(number, context);
    written = bytes.getRead(start);
    return success();
  }
  if (depth == IndexSum::kMaxDepth)
    return bytes.errorAt(start)
           << "expected divisions at most " << IndexSum::kMaxDepth << " deep";
  AffineExpr inner;
  if (failed(readSum(numDims, depth + 1, inner)) ||
      failed(bytes.readNumber(number)))
    return failure();
  if (int64_t(number) <= 0 || isa<AffineConstantExpr>(inner))
    return bytes.errorAt(start)
           << "expected a division by a positive constant, of dimensions";
  static constexpr AffineExprKind kinds[] = {
      AffineExprKind::Mod, AffineExprKind::FloorDiv, AffineExprKind::CeilDiv};
  term = getAffineBinaryOpExpr(kinds[kind - 1], inner,
                               getAffineConstantExpr(int64_t(number), context));
  written = bytes.getRead(start);
  return success();
}

LogicalResult BodyReader::readMaps(Attribute &maps) {
  size_t count;
  if (failed(bytes.readCount("maps", 16, count)))
    return failure();
  SmallVector<AffineMap> read(count);
  for (AffineMap &map : read) {
    uint64_t numDims;
    size_t numResults;
    if (failed(
            bytes.readBelow(kMaxRank + 1, "a number of dimensions", numDims)) ||
        failed(bytes.readCount("expressions", 16, numResults)))
      return failure();
    SmallVector<AffineExpr> exprs(numResults);
    for (AffineExpr &expr : exprs)
      if (failed(readSum(numDims, 0, expr)))
        return failure();
    map = AffineMap::get(numDims, 0, exprs, context);
  }
  maps = Builder(context).getAffineMapArrayAttr(read);
  return success();
}

LogicalResult BodyReader::readReassociation(Attribute &groups) {
  size_t count;
  if (failed(bytes.readCount("groups of dimensions", 8, count)))
    return failure();
  Builder b(context);
  SmallVector<Attribute> read(count);
  for (Attribute &group : read) {
    size_t start = bytes.getPosition();
    SmallVector<int64_t> dims;
    if (failed(bytes.readNumbers("dimensions", dims)))
      return failure();
    // MLIR's verifier asserts that no group is empty.
    if (dims.empty())
      return bytes.errorAt(start)
             << "(A3) expected no group without dimensions";
    if (llvm::any_of(dims, [](int64_t dim) { return dim < 0 || dim >= 24; }))
      return bytes.errorAt(start) << "expected dimensions from 0 to 23";
    group = b.getI64ArrayAttr(dims);
  }
  groups = b.getArrayAttr(read);
  return success();
}

LogicalResult BodyReader::readIterators(Attribute &iterators) {
  size_t count;
  if (failed(bytes.readCount("iterators", 1, count)))
    return failure();
  SmallVector<Attribute> read(count);
  for (Attribute &iterator : read) {
    uint64_t isReduction;
    if (failed(bytes.readBelow(2, "an iterator", isReduction, 1)))
      return failure();
    iterator = linalg::IteratorTypeAttr::get(
        context, isReduction ? utils::IteratorType::reduction
                             : utils::IteratorType::parallel);
  }
  iterators = ArrayAttr::get(context, read);
  return success();
}

/// Reads the accumulator of an order (M4) or of a block contraction (M5).
LogicalResult BodyReader::readAccumulator(size_t start, bool isOfBlocks,
                                          Attribute &accumulator) {
  uint64_t terms, fraction, round, floor, late, chunk = 0, begin = 0, group = 1;
  for (uint64_t *field : {&terms, &fraction, &round, &floor, &late})
    if (failed(bytes.readNumber(*field)))
      return failure();
  if (isOfBlocks
          ? failed(bytes.readNumber(group))
          : failed(bytes.readNumber(chunk)) || failed(bytes.readNumber(begin)))
    return failure();
  auto emitError = [&]() { return bytes.errorAt(start); };
  std::optional<SumRounding> rounding = getStoredSumRounding(round);
  std::optional<SumStart> sumStart = getStoredSumStart(begin);
  if (!rounding || !sumStart || late > 1)
    return emitError() << "(M4) unknown accumulator: round " << round
                       << ", late " << late << ", start " << begin;
  accumulator = FdpaAttr::getChecked(
      emitError, context, int64_t(terms),
      fraction ? std::optional(int64_t(fraction)) : std::nullopt, *rounding,
      int64_t(floor), bool(late), int64_t(chunk), *sumStart, int64_t(group));
  return success(bool(accumulator));
}

LogicalResult BodyReader::readOrder(Attribute &order) {
  size_t start = bytes.getPosition();
  auto emitError = [&]() { return bytes.errorAt(start); };
  uint64_t kind;
  if (failed(bytes.readBelow(5, "a kind of order", kind, 1)))
    return failure();
  if (kind == 0) {
    uint64_t chunk, lanes, run, totals;
    if (failed(bytes.readNumber(chunk)) || failed(bytes.readNumber(lanes)) ||
        failed(bytes.readNumber(run)) || failed(bytes.readNumber(totals)))
      return failure();
    std::optional<Totals> known = getStoredTotals(totals);
    if (!known)
      return emitError() << "unknown way of totals: " << totals;
    order = OrderAttr::getChecked(emitError, context, int64_t(chunk),
                                  int64_t(lanes), int64_t(run), *known);
    return success(order);
  }
  if (kind == 3) {
    uint64_t digits;
    if (failed(bytes.readNumber(digits)))
      return failure();
    order = ExactAttr::getChecked(emitError, context, int64_t(digits));
    return success(bool(order));
  }
  if (kind == 4)
    return readAccumulator(start, /*isOfBlocks=*/false, order);
  order = kind == 1 ? Attribute(AnyOrderAttr::get(context))
                    : SequentialAttr::get(context);
  return success();
}

LogicalResult BodyReader::readSegments(size_t numOperands,
                                       Attribute &segments) {
  size_t start = bytes.getPosition();
  SmallVector<int64_t> sizes;
  if (failed(bytes.readNumbers("segments", sizes)))
    return failure();
  for (int64_t size : sizes)
    if (size < 0 || size > int64_t(numOperands))
      return bytes.errorAt(start)
             << "expected numbers of operands, got " << size;
  segments =
      DenseI32ArrayAttr::get(context, llvm::to_vector_of<int32_t>(sizes));
  return success();
}

LogicalResult BodyReader::readAttribute(const CanonicalAttribute &attribute,
                                        TypeRange resultTypes,
                                        size_t numOperands, Attribute &value) {
  size_t start = bytes.getPosition();
  uint64_t number;
  switch (attribute.form) {
  case AttributeForm::integer:
    if (failed(bytes.readNumber(number)))
      return failure();
    // MLIR's verifiers use dimensions as indices before ours can check them.
    if (number > uint64_t(std::numeric_limits<int64_t>::max()))
      return bytes.errorAt(start) << "expected '" << attribute.name
                                  << "' below 2^63, got " << number;
    value = Builder(context).getI64IntegerAttr(int64_t(number));
    return success();
  case AttributeForm::integerPredicate:
  case AttributeForm::floatPredicate:
  case AttributeForm::kind:
  case AttributeForm::combine:
  case AttributeForm::direction:
  case AttributeForm::distribution:
  case AttributeForm::blockStep:
    if (failed(bytes.readNumber(number)))
      return failure();
    value = getStoredValue(attribute.form, number, context);
    if (!value)
      return bytes.errorAt(start)
             << "unknown '" << attribute.name << "': " << number;
    return success();
  case AttributeForm::integers: {
    SmallVector<int64_t> numbers;
    if (failed(bytes.readNumbers("integers", numbers)))
      return failure();
    // Limit the numbers, because MLIR's verifiers add them. (A4) bounds
    // offsets, sizes and padding, but not strides.
    int64_t most = attribute.name == "static_strides"
                       ? std::numeric_limits<int64_t>::max()
                       : int64_t(1) << 40;
    if (llvm::any_of(numbers, [&](int64_t n) { return n < 0 || n > most; }))
      return bytes.errorAt(start)
             << "(A3) expected '" << attribute.name << "' from 0 to " << most;
    value = DenseI64ArrayAttr::get(context, numbers);
    return success();
  }
  case AttributeForm::optionalInteger: {
    SmallVector<int64_t> numbers;
    if (failed(bytes.readNumbers("integers", numbers)))
      return failure();
    if (numbers.size() > 1)
      return bytes.errorAt(start) << "expected one integer or none";
    if (!numbers.empty())
      value = Builder(context).getI64IntegerAttr(numbers.front());
    return success();
  }
  case AttributeForm::blockFormat: {
    SmallVector<int64_t> numbers;
    Type element;
    if (failed(bytes.readNumbers("integers", numbers)) ||
        failed(readElementType(element)))
      return failure();
    value = getStoredBlockFormat([&]() { return bytes.errorAt(start); },
                                 element, numbers);
    return success(bool(value));
  }
  case AttributeForm::segments:
    return readSegments(numOperands, value);
  case AttributeForm::reassociation:
    return readReassociation(value);
  case AttributeForm::maps:
    return readMaps(value);
  case AttributeForm::iterators:
    return readIterators(value);
  case AttributeForm::order:
    return readOrder(value);
  case AttributeForm::accumulator:
    return readAccumulator(start, /*isOfBlocks=*/true, value);
  case AttributeForm::constant:
    if (resultTypes.size() != 1)
      return bytes.errorAt(start)
             << "expected one result of a constant, got " << resultTypes.size();
    return readConstant(resultTypes.front(), value);
  case AttributeForm::text: {
    StringAttr text;
    if (failed(messages.readNext(bytes, text)))
      return failure();
    value = text;
    return success();
  }
  case AttributeForm::none:
    return success();
  }
  llvm_unreachable("unknown form of an attribute");
}

LogicalResult BodyReader::readOperands(SmallVectorImpl<Value> &operands) {
  size_t count;
  if (failed(bytes.readCount("operands", 8, count)))
    return failure();
  operands.resize(count);
  for (Value &operand : operands) {
    size_t start = bytes.getPosition();
    uint64_t number;
    if (failed(bytes.readBelow(values.size(), "a definition", number)))
      return failure();
    operand = values[number];
    if (!operand)
      return bytes.errorAt(start)
             << "definition " << number << " is one of a body that has ended";
  }
  return success();
}

/// Checks the types of the arguments of a body, which begins at byte `start`.
/// MLIR would verify the operations that use the arguments first.
LogicalResult BodyReader::checkArguments(linalg::GenericOp op, size_t start) {
  TypeRange arguments = op.getRegion().getArgumentTypes();
  if (arguments.size() != op->getNumOperands())
    return bytes.errorAt(start) << "expected a body of " << op->getNumOperands()
                                << " arguments, got " << arguments.size();
  for (auto [number, argument, operand] :
       llvm::enumerate(arguments, op->getOperandTypes()))
    if (Type expected = getElementTypeOrSelf(operand); argument != expected)
      return bytes.errorAt(start)
             << "expected argument #" << number << " of the body to be "
             << expected << ", got " << argument;
  return success();
}

LogicalResult BodyReader::readOp(OpBuilder &builder, unsigned depth) {
  size_t start = bytes.getPosition();
  StringRef name;
  if (failed(bytes.readString(name)))
    return failure();
  std::optional<RegisteredOperationName> known =
      RegisteredOperationName::lookup(getOperationName(name), context);
  const CanonicalOp *entry = known ? lookupCanonicalOp(name) : nullptr;
  if (!entry)
    return bytes.errorAt(start) << "expected the name of an operation of a "
                                   "canonical program";
  Location location = unknown;
  SmallVector<Type> types;
  SmallVector<Value> operands;
  if (failed(origins.readNext(location)) || failed(readTypes(types)) ||
      failed(readOperands(operands)))
    return failure();
  NamedAttrList attributes;
  for (const CanonicalAttribute &attribute : entry->attributes) {
    Attribute value;
    if (failed(readAttribute(attribute, types, operands.size(), value)))
      return failure();
    if (value)
      attributes.append(attribute.name, value);
  }
  // MLIR's verifier would abort on maps whose indices overflow 64 bits.
  if (auto maps = attributes.get("indexing_maps");
      maps &&
      !hasEnds(llvm::to_vector(
                   cast<ArrayAttr>(maps).getAsValueRange<AffineMapAttr>()),
               operands))
    return bytes.errorAt(start) << "(A2) expected indices below 2^63 - 1";
  size_t regionsStart = bytes.getPosition();
  uint64_t regions;
  if (failed(bytes.readBelow(2, "a number of bodies", regions)))
    return failure();
  if (regions && depth == kMaxNesting)
    return bytes.errorAt(regionsStart) << "expected no body within a body";

  OperationState state(location, *known);
  state.addTypes(types);
  state.addOperands(operands);
  for (uint64_t i = 0; i < regions; ++i)
    state.addRegion();
  Operation *op = builder.create(state);
  if (!attributes.empty() && failed(op->setPropertiesFromAttribute(
                                 attributes.getDictionary(context), [&] {
                                   return bytes.errorAt(start)
                                          << "'" << name << "': ";
                                 })))
    return failure();
  values.append(op->result_begin(), op->result_end());
  for (Region &region : op->getRegions()) {
    size_t outside = values.size(), begin = bytes.getPosition();
    if (failed(readBlock(region.emplaceBlock(), depth + 1)))
      return failure();
    if (auto generic = dyn_cast<linalg::GenericOp>(op);
        generic && failed(checkArguments(generic, begin)))
      return failure();
    std::fill(values.begin() + outside, values.end(), Value());
  }
  return success();
}

LogicalResult BodyReader::readBlock(Block &block, unsigned depth) {
  SmallVector<Type> types;
  if (failed(readTypes(types)))
    return failure();
  for (Type type : types)
    values.push_back(block.addArgument(type, unknown));
  size_t count;
  // An operation takes at least 32 bytes: the length of its name and the
  // numbers of its results, operands and regions.
  if (failed(bytes.readCount("operations", 32, count)))
    return failure();
  auto builder = OpBuilder::atBlockEnd(&block);
  for (size_t i = 0; i < count; ++i)
    if (failed(readOp(builder, depth)))
      return failure();
  return success();
}

LogicalResult BodyReader::readProgram(ModuleOp module, func::FuncOp &main) {
  StringRef magic;
  if (bytes.getLeft() < kBodyMagic.size() ||
      failed(bytes.readBytes(kBodyMagic.size(), magic)) || magic != kBodyMagic)
    return bytes.error() << "expected the beginning of a body";
  size_t start = bytes.getPosition();
  uint64_t numState;
  SmallVector<Type> results;
  if (failed(bytes.readNumber(numState)) || failed(readTypes(results)) ||
      failed(messages.begin()) || failed(origins.begin()))
    return failure();
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  main = func::FuncOp::create(builder, unknown, "main",
                              builder.getFunctionType({}, results));
  Block &block = main.getBody().emplaceBlock();
  if (failed(readBlock(block, 0)))
    return failure();
  main.setType(builder.getFunctionType(block.getArgumentTypes(), results));
  if (numState > block.getNumArguments() || numState > results.size())
    return bytes.errorAt(start)
           << "expected at most the number of arguments and of results as "
              "number of states, got "
           << numState;
  main->setAttr("repro.num_state", builder.getI64IntegerAttr(numState));
  return failure(failed(bytes.expectEnd("the body")) ||
                 failed(messages.expectEnd()) || failed(origins.expectEnd()));
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static LogicalResult readNames(Cursor bytes, func::FuncOp main) {
  StringAttr key = StringAttr::get(main.getContext(), "repro.name");
  auto read = [&](unsigned expected, auto setName) -> LogicalResult {
    size_t start = bytes.getPosition();
    size_t count;
    if (failed(bytes.readCount("names", 8, count)))
      return failure();
    if (count != expected)
      return bytes.errorAt(start)
             << "expected " << expected << " names, got " << count;
    for (unsigned i = 0; i < count; ++i) {
      StringAttr name;
      if (failed(bytes.readText(name)))
        return failure();
      if (!name.empty())
        setName(i, name);
    }
    return success();
  };
  return failure(failed(read(main.getNumArguments(),
                             [&](unsigned i, StringAttr name) {
                               main.setArgAttr(i, key, name);
                             })) ||
                 failed(read(main.getNumResults(),
                             [&](unsigned i, StringAttr name) {
                               main.setResultAttr(i, key, name);
                             })) ||
                 failed(bytes.expectEnd("the names")));
}

namespace {
/// A stream that compares the bytes that are written to it with `expected`.
class CompareStream : public llvm::raw_ostream {
public:
  explicit CompareStream(StringRef expected) : expected(expected) {}
  ~CompareStream() override { flush(); }

  /// Returns the position of the first difference; std::nullopt if there is
  /// none.
  std::optional<size_t> findDifference() {
    flush();
    if (!difference && position != expected.size())
      difference = position;
    return difference;
  }

private:
  void write_impl(const char *bytes, size_t size) override {
    StringRef due = expected.substr(position, size);
    if (!difference && due != StringRef(bytes, size))
      difference =
          position +
          (std::mismatch(due.begin(), due.end(), bytes).first - due.begin());
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  StringRef expected;
  size_t position = 0;
  std::optional<size_t> difference;
};
} // namespace

/// Sets `sections[i]` to the section with number i, if the file has it. All
/// sections except the body are optional.
static LogicalResult
readSections(Cursor bytes, StringRef file, MLIRContext *context,
             std::array<std::optional<Cursor>, kNumSections> &sections) {
  StringRef magic;
  if (!file.starts_with(kFileMagic) ||
      failed(bytes.readBytes(kFileMagic.size(), magic)))
    return bytes.error() << "expected the beginning of a stored program";
  size_t start = bytes.getPosition();
  uint64_t version;
  if (failed(bytes.readNumber(version, 4)))
    return failure();
  if (version != kFileVersion)
    return bytes.errorAt(start) << "expected version " << kFileVersion
                                << " of the format, got " << version;
  uint64_t next = 0;
  while (bytes.getLeft()) {
    start = bytes.getPosition();
    uint64_t kind;
    size_t size;
    if (failed(bytes.readBelow(kNumSections, "a kind of section", kind, 4)) ||
        failed(bytes.readCount("bytes", 1, size)))
      return failure();
    if (kind < next)
      return bytes.errorAt(start) << "expected the sections in their order";
    next = kind + 1;
    size_t begin = bytes.getPosition();
    StringRef contents;
    if (failed(bytes.readBytes(size, contents)))
      return failure();
    sections[kind] = Cursor(file, begin, begin + size, context);
  }
  if (!sections[unsigned(Section::body)])
    return bytes.error() << "expected a body";
  return success();
}

OwningOpRef<ModuleOp> repro::readProgram(StringRef file, MLIRContext *context) {
  context
      ->loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                    func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                    ReproDialect, tensor::TensorDialect>();
  Cursor bytes(file, 0, file.size(), context);
  std::array<std::optional<Cursor>, kNumSections> sections;
  if (failed(readSections(bytes, file, context, sections)))
    return nullptr;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  func::FuncOp main;
  BodyReader reader(
      *sections[unsigned(Section::body)], sections[unsigned(Section::messages)],
      Origins(sections[unsigned(Section::origins)], context), context);
  std::optional<Cursor> names = sections[unsigned(Section::names)];
  if (failed(reader.readProgram(*module, main)) ||
      (names && failed(readNames(*names, main))) || failed(verify(*module)))
    return nullptr;
  // Each program has exactly one encoding: writing the module must reproduce
  // the file.
  CompareStream again(file);
  if (failed(writeProgram(*module, again)))
    return nullptr;
  if (std::optional<size_t> where = again.findDifference()) {
    emitError(UnknownLoc::get(context), "(H2) byte ")
        << *where << " of the stored program: expected what the program is "
        << "written as";
    return nullptr;
  }
  return module;
}
