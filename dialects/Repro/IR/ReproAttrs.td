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

def Repro_Totals : Repro_Enum<"Totals", "how chunk results combine (F3)", [
  I32EnumAttrCase<"sequential", 0>, I32EnumAttrCase<"refold", 1>]>;

def Repro_ArgKind : Repro_Enum<"ArgKind", "which extreme element (D2)", [
  I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"min", 1>]>;

def Repro_Combine : Repro_Enum<"Combine", "how elements combine", [
  I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"mul", 1>,
  I32EnumAttrCase<"maximum", 2>, I32EnumAttrCase<"minimum", 3>,
  I32EnumAttrCase<"replace", 4>]>;

def Repro_SortDirection : Repro_Enum<"SortDirection", "direction of a sort (D2)", [
  I32EnumAttrCase<"ascending", 0>, I32EnumAttrCase<"descending", 1>]>;

def Repro_Distribution : Repro_Enum<"Distribution", "distribution of random numbers (R2)", [
  I32EnumAttrCase<"bits", 0>, I32EnumAttrCase<"uniform", 1>,
  I32EnumAttrCase<"bernoulli", 2>, I32EnumAttrCase<"randint", 3>,
  I32EnumAttrCase<"normal", 4>]>;

def Repro_SumRounding : Repro_Enum<"SumRounding", "how a sum is rounded (M1)", [
  I32EnumAttrCase<"rz_f32", 0>, I32EnumAttrCase<"rz_e8m13", 1>,
  I32EnumAttrCase<"rne_f16", 2>, I32EnumAttrCase<"rne_f32", 3>]>;

def Repro_SumStart : Repro_Enum<"SumStart", "where a chain of blocks starts (M4)", [
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
    The reduction elements of one result are numbered t = 0 .. n-1, row-major
    over the reduction dimensions, last fastest.

    - `chunk`: (F1) chunks are `chunk` consecutive elements; at least 2 for
      `refold`.
    - `lanes`: (F1), (F2) the number of accumulators within a chunk, a power of
      two of at most 1024; they combine by halving.
    - `run`: (F1) the number of trailing reduction dimensions whose extents
      multiply to the run r; within its chunk element t goes to lane
      (t mod r) mod `lanes`. 0 means r = n.
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
    For integer and bit operations, `arith.maximumf` and `arith.minimumf`.

    ```mlir
    #repro.any_order
    ```
  }];
}

def Repro_SequentialAttr : Repro_Attr<"Sequential", "sequential"> {
  let summary = "(F6) a fold that runs from init itself, element after element";
  let description = [{
    For bodies that are not `acc = op(acc, f(inputs))` with an operation of
    (F4), and for bodies with several results. There is no start value: the
    accumulators start as the initial operands.

    ```mlir
    #repro.sequential
    ```
  }];
}

def Repro_ExactAttr : Repro_Attr<"Exact", "exact"> {
  let summary = "(K4) a contraction whose sum of products is exact";
  let description = [{
    Each factor becomes an integer of 8 * `digits` - 2 bits and a sign, relative
    to the largest magnitude that meets it in the result; the products of these
    add up exactly, in any order, and the sum is rounded. For contractions (K1)
    alone. `digits` is 2 or 3: the number of signed bytes that hold a factor,
    which is what integer matrix units multiply.

    ```mlir
    #repro.exact<digits = 3>
    ```
  }];
  let parameters = (ins "int64_t":$digits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Repro_FdpaAttr : Repro_Attr<"Fdpa", "fdpa"> {
  let summary = "(M4), (M5) sums of a matrix unit";
  let description = [{
    A contraction (K1) adds products in blocks: a fused dot product and addition
    (M1), whose products are aligned to the greatest exponent, cut and added as
    integers. The result of a block is the value c of the next.

    - `terms`: how many products a block has, 1 to 128.
    - `fraction`: how many bits after the point of the greatest exponent are
      kept, 10 to 40; without it nothing is cut.
    - `round`: to what the sum of a block is rounded: `rz_f32`, `rz_e8m13`,
      `rne_f16` or `rne_f32`.
    - `floor`: the least exponent by which products are aligned; 0 without
      `fraction`, where it has no meaning.
    - `late`: (M3) blocks have 2 * `terms` products, of which those with k mod 4
      below 2 are added first, the others next, and c last.
    - `chunk`: 0 for one chain of blocks along all of K. Otherwise each chunk of
      so many elements, a multiple of a block, is a chain from +0, and the
      totals of chunks add up in f32 (F3).
    - `start`: `zero` adds the initial operand at the end (F3); `init` begins
      the chain with it, as the operand C of a matrix instruction.
    - `group`: (M2) how many neighbouring products are first added exactly, a
      divisor of `terms`; more than 1 in `scaled` contractions of blocks (M5)
      alone.

    `late`, `chunk`, `start` and `group` have the defaults false, 0, `zero` and
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
    /// How many products are added before c is, or the next block begins.
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
