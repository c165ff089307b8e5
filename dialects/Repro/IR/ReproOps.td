//===- ReproOps.td - Operations of the repro dialect -------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_REPROOPS_TD
#define REPRO_IR_REPROOPS_TD

include "dialects/Repro/IR/DerivativeOpInterface.td"
include "dialects/Repro/IR/ReproAttrs.td"
include "dialects/Repro/IR/ReproDialect.td"
include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.td"
include "mlir/Dialect/Linalg/IR/LinalgBase.td"
include "mlir/Dialect/Linalg/IR/LinalgEnums.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/IndexingMapOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Repro_Op<string mnemonic, list<Trait> traits = []>
    : Op<Repro_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Structured operations (destination style, on tensors or memrefs)
//===----------------------------------------------------------------------===//

class Repro_StructuredOp<string mnemonic, list<Trait> traits = []>
    : Repro_Op<mnemonic, !listconcat([
        AttrSizedOperandSegments, DestinationStyleOpInterface,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
        DeclareOpInterfaceMethods<ConditionallySpeculatable>,
        DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface,
                                  ["reifyResultShapes"]>,
        DeclareOpInterfaceMethods<BufferizableOpInterface,
          ["bufferizesToMemoryRead", "bufferizesToMemoryWrite",
           "getAliasingValues", "bufferize"]>], traits)> {
  code structuredDecls = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutputsMutable(); }
  }];
}

def Repro_FoldOp : Repro_StructuredOp<"fold", [
    SingleBlock, IndexingMapOpInterface, RecursiveMemoryEffects]> {
  let summary = "reduction in a defined order";
  let description = [{
    A structured reduction: for each point of the parallel dimensions, the body
    folds the reduction elements into an accumulator, in the order that
    `order` defines ((F1) to (F7), (K1) to (K3)). The result is
    `op(init, total)`, where init is the element of `outs`. Frontends create
    folds without an order; `repro-assign-orders` assigns the orders (P0).

    The body's last operation, the *step*, is `acc = op(acc, f(inputs))`, where
    op is `arith.addf`, `arith.mulf`, `arith.maximumf`, `arith.minimumf`,
    `math.fma` (accumulator third), or an integer `arith` operation that is
    associative and commutative. Folds with any other body have the order
    `#repro.sequential`; folds whose step cannot depend on the order have
    `#repro.any_order`. A contraction (K1) may have `#repro.exact` (K4).

    Constraints:
    - one indexing map per operand, with one dimension per iterator and no symbols;
    - the map of an output is a projected permutation that names every parallel
      dimension and no reduction dimension;
    - block arguments have the operands' element types, except that by (F7)
      an accumulator of a bf16/f16/f8 output is f32 for add, mul and fma folds;
    - the attribute of `order`, if there is one, fits the step.

    ```mlir
    %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
        maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
              affine_map<(m, n, k) -> (m, n)>]
        iterators [parallel, parallel, reduction]
        ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>)
        outs(%c : tensor<4x16xf32>) {
    ^bb0(%x: f32, %y: f32, %acc: f32):
      %1 = math.fma %x, %y, %acc : f32
      repro.yield %1 : f32
    } -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, Variadic<AnyShaped>:$outputs,
                       AffineMapArrayAttr:$indexing_maps,
                       IteratorTypeArrayAttr:$iterator_types,
                       OptionalAttr<Repro_Ordering>:$order);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let regions = (region SizedRegion<1>:$region);
  let assemblyFormat = [{
    ($order^)? `maps` $indexing_maps `iterators` custom<Iterators>($iterator_types)
    (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    `outs` `(` $outputs `:` type($outputs) `)`
    attr-dict-with-keyword $region (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = structuredDecls # [{
    ::llvm::ArrayRef<int64_t> getShape(::mlir::OpOperand *operand) {
      if (auto shaped = ::llvm::dyn_cast<::mlir::ShapedType>(operand->get().getType()))
        return shaped.getShape();
      return {};
    }
    ::llvm::SmallVector<::mlir::utils::IteratorType> getIteratorTypesArray() {
      return ::llvm::to_vector(
          getIteratorTypes().getAsValueRange<::mlir::linalg::IteratorTypeAttr,
                                             ::mlir::utils::IteratorType>());
    }
    /// The extent of each loop.
    ::llvm::SmallVector<int64_t> getExtents();
    /// The step of the body; null if the body is not `op(acc, f(inputs))`.
    ::mlir::Operation *getStep();
    /// The constant initial values of the outputs (`repro.init`), one per
    /// output; null if the outputs contain their initial values.
    ::mlir::ArrayAttr getConstantInits();
  }];
}

def Repro_YieldOp : Repro_Op<"yield", [Pure, ReturnLike, Terminator,
                                       HasParent<"FoldOp">]> {
  let summary = "the accumulators after one element of a fold";
  let description = [{
    ```mlir
    %0 = repro.fold #repro.any_order
        maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
        ins(%x : tensor<8xf32>) outs(%init : tensor<f32>) {
    ^bb0(%e: f32, %acc: f32):
      %1 = arith.maximumf %acc, %e : f32
      repro.yield %1 : f32
    } -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Repro_IndexOp : Repro_Op<"index", [Pure, HasParent<"FoldOp">]> {
  let summary = "the position along one dimension of the enclosing fold";
  let description = [{
    ```mlir
    %0 = repro.fold #repro.any_order
        maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
        ins(%x : tensor<8xi64>) outs(%init : tensor<i64>) {
    ^bb0(%e: i64, %acc: i64):
      %i = repro.index 0 : index
      %1 = arith.index_cast %i : index to i64
      %2 = arith.muli %e, %1 : i64
      %3 = arith.addi %acc, %2 : i64
      repro.yield %3 : i64
    } -> tensor<i64>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntMinValue<0>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Repro_ArgReduceOp : Repro_StructuredOp<"arg_reduce"> {
  let summary = "the extreme element of a dimension and its index (D2)";
  let description = [{
    (D2) NaN is greater (for `min`: less) than every number, -0 equals +0, and
    the first of equal elements wins. The value is the element at the index.
    The results do not depend on the initial operands. A dimension of extent 0
    is an error.

    ```mlir
    %v, %i = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x8xf32>)
        outs(%v0, %i0 : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>, tensor<4xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyShaped>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_ArgKindAttr:$kind, I64Attr:$dimension);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $kind `dimension` `=` $dimension `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls;
}

def Repro_ScatterOp : Repro_StructuredOp<"scatter"> {
  let summary = "combination of updates with the elements at given indices (D1)";
  let description = [{
    `ins(%updates, %indices) outs(%original)`: `indices` has shape [n, k] and an
    integer element type, `updates` has shape [n] ++ `original`.shape[k:], and
    update p is combined with the slice `original[indices[p, 0], ...,
    indices[p, k-1], ...]`.

    (D1) For each destination element, `add` is a fold over its updates with
    t = p, chunk = 512, lanes = 1, sequential totals and the old value as init;
    chunks without an update of the element are skipped. `maximum`, `minimum` and
    `mul` (in the order of `add`) fold likewise. `replace`: the last update wins.
    (E1) If an index is out of range, the step has no result. (F7) Lanes and
    totals are f32 for bf16/f16/f8.

    ```mlir
    %0 = repro.scatter add ins(%u, %i : tensor<6x8xf32>, tensor<6x1xi64>)
        outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyShaped>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_CombineAttr:$combine);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $combine `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls # [{
    ::mlir::Value getUpdates() { return getInputs()[0]; }
    ::mlir::Value getIndices() { return getInputs()[1]; }
  }];
}

def Repro_ScanOp : Repro_StructuredOp<"scan"> {
  let summary = "inclusive prefix reduction along a dimension (D3)";
  let description = [{
    (D3) Chunks have 512 elements. Within a chunk, local_t is the reduction from
    the chunk's first element, strictly sequential. The carry combines the totals
    of the former chunks from left to right, and y_t = op(carry, local_t); in the
    first chunk y_t = local_t. (F7) For bf16/f16/f8 the carry is f32 and each
    output is rounded once. The result does not depend on the initial operand.

    ```mlir
    %0 = repro.scan add dimension = 1 ins(%x : tensor<4x8xf32>)
        outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyShaped>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_CombineAttr:$combine, I64Attr:$dimension);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $combine `dimension` `=` $dimension `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls;
}

def Repro_SortOp : Repro_StructuredOp<"sort"> {
  let summary = "stable sort of one or more tensors by the first (D2)";
  let description = [{
    (D2) Sorts along `dimension` by the key, which is the first input; the other
    inputs are permuted in the same way. -0 equals +0, ties keep their input
    order, NaN comes last when ascending and first when descending. The results
    do not depend on the initial operands.

    ```mlir
    %k1, %v1 = repro.sort ascending dimension = 0
        ins(%k, %v : tensor<8xf32>, tensor<8xi64>)
        outs(%k0, %v0 : tensor<8xf32>, tensor<8xi64>) -> tensor<8xf32>, tensor<8xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyShaped>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_SortDirectionAttr:$direction, I64Attr:$dimension);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $direction `dimension` `=` $dimension `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls;
}

def Repro_RandomOp : Repro_StructuredOp<"random"> {
  let summary = "counter-based random numbers (R1), (R2)";
  let description = [{
    `ins(%seed, %step : i64, i64)`: runs Philox4x32-10 with the seed as key. The
    counter of the element with row-major index i is
    (i>>2 low word, i>>2 high word, site, step), and word i mod 4 of the output
    is the element's bits. The result does not depend on the initial operand.
    (E1) A `step` outside of 0 .. 2^32-1 is an error of the program's step.

    - `bits` returns the bits as i32, `uniform` (bits >> 8) * 2^-24 as f32.
    - `bernoulli probability = p` returns uniform < p as i1; 0 <= p <= 1.
    - `randint range = r` returns (bits * r) >> 32 as i64; 1 <= r <= 2^32.
    - `normal` returns sqrt(-2 * log(1 - u1)) * cos(0x40c90fdb * u2) as f32,
      where u1 and u2 are the elements 2i and 2i+1 of `uniform` at the site.

    Canonical programs contain only `bits` and `uniform`:
    `repro-decompose-distributions` decomposes the others.

    ```mlir
    %0 = repro.random uniform site = 3 ins(%seed, %step : i64, i64)
        outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = repro.random bernoulli probability = 0.9 site = 4
        ins(%seed, %step : i64, i64) outs(%b : tensor<4x8xi1>) -> tensor<4x8xi1>
    %2 = repro.random randint range = 10 site = 5
        ins(%seed, %step : i64, i64) outs(%n : tensor<8xi64>) -> tensor<8xi64>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_DistributionAttr:$distribution,
                       OptionalAttr<F32Attr>:$probability,
                       OptionalAttr<I64Attr>:$range,
                       ConfinedAttr<I64Attr, [IntMinValue<0>]>:$site);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $distribution (`probability` `=` $probability^)? (`range` `=` $range^)?
    `site` `=` $site `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls;
}

//===----------------------------------------------------------------------===//
// Quantized tensors with block formats (Q1) to (Q3)
//===----------------------------------------------------------------------===//

def Repro_CodeTensor : StaticShapeTensorOf<[
    F8E4M3FN, F8E5M2, F6E3M2FN, F6E2M3FN, F4E2M1FN, I8]>;
def Repro_ScaleTensor : StaticShapeTensorOf<[F8E8M0FNU, F8E4M3FN, F32]>;
def Repro_F32Tensor : StaticShapeTensorOf<[F32]>;

def Repro_QuantizeOp : Repro_Op<"quantize", [Pure, AttrSizedOperandSegments]> {
  let summary = "quantization of a tensor to codes and block scales (Q1) to (Q3)";
  let description = [{
    (Q2) A block covers `rows` and `columns` of the last two dimensions of
    `input`; the last blocks are smaller if the block does not divide these
    dimensions. The codes have the shape of the input; the scales have one
    element per block.

    - `tensor`: for a scale of two levels, the value for the whole tensor (shape
      []) or for each row (the input's shape without its last dimension, if
      blocks have one row): the amax for `nvfp4`, the scale for
      `nvfp4_quotient`. For `given`, the scale.
    - `site`, `seed`, `step`: (R1) the origin of the random bits of stochastic
      rounding.

    ```mlir
    %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
        scale = #repro.power_scale<rule = rceil>,
        rounding = #repro.rounding<direction = sr, bits = 8>>
        %x site = 3 (%seed, %step : i64, i64)
        : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
    %1:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16,
        scale = #repro.two_level_scale<largest = 448>,
        rounding = #repro.rounding<direction = rne>>
        %x tensor(%amax : tensor<f32>)
        : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>
    ```
  }];
  let arguments = (ins Repro_F32Tensor:$input, Optional<Repro_F32Tensor>:$tensor,
                       Optional<I64>:$seed, Optional<I64>:$step,
                       Repro_BlockFormatAttr:$format, OptionalAttr<I64Attr>:$site);
  let results = (outs Repro_CodeTensor:$codes, Repro_ScaleTensor:$scales);
  let assemblyFormat = [{
    $format $input (`tensor` `(` $tensor^ `:` type($tensor) `)`)?
    (`site` `=` $site^ `(` $seed `,` $step `:` type($seed) `,` type($step) `)`)?
    attr-dict `:` type($input) `->` type($codes) `,` type($scales)
  }];
  let hasVerifier = 1;
}

def Repro_DequantizeOp : Repro_Op<"dequantize", [Pure]> {
  let summary = "the values of a quantized tensor (Q2)";
  let description = [{
    (Q2) The inverse of `repro.quantize`, rounding errors apart. The result does
    not depend on the `rounding` of the format.

    ```mlir
    %0 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
        scale = #repro.power_scale<rule = rceil>,
        rounding = #repro.rounding<direction = rne>>
        %codes, %scales : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU> -> tensor<8x96xf32>
    ```
  }];
  let arguments = (ins Repro_CodeTensor:$codes, Repro_ScaleTensor:$scales,
                       Optional<Repro_F32Tensor>:$tensor,
                       Repro_BlockFormatAttr:$format);
  let results = (outs Repro_F32Tensor:$result);
  let assemblyFormat = [{
    $format $codes `,` $scales (`tensor` `(` $tensor^ `:` type($tensor) `)`)?
    attr-dict `:` type($codes) `,` type($scales) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Repro_PackCodesOp : Repro_Op<"pack_codes", [Pure]> {
  let summary = "packing of f4E2M1FN codes, two per byte (Q7)";
  let description = [{
    (Q7) Byte j of a row contains code 2j in its low four bits and code 2j + 1 in
    its high four bits. If a row has an odd number of codes, the high bits of its
    last byte are zeros. Rows are along the last dimension.

    ```mlir
    %0 = repro.pack_codes
        %codes : tensor<8x95xf4E2M1FN> -> tensor<8x48xi8>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[F4E2M1FN]>:$codes);
  let results = (outs StaticShapeTensorOf<[I8]>:$bytes);
  let assemblyFormat = "$codes attr-dict `:` type($codes) `->` type($bytes)";
  let hasVerifier = 1;
}

def Repro_UnpackCodesOp : Repro_Op<"unpack_codes", [Pure]> {
  let summary = "unpacking of f4E2M1FN codes, two per byte (Q7)";
  let description = [{
    (Q7) The inverse of `repro.pack_codes`. If a row has an odd number of codes,
    the high bits of its last byte are not read.

    ```mlir
    %0 = repro.unpack_codes
        %bytes : tensor<8x48xi8> -> tensor<8x95xf4E2M1FN>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[I8]>:$bytes);
  let results = (outs StaticShapeTensorOf<[F4E2M1FN]>:$codes);
  let assemblyFormat = "$bytes attr-dict `:` type($bytes) `->` type($codes)";
  let hasVerifier = 1;
}

def Repro_BlockContractionOp : Repro_StructuredOp<"block_contraction"> {
  let summary = "a contraction of quantized tensors (Q4)";
  let description = [{
    `ins(%x, %sx, %y, %sy) outs(%init)`: codes `x` [.., m, k] and `y` [.., n, k],
    and `init` [.., m, n] of f32, all with the same leading dimensions. The
    scales are `sx` [.., m / rows[0], k / block] and `sy` [.., n / rows[1],
    k / block], extents rounded up. Each scale belongs to `block` neighbouring
    codes along k in rows[0] (for `y`: rows[1]) neighbouring rows.

    (Q4) Let d be the exact dot product of a block, rounded once to f32, and s
    the product of the block's two scales in f32. One chain from +0 runs over the
    blocks in ascending order: acc = fma(d, s, acc) for `fused`,
    acc = acc + d * s for `split`. The result is init + acc.

    Codes are f6E3M2FN, f6E2M3FN, f4E2M1FN or f8E4M3FN, or integers whose
    products are in units of 2^-`fraction_bits`. Integers are i8, or, in programs
    that are not canonical, also i16 of at most 448; there, `magnitudes` are the
    largest magnitudes of the integers of `x` and `y`. Scales are f8E8M0FNU, f32,
    or f8E4M3FN, whose sign is not read (Q1).

    ```mlir
    %0 = repro.block_contraction fused block = 32 rows = [1, 32]
        ins(%x, %sx, %y, %sy : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>,
            tensor<40x96xf6E2M3FN>, tensor<2x3xf8E8M0FNU>)
        outs(%init : tensor<8x40xf32>) -> tensor<8x40xf32>
    ```

    (M5) With an `accumulator`, products of codes that are not integers are added
    as a matrix unit adds them. For `fused` and `split`, d is the result of a
    chain (M1) of the block's products from +0. For `scaled`, whose scales are
    f8E8M0FNU or f8E4M3FN, the scales are factors of the products (M2), and one
    chain from +0 covers all of K; its result is added to init.

    ```mlir
    %0 = repro.block_contraction scaled block = 16 rows = [1, 16]
        accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32,
                                  floor = -133, group = 16>
        ins(%x, %sx, %y, %sy : tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>,
            tensor<40x96xf4E2M1FN>, tensor<3x6xf8E4M3FN>)
        outs(%init : tensor<8x40xf32>) -> tensor<8x40xf32>
    ```

    In programs that are not canonical, `x` and `y` may be stored as f8E4M3FN;
    `elements` are then the types of their codes. A scale of f8E8M0FNU that is a
    factor may be stored as f32.
  }];
  let arguments = (ins Variadic<AnyShaped>:$inputs, Variadic<AnyShaped>:$outputs,
                       Repro_BlockStepAttr:$step, I64Attr:$block,
                       DenseI64ArrayAttr:$rows, OptionalAttr<I64Attr>:$fraction_bits,
                       OptionalAttr<DenseI64ArrayAttr>:$magnitudes,
                       OptionalAttr<Repro_FdpaAttr>:$accumulator,
                       OptionalAttr<TypeArrayAttr>:$elements);
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let assemblyFormat = [{
    $step `block` `=` $block `rows` `=` $rows
    (`fraction_bits` `=` $fraction_bits^)? (`magnitudes` `=` $magnitudes^)?
    (`accumulator` `=` qualified($accumulator)^)? (`elements` `=` $elements^)?
    `ins` `(` $inputs `:` type($inputs) `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict (`->` type($results_)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = structuredDecls # [{
    /// The types of the codes of `x` and `y`: `elements` if the attribute is
    /// set, else the element types of the operands.
    ::std::array<::mlir::Type, 2> getCodeTypes();
  }];
}

//===----------------------------------------------------------------------===//
// Recomputation
//===----------------------------------------------------------------------===//

def Repro_BarrierOp : Repro_Op<"barrier", [
    Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<BufferizableOpInterface,
      ["bufferizesToMemoryRead", "bufferizesToMemoryWrite",
       "getAliasingValues", "bufferize"]>]> {
  let summary = "a copy of the operand that starts a recomputation (V5)";
  let description = [{
    (V5) Returns its operand. An operation on the result is not merged with an
    equal operation on the operand, so that values that a training step
    recomputes to save memory are recomputed. The barrier costs nothing at run
    time.

    ```mlir
    %0 = repro.barrier %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

//===----------------------------------------------------------------------===//
// Elementary functions (S5)
//===----------------------------------------------------------------------===//

def Repro_Float : AnyTypeOf<[F32, BF16, F16, F8E4M3FN, F8E5M2]>;
def Repro_FloatLike : TypeConstraint<
    Or<[Repro_Float.predicate, VectorOfAnyRankOf<[Repro_Float]>.predicate]>,
    "f32, bf16, f16, f8E4M3FN or f8E5M2, or a vector of them">;
def Repro_Real : AnyTypeOf<[F64, F32, BF16, F16, F8E4M3FN, F8E5M2]>;
def Repro_RealLike : TypeConstraint<
    Or<[Repro_Real.predicate, VectorOfAnyRankOf<[Repro_Real]>.predicate]>,
    "f64, f32, bf16, f16, f8E4M3FN or f8E5M2, or a vector of them">;
/// Marks the functions that (S5) defines for f64 too.
def Repro_OfDouble : NativeOpTrait<"OfDouble"> {
  let cppNamespace = "::mlir::repro";
}

/// `derivatives` lists the gradients of the function's operands (J2) as C++
/// expressions of the operands `x`, the result `y` and its gradient `g`.
class Repro_FunctionOp<string mnemonic, string function, string derivatives,
                       list<Trait> traits = []>
    : Repro_Op<mnemonic, !listconcat([Pure, SameOperandsAndResultType,
          DeclareOpInterfaceMethods<Repro_DerivativeOpInterface>],
          ElementwiseMappable.traits, traits)> {
  let summary = "correctly rounded " # function;
  let hasFolder = 0;
  let extraClassDefinition = [{
    ::llvm::SmallVector<Scalar> $cppClass::buildDerivatives(
        Scalar g, ::llvm::ArrayRef<Scalar> x, Scalar y) {
      return {}] # derivatives # [{};
    }
  }];
}

class Repro_UnaryOp<string mnemonic, string function, string derivative>
    : Repro_FunctionOp<mnemonic, function, derivative, [Repro_OfDouble]> {
  let description = "(S5) Returns the correctly rounded " # function #
      " of an f32 or f64.\nSpecial cases are those of C23 Annex F; other types"
      " are computed by (V1)."
      "\n\n```mlir\n%0 = repro." # mnemonic # " %x : f32\n```\n";
  let arguments = (ins Repro_RealLike:$operand);
  let results = (outs Repro_RealLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class Repro_BinaryOp<string mnemonic, string function, string derivatives>
    : Repro_FunctionOp<mnemonic, function, derivatives> {
  let description = "(S5) Returns the correctly rounded " # function #
      " of two f32.\nSpecial cases are those of C23 Annex F; narrower types are"
      " computed by (V1).\n\n"
      "```mlir\n%0 = repro." # mnemonic # " %x, %y : f32\n```\n";
  let arguments = (ins Repro_FloatLike:$lhs, Repro_FloatLike:$rhs);
  let results = (outs Repro_FloatLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Repro_AcosOp : Repro_UnaryOp<"acos", "arc cosine",
    "-g / sqrt(1.0 - x[0] * x[0])">;
def Repro_AcoshOp : Repro_UnaryOp<"acosh", "inverse hyperbolic cosine",
    "g / (sqrt(x[0] - 1.0) * sqrt(x[0] + 1.0))">;
def Repro_AsinOp : Repro_UnaryOp<"asin", "arc sine",
    "g / sqrt(1.0 - x[0] * x[0])">;
def Repro_AsinhOp : Repro_UnaryOp<"asinh", "inverse hyperbolic sine",
    "g / sqrt(x[0] * x[0] + 1.0)">;
def Repro_AtanOp : Repro_UnaryOp<"atan", "arc tangent",
    "g / (x[0] * x[0] + 1.0)">;
def Repro_AtanhOp : Repro_UnaryOp<"atanh", "inverse hyperbolic tangent",
    "g / (1.0 - x[0] * x[0])">;
def Repro_CbrtOp : Repro_UnaryOp<"cbrt", "cube root",
    "g / (y * y * 3.0)">;
def Repro_CosOp : Repro_UnaryOp<"cos", "cosine",
    "-(g * apply<SinOp>(x[0]))">;
def Repro_CoshOp : Repro_UnaryOp<"cosh", "hyperbolic cosine",
    "g * apply<SinhOp>(x[0])">;
def Repro_ErfOp : Repro_UnaryOp<"erf", "error function",
    "g * (apply<ExpOp>(-(x[0] * x[0])) * 0x1.20dd750429b6dp+0)">;
def Repro_ErfcOp : Repro_UnaryOp<"erfc", "complementary error function",
    "-(g * (apply<ExpOp>(-(x[0] * x[0])) * 0x1.20dd750429b6dp+0))">;
def Repro_ExpOp : Repro_UnaryOp<"exp", "exponential",
    "g * y">;
def Repro_Exp10Op : Repro_UnaryOp<"exp10", "base-10 exponential",
    "g * y * 0x1.26bb1bbb55516p+1">;
def Repro_Exp2Op : Repro_UnaryOp<"exp2", "base-2 exponential",
    "g * y * 0x1.62e42fefa39efp-1">;
def Repro_Expm1Op : Repro_UnaryOp<"expm1", "exponential minus one",
    "g * (y + 1.0)">;
def Repro_LogOp : Repro_UnaryOp<"log", "natural logarithm",
    "g / x[0]">;
def Repro_Log10Op : Repro_UnaryOp<"log10", "base-10 logarithm",
    "g / (x[0] * 0x1.26bb1bbb55516p+1)">;
def Repro_Log1pOp : Repro_UnaryOp<"log1p", "natural logarithm of one plus",
    "g / (x[0] + 1.0)">;
def Repro_Log2Op : Repro_UnaryOp<"log2", "base-2 logarithm",
    "g / (x[0] * 0x1.62e42fefa39efp-1)">;
def Repro_RsqrtOp : Repro_UnaryOp<"rsqrt", "reciprocal square root",
    "g * (y * y * y) * -0.5">;
def Repro_SinOp : Repro_UnaryOp<"sin", "sine",
    "g * apply<CosOp>(x[0])">;
def Repro_SinhOp : Repro_UnaryOp<"sinh", "hyperbolic sine",
    "g * apply<CoshOp>(x[0])">;
def Repro_TanOp : Repro_UnaryOp<"tan", "tangent",
    "g * (y * y + 1.0)">;
def Repro_TanhOp : Repro_UnaryOp<"tanh", "hyperbolic tangent",
    "g * (1.0 - y * y)">;

def Repro_Atan2Op : Repro_BinaryOp<"atan2", "arc tangent of a quotient",
    "g * x[1] / (x[0] * x[0] + x[1] * x[1]), "
    "-(g * x[0]) / (x[0] * x[0] + x[1] * x[1])">;
def Repro_HypotOp : Repro_BinaryOp<"hypot", "Euclidean distance",
    "g * (x[0] / y), g * (x[1] / y)">;
def Repro_PowOp : Repro_BinaryOp<"pow", "power",
    "derivePowerByBase(g, x[0], x[1]), "
    "derivePowerByExponent(g, x[0], x[1], y)">;

def Repro_PowiOp : Repro_Op<"powi", !listconcat(
    [Pure, AllTypesMatch<["base", "result"]>, Repro_OfDouble,
     DeclareOpInterfaceMethods<Repro_DerivativeOpInterface>],
    ElementwiseMappable.traits)> {
  let summary = "correctly rounded integer power";
  let description = [{
    (S5) Returns the correctly rounded value of `base` to the power of the signed
    integer `exponent`. Each element of `base` has its own exponent.

    ```mlir
    %0 = repro.powi %x, %n : f32, i32
    ```
  }];
  let arguments = (ins Repro_RealLike:$base,
                       SignlessIntegerLike:$exponent);
  let results = (outs Repro_RealLike:$result);
  let assemblyFormat = "$base `,` $exponent attr-dict `:` type($base) `,` type($exponent)";
  let hasVerifier = 1;
}

#endif // REPRO_IR_REPROOPS_TD
