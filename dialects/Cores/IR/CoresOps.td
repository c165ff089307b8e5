//===- CoresOps.td - Programs of cores ---------------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CORES_CORESOPS_TD
#define REPRO_CORES_CORESOPS_TD

include "dialects/Cores/IR/CoresAttrs.td"
include "dialects/Launch/IR/PlanOpInterface.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

class Cores_Op<string mnemonic, list<Trait> traits = []>
    : Op<Cores_Dialect, mnemonic, traits>;

def Cores_TransferType : TypeDef<Cores_Dialect, "Transfer"> {
  let mnemonic = "transfer";
  let summary = "a transfer that has been started";
  let description = [{
    The result of `cores.copy` and `cores.send`, and the operand of `cores.wait`.
  }];
}

def Cores_Counter : ConfinedAttr<I64Attr, [IntNonNegative,
                                           IntMaxValue<4294967295>]>;

def Cores_PlanOp : Cores_Op<"plan", [
    IsolatedFromAbove, NoTerminator, PlanOpInterface, SingleBlock, Symbol]> {
  let summary = "the programs of all cores for one step";
  let description = [{
    `machine` is the name of a machine of many cores, the path of its file, or a
    name, a line end and the complete description of the machine as JSON.
    The arguments of the body and the `messages` are those of a `launch.plan`;
    all arguments lie in the DRAM.

    The body contains at most one `cores.program` for each core of the machine,
    and the `launch.view`, `launch.constant` and `cores.remote` operations that
    define buffers in the DRAM and in the memories of other cores.

    In the example, core (0, 0) adds the first half of the input to the first
    half of the state, and sends the sum to core (1, 0), which adds it to the
    second half.

    ```mlir
    module {
      func.func private @add(memref<4xf32>, memref<4xf32>, memref<?xi8>,
                             memref<1xi64>, index, index)
      cores.plan @main machine "tiny-2x2"
          states(%s: memref<8xf32> {repro.name = "s"})
          inputs(%x: memref<8xf32>) outputs() arena(%a: memref<0xi8>)
          messages [] {
        %s0 = launch.view %s[0] : memref<8xf32> to memref<4xf32>
        %x0 = launch.view %x[0] : memref<8xf32> to memref<4xf32>
        cores.program at [0, 0] scratch [1024, 0] error 1016 {
        ^bb0(%local: memref<1024xi8, #cores.memory<local>>):
          %l = launch.view %local[0] : memref<1024xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          %m = launch.view %local[16] : memref<1024xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          %0 = cores.copy %s0 to %l : memref<4xf32>
              to memref<4xf32, #cores.memory<local>>
          %1 = cores.copy %x0 to %m : memref<4xf32>
              to memref<4xf32, #cores.memory<local>>
          cores.wait %0
          cores.wait %1
          cores.run @add(read %m, read|write %l)
              : memref<4xf32, #cores.memory<local>>,
                memref<4xf32, #cores.memory<local>>
          %2 = cores.copy %l to %s0 : memref<4xf32, #cores.memory<local>>
              to memref<4xf32>
          %3 = cores.send %l to [[1, 0]] at 64 counter 0
              : memref<4xf32, #cores.memory<local>>
          cores.wait %2
          cores.wait %3
        }
        %s1 = launch.view %s[16] : memref<8xf32> to memref<4xf32>
        cores.program at [1, 0] scratch [1024, 0] error 1016 {
        ^bb0(%local: memref<1024xi8, #cores.memory<local>>):
          %l = launch.view %local[0] : memref<1024xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          %m = launch.view %local[64] : memref<1024xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          %0 = cores.copy %s1 to %l : memref<4xf32>
              to memref<4xf32, #cores.memory<local>>
          cores.wait %0
          cores.acquire 0 count 1
          cores.run @add(read %m, read|write %l)
              : memref<4xf32, #cores.memory<local>>,
                memref<4xf32, #cores.memory<local>>
          %1 = cores.copy %l to %s1 : memref<4xf32, #cores.memory<local>>
              to memref<4xf32>
          cores.wait %1
        }
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$machine,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_states,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_inputs,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$num_outputs,
    StrArrayAttr:$names,
    StrArrayAttr:$messages);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
}

def Cores_ProgramOp : Cores_Op<"program", [
    HasParent<"PlanOp">, NoTerminator, SingleBlock]> {
  let summary = "what one core does in a step";
  let description = [{
    The core has the given column and row. The argument of the body is the core's
    data memory, from its first byte on. `scratch` is the offset and the number
    of the bytes that the code of a core uses as scratch memory; the offset is a
    multiple of 64. `error` is the offset of the word in which kernels store the number of a
    failed check (E1), plus 1.

    The body is a straight line of operations of this dialect and of
    `launch.view`s of the data memory and of buffers of the plan. The example of
    `cores.plan` contains two programs.
  }];
  let arguments = (ins
    DenseI64ArrayAttr:$core,
    DenseI64ArrayAttr:$scratch,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$error);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `at` $core `scratch` $scratch `error` $error attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getX() { return getCore()[0]; }
    int64_t getY() { return getCore()[1]; }
    int64_t getScratchOffset() { return getScratch()[0]; }
    int64_t getScratchBytes() { return getScratch()[1]; }
    ::mlir::BlockArgument getLocal() { return getBody().getArgument(0); }
    int64_t getLocalBytes() {
      return ::llvm::cast<::mlir::MemRefType>(getLocal().getType())
          .getDimSize(0);
    }
  }];
}

def Cores_RemoteOp : Cores_Op<"remote", [HasParent<"PlanOp">]> {
  let summary = "the data memory of a core, for the transfers of others";
  let description = [{
    Returns the data memory of the program of a core. The programs of other cores
    copy from it.

    In the example, core (1, 0) copies what core (0, 0) has computed to the
    output. It does not read before core (0, 0) has written: the release and the
    acquire order the two.

    ```mlir
    module {
      func.func private @zero(memref<4xf32>, memref<?xi8>, memref<1xi64>, index,
                              index)
      cores.plan @main machine "tiny-2x2" states() inputs()
          outputs(%y: memref<4xf32> {repro.name = "y"}) arena(%a: memref<0xi8>)
          messages [] {
        cores.program at [0, 0] scratch [64, 0] error 64 {
        ^bb0(%local: memref<128xi8, #cores.memory<local>>):
          %l = launch.view %local[0] : memref<128xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          cores.run @zero(write %l) : memref<4xf32, #cores.memory<local>>
          cores.release 0 to [[1, 0]]
        }
        %other = cores.remote at [0, 0] : memref<128xi8, #cores.memory<remote>>
        %r = launch.view %other[0] : memref<128xi8, #cores.memory<remote>>
            to memref<4xf32, #cores.memory<remote>>
        cores.program at [1, 0] scratch [64, 0] error 64 {
        ^bb0(%local: memref<128xi8, #cores.memory<local>>):
          %l = launch.view %local[0] : memref<128xi8, #cores.memory<local>>
              to memref<4xf32, #cores.memory<local>>
          cores.acquire 0 count 1
          %0 = cores.copy %r to %l : memref<4xf32, #cores.memory<remote>>
              to memref<4xf32, #cores.memory<local>>
          cores.wait %0
          %1 = cores.copy %l to %y : memref<4xf32, #cores.memory<local>>
              to memref<4xf32>
          cores.wait %1
        }
      }
    }
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$core);
  let results = (outs MemRefRankOf<[I8], [1]>:$memory);
  let assemblyFormat = "`at` $core attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Cores_CopyOp : Cores_Op<"copy", [HasParent<"ProgramOp">]> {
  let summary = "starts a transfer between buffers";
  let description = [{
    Copies the elements of the source to the target, which has the same shape and
    element type. One of the buffers, or both, lie in the core's data memory. The
    source may lie in the data memory of another core. The target is not a
    constant or an input. The examples of `cores.plan` and `cores.remote` contain
    copies.
  }];
  let arguments = (ins AnyMemRef:$source, AnyMemRef:$target);
  let results = (outs Cores_TransferType:$transfer);
  let assemblyFormat = [{
    $source `to` $target attr-dict `:` type($source) `to` type($target)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$source,
                                 "::mlir::Value":$target), [{
    build($_builder, $_state, TransferType::get($_builder.getContext()), source,
          target);
  }]>];
}

def Cores_WaitOp : Cores_Op<"wait", [HasParent<"ProgramOp">]> {
  let summary = "blocks until a transfer is complete";
  let description = [{
    A `cores.copy` is complete when its target contains the elements. A
    `cores.send` is complete when it has arrived at all its cores.
  }];
  let arguments = (ins Cores_TransferType:$transfer);
  let assemblyFormat = "$transfer attr-dict";
}

def Cores_RunOp : Cores_Op<"run", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one run of a kernel on buffers in the core's memory";
  let description = [{
    Runs all work items of the kernel. The kernel gets the buffers, which have no
    gaps between their elements, as its first arguments. Their types are those of
    the kernel's arguments, except for the memory space. The program provides
    the scratch memory of the core's code and the error word. Each buffer has the word `read`, `write`
    or `read|write` before it, as the kernel's `launch.access` of the argument
    says. The example of `cores.plan` contains runs.
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$kernel,
    Variadic<AnyMemRef>:$buffers,
    DenseI32ArrayAttr:$accesses);
  let assemblyFormat = [{
    $kernel `(` custom<AccessedBuffers>($buffers, $accesses) `)` attr-dict
    `:` type($buffers)
  }];
  let hasVerifier = 1;
  let builders = [
    // Takes the accesses from the kernel, which declares them all.
    OpBuilder<(ins "::mlir::FunctionOpInterface":$kernel,
                   "::mlir::ValueRange":$buffers)>];
  let extraClassDeclaration = [{
    bool reads(unsigned buffer) { return getAccesses()[buffer] & 1; }
    bool writes(unsigned buffer) { return getAccesses()[buffer] & 2; }
  }];
}

def Cores_SendOp : Cores_Op<"send", [HasParent<"ProgramOp">]> {
  let summary = "starts a transfer to the memories of other cores";
  let description = [{
    Writes the bytes of the source, which has no gaps between its elements, to
    byte `offset` of the data memory of each of the cores, and adds 1 to
    `counter` of a core when the bytes have arrived there. A core does not send
    to itself. The example of `cores.plan` contains a send.
  }];
  let arguments = (ins
    AnyMemRef:$source,
    DenseI64ArrayAttr:$cores,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$offset,
    Cores_Counter:$counter);
  let results = (outs Cores_TransferType:$transfer);
  let assemblyFormat = [{
    $source `to` custom<Cores>($cores) `at` $offset `counter` $counter attr-dict
    `:` type($source)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins
      "::mlir::Value":$source,
      "::llvm::ArrayRef<std::array<int64_t, 2>>":$cores, "int64_t":$offset,
      "int64_t":$counter)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<std::array<int64_t, 2>> listCores();
  }];
}

def Cores_ReleaseOp : Cores_Op<"release", [HasParent<"ProgramOp">]> {
  let summary = "adds 1 to a counter of cores";
  let description = [{
    The cores see the addition after everything that this core did before,
    including the transfers for which it waited.

    ```mlir
    cores.plan @main machine "tiny-2x2" states() inputs() outputs()
        arena(%a: memref<0xi8>) messages [] {
      cores.program at [0, 0] scratch [64, 0] error 0 {
      ^bb0(%local: memref<64xi8, #cores.memory<local>>):
        cores.release 3 to [[1, 0], [1, 1]]
      }
      cores.program at [1, 0] scratch [64, 0] error 0 {
      ^bb0(%local: memref<64xi8, #cores.memory<local>>):
        cores.acquire 3 count 1
      }
      cores.program at [1, 1] scratch [64, 0] error 0 {
      ^bb0(%local: memref<64xi8, #cores.memory<local>>):
        cores.acquire 3 count 1
      }
    }
    ```
  }];
  let arguments = (ins Cores_Counter:$counter, DenseI64ArrayAttr:$cores);
  let assemblyFormat = "$counter `to` custom<Cores>($cores) attr-dict";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins
      "int64_t":$counter,
      "::llvm::ArrayRef<std::array<int64_t, 2>>":$cores)>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<std::array<int64_t, 2>> listCores();
  }];
}

def Cores_AcquireOp : Cores_Op<"acquire", [HasParent<"ProgramOp">]> {
  let summary = "blocks until a counter of this core is large enough";
  let description = [{
    Blocks until the counter is at least `count`. The counter keeps its value.
    The example of `cores.release` contains acquires.
  }];
  let arguments = (ins
    Cores_Counter:$counter,
    ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<4294967295>]>:$count);
  let assemblyFormat = "$counter `count` $count attr-dict";
}

def Cores_CheckOp : Cores_Op<"check", [HasParent<"ProgramOp">]> {
  let summary = "ends the step if a check has failed";
  let description = [{
    If a word is not zero, the step ends before the next operation of this core,
    and the error is the message of the smallest word that is not zero (E1). A
    plan makes each core check the same words before the core changes a state.

    ```mlir
    cores.plan @main machine "tiny-2x2" states() inputs() outputs()
        arena(%a: memref<8xi8>) messages ["index out of range"] {
      cores.program at [0, 0] scratch [64, 0] error 0 {
      ^bb0(%local: memref<64xi8, #cores.memory<local>>):
        %word = launch.view %local[0] : memref<64xi8, #cores.memory<local>>
            to memref<1xi64, #cores.memory<local>>
        cores.check %word : memref<1xi64, #cores.memory<local>>
      }
    }
    ```
  }];
  let arguments = (ins MemRefRankOf<[I64], [1]>:$words);
  let assemblyFormat = "$words attr-dict `:` type($words)";
  let hasVerifier = 1;
}

#endif // REPRO_CORES_CORESOPS_TD
