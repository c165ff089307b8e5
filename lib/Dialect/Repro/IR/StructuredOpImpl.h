//===- StructuredOpImpl.h - Shared code of structured ops -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_IR_STRUCTUREDOPIMPL_H
#define REPRO_DIALECT_IR_STRUCTUREDOPIMPL_H

#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::structured {

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Adds to `effects` a read of each memref operand and a write of each init.
void getStructuredEffects(DestinationStyleOpInterface op, Effects &effects);

/// Returns the shape of each result, which equals the shape of its init.
LogicalResult reifyStructuredShapes(DestinationStyleOpInterface op,
                                    OpBuilder &builder,
                                    ReifiedRankedShapedTypeDims &shapes);

/// Replaces the operation by one on buffers, whose outputs are the buffers of
/// the inits.
LogicalResult bufferizeStructured(DestinationStyleOpInterface op,
                                  RewriterBase &rewriter,
                                  const bufferization::BufferizationOptions &o,
                                  bufferization::BufferizationState &state);

/// Checks that operands are all tensors or all memrefs. On tensors, the results
/// have the types of the inits; on memrefs, there are no results.
LogicalResult verifyDestinationStyle(DestinationStyleOpInterface op);

} // namespace mlir::repro::structured

/// Defines the interface methods that are the same for all structured
/// operations.
#define REPRO_STRUCTURED_OP_METHODS(OP)                                        \
  void OP::getEffects(::mlir::repro::structured::Effects &effects) {           \
    structured::getStructuredEffects(*this, effects);                          \
  }                                                                            \
  Speculation::Speculatability OP::getSpeculatability() {                      \
    return hasPureTensorSemantics() ? Speculation::RecursivelySpeculatable     \
                                    : Speculation::NotSpeculatable;            \
  }                                                                            \
  LogicalResult OP::reifyResultShapes(OpBuilder &builder,                      \
                                      ReifiedRankedShapedTypeDims &shapes) {   \
    return structured::reifyStructuredShapes(*this, builder, shapes);          \
  }                                                                            \
  bool OP::bufferizesToMemoryWrite(OpOperand &operand,                         \
                                   const bufferization::AnalysisState &) {     \
    return isDpsInit(&operand);                                                \
  }                                                                            \
  bufferization::AliasingValueList OP::getAliasingValues(                      \
      OpOperand &operand, const bufferization::AnalysisState &) {              \
    if (isDpsInit(&operand))                                                   \
      return {{getTiedOpResult(&operand),                                      \
               bufferization::BufferRelation::Equivalent}};                    \
    return {};                                                                 \
  }                                                                            \
  LogicalResult OP::bufferize(                                                 \
      RewriterBase &rewriter,                                                  \
      const bufferization::BufferizationOptions &options,                      \
      bufferization::BufferizationState &state) {                              \
    return structured::bufferizeStructured(*this, rewriter, options, state);   \
  }

#endif // REPRO_DIALECT_IR_STRUCTUREDOPIMPL_H
