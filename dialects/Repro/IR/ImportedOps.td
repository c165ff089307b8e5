//===- ImportedOps.td - Operations of imported programs ----*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that occur in imported programs but not in canonical ones: for
// each operation, the pipeline `canonical` has a pass that decomposes it.
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
  let summary = "convolution with strides, dilations, groups and transposition (K2)";
  let description = [{
    (K2) Convolves `input` [N, C, *spatial] with `kernel`
    [O, C / `feature_groups`, *window] and adds `init`
    [N / `batch_groups`, O, *out], which has the type of the result.
    `repro-decompose-convolution` converts the operation to folds.

    At result position `out`, window position w multiplies the input's element i
    for which, in each spatial dimension,

        out * stride + w * kernel_dilation = padding_low + i * input_dilation

    The index i may have any sign. If i is outside of the input (w is in the
    padding), the element is 0. A window position without an integer i (between
    the elements of a dilated input) contributes no products: no zeros are
    inserted into a dilated input.

    The products fold (K1) over the channel within the group and the window,
    the last dimension fastest, in ascending w, in the order of (P1). The factor
    at window position w is the kernel's element w, or, if `window_reversal` is
    set, the element w counted from the end of the window. `init` is the fold's
    initial operand (K3). Accumulators are f64 for f64 results, f32 for other
    floats (F7), and have the element type of the result for integers.

    `feature_groups` divides the channels: result channel o belongs to group
    o * `feature_groups` / O and reads the channels of this group of the input.
    `batch_groups` divides the batch: result channel o reads the part
    o * `batch_groups` / O of the batch of the input.

    Thus a transposed convolution has its stride as `input_dilation`, reversed
    windows, and a kernel whose two channel dimensions are exchanged. For a
    weight gradient, channel and batch of input and kernel are exchanged, so are
    stride and `kernel_dilation`, and the groups are `batch_groups`.

    Constraints:
    - each array has one entry per spatial dimension; the number of spatial
      dimensions may be 0;
    - strides, dilations, groups and window extents are positive, and paddings
      are less than 2^31 in magnitude; a negative padding crops the input;
    - one of `feature_groups` and `batch_groups` is 1; they divide C, O and N;
    - for a window of extent v = (w - 1) * kernel_dilation + 1 on d elements,
      padding and dilation included, the result's extent is
      (d - v) / stride + 1 rounded down, or 0 if d < v;
    - integers have one type; floats extend exactly to the accumulator.

    An extent may depend on a symbol (`repro-specialize-shapes`); its value is
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
    (K5) For `query` [N, L, E], `key` [K, S, E] and `value` [V, S, F], computes
    for each of the N items the softmax of query * `scale` times key transposed,
    times value. K and V divide N: consecutive items share a key or a value, as
    the heads of a group do; item n has key n * K / N, rounded down. Types
    narrower than f32 are converted to f32 first; results are rounded at the end.

    - `block`: the number of queries whose weights are computed at a time. No
      weights are kept.
    - `causal`: a query does not attend to keys after its own position, so a
      block of queries reads only the first blocks of keys.
    - `mask` [N, L, S]: as i1, selects the keys of each query; as numbers, is
      added to the scores. The output of a query without keys is zero. `mask`
      and `causal` exclude each other.
    - `dropout`: drops weights at `rate` (0 to 1) by the random numbers of a
      `repro.random` bernoulli at `site`, and divides the others by 1 - rate.

    Results are the output [N, L, F] and two tensors [N, L] that the gradient
    needs: the maximum of each query's scores, and the logarithm of the sum of
    its weights. `repro-decompose-attention` converts the operation to folds.

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
    (K5) Operands and attributes are those of `repro.attention`, followed by the
    gradient of its output and by its results. The weights are recomputed for
    `block` keys at a time, for all queries that attend to these keys.

    Results are the gradients of `query`, `key` and `value`, with their types,
    and the gradient of `mask`, if there is a mask of numbers. The gradient of a
    key or a value that several items share is the sum of the items' gradients.

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
  let summary = "a value of the whole step from the values of its microbatches (B3)";
  let description = [{
    (B3) The operand is computed from one microbatch; the result is the value of
    the step. For floats the result is the mean over all microbatches: their sum
    (B2), in f32 for narrower types, divided by the number of microbatches. For
    integers the result is the value that all microbatches have. An operand that
    does not depend on a microbatch is itself the result.
    `repro-split-microbatches` ends the program of a microbatch at the operand
    and begins the program of the step with the sum. If the operand is a
    gradient, `gradient` names its state tensor.

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
