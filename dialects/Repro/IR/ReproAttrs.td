//===- ReproAttrs.td - Attributes of the repro dialect -----*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_REPROATTRS_TD
#define REPRO_IR_REPROATTRS_TD

include "dialects/Repro/IR/ReproDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Repro_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::repro";
  let genSpecializedAttr = 0;
}

def Repro_Totals : Repro_Enum<"Totals", "combination of chunk results (F3)", [
  I32EnumAttrCase<"sequential", 0>, I32EnumAttrCase<"refold", 1>]>;

def Repro_ArgKind : Repro_Enum<"ArgKind", "maximum or minimum (D2)", [
  I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"min", 1>]>;

def Repro_Combine : Repro_Enum<"Combine", "combination of elements", [
  I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"mul", 1>,
  I32EnumAttrCase<"maximum", 2>, I32EnumAttrCase<"minimum", 3>,
  I32EnumAttrCase<"replace", 4>]>;

def Repro_SortDirection : Repro_Enum<"SortDirection", "direction of a sort (D2)", [
  I32EnumAttrCase<"ascending", 0>, I32EnumAttrCase<"descending", 1>]>;

def Repro_Distribution : Repro_Enum<"Distribution", "distribution of random numbers (R2)", [
  I32EnumAttrCase<"bits", 0>, I32EnumAttrCase<"uniform", 1>,
  I32EnumAttrCase<"bernoulli", 2>, I32EnumAttrCase<"randint", 3>,
  I32EnumAttrCase<"normal", 4>]>;

def Repro_SumRounding : Repro_Enum<"SumRounding", "rounding of a sum (M1)", [
  I32EnumAttrCase<"rz_f32", 0>, I32EnumAttrCase<"rz_e8m13", 1>,
  I32EnumAttrCase<"rne_f16", 2>, I32EnumAttrCase<"rne_f32", 3>]>;

def Repro_SumStart : Repro_Enum<"SumStart", "start value of a chain of blocks (M4)", [
  I32EnumAttrCase<"zero", 0>, I32EnumAttrCase<"init", 1>]>;

class Repro_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Repro_Dialect, info, mnemonic>;

def Repro_TotalsAttr : Repro_EnumAttr<Repro_Totals, "totals">;
def Repro_ArgKindAttr : Repro_EnumAttr<Repro_ArgKind, "arg_kind">;
def Repro_CombineAttr : Repro_EnumAttr<Repro_Combine, "combine">;
def Repro_SortDirectionAttr : Repro_EnumAttr<Repro_SortDirection, "direction">;
def Repro_DistributionAttr : Repro_EnumAttr<Repro_Distribution, "distribution">;

//===----------------------------------------------------------------------===//
// Orders
//===----------------------------------------------------------------------===//

class Repro_Attr<string name, string attrMnemonic>
    : AttrDef<Repro_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Repro_OrderAttr : Repro_Attr<"Order", "order"> {
  let summary = "the order of an ordered fold: (F1) to (F4)";
  let description = [{
    The reduction elements of one result are numbered t = 0 .. n-1 in row-major
    order over the reduction dimensions, the last dimension fastest.

    - `chunk`: (F1) chunks are `chunk` consecutive elements; at least 2 for
      `refold`.
    - `lanes`: (F1), (F2) the number of accumulators within a chunk, a power of
      two of at most 1024; they combine by halving.
    - `run`: (F1) a number of trailing reduction dimensions; the product of their
      extents is the run r. Within its chunk, element t goes to lane
      (t mod r) mod `lanes`. A `run` of 0 means r = n.
    - `totals`: (F3) `sequential` adds chunk results from left to right,
      `refold` folds them again as a new list until one remains.

    ```mlir
    #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
    ```
  }];
  let parameters = (ins "int64_t":$chunk, "int64_t":$lanes, "int64_t":$run,
                        EnumParameter<Repro_Totals>:$totals);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_AnyOrderAttr : Repro_Attr<"AnyOrder", "any_order"> {
  let summary = "(F5) a fold whose result cannot depend on the order";
  let description = [{
    The order of folds with integer or bit operations, `arith.maximumf` or
    `arith.minimumf`.

    ```mlir
    #repro.any_order
    ```
  }];
}

def Repro_SequentialAttr : Repro_Attr<"Sequential", "sequential"> {
  let summary = "(F6) a fold that runs from init itself, element after element";
  let description = [{
    The order of folds whose body is not `acc = op(acc, f(inputs))` with an
    operation of (F4) or has several results. There is no start value: the
    accumulators start as the initial operands.

    ```mlir
    #repro.sequential
    ```
  }];
}

def Repro_ExactAttr : Repro_Attr<"Exact", "exact"> {
  let summary = "(K4) a contraction whose sum of products is exact";
  let description = [{
    Each factor is converted to an integer of 8 * `digits` - 2 bits and a sign,
    relative to the largest magnitude among the factors of the same result. The
    products of these integers are added exactly, in any order, and the sum is
    rounded. Only contractions (K1) may have this order. `digits` is 2 or 3: the
    number of signed bytes that represent a factor, because integer matrix units
    multiply bytes.

    ```mlir
    #repro.exact<digits = 3>
    ```
  }];
  let parameters = (ins "int64_t":$digits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_FdpaAttr : Repro_Attr<"Fdpa", "fdpa"> {
  let summary = "(M4), (M5) the accumulator of a matrix unit";
  let description = [{
    A contraction (K1) adds products in blocks. Each block is a fused dot product
    and addition (M1): its products are aligned to the greatest exponent,
    truncated and added as integers. The result of a block is the addend c of the
    next one.

    - `terms`: the number of products in a block, 1 to 128.
    - `fraction`: the number of fraction bits that are kept, relative to the
      greatest exponent, 10 to 40; without `fraction` nothing is truncated.
    - `round`: the rounding of a block's sum: `rz_f32`, `rz_e8m13`, `rne_f16` or
      `rne_f32`.
    - `floor`: the least exponent to which products are aligned; must be 0
      without `fraction`, since it has no effect then.
    - `late`: (M3) blocks have 2 * `terms` products. Products with k mod 4 < 2 are
      added first, the other products second, and c last.
    - `chunk`: 0 for one chain of blocks along all of K. Otherwise the number of
      elements of a chunk, a multiple of a block: each chunk is a chain from +0,
      and the totals of the chunks are added in f32 (F3).
    - `start`: `zero` adds the initial operand at the end (F3); `init` starts
      the chain with the initial operand, as the operand C of a matrix
      instruction.
    - `group`: (M2) the number of neighbouring products that are added exactly
      first, a divisor of `terms`. Only `scaled` contractions of blocks (M5) may
      have more than 1.

    The defaults of `late`, `chunk`, `start` and `group` are false, 0, `zero` and
    1.

    ```mlir
    #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133>
    ```
  }];
  let parameters = (ins "int64_t":$terms,
                        OptionalParameter<"std::optional<int64_t>">:$fraction,
                        EnumParameter<Repro_SumRounding>:$round,
                        "int64_t":$floor,
                        DefaultValuedParameter<"bool", "false">:$late,
                        DefaultValuedParameter<"int64_t", "0">:$chunk,
                        DefaultValuedParameter<"SumStart", "SumStart::zero">:$start,
                        DefaultValuedParameter<"int64_t", "1">:$group);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// (M1) The number of products that are added to the accumulator c at a
    /// time.
    int64_t getBlock() const { return getLate() ? 2 * getTerms() : getTerms(); }
  }];
}

def Repro_Ordering : AnyAttrOf<
    [Repro_OrderAttr, Repro_AnyOrderAttr, Repro_SequentialAttr,
     Repro_ExactAttr, Repro_FdpaAttr],
    "#repro.order, #repro.any_order, #repro.sequential, #repro.exact or "
    "#repro.fdpa">;

include "dialects/Repro/IR/BlockFormatAttrs.td"

#endif // REPRO_IR_REPROATTRS_TD
