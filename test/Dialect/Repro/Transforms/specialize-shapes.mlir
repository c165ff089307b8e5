// Symbols become sizes: arguments get their extents, and all dependent shapes become static.
// RUN: %repro-opt --repro-specialize-shapes='sizes=batch=3,seq=4' %s -split-input-file --allow-unregistered-dialect \
// RUN:     | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @arguments
// CHECK-SAME: (%{{.*}}: tensor<3x8xf32> {repro.name = "x"}, %{{.*}}: tensor<7x4xf32>, %{{.*}}: tensor<2xf32>)
// CHECK-SAME: -> (tensor<3x8xf32>, tensor<7x4xf32>) attributes {repro.num_state = 0 : i64} {
// CHECK-NEXT: return
func.func @arguments(%x: tensor<?x8xf32> {repro.name = "x", repro.extents = affine_map<()[s0, s1] -> (s0, 8)>},
                     %y: tensor<?x?xf32> {repro.extents = affine_map<()[s0, s1] -> (s0 * 2 + 1, s1)>},
                     %z: tensor<2xf32>) -> (tensor<?x8xf32>, tensor<?x?xf32>)
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 2, 4>} {
  return %x, %y : tensor<?x8xf32>, tensor<?x?xf32>
}

// A program without symbols does not change.
// CHECK-LABEL: func.func @other
// CHECK: tensor.dim
func.func @other(%x: tensor<?xf32>) -> index {
  %c0 = arith.constant 0 : index
  %0 = tensor.dim %x, %c0 : tensor<?xf32>
  return %0 : index
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// Integers fold, checks that hold are removed, and operations on elements get the types of their outputs.
// CHECK-LABEL: func.func @elements
// CHECK-NOT: tensor.dim
// CHECK-NOT: cf.assert
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<3x4xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<3x4xf32>) outs(%[[EMPTY]] : tensor<3x4xf32>)
// CHECK: arith.constant 7 : index
// CHECK: arith.addf
// CHECK: } -> tensor<3x4xf32>
// CHECK: "tm_tensor.scan"(%{{.*}}) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>)
// CHECK: arith.select {{.*}} : tensor<3x4xf32>
func.func @elements(%x: tensor<?x?xf32> {repro.extents = affine_map<()[s0, s1] -> (s0, s1)>}, %p: i1)
    -> (tensor<?x?xf32>, tensor<?x?xf32>)
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 1, 9>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?xf32>
  %w = arith.index_cast %b : index to i64
  %z = arith.constant 0 : i64
  %holds = arith.cmpi sge, %w, %z : i64
  cf.assert %holds, "a size is not negative"
  %e = tensor.empty(%b, %s) : tensor<?x?xf32>
  %f = tensor.empty(%s) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.addi %b, %s : index
    %m = arith.index_cast %n : index to i64
    %q = arith.sitofp %m : i64 to f32
    %r = arith.addf %i, %q : f32
    linalg.yield %r : f32
  } -> tensor<?x?xf32>
  %1:2 = "tm_tensor.scan"(%0, %e, %f) : (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>)
      -> (tensor<?x?xf32>, tensor<?xf32>)
  %2 = arith.select %p, %1#0, %0 : tensor<?x?xf32>
  return %0, %2 : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// CHECK-LABEL: func.func @shapes
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [2, 4] [1, 1] : tensor<3x4xf32> to tensor<2x4xf32>
// CHECK: tensor.extract_slice %{{.*}}[1, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<4xf32>
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[1, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<3x4xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [3, 4, 1] : tensor<3x4xf32> into tensor<3x4x1xf32>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]] : tensor<3x4x1xf32> into tensor<12x1xf32>
// CHECK: tensor.pad %{{.*}} low[0, 0] high[4, 1]
// CHECK: tensor<12x1xf32> to tensor<16x2xf32>
// CHECK: tensor.concat dim(0) {{.*}} : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>
// CHECK: return
func.func @shapes(%x: tensor<?x?xf32> {repro.extents = affine_map<()[s0, s1] -> (s0, s1)>})
    -> (tensor<?x2xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<3x?xf32>)
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 1, 9>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?xf32>
  %less = arith.subi %b, %c1 : index
  %0 = tensor.extract_slice %x[0, 0] [%less, %s] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %row = tensor.extract_slice %x[%c1, 0] [1, %s] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
  %1 = tensor.insert_slice %0 into %x[%c1, 0] [%less, %s] [1, 1] : tensor<?x?xf32> into tensor<?x?xf32>
  %2 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [%b, %s, 1] : tensor<?x?xf32> into tensor<?x?x1xf32>
  %3 = tensor.collapse_shape %2 [[0, 1], [2]] : tensor<?x?x1xf32> into tensor<?x1xf32>
  %4 = tensor.pad %3 low[0, 0] high[%s, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<?x1xf32> to tensor<?x2xf32>
  %5 = tensor.concat dim(0) %x, %0 : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %6 = tensor.cast %x : tensor<?x?xf32> to tensor<3x?xf32>
  return %4, %5, %row, %1, %6 : tensor<?x2xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<3x?xf32>
}

// -----

// A slice without elements may begin at the end.
// CHECK-LABEL: func.func @rest
// CHECK: %[[REST:.*]] = tensor.empty() : tensor<0x4xf32>
// CHECK: return %[[REST]]
func.func @rest(%x: tensor<?x?xf32> {repro.extents = affine_map<()[s0, s1] -> (s0, s1)>}) -> tensor<?x?xf32>
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 1, 9>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %b = tensor.dim %x, %c0 : tensor<?x?xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?xf32>
  %less = arith.subi %b, %c3 : index
  %0 = tensor.extract_slice %x[3, 0] [%less, %s] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// -----

// A reshape joins and splits the smallest groups of dimensions with equal numbers of elements.
// CHECK-LABEL: func.func @reshapes
// CHECK-SAME: (%[[X:.*]]: tensor<3x4x6xf32>, %[[ONE:.*]]: tensor<f32>)
// CHECK: %[[A:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : tensor<3x4x6xf32> into tensor<12x6xf32>
// CHECK: %[[B:.*]] = tensor.expand_shape %[[A]] {{\[\[}}0, 1], [2, 3, 4]] output_shape [2, 6, 3, 2, 1]
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1, 2]] : tensor<3x4x6xf32> into tensor<72xf32>
// CHECK: %[[D:.*]] = tensor.expand_shape %[[ONE]] [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
// CHECK: return %[[B]], %[[C]], %[[X]], %[[D]]
func.func @reshapes(%x: tensor<?x?x6xf32> {repro.extents = affine_map<()[s0, s1] -> (s0, s1, 6)>}, %one: tensor<f32>)
    -> (tensor<?x?x?x2x1xf32>, tensor<?xf32>, tensor<?x?x?xf32>, tensor<?x1xf32>)
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 1, 9>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x6xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x6xf32>
  %n = arith.muli %b, %s : index
  %h = arith.divsi %n, %c2 : index
  %s0 = tensor.from_elements %c2, %h, %b, %c2, %c1 : tensor<5xindex>
  %0 = tensor.reshape %x(%s0) : (tensor<?x?x6xf32>, tensor<5xindex>) -> tensor<?x?x?x2x1xf32>
  %all = arith.muli %n, %c6 : index
  %s1 = tensor.from_elements %all : tensor<1xindex>
  %1 = tensor.reshape %x(%s1) : (tensor<?x?x6xf32>, tensor<1xindex>) -> tensor<?xf32>
  %s2 = tensor.from_elements %b, %s, %c6 : tensor<3xindex>
  %2 = tensor.reshape %x(%s2) : (tensor<?x?x6xf32>, tensor<3xindex>) -> tensor<?x?x?xf32>
  %s3 = tensor.from_elements %c1, %c1 : tensor<2xindex>
  %3 = tensor.reshape %one(%s3) : (tensor<f32>, tensor<2xindex>) -> tensor<?x1xf32>
  return %0, %1, %2, %3 : tensor<?x?x?x2x1xf32>, tensor<?xf32>, tensor<?x?x?xf32>, tensor<?x1xf32>
}

// -----

// (K2) A convolution of an image of any size.
// CHECK-LABEL: func.func @convolution
// CHECK: repro.convolution
// CHECK-SAME: tensor<3x2x4x6xf32>, tensor<5x2x3x3xf32>
// CHECK-SAME: -> tensor<3x5x2x4xf32>
func.func @convolution(%x: tensor<?x2x?x6xf32> {repro.extents = affine_map<()[s0, s1] -> (s0, 2, s1, 6)>},
                       %w: tensor<5x2x3x3xf32>) -> tensor<?x5x?x4xf32>
    attributes {repro.num_state = 0 : i64, repro.symbols = ["batch", "seq"], repro.bounds = array<i64: 1, 9, 3, 9>} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %x, %c0 : tensor<?x2x?x6xf32>
  %s = tensor.dim %x, %c2 : tensor<?x2x?x6xf32>
  %h = arith.subi %s, %c2 : index
  %e = tensor.empty(%b, %h) : tensor<?x5x?x4xf32>
  %0 = repro.convolution strides = [1, 1] padding_low = [0, 0] padding_high = [0, 0]
      input_dilation = [1, 1] kernel_dilation = [1, 1] window_reversal = [false, false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<?x2x?x6xf32>, tensor<5x2x3x3xf32>) outs(%e : tensor<?x5x?x4xf32>) -> tensor<?x5x?x4xf32>
  return %0 : tensor<?x5x?x4xf32>
}
