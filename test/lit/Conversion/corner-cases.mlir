// Corner cases that are operations of the plan, or need none.
//
// RUN: rm -rf %t && split-file %s %t
// DEFINE: %{module} =
// DEFINE: %{plan} = fcdp-opt %t/%{module}.mlir --convert-fcdp-to-llvm | mlir-translate --mlir-to-llvmir | llc -filetype=obj -o %t/%{module}.o && fcdp-compile %t/%{module}.o --emit=plan-json | %python %S/Inputs/show_plan.py
//
// On one rank a bucket is used where its shard lives, and no bytes move.
// REDEFINE: %{module} = one-rank
// RUN: %{plan} | FileCheck %s --check-prefix=ONE
// ONE: functions[0] {"role": "only_microbatch", {{.*}} "expected": {"inter_bytes": 0, "intra_bytes": 0,
// ONE: slots[0] {"kind": "planned", "buf": {"arena": "device", "offset": 64, "bytes": 64,{{[^}]*}}}, "shape": [4, 4]
// ONE-NOT: "all_gather"
// ONE: ops[0] {"kind": "aten_call"

// A sum that is elsewhere is copied into its accumulator.
// REDEFINE: %{module} = copied-sum
// RUN: %{plan} | FileCheck %s --check-prefix=SUM
// SUM-COUNT-2: "kind": "reduce_scatter"
// SUM-NEXT: {"kind": "accumulate", {{.*}} "mode": "overwrite"

// A value in an arena may be read as a tensor of its own, and equal places share
// a slot.
// REDEFINE: %{module} = equal-places
// RUN: %{plan} | FileCheck %s --check-prefix=EQUAL
// EQUAL: slots[0] {"kind": "planned", {{.*}} "shape": [16], "dtype": "f32"}
// EQUAL-NEXT: slots[1] {"kind": "transient"}
// EQUAL-NEXT: ops[0] {{.*}} {"name": "other", "kind": "tensor", "slots": [0]}], "results": [1]}
// EQUAL-NEXT: ops[1] {{.*}} "results": [-1], "free": [1]}

// A buffer may be read again after it was written.
// REDEFINE: %{module} = written-buffer
// RUN: %{plan} | FileCheck %s --check-prefix=BUFFER
// BUFFER: {"kind": "write_buffer"
// BUFFER: {"kind": "aten_call"

//--- one-rank.mlir
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 1, local = 1)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.parameter @v : tensor<4x4xf32> unit "" trainable names ["v"]
fcdp.bucket @b unit "" elements 32 storage f32 wire f32 trainable members [@w at 0, @v at 16]
fcdp.state @shard shard of @b in device : tensor<32xf32> at <arena = device, offset = 0, bytes = 128>
fcdp.state @grad grad of @b in device : tensor<32xf32> at <arena = device, offset = 128, bytes = 128>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<32xf32>
  %1 = fcdp.view_member %0 @v of @b : tensor<32xf32> to tensor<4x4xf32>
  %2 = aten.call "aten.sum.default"(self = %1) : (tensor<4x4xf32>) -> tensor<f32>
  fcdp.loss %2 : tensor<f32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

//--- copied-sum.mlir
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  %1 = fcdp.pack @b() {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 256>} : () -> tensor<64xf32>
  %2 = fcdp.reduce_scatter %1 of @b over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 512, bytes = 128>, scratch = #fcdp.buffer<arena = device, offset = 1024, bytes = 256>} : tensor<64xf32> to tensor<32xf32>
  %3 = fcdp.reduce_scatter %2 of @b over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 640, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 1024, bytes = 128>} : tensor<32xf32> to tensor<16xf32>
  fcdp.accumulate %3 into @b overwrite : tensor<16xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

//--- equal-places.mlir
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_shard @b : tensor<16xf32>
  %1 = fcdp.read_shard @b : tensor<16xf32>
  %2 = aten.call "aten.add.Tensor"(self = %0, other = %1) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %3 = aten.call "aten.mul.Tensor"(self = %2, other = %2) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}

//--- written-buffer.mlir
module attributes {fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>} {
fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<16xf32> unit "" trainable names ["w"]
fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
fcdp.state @shard shard of @b in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @grad grad of @b in device : tensor<16xf32> at <arena = device, offset = 64, bytes = 64>
fcdp.buffer @m : tensor<2xf32> name "m" persistent mutable
func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  %0 = fcdp.read_buffer @m : tensor<2xf32>
  %1 = aten.call "aten.neg.default"(self = %0) : (tensor<2xf32>) -> tensor<2xf32>
  fcdp.write_buffer %1 to @m : tensor<2xf32>
  %2 = fcdp.read_buffer @m : tensor<2xf32>
  %3 = aten.call "aten.neg.default"(self = %2) : (tensor<2xf32>) -> tensor<2xf32>
  return
}
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 0.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
  return
}
}
