//===- LaunchOps.td - Launches of kernels on buffers -------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_LAUNCHOPS_TD
#define REPRO_LAUNCH_LAUNCHOPS_TD

include "dialects/Launch/IR/LaunchAttrs.td"
include "dialects/Launch/IR/PlanOpInterface.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

class Launch_Op<string mnemonic, list<Trait> traits = []>
    : Op<Launch_Dialect, mnemonic, traits>;

def Launch_PlanOp : Launch_Op<"plan", [
    IsolatedFromAbove, NoTerminator, PlanOpInterface, SingleBlock, Symbol]> {
  let summary = "the launches of one step of a program";
  let description = [{
    The arguments of the body are the states, inputs and outputs of the program
    and the arena, which contains its temporaries: buffers of static shape and
    offset 0. A state is updated in place. `live` is the largest number of bytes
    of temporaries that are live at the same time; the arena is at least that
    large. `messages` are the messages of the checks (E1), which kernels refer to
    by number.

    The body is a straight line of `launch.dispatch` operations and the
    `launch.view` and `launch.constant` operations that define their buffers.

    ```mlir
    module {
      func.func private @copy(memref<4xf32>, memref<4xf32>, memref<?xi8>,
                              memref<1xi64>, index, index)
      launch.plan @main
          states(%s: memref<4xf32> {repro.name = "s"})
          inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>)
          live 16 messages ["not a number"] {
        %t = launch.view %a[0] : memref<64xi8> to memref<4xf32>
        %u = launch.view %x[16] : memref<8xf32> to memref<4xf32>
        launch.dispatch @copy(%u, %t) : memref<4xf32>, memref<4xf32>
        launch.dispatch @copy(%t, %s) checked : memref<4xf32>, memref<4xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_states,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_inputs,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_outputs,
    StrArrayAttr:$names,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$live_bytes,
    StrArrayAttr:$messages);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
}

def Launch_DispatchOp : Launch_Op<"dispatch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one run of a kernel on buffers";
  let description = [{
    The kernel gets the buffers as its first arguments. The executor of the plan
    provides the arguments after them (scratch memory, the error word, the share
    of the work). With `checked`, the step ends before this launch if a check
    (E1) has failed. On a GPU, `grid` and `block` are the sizes in x, y and z,
    and `shared` is the number of bytes of dynamic shared memory.

    No launch writes a constant or an input.

    ```mlir
    module {
      gpu.module @device {
        gpu.func @add(%x: memref<512xf32>, %y: memref<512xf32>,
                      %error: memref<1xi64>) kernel {
          gpu.return
        }
      }
      launch.plan @main states(%y: memref<512xf32>) inputs(%x: memref<512xf32>)
          outputs() arena(%a: memref<0xi8>) live 0 messages [] {
        launch.dispatch @device::@add(%x, %y) grid [4, 1, 1] block [128, 1, 1]
            shared 1024 : memref<512xf32>, memref<512xf32>
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolRefAttr:$kernel,
    Variadic<AnyMemRef>:$buffers,
    OptionalAttr<DenseI64ArrayAttr>:$grid,
    OptionalAttr<DenseI64ArrayAttr>:$block,
    OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$shared_bytes,
    UnitAttr:$checked);
  let assemblyFormat = [{
    $kernel `(` $buffers `)` (`grid` $grid^)? (`block` $block^)?
    (`shared` $shared_bytes^)? (`checked` $checked^)? attr-dict
    `:` type($buffers)
  }];
  let hasVerifier = 1;
}

def Launch_ViewOp : Launch_Op<"view", [
    Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface, ["getViewSource"]>]> {
  let summary = "a buffer that begins within another buffer";
  let description = [{
    The result begins `offset` bytes after the first byte of the source and has
    any element type and any static strides. It lies within the source, in the
    same memory space. The operation contains the offset, not the type, so that
    one kernel accepts views with different offsets. A view of a view is written
    as a view of the first buffer.

    ```mlir
    func.func @example(%x: memref<8xf32>) {
      %v = launch.view %x[16]
          : memref<8xf32> to memref<2x2xf32, strided<[1, 2]>>
      return
    }
    ```
  }];
  let arguments = (ins
    AnyMemRef:$source,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$offset);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = [{
    $source `[` $offset `]` attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Launch_ConstantOp : Launch_Op<"constant", [Pure]> {
  let summary = "a read-only buffer with constant elements";
  let description = [{
    Each operation defines a buffer of its own. The elements are not part of the
    kernels' code.

    ```mlir
    %c = launch.constant dense<[1, 2]> : tensor<2xi32> as memref<2xi32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$value attr-dict `as` type($result)";
  let hasVerifier = 1;
}

#endif // REPRO_LAUNCH_LAUNCHOPS_TD
