// Corner cases that have a call, or need none.
//
// RUN: fcdp-opt %s --convert-fcdp-to-llvm --split-input-file | FileCheck %s

// On one rank a bucket is used where its shard lives, and no bytes move.
// CHECK-LABEL: llvm.func @fcdp_only_microbatch
// CHECK-NOT: llvm.call @fcdp_rt_all_gather
// CHECK: llvm.call @fcdp_rt_aten_call
// CHECK: {\22kind\22:\22planned\22,\22buf\22:{\22arena\22:\22device\22,\22offset\22:64,\22bytes\22:64,{{[^}]*}}},\22shape\22:[4,4]
// CHECK-SAME: \22only_microbatch\22:{\22inter_bytes\22:0,\22intra_bytes\22:0,
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

// -----

// A sum that is elsewhere is copied into its accumulator.
// CHECK-LABEL: llvm.func @fcdp_only_microbatch
// CHECK-COUNT-2: llvm.call @fcdp_rt_reduce_scatter
// CHECK-NEXT: llvm.mlir.constant
// CHECK-NEXT: llvm.call @fcdp_rt_accumulate
// CHECK: \22mode\22:\22overwrite\22
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

// -----

// A value in an arena may be read as a tensor of its own, and equal places share
// a slot.
// CHECK-LABEL: llvm.func @fcdp_only_microbatch
// CHECK: \22slots\22:[{\22kind\22:\22planned\22,{{[^]]*}}[16],\22dtype\22:\22f32\22},{\22kind\22:\22transient\22}]
// CHECK-SAME: [\22other\22,{\22t\22:0}]
// CHECK-SAME: \22results\22:[1]
// CHECK-SAME: \22results\22:[-1]{{.*}}\22free\22:[1]
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

// -----

// A buffer may be read again after it was written.
// CHECK-LABEL: llvm.func @fcdp_only_microbatch
// CHECK: llvm.call @fcdp_rt_write_buffer
// CHECK: llvm.call @fcdp_rt_aten_call
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
