#loc = loc(unknown)
#loc1 = loc("loss function")
#loc2 = loc("module 0")
#loc3 = loc("module 1")
#loc4 = loc("update of 0.weight")
#loc5 = loc("update of 0.bias")
#loc6 = loc("step")
#map = affine_map<(d0, d1) -> (d1, d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map5 = affine_map<(d0, d1) -> (d1)>
#map6 = affine_map<(d0) -> (d0)>
#map7 = affine_map<(d0, d1) -> (d0)>
#map8 = affine_map<(d0, d1) -> (d0, 0)>
#map9 = affine_map<() -> ()>
#map10 = affine_map<(d0) -> ()>
#map11 = affine_map<(d0, d1) -> (0, d1)>
#map12 = affine_map<(d0, d1) -> ()>
module {
  func.func @main(%arg0: tensor<2x3xf32> {repro.name = "0.weight"} loc(unknown), %arg1: tensor<2xf32> {repro.name = "0.bias"} loc(unknown), %arg2: tensor<2x3xf32> {repro.name = "optimizer.0.weight.momentum_buffer"} loc(unknown), %arg3: tensor<2xf32> {repro.name = "optimizer.0.bias.momentum_buffer"} loc(unknown), %arg4: tensor<i64> {repro.name = "seed"} loc(unknown), %arg5: tensor<i64> {repro.name = "step"} loc(unknown), %arg6: tensor<f32> {repro.name = "lr"} loc(unknown), %arg7: tensor<f32> {repro.name = "momentum"} loc(unknown), %arg8: tensor<4x3xf32> {repro.name = "batch[0]"} loc(unknown), %arg9: tensor<4xi64> {repro.name = "batch[1]"} loc(unknown)) -> (tensor<2x3xf32> {repro.name = "0.weight"}, tensor<2xf32> {repro.name = "0.bias"}, tensor<2x3xf32> {repro.name = "optimizer.0.weight.momentum_buffer"}, tensor<2xf32> {repro.name = "optimizer.0.bias.momentum_buffer"}, tensor<i64> {repro.name = "seed"}, tensor<i64> {repro.name = "step"}, tensor<f32> {repro.name = "loss"}, tensor<4x2xf32> {repro.name = "output"}) attributes {repro.num_state = 6 : i64} {
    %cst = arith.constant 1.000000e+00 : f32 loc(#loc1)
    %cst_0 = arith.constant 0xFF800000 : f32 loc(#loc1)
    %cst_1 = arith.constant 0.000000e+00 : f32 loc(#loc)
    %cst_2 = arith.constant 8.000000e-01 : f32 loc(#loc)
    %c-100_i64 = arith.constant -100 : i64 loc(#loc1)
    %c0_i64 = arith.constant 0 : i64 loc(#loc)
    %c1_i64 = arith.constant 1 : i64 loc(#loc)
    %c2 = arith.constant 2 : index loc(#loc)
    %cst_3 = arith.constant 1.250000e+00 : f32 loc(#loc)
    %0 = tensor.empty() : tensor<3x2xf32> loc(#loc2)
    %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<2x3xf32>) outs(%0 : tensor<3x2xf32>) {
    ^bb0(%in: f32 loc("module 0"), %out: f32 loc("module 0")):
      linalg.yield %in : f32 loc(#loc2)
    } -> tensor<3x2xf32> loc(#loc2)
    %2 = tensor.empty() : tensor<4x2xf32> loc(#loc2)
    %3 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel", "parallel"]} outs(%2 : tensor<4x2xf32>) {
    ^bb0(%out: f32 loc("module 0")):
      linalg.yield %cst_1 : f32 loc(#loc)
    } -> tensor<4x2xf32> loc(#loc2)
    %4 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#map2, #map3, #map4] iterators [parallel, parallel, reduction] ins(%arg8, %1 : tensor<4x3xf32>, tensor<3x2xf32>) outs(%3 : tensor<4x2xf32>) {
    ^bb0(%arg10: f32 loc(unknown), %arg11: f32 loc(unknown), %arg12: f32 loc(unknown)):
      %69 = math.fma %arg10, %arg11, %arg12 : f32 loc(#loc)
      repro.yield %69 : f32 loc(#loc)
    } -> tensor<4x2xf32> loc(#loc2)
    %5 = linalg.generic {indexing_maps = [#map1, #map5, #map1], iterator_types = ["parallel", "parallel"]} ins(%4, %arg1 : tensor<4x2xf32>, tensor<2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("module 0"), %in_10: f32 loc("module 0"), %out: f32 loc("module 0")):
      %69 = arith.addf %in, %in_10 : f32 loc(#loc2)
      linalg.yield %69 : f32 loc(#loc2)
    } -> tensor<4x2xf32> loc(#loc2)
    %extracted = tensor.extract %arg4[] : tensor<i64> loc(#loc3)
    %extracted_4 = tensor.extract %arg5[] : tensor<i64> loc(#loc3)
    %6 = repro.random  uniform site = 0 ins(%extracted, %extracted_4 : i64, i64) outs(%2 : tensor<4x2xf32>) -> tensor<4x2xf32> loc(#loc3)
    %7 = tensor.empty() : tensor<4x2xi1> loc(#loc3)
    %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x2xf32>) outs(%7 : tensor<4x2xi1>) {
    ^bb0(%in: f32 loc("module 1"), %out: i1 loc("module 1")):
      %69 = arith.cmpf olt, %in, %cst_2 : f32 loc(#loc3)
      linalg.yield %69 : i1 loc(#loc3)
    } -> tensor<4x2xi1> loc(#loc3)
    %9 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%8, %5 : tensor<4x2xi1>, tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: i1 loc("module 1"), %in_10: f32 loc("module 0"), %out: f32 loc("module 1")):
      %69 = arith.uitofp %in : i1 to f32 loc(#loc3)
      %70 = arith.mulf %69, %in_10 : f32 loc(#loc3)
      linalg.yield %70 : f32 loc(#loc3)
    } -> tensor<4x2xf32> loc(#loc3)
    %10 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("module 1"), %out: f32 loc("module 1")):
      %69 = arith.mulf %in, %cst_3 : f32 loc(#loc3)
      linalg.yield %69 : f32 loc(#loc3)
    } -> tensor<4x2xf32> loc(#loc3)
    %11 = tensor.empty() : tensor<4xi64> loc(#loc1)
    %12 = tensor.empty() : tensor<4xf32> loc(#loc1)
    %13 = linalg.generic {indexing_maps = [#map6], iterator_types = ["parallel"]} outs(%12 : tensor<4xf32>) {
    ^bb0(%out: f32 loc("loss function")):
      linalg.yield %cst_0 : f32 loc(#loc)
    } -> tensor<4xf32> loc(#loc1)
    %14 = repro.fold #repro.any_order maps [#map1, #map7] iterators [parallel, reduction] ins(%10 : tensor<4x2xf32>) outs(%13 : tensor<4xf32>) {
    ^bb0(%arg10: f32 loc("module 1"), %arg11: f32 loc("loss function")):
      %69 = arith.maximumf %arg10, %arg11 : f32 loc(#loc1)
      repro.yield %69 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %expanded = tensor.expand_shape %14 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32> loc(#loc1)
    %15 = linalg.generic {indexing_maps = [#map1, #map8, #map1], iterator_types = ["parallel", "parallel"]} ins(%10, %expanded : tensor<4x2xf32>, tensor<4x1xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("module 1"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.subf %in, %in_10 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %16 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = repro.exp %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %17 = tensor.empty() : tensor<4x1xf32> loc(#loc1)
    %18 = linalg.generic {indexing_maps = [#map6], iterator_types = ["parallel"]} outs(%12 : tensor<4xf32>) {
    ^bb0(%out: f32 loc("loss function")):
      linalg.yield %cst_1 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %19 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#map1, #map7] iterators [parallel, reduction] ins(%16 : tensor<4x2xf32>) outs(%18 : tensor<4xf32>) {
    ^bb0(%arg10: f32 loc("loss function"), %arg11: f32 loc("loss function")):
      %69 = arith.addf %arg10, %arg11 : f32 loc(#loc1)
      repro.yield %69 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %expanded_5 = tensor.expand_shape %19 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32> loc(#loc1)
    %20 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%expanded_5 : tensor<4x1xf32>) outs(%17 : tensor<4x1xf32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = repro.log %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x1xf32> loc(#loc1)
    %21 = linalg.generic {indexing_maps = [#map1, #map8, #map1], iterator_types = ["parallel", "parallel"]} ins(%15, %20 : tensor<4x2xf32>, tensor<4x1xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.subf %in, %in_10 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %22 = tensor.empty() : tensor<4xi1> loc(#loc1)
    %23 = linalg.generic {indexing_maps = [#map6, #map6], iterator_types = ["parallel"]} ins(%arg9 : tensor<4xi64>) outs(%22 : tensor<4xi1>) {
    ^bb0(%in: i64 loc("loss function"), %out: i1 loc("loss function")):
      %69 = arith.cmpi ne, %in, %c-100_i64 : i64 loc(#loc1)
      linalg.yield %69 : i1 loc(#loc1)
    } -> tensor<4xi1> loc(#loc1)
    %24 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%23, %arg9 : tensor<4xi1>, tensor<4xi64>) outs(%11 : tensor<4xi64>) {
    ^bb0(%in: i1 loc("loss function"), %in_10: i64 loc(unknown), %out: i64 loc("loss function")):
      %69 = arith.select %in, %in_10, %c0_i64 : i64 loc(#loc1)
      linalg.yield %69 : i64 loc(#loc1)
    } -> tensor<4xi64> loc(#loc1)
    %expanded_6 = tensor.expand_shape %24 [[0, 1]] output_shape [4, 1] : tensor<4xi64> into tensor<4x1xi64> loc(#loc1)
    %25 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%expanded_6 : tensor<4x1xi64>) outs(%17 : tensor<4x1xf32>) {
    ^bb0(%in: i64 loc("loss function"), %out: f32 loc("loss function")):
      %69 = linalg.index 0 : index loc(#loc1)
      %70 = arith.index_cast %in : i64 to index loc(#loc1)
      %71 = arith.cmpi slt, %70, %c2 : index loc(#loc1)
      cf.assert %71, "index must be smaller than dim size" loc(#loc1)
      %72 = arith.cmpi sge, %in, %c0_i64 : i64 loc(#loc1)
      cf.assert %72, "index must be larger or equal to 0" loc(#loc1)
      %extracted_10 = tensor.extract %21[%69, %70] : tensor<4x2xf32> loc(#loc1)
      linalg.yield %extracted_10 : f32 loc(#loc1)
    } -> tensor<4x1xf32> loc(#loc1)
    %collapsed = tensor.collapse_shape %25 [[0, 1]] : tensor<4x1xf32> into tensor<4xf32> loc(#loc1)
    %26 = linalg.generic {indexing_maps = [#map6, #map6], iterator_types = ["parallel"]} ins(%collapsed : tensor<4xf32>) outs(%12 : tensor<4xf32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.negf %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %27 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%23, %26 : tensor<4xi1>, tensor<4xf32>) outs(%12 : tensor<4xf32>) {
    ^bb0(%in: i1 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.select %in, %in_10, %cst_1 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %28 = tensor.empty() : tensor<i64> loc(#loc1)
    %29 = linalg.generic {indexing_maps = [#map9], iterator_types = []} outs(%28 : tensor<i64>) {
    ^bb0(%out: i64 loc("loss function")):
      linalg.yield %c0_i64 : i64 loc(#loc)
    } -> tensor<i64> loc(#loc1)
    %30 = repro.fold #repro.any_order maps [#map6, #map10] iterators [reduction] ins(%23 : tensor<4xi1>) outs(%29 : tensor<i64>) {
    ^bb0(%arg10: i1 loc("loss function"), %arg11: i64 loc("loss function")):
      %69 = arith.extui %arg10 : i1 to i64 loc(#loc1)
      %70 = arith.addi %69, %arg11 : i64 loc(#loc1)
      repro.yield %70 : i64 loc(#loc1)
    } -> tensor<i64> loc(#loc1)
    %31 = tensor.empty() : tensor<f32> loc(#loc1)
    %32 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = []} ins(%30 : tensor<i64>) outs(%31 : tensor<f32>) {
    ^bb0(%in: i64 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.sitofp %in : i64 to f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %33 = linalg.generic {indexing_maps = [#map9], iterator_types = []} outs(%31 : tensor<f32>) {
    ^bb0(%out: f32 loc("loss function")):
      linalg.yield %cst_1 : f32 loc(#loc)
    } -> tensor<f32> loc(#loc1)
    %34 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#map6, #map10] iterators [reduction] ins(%27 : tensor<4xf32>) outs(%33 : tensor<f32>) {
    ^bb0(%arg10: f32 loc("loss function"), %arg11: f32 loc("loss function")):
      %69 = arith.addf %arg10, %arg11 : f32 loc(#loc1)
      repro.yield %69 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %35 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = []} ins(%34, %32 : tensor<f32>, tensor<f32>) outs(%31 : tensor<f32>) {
    ^bb0(%in: f32 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.divf %in, %in_10 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %36 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = []} ins(%32 : tensor<f32>) outs(%31 : tensor<f32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.divf %cst, %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %37 = tensor.empty() : tensor<2xi64> loc(#loc1)
    %38 = linalg.generic {indexing_maps = [#map6], iterator_types = ["parallel"]} outs(%37 : tensor<2xi64>) {
    ^bb0(%out: i64 loc("loss function")):
      %69 = linalg.index 0 : index loc(#loc1)
      %70 = arith.index_cast %69 : index to i64 loc(#loc1)
      linalg.yield %70 : i64 loc(#loc1)
    } -> tensor<2xi64> loc(#loc1)
    %expanded_7 = tensor.expand_shape %38 [[0, 1]] output_shape [1, 2] : tensor<2xi64> into tensor<1x2xi64> loc(#loc1)
    %expanded_8 = tensor.expand_shape %arg9 [[0, 1]] output_shape [4, 1] : tensor<4xi64> into tensor<4x1xi64> loc(#loc1)
    %39 = linalg.generic {indexing_maps = [#map11, #map8, #map1], iterator_types = ["parallel", "parallel"]} ins(%expanded_7, %expanded_8 : tensor<1x2xi64>, tensor<4x1xi64>) outs(%7 : tensor<4x2xi1>) {
    ^bb0(%in: i64 loc("loss function"), %in_10: i64 loc("loss function"), %out: i1 loc("loss function")):
      %69 = arith.cmpi eq, %in, %in_10 : i64 loc(#loc1)
      linalg.yield %69 : i1 loc(#loc1)
    } -> tensor<4x2xi1> loc(#loc1)
    %40 = tensor.empty() : tensor<4x1xi1> loc(#loc1)
    %41 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%expanded_8 : tensor<4x1xi64>) outs(%40 : tensor<4x1xi1>) {
    ^bb0(%in: i64 loc("loss function"), %out: i1 loc("loss function")):
      %69 = arith.cmpi ne, %in, %c-100_i64 : i64 loc(#loc1)
      linalg.yield %69 : i1 loc(#loc1)
    } -> tensor<4x1xi1> loc(#loc1)
    %42 = linalg.generic {indexing_maps = [#map1, #map8, #map1], iterator_types = ["parallel", "parallel"]} ins(%39, %41 : tensor<4x2xi1>, tensor<4x1xi1>) outs(%7 : tensor<4x2xi1>) {
    ^bb0(%in: i1 loc("loss function"), %in_10: i1 loc("loss function"), %out: i1 loc("loss function")):
      %69 = arith.andi %in, %in_10 : i1 loc(#loc1)
      linalg.yield %69 : i1 loc(#loc1)
    } -> tensor<4x2xi1> loc(#loc1)
    %43 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = []} ins(%36 : tensor<f32>) outs(%31 : tensor<f32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.negf %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %44 = linalg.generic {indexing_maps = [#map1, #map12, #map1], iterator_types = ["parallel", "parallel"]} ins(%42, %43 : tensor<4x2xi1>, tensor<f32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: i1 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("module 0")):
      %69 = arith.select %in, %in_10, %cst_1 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %45 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%21 : tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = repro.exp %in : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %46 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#map1, #map7] iterators [parallel, reduction] ins(%44 : tensor<4x2xf32>) outs(%18 : tensor<4xf32>) {
    ^bb0(%arg10: f32 loc("loss function"), %arg11: f32 loc("loss function")):
      %69 = arith.addf %arg10, %arg11 : f32 loc(#loc1)
      repro.yield %69 : f32 loc(#loc1)
    } -> tensor<4xf32> loc(#loc1)
    %expanded_9 = tensor.expand_shape %46 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32> loc(#loc1)
    %47 = linalg.generic {indexing_maps = [#map1, #map8, #map1], iterator_types = ["parallel", "parallel"]} ins(%45, %expanded_9 : tensor<4x2xf32>, tensor<4x1xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %48 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%44, %47 : tensor<4x2xf32>, tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %in_10: f32 loc("loss function"), %out: f32 loc("loss function")):
      %69 = arith.subf %in, %in_10 : f32 loc(#loc1)
      linalg.yield %69 : f32 loc(#loc1)
    } -> tensor<4x2xf32> loc(#loc1)
    %49 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<4x2xi1>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: i1 loc("module 1"), %out: f32 loc("module 1")):
      %69 = arith.uitofp %in : i1 to f32 loc(#loc3)
      linalg.yield %69 : f32 loc(#loc3)
    } -> tensor<4x2xf32> loc(#loc3)
    %50 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%49 : tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("module 1"), %out: f32 loc("module 1")):
      %69 = arith.mulf %in, %cst_3 : f32 loc(#loc3)
      linalg.yield %69 : f32 loc(#loc3)
    } -> tensor<4x2xf32> loc(#loc3)
    %51 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%48, %50 : tensor<4x2xf32>, tensor<4x2xf32>) outs(%2 : tensor<4x2xf32>) {
    ^bb0(%in: f32 loc("loss function"), %in_10: f32 loc("module 1"), %out: f32 loc("module 1")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc3)
      linalg.yield %69 : f32 loc(#loc3)
    } -> tensor<4x2xf32> loc(#loc3)
    %52 = tensor.empty() : tensor<2x4xf32> loc(#loc2)
    %53 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%51 : tensor<4x2xf32>) outs(%52 : tensor<2x4xf32>) {
    ^bb0(%in: f32 loc("module 1"), %out: f32 loc("module 0")):
      linalg.yield %in : f32 loc(#loc2)
    } -> tensor<2x4xf32> loc(#loc2)
    %54 = tensor.empty() : tensor<2x3xf32> loc(#loc2)
    %55 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel", "parallel"]} outs(%54 : tensor<2x3xf32>) {
    ^bb0(%out: f32 loc("module 0")):
      linalg.yield %cst_1 : f32 loc(#loc)
    } -> tensor<2x3xf32> loc(#loc2)
    %56 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#map2, #map3, #map4] iterators [parallel, parallel, reduction] ins(%53, %arg8 : tensor<2x4xf32>, tensor<4x3xf32>) outs(%55 : tensor<2x3xf32>) {
    ^bb0(%arg10: f32 loc(unknown), %arg11: f32 loc(unknown), %arg12: f32 loc(unknown)):
      %69 = math.fma %arg10, %arg11, %arg12 : f32 loc(#loc)
      repro.yield %69 : f32 loc(#loc)
    } -> tensor<2x3xf32> loc(#loc2)
    %57 = tensor.empty() : tensor<2xf32> loc(#loc2)
    %58 = linalg.generic {indexing_maps = [#map6], iterator_types = ["parallel"]} outs(%57 : tensor<2xf32>) {
    ^bb0(%out: f32 loc("module 0")):
      linalg.yield %cst_1 : f32 loc(#loc2)
    } -> tensor<2xf32> loc(#loc2)
    %59 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#map1, #map5] iterators [reduction, parallel] ins(%51 : tensor<4x2xf32>) outs(%58 : tensor<2xf32>) {
    ^bb0(%arg10: f32 loc("module 1"), %arg11: f32 loc("module 0")):
      %69 = arith.addf %arg10, %arg11 : f32 loc(#loc2)
      repro.yield %69 : f32 loc(#loc2)
    } -> tensor<2xf32> loc(#loc2)
    %60 = linalg.generic {indexing_maps = [#map1, #map12, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg2, %arg7 : tensor<2x3xf32>, tensor<f32>) outs(%54 : tensor<2x3xf32>) {
    ^bb0(%in: f32 loc("update of 0.weight"), %in_10: f32 loc("update of 0.weight"), %out: f32 loc("update of 0.weight")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc4)
      linalg.yield %69 : f32 loc(#loc4)
    } -> tensor<2x3xf32> loc(#loc4)
    %61 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%60, %56 : tensor<2x3xf32>, tensor<2x3xf32>) outs(%54 : tensor<2x3xf32>) {
    ^bb0(%in: f32 loc("update of 0.weight"), %in_10: f32 loc("module 0"), %out: f32 loc("update of 0.weight")):
      %69 = arith.addf %in, %in_10 : f32 loc(#loc4)
      linalg.yield %69 : f32 loc(#loc4)
    } -> tensor<2x3xf32> loc(#loc4)
    %62 = linalg.generic {indexing_maps = [#map12, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg6, %61 : tensor<f32>, tensor<2x3xf32>) outs(%54 : tensor<2x3xf32>) {
    ^bb0(%in: f32 loc("update of 0.weight"), %in_10: f32 loc("update of 0.weight"), %out: f32 loc("update of 0.weight")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc4)
      linalg.yield %69 : f32 loc(#loc4)
    } -> tensor<2x3xf32> loc(#loc4)
    %63 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg0, %62 : tensor<2x3xf32>, tensor<2x3xf32>) outs(%54 : tensor<2x3xf32>) {
    ^bb0(%in: f32 loc("module 0"), %in_10: f32 loc("update of 0.weight"), %out: f32 loc("update of 0.weight")):
      %69 = arith.subf %in, %in_10 : f32 loc(#loc4)
      linalg.yield %69 : f32 loc(#loc4)
    } -> tensor<2x3xf32> loc(#loc4)
    %64 = linalg.generic {indexing_maps = [#map6, #map10, #map6], iterator_types = ["parallel"]} ins(%arg3, %arg7 : tensor<2xf32>, tensor<f32>) outs(%57 : tensor<2xf32>) {
    ^bb0(%in: f32 loc("update of 0.bias"), %in_10: f32 loc("update of 0.weight"), %out: f32 loc("update of 0.bias")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc5)
      linalg.yield %69 : f32 loc(#loc5)
    } -> tensor<2xf32> loc(#loc5)
    %65 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%64, %59 : tensor<2xf32>, tensor<2xf32>) outs(%57 : tensor<2xf32>) {
    ^bb0(%in: f32 loc("update of 0.bias"), %in_10: f32 loc("module 0"), %out: f32 loc("update of 0.bias")):
      %69 = arith.addf %in, %in_10 : f32 loc(#loc5)
      linalg.yield %69 : f32 loc(#loc5)
    } -> tensor<2xf32> loc(#loc5)
    %66 = linalg.generic {indexing_maps = [#map10, #map6, #map6], iterator_types = ["parallel"]} ins(%arg6, %65 : tensor<f32>, tensor<2xf32>) outs(%57 : tensor<2xf32>) {
    ^bb0(%in: f32 loc("update of 0.weight"), %in_10: f32 loc("update of 0.bias"), %out: f32 loc("update of 0.bias")):
      %69 = arith.mulf %in, %in_10 : f32 loc(#loc5)
      linalg.yield %69 : f32 loc(#loc5)
    } -> tensor<2xf32> loc(#loc5)
    %67 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%arg1, %66 : tensor<2xf32>, tensor<2xf32>) outs(%57 : tensor<2xf32>) {
    ^bb0(%in: f32 loc("module 0"), %in_10: f32 loc("update of 0.bias"), %out: f32 loc("update of 0.bias")):
      %69 = arith.subf %in, %in_10 : f32 loc(#loc5)
      linalg.yield %69 : f32 loc(#loc5)
    } -> tensor<2xf32> loc(#loc5)
    %68 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = []} ins(%arg5 : tensor<i64>) outs(%28 : tensor<i64>) {
    ^bb0(%in: i64 loc("step"), %out: i64 loc("step")):
      %69 = arith.addi %in, %c1_i64 : i64 loc(#loc6)
      linalg.yield %69 : i64 loc(#loc6)
    } -> tensor<i64> loc(#loc6)
    return %63, %67, %61, %65, %arg4, %68, %35, %10 : tensor<2x3xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<4x2xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
