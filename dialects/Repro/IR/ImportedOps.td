//===- ImportedOps.td - What frontends hand over -----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that stand in imported programs and in no canonical one: the
// pipeline `canonical` decomposes each by a pass of its own.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_IMPORTEDOPS_TD
#define REPRO_IR_IMPORTEDOPS_TD

include "dialects/Repro/IR/ReproDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Repro_ImportedOp<string mnemonic, list<Trait> traits = []>
    : Op<Repro_Dialect, mnemonic, !listconcat([Pure], traits)>;

def Repro_FactorTensor : RankedTensorOf<[
    F64, F32, BF16, F16, F8E4M3FN, F8E5M2, I8, I16, I32, I64]>;

def Repro_SummedTensor : StaticShapeTensorOf<[
    F64, F32, BF16, F16, F8E4M3FN, F8E5M2, I1, I8, I16, I32, I64]>;

def Repro_ConvolutionOp : Repro_ImportedOp<"convolution", [
    DestinationStyleOpInterface]> {
  let summary = "convolution of any kind, in stride phases (K2)";
  let description = [{
    (K2) A convolution of `input` [N, C, *spatial] and `kernel`
    [O, C / `feature_groups`, *window], added to `init`
    [N / `batch_groups`, O, *out], which has the type of the result.
    `repro-decompose-convolution` makes folds of it.

    At result position `out`, window position w multiplies the input's element i
    for which, in each spatial dimension,

        out * stride + w * kernel_dilation = padding_low + i * input_dilation

    with i of any sign: where i is no element of the input (w is in the
    padding), the element is 0. A window position without such an i (between the
    elements of a dilated input) has no products at all: the zeros that a
    dilated input is said to have do not exist.

    The products fold (K1) over the channel within the group and the window,
    the last dimension fastest, in ascending w, in the order of (P1). At window
    position w stands the kernel's element w, or, where `window_reversal` is
    set, the last element but w. `init` is the fold's initial operand (K3).
    Accumulators are f64 for f64 results, f32 for other floats (F7), and the
    integers themselves.

    `feature_groups` divides the channels: result channel o belongs to group
    o * `feature_groups` / O and reads the channels of this group of the input.
    `batch_groups` divides the batch: result channel o reads the part
    o * `batch_groups` / O of the batch of the input.

    So a transposed convolution has its stride as `input_dilation`, reversed
    windows, and channels of the kernel that are exchanged. A weight gradient
    has channel and batch of input and kernel exchanged, stride and
    `kernel_dilation` too, and the groups as `batch_groups`.

    Constraints:
    - one entry per spatial dimension in each array, of which there may be none;
    - strides, dilations and groups are positive, window extents too, and
      paddings less than 2^31 in magnitude; a negative padding cuts off;
    - one of `feature_groups` and `batch_groups` is 1; they divide C, O and N;
    - the result's extents are what a window of extent
      v = (w - 1) * kernel_dilation + 1 gives in d elements, padding and
      dilation included: (d - v) / stride + 1 rounded down, 0 if d < v;
    - integers are of one type; floats extend exactly to the accumulator.

    An extent may be that of a symbol (`repro-specialize-shapes`), which is
    known when the operation is decomposed.

    ```mlir
    %0 = repro.convolution
        strides = [2, 2] padding_low = [1, 1] padding_high = [1, 1]
        input_dilation = [1, 1] kernel_dilation = [1, 1]
        window_reversal = [false, false] feature_groups = 1 batch_groups = 1
        ins(%x, %w : tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>)
        outs(%b : tensor<8x16x16x16xf32>) -> tensor<8x16x16x16xf32>
    ```
  }];
  let arguments = (ins Repro_FactorTensor:$input, Repro_FactorTensor:$kernel,
                       Repro_FactorTensor:$init,
                       DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$padding_low,
                       DenseI64ArrayAttr:$padding_high,
                       DenseI64ArrayAttr:$input_dilation,
                       DenseI64ArrayAttr:$kernel_dilation,
                       DenseBoolArrayAttr:$window_reversal,
                       I64Attr:$feature_groups, I64Attr:$batch_groups);
  let results = (outs Repro_FactorTensor:$result);
  let assemblyFormat = [{
    `strides` `=` $strides `padding_low` `=` $padding_low
    `padding_high` `=` $padding_high `input_dilation` `=` $input_dilation
    `kernel_dilation` `=` $kernel_dilation
    `window_reversal` `=` $window_reversal
    `feature_groups` `=` $feature_groups `batch_groups` `=` $batch_groups
    `ins` `(` $input `,` $kernel `:` type($input) `,` type($kernel) `)`
    `outs` `(` $init `:` type($init) `)` attr-dict `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitMutable();
    }
    int64_t getNumSpatialDims() { return getInit().getType().getRank() - 2; }
    /// The element type of the sums (F7).
    ::mlir::Type getAccumulatorType();
  }];
}

//===----------------------------------------------------------------------===//
// Attention by blocks (K5)
//===----------------------------------------------------------------------===//

def Repro_AttentionTensor : StaticShapeTensorOf<[F32]>;
def Repro_AttentionMask : StaticShapeTensorOf<[I1, F32]>;

class Repro_AttentionOpBase<string mnemonic, dag further>
    : Repro_ImportedOp<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = !con((ins Repro_AttentionTensor:$query,
                            Repro_AttentionTensor:$key,
                            Repro_AttentionTensor:$value,
                            Optional<Repro_AttentionMask>:$mask,
                            Optional<I64>:$seed, Optional<I64>:$step), further,
                       (ins UnitAttr:$causal, I64Attr:$block, F64Attr:$scale,
                            OptionalAttr<F64Attr>:$rate,
                            OptionalAttr<I64Attr>:$site));
  let hasVerifier = 1;
}

def Repro_AttentionOp : Repro_AttentionOpBase<"attention", (ins)> {
  let summary = "scaled dot-product attention by blocks (K5)";
  let description = [{
    (K5) For `query` [N, L, E], `key` [K, S, E] and `value` [V, S, F]: the
    softmax of query * `scale` times key transposed, times value, for each of
    the N items. K and V divide N: consecutive items share a key or a value, as
    the heads of a group do, item n having key n * K / N, rounded down.
    Narrower types than f32 are converted before and rounded after.

    - The weights of `block` queries are computed at a time, and none are kept.
    - `causal`: queries have no keys that come after them, so that blocks of
      queries need no more than the first ones.
    - `mask` [N, L, S] says by i1 which keys a query has, or is added to the
      scores. A query without keys has zeros as its output. It does not stand
      beside `causal`.
    - `dropout`: weights are dropped at the rate 0 to 1 as the numbers of
      `repro.random` bernoulli at the site say, and the others divided by
      1 - rate.

    Results are the output [N, L, F], and for the gradient of each query the
    maximum of its scores and the logarithm of the sum of its weights, [N, L]
    both. `repro-decompose-attention` makes folds of all that.

    No extent is 0, and there are at most 65536 blocks of queries and of keys.

    ```mlir
    %0:3 = repro.attention causal block = 128 scale = 1.250000e-01
        ins(%q, %k, %v : tensor<12x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>)
        -> tensor<12x256x64xf32>, tensor<12x256xf32>, tensor<12x256xf32>
    %1:3 = repro.attention block = 128 scale = 1.250000e-01 mask(%m : tensor<12x256x99xi1>)
        dropout rate = 1.000000e-01 site = 3 (%seed, %step : i64, i64)
        ins(%q, %x, %y : tensor<12x256x64xf32>, tensor<12x99x64xf32>, tensor<12x99x32xf32>)
        -> tensor<12x256x32xf32>, tensor<12x256xf32>, tensor<12x256xf32>
    ```
  }];
  let results = (outs Repro_AttentionTensor:$output,
                      Repro_AttentionTensor:$maxima,
                      Repro_AttentionTensor:$logarithms);
  let assemblyFormat = [{
    (`causal` $causal^)? `block` `=` $block `scale` `=` $scale
    (`mask` `(` $mask^ `:` type($mask) `)`)?
    (`dropout` `rate` `=` $rate^ `site` `=` $site
     `(` $seed `,` $step `:` type($seed) `,` type($step) `)`)?
    `ins` `(` $query `,` $key `,` $value
    `:` type($query) `,` type($key) `,` type($value) `)`
    attr-dict `->` type($output) `,` type($maxima) `,` type($logarithms)
  }];
}

def Repro_AttentionGradientOp : Repro_AttentionOpBase<"attention_gradient", (ins
    Repro_AttentionTensor:$gradient, Repro_AttentionTensor:$output,
    Repro_AttentionTensor:$maxima, Repro_AttentionTensor:$logarithms)> {
  let summary = "gradients of attention by blocks (K5)";
  let description = [{
    (K5) Operands and attributes are those of `repro.attention`, then the
    gradient of its output, and its results. The weights of `block` keys are
    computed again at a time, for all queries that have them.

    Results are the gradients of `query`, `key` and `value`, of their types, and
    that of a `mask` of numbers, where there is one. A key or a value that items
    share has the sum of their gradients.

    ```mlir
    %0:3 = repro.attention_gradient causal block = 128 scale = 1.250000e-01
        ins(%q, %k, %v : tensor<12x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>)
        gradient(%do : tensor<12x256x64xf32>)
        results(%o, %m, %l : tensor<12x256x64xf32>, tensor<12x256xf32>, tensor<12x256xf32>)
        -> tensor<12x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>
    ```
  }];
  let results = (outs Repro_AttentionTensor:$query_gradient,
                      Repro_AttentionTensor:$key_gradient,
                      Repro_AttentionTensor:$value_gradient,
                      Optional<Repro_AttentionTensor>:$mask_gradient);
  let assemblyFormat = [{
    (`causal` $causal^)? `block` `=` $block `scale` `=` $scale
    (`mask` `(` $mask^ `:` type($mask) `)`)?
    (`dropout` `rate` `=` $rate^ `site` `=` $site
     `(` $seed `,` $step `:` type($seed) `,` type($step) `)`)?
    `ins` `(` $query `,` $key `,` $value
    `:` type($query) `,` type($key) `,` type($value) `)`
    `gradient` `(` $gradient `:` type($gradient) `)`
    `results` `(` $output `,` $maxima `,` $logarithms
    `:` type($output) `,` type($maxima) `,` type($logarithms) `)`
    attr-dict `->` type($query_gradient) `,` type($key_gradient) `,`
    type($value_gradient) (`,` type($mask_gradient)^)?
  }];
}

//===----------------------------------------------------------------------===//
// Steps in microbatches (B1)
//===----------------------------------------------------------------------===//

def Repro_ReduceMicrobatchesOp : Repro_ImportedOp<"reduce_microbatches", [
    SameOperandsAndResultType]> {
  let summary = "a value of the whole step, of one for each microbatch (B3)";
  let description = [{
    (B3) The operand is computed from one microbatch. The result is that of the
    step: of floats the mean over all microbatches, which is their sum (B2), of
    f32 for narrower ones, divided by their number; of integers the value that
    all of them have. A value that does not depend on a microbatch is itself the
    result. `repro-split-microbatches` ends the program of a microbatch at the
    operand, and has that of the step begin with the sum. `gradient` is the name
    of the state tensor whose gradient the operand is.

    ```mlir
    func.func @main(%loss: tensor<f32>, %g: tensor<4x8xf32>) -> (tensor<f32>, tensor<4x8xf32>) {
      %0 = repro.reduce_microbatches %loss : tensor<f32>
      %1 = repro.reduce_microbatches %g gradient = "linear.weight" : tensor<4x8xf32>
      return %0, %1 : tensor<f32>, tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Repro_SummedTensor:$operand,
                       OptionalAttr<StrAttr>:$gradient);
  let results = (outs Repro_SummedTensor:$result);
  let assemblyFormat = [{
    $operand (`gradient` `=` $gradient^)? attr-dict `:` type($operand)
  }];
}

#endif // REPRO_IR_IMPORTEDOPS_TD
