// Sizes that a program does not have and shapes that do not follow from sizes are errors, one for each program.
// RUN: %repro-opt --repro-specialize-shapes='sizes=n=3' %s -split-input-file -verify-diagnostics
// RUN: not %repro-opt --repro-specialize-shapes %s -split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not %repro-opt --repro-specialize-shapes='sizes=n=3,m=4' %s -split-input-file 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not %repro-opt --repro-specialize-shapes='sizes=n=3,n=3' %s -split-input-file 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not %repro-opt --repro-specialize-shapes='sizes=n' %s -split-input-file 2>&1 | FileCheck %s --check-prefix=FORM

// NONE: error: symbol 'n' has no size
// MORE: error: there is no symbol 'm'
// TWICE: error: symbol 'n' has two sizes
// FORM: error: expected symbol=size, got 'n'

// expected-error @+1 {{symbol 'n' is 3, expected 4 to 9}}
func.func @bounds(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 4, 9>} {
  return
}

// -----

// expected-error @+1 {{expected bounds of symbol "n" from 1 to 2147483647, got 0 to 9}}
func.func @no_bounds(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 0, 9>} {
  return
}

// -----

// expected-error @+1 {{expected strings as 'repro.symbols' and two numbers for each as 'repro.bounds'}}
func.func @number_of_bounds(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1>} {
  return
}

// -----

// expected-error @+1 {{expected symbols with different names, got "n"}}
func.func @names(%x: tensor<?xf32> {repro.extents = affine_map<()[s0, s1] -> (s0)>})
    attributes {repro.symbols = ["n", "n"], repro.bounds = array<i64: 1, 9, 1, 9>} {
  return
}

// -----

// expected-error @+1 {{argument #0 of type 'tensor<?xf32>': expected 'repro.extents', a map from 1 symbols to its extents}}
func.func @no_extents(%x: tensor<?xf32>) attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  return
}

// -----

// expected-error @+1 {{argument #0 of type 'tensor<?x4xf32>' has no extents affine_map<()[s0] -> (s0, 5)> at these sizes}}
func.func @other_extents(%x: tensor<?x4xf32> {repro.extents = affine_map<()[s0] -> (s0, 5)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  return
}

// -----

// expected-error @+1 {{argument #0 of type 'tensor<?xf32>' has no extents affine_map<()[s0] -> (s0 - 4)> at these sizes}}
func.func @negative_extents(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0 - 4)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  return
}

// -----

func.func @condition(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>})
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %holds = arith.cmpi ne, %n, %c3 : index
  // expected-error @+1 {{at these sizes: n is not 3}}
  cf.assert %holds, "n is not 3"
  return
}

// -----

func.func @cast(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>}) -> tensor<4xf32>
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  // expected-error @+1 {{is 'tensor<4xf32>', at these sizes 'tensor<3xf32>'}}
  %0 = tensor.cast %x : tensor<?xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @reshape(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>}) -> tensor<?x2xf32>
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  %c2 = arith.constant 2 : index
  %shape = tensor.from_elements %c2, %c2 : tensor<2xindex>
  // expected-error @+1 {{cannot make 'tensor<2x2xf32>' of 'tensor<3xf32>'}}
  %0 = tensor.reshape %x(%shape) : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// -----

func.func @values(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>}, %n: tensor<index>) -> tensor<?xf32>
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  %m = tensor.extract %n[] : tensor<index>
  // expected-error @+1 {{has a shape that does not follow from the sizes of the symbols, 'tensor<?xf32>'}}
  %0 = tensor.extract_slice %x[0] [%m] [1] : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @operation(%x: tensor<?xf32> {repro.extents = affine_map<()[s0] -> (s0)>}, %p: i1) -> tensor<?xf32>
    attributes {repro.symbols = ["n"], repro.bounds = array<i64: 1, 9>} {
  // expected-error @+1 {{has a shape that does not follow from the sizes of the symbols, 'tensor<?xf32>'}}
  %0 = scf.if %p -> tensor<?xf32> {
    scf.yield %x : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %0 : tensor<?xf32>
}
