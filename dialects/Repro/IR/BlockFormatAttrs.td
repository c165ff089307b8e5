//===- BlockFormatAttrs.td - Formats of quantized tensors --*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Block formats of quantized tensors: elements (Q1), scales (Q2) and
// rounding (Q3).
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_BLOCKFORMATATTRS_TD
#define REPRO_IR_BLOCKFORMATATTRS_TD

//===----------------------------------------------------------------------===//
// Rounding (Q3)
//===----------------------------------------------------------------------===//

def Repro_RoundingDirection : Repro_Enum<"RoundingDirection", "direction of rounding (Q3)", [
  I32EnumAttrCase<"rne", 0>, I32EnumAttrCase<"away", 1>,
  I32EnumAttrCase<"rz", 2>, I32EnumAttrCase<"sr", 3>]>;

def Repro_RandomLayout : Repro_Enum<"RandomLayout", "random bits of a site that an element uses (Q3)", [
  I32EnumAttrCase<"site", 0>, I32EnumAttrCase<"ptx", 1>]>;

def Repro_NanCode : Repro_Enum<"NanCode", "code of NaN in a format without NaN (Q3)", [
  I32EnumAttrCase<"largest", 0>, I32EnumAttrCase<"zero", 1>,
  I32EnumAttrCase<"negative_zero", 2>]>;

def Repro_RoundingAttr : Repro_Attr<"Rounding", "rounding"> {
  let summary = "(Q3) the rounding of elements";
  let description = [{
    - `direction`: rounds to nearest with ties to even (`rne`) or away from zero
      (`away`), toward zero (`rz`), or stochastically (`sr`).
    - `bits`: the number of random bits per element, 1 to 32; for `sr` only.
    - `layout`: the bits of the site that an element uses; for `sr` only. `ptx`
      uses 16 bits.
    - `saturate`: whether a value that is too large becomes the largest finite
      value.
    - `nan`: the code of NaN in a format without NaN.
    - `signed_zero`: whether a result of zero keeps its sign.

    ```mlir
    #repro.rounding<direction = rne>
    #repro.rounding<direction = sr, bits = 8>
    ```
  }];
  let parameters = (ins
      EnumParameter<Repro_RoundingDirection>:$direction,
      DefaultValuedParameter<"int64_t", "0">:$bits,
      DefaultValuedParameter<"::mlir::repro::RandomLayout",
                             "::mlir::repro::RandomLayout::site">:$layout,
      DefaultValuedParameter<"bool", "true">:$saturate,
      DefaultValuedParameter<"::mlir::repro::NanCode",
                             "::mlir::repro::NanCode::largest">:$nan,
      DefaultValuedParameter<"bool", "true">:$signed_zero);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Scales (Q2)
//===----------------------------------------------------------------------===//

def Repro_PowerRule : Repro_Enum<"PowerRule", "rounding of a scale to a power of two (Q2)", [
  I32EnumAttrCase<"floor", 0>, I32EnumAttrCase<"ceil", 1>,
  I32EnumAttrCase<"even", 2>, I32EnumAttrCase<"rceil", 3>,
  I32EnumAttrCase<"rceil_product", 4>]>;

def Repro_InfiniteAmax : Repro_Enum<"InfiniteAmax", "the scale of a block with an infinity (Q2)", [
  I32EnumAttrCase<"nan", 0>, I32EnumAttrCase<"largest", 1>,
  I32EnumAttrCase<"power", 2>]>;

def Repro_ScaleEncoding : Repro_Enum<"ScaleEncoding", "operation that scales an element (Q2)", [
  I32EnumAttrCase<"product", 0>, I32EnumAttrCase<"reciprocal", 1>,
  I32EnumAttrCase<"quotient", 2>]>;

def Repro_PowerScaleAttr : Repro_Attr<"PowerScale", "power_scale"> {
  let summary = "(Q2) a scale of f8E8M0FNU for each block";
  let description = [{
    - `rule`: the rule that rounds a scale to a power of two.
    - `infinity`, `nan`: the byte of the scale if the amax (the largest
      magnitude of the block) is infinite or NaN.
    - `least`: the exponent of the power of two that divides the elements if the
      byte is 0.

    ```mlir
    #repro.power_scale<rule = rceil>
    ```
  }];
  let parameters = (ins
      EnumParameter<Repro_PowerRule>:$rule,
      DefaultValuedParameter<"::mlir::repro::InfiniteAmax",
                             "::mlir::repro::InfiniteAmax::nan">:$infinity,
      DefaultValuedParameter<"int64_t", "255">:$nan,
      DefaultValuedParameter<"int64_t", "-127">:$least);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_TwoLevelScaleAttr : Repro_Attr<"TwoLevelScale", "two_level_scale"> {
  let summary = "(Q2) `nvfp4`: a scale of f8E4M3FN for each block, and one amax for the tensor or for each row";
  let description = [{
    `largest` is the intended value of the greatest scale, 448 or 256.

    ```mlir
    #repro.two_level_scale<largest = 448>
    ```
  }];
  let parameters = (ins "int64_t":$largest);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_QuotientScaleAttr : Repro_Attr<"QuotientScale", "quotient_scale"> {
  let summary = "(Q2) `nvfp4_quotient` (2 levels) and `nvfp4_single` (1)";
  let description = [{
    Each block has a scale of f8E4M3FN. With `levels` = 2, the tensor has a given
    scale in addition.

    ```mlir
    #repro.quotient_scale<levels = 2>
    ```
  }];
  let parameters = (ins "int64_t":$levels);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_F32ScaleAttr : Repro_Attr<"F32Scale", "f32_scale"> {
  let summary = "(Q2) a scale of f32 for each block";
  let description = [{
    - `encoding`: `product` multiplies an element by max / amax, `reciprocal`
      multiplies it by 1 / (amax / max), `quotient` divides it by amax / max.
    - `least`: the least amax; a smaller amax is replaced by `least`.
    - `inverse`: whether the stored scale is max / amax (`float8`).
    - `power`: whether the scale is a power of two.

    ```mlir
    #repro.f32_scale<encoding = product, least = 1.0E-12, inverse = true>
    ```
  }];
  let parameters = (ins
      EnumParameter<Repro_ScaleEncoding>:$encoding,
      "::mlir::FloatAttr":$least,
      DefaultValuedParameter<"bool", "false">:$inverse,
      DefaultValuedParameter<"bool", "false">:$power);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_GivenScaleAttr : Repro_Attr<"GivenScale", "given_scale"> {
  let summary = "(Q2) `given`: one given scale of f32 for the whole tensor";
  let description = [{
    The scale does not depend on the elements: `repro.quantize` multiplies each
    element by its operand `tensor`, such as the scale of (Q6), and stores the
    reciprocal of `tensor`. The only block has all rows and columns.

    ```mlir
    #repro.given_scale
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Contractions (Q4)
//===----------------------------------------------------------------------===//

def Repro_BlockStep : Repro_Enum<"BlockStep", "addition of blocks (Q4), (M5)", [
  I32EnumAttrCase<"fused", 0>, I32EnumAttrCase<"split", 1>,
  I32EnumAttrCase<"scaled", 2>]>;

def Repro_BlockStepAttr : Repro_EnumAttr<Repro_BlockStep, "block_step">;

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

def Repro_BlockFormatAttr : Repro_Attr<"BlockFormat", "block_format"> {
  let summary = "the block format of a quantized tensor: (Q1) to (Q3)";
  let description = [{
    - `element`: (Q1) the element type: f8E4M3FN, f8E5M2, f6E3M2FN, f6E2M3FN,
      f4E2M1FN, or i8 for `mxint8` (and, with `symmetric` = false,
      `mxint8_full`).
    - `rows`, `columns`: (Q2) the extents of a block in the last two dimensions;
      0 means the whole dimension.
    - `scale`: (Q2) the rule for the scales.
    - `rounding`: (Q3) the rounding of the elements.

    ```mlir
    #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
        scale = #repro.power_scale<rule = rceil>,
        rounding = #repro.rounding<direction = rne>>
    ```
  }];
  let parameters = (ins "::mlir::Type":$element, "int64_t":$rows,
                        "int64_t":$columns, "::mlir::Attribute":$scale,
                        "::mlir::repro::RoundingAttr":$rounding,
                        DefaultValuedParameter<"bool", "true">:$symmetric);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The element type of the scales.
    ::mlir::Type getScaleType();
    /// Whether `repro.quantize` with this format has the operand `tensor`,
    /// which is the amax or the scale of the whole tensor.
    bool takesTensor();
    /// Whether `repro.dequantize` with this format has the operand `tensor`.
    bool keepsTensor();
    /// Returns the shape of the scales of a tensor of shape `shape`, which must
    /// have at least two dimensions.
    ::llvm::SmallVector<int64_t> getScaleShape(::llvm::ArrayRef<int64_t> shape);
  }];
}

#endif // REPRO_IR_BLOCKFORMATATTRS_TD
