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
include "mlir/Interfaces/SideEffectInterfaces.td"

/// An operation on tensors of static shape.
class Repro_ImportedOp<string mnemonic, list<Trait> traits = []>
    : Op<Repro_Dialect, mnemonic, !listconcat([Pure], traits)>;

def Repro_FactorTensor : StaticShapeTensorOf<[
    F64, F32, BF16, F16, F8E4M3FN, F8E5M2, I8, I16, I32, I64]>;

def Repro_ConvolutionOp : Repro_ImportedOp<"convolution", [
    DestinationStyleOpInterface]> {
  let summary = "convolution of any kind, in stride phases (K2)";
  let description = [{
    (K2) A convolution of `input` [N, C, *spatial] and `kernel`
    [O, C / `feature_groups`, *window], added to `init`
    [N / `batch_groups`, O, *out], which has the type of the result.
    `repro-decompose-convolution` makes folds of it.

    For each result the window's positions w and the input's elements i that
    meet are those with, in each spatial dimension,

        out * stride + w * kernel_dilation = padding_low + i * input_dilation

    with i of any sign: where i is no element of the input (w is in the
    padding), the element is 0. Of window positions for which there is no such
    i (between the elements of a dilated input) there are no products at all:
    the zeros that a dilated input is said to have do not exist.

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

#endif // REPRO_IR_IMPORTEDOPS_TD
