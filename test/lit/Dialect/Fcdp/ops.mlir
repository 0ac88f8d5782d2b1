// RUN: fcdp-opt %s | fcdp-opt | FileCheck %s
// RUN: fcdp-opt %s --mlir-print-op-generic | fcdp-opt | FileCheck %s
// RUN: fcdp-opt %s --emit-bytecode | fcdp-opt | FileCheck %s

// CHECK: module attributes {fcdp.archive = "gpt.pt2", fcdp.loss_weight = "mask", fcdp.micro_batches = 4 : i64, fcdp.outer = #fcdp.outer<every = 8, lr = 0.69999999999999996 : f64, momentum = 9.000000e-01 : f64, nesterov = true, fragments = 2>, fcdp.phase = #fcdp.phase<planned>, fcdp.remat = "unit", fcdp.strategy = "fcdp", fcdp.target = "cuda"} {
module attributes {fcdp.archive = "gpt.pt2", fcdp.loss_weight = "mask", fcdp.micro_batches = 4, fcdp.outer = #fcdp.outer<every = 8, lr = 0.7, momentum = 0.9, nesterov = true, fragments = 2>, fcdp.phase = #fcdp.phase<planned>, fcdp.remat = "unit", fcdp.strategy = "fcdp", fcdp.target = "cuda"} {

// CHECK-NEXT: fcdp.mesh @world(node = 2, local = 2)
fcdp.mesh @world(node = 2, local = 2)

// CHECK-NEXT: fcdp.parameter @fc.weight : tensor<3x4xf32> unit "fc" trainable names ["fc.weight"]
fcdp.parameter @fc.weight : tensor<3x4xf32> unit "fc" trainable names ["fc.weight"]
// CHECK-NEXT: fcdp.parameter @fc.bias : tensor<3xf32> unit "fc" trainable names ["fc.bias", "tied.bias"]
fcdp.parameter @fc.bias : tensor<3xf32> unit "fc" trainable names ["fc.bias", "tied.bias"]
// CHECK-NEXT: fcdp.parameter @norm : tensor<3xf32> unit "fc" trainable names ["norm"] group <lr = 2.000000e+00 : f64, weight_decay = 0.000000e+00 : f64>
fcdp.parameter @norm : tensor<3xf32> unit "fc" trainable names ["norm"] group <lr = 2.0, weight_decay = 0.0>
// CHECK-NEXT: fcdp.parameter @frozen : tensor<bf16> unit "" names ["frozen"]
fcdp.parameter @frozen : tensor<bf16> unit "" names ["frozen"]
// CHECK-NEXT: fcdp.parameter @packed : tensor<44xui8> unit "" names ["packed"] packed <packing = nf4, whole = tensor<2x33xbf16>>
fcdp.parameter @packed : tensor<44xui8> unit "" names ["packed"] packed <packing = nf4, whole = tensor<2x33xbf16>>
// CHECK-NEXT: fcdp.parameter @none : tensor<0x4xf32> unit "" names ["none"]
fcdp.parameter @none : tensor<0x4xf32> unit "" names ["none"]

// CHECK-NEXT: fcdp.buffer @mean : tensor<8xf32> name "bn.running_mean" persistent mutable
fcdp.buffer @mean : tensor<8xf32> name "bn.running_mean" persistent mutable
// CHECK-NEXT: fcdp.buffer @mask : tensor<4x4xi1> name "mask"
fcdp.buffer @mask : tensor<4x4xi1> name "mask"
// CHECK-NEXT: fcdp.buffer @freqs : tensor<4xcomplex<f32>> name "freqs" persistent
fcdp.buffer @freqs : tensor<4xcomplex<f32>> name "freqs" persistent

// CHECK-NEXT: fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
fcdp.input @ids : tensor<4x8xi64> name "ids" limit 65
// CHECK-NEXT: fcdp.input @labels : tensor<4x8xi64> name "labels" limit 65 ignore -100
fcdp.input @labels : tensor<4x8xi64> name "labels" limit 65 ignore -100
// CHECK-NEXT: fcdp.input @image : tensor<2x3xf32> name "image"
fcdp.input @image : tensor<2x3xf32> name "image"
// CHECK-NEXT: fcdp.input @variant1.image : tensor<4x3xf32> name "image" variant 1
fcdp.input @variant1.image : tensor<4x3xf32> name "image" variant 1
// CHECK-NEXT: fcdp.buffer @variant1.mask : tensor<8xi1> name "mask" variant 1
fcdp.buffer @variant1.mask : tensor<8xi1> name "mask" variant 1

// CHECK-NEXT: fcdp.bucket @bucket.fc unit "fc" elements 64 storage f32 wire bf16 trainable residency host members [@fc.weight at 0, @fc.bias at 32]
fcdp.bucket @bucket.fc unit "fc" elements 64 storage f32 wire bf16 trainable residency host members [@fc.weight at 0, @fc.bias at 32]
// CHECK-NEXT: fcdp.bucket @bucket.wires unit "fc" elements 64 storage bf16 wire bf16 trainable residency host gather_wire delta reduce_wire coded members []
fcdp.bucket @bucket.wires unit "fc" elements 64 storage bf16 wire bf16 trainable residency host gather_wire delta reduce_wire coded members []
// CHECK-NEXT: fcdp.bucket @bucket.types unit "fc" elements 64 storage bf16 wire bf16 reduce f32 master f32 trainable members []
fcdp.bucket @bucket.types unit "fc" elements 64 storage bf16 wire bf16 reduce f32 master f32 trainable members []
// CHECK-NEXT: fcdp.bucket @bucket.kept unit "fc" elements 64 storage f32 wire bf16 trainable residency full carry host accumulation node members []
fcdp.bucket @bucket.kept unit "fc" elements 64 storage f32 wire bf16 trainable residency full carry host accumulation node members []
// CHECK-NEXT: fcdp.bucket @bucket.rows unit "h.0..h.3" elements 64 storage f32 wire f32 trainable layout ragged<16> residency drop members []
fcdp.bucket @bucket.rows unit "h.0..h.3" elements 64 storage f32 wire f32 trainable layout ragged<16> residency drop members []
// CHECK-NEXT: fcdp.bucket @bucket.flat unit "ln" elements 64 storage f32 wire f32 trainable residency drop accumulation full collectives flat members []
fcdp.bucket @bucket.flat unit "ln" elements 64 storage f32 wire f32 trainable residency drop accumulation full collectives flat members []
// CHECK-NEXT: fcdp.bucket @bucket.split unit "ln" elements 64 storage f32 wire f32 collectives two_level members []
fcdp.bucket @bucket.split unit "ln" elements 64 storage f32 wire f32 collectives two_level members []
// CHECK-NEXT: fcdp.bucket @bucket.owned unit "" elements 64 storage f32 wire f32 layout owned members []
fcdp.bucket @bucket.owned unit "" elements 64 storage f32 wire f32 layout owned members []
// CHECK-NEXT: fcdp.bucket @bucket.squares unit "" elements 64 storage f32 wire f32 trainable layout owned max_side 16 members []
fcdp.bucket @bucket.squares unit "" elements 64 storage f32 wire f32 trainable layout owned max_side 16 members []
// CHECK-NEXT: fcdp.bucket @bucket.frozen unit "" elements 32 storage bf16 wire bf16 members [@frozen at 0]
fcdp.bucket @bucket.frozen unit "" elements 32 storage bf16 wire bf16 members [@frozen at 0]
// CHECK-NEXT: fcdp.bucket @bucket.slice unit "" elements 64 storage f32 wire f32 trainable sharding node residency drop carry full members []
fcdp.bucket @bucket.slice unit "" elements 64 storage f32 wire f32 trainable sharding node residency drop carry full members []
// CHECK-NEXT: fcdp.bucket @bucket.whole unit "" elements 64 storage f32 wire f32 sharding none residency full members []
fcdp.bucket @bucket.whole unit "" elements 64 storage f32 wire f32 sharding none residency full members []
// Defaults are not printed.
// CHECK-NEXT: fcdp.bucket @bucket.world unit "" elements 64 storage f32 wire f32 members []
fcdp.bucket @bucket.world unit "" elements 64 storage f32 wire f32 sharding world members []
// CHECK-NEXT: fcdp.bucket @bucket.empty unit "" elements 0 storage f32 wire f32 members []
fcdp.bucket @bucket.empty unit "" elements 0 storage f32 wire f32 members []
// CHECK-NEXT: fcdp.bucket @bucket.outer unit "" elements 64 storage bf16 wire bf16 master f32 trainable sharding node residency drop accumulation full reduce_wire int8 outer 1 members []
fcdp.bucket @bucket.outer unit "" elements 64 storage bf16 wire bf16 master f32 trainable sharding node residency drop accumulation full reduce_wire int8 outer 1 members []

// CHECK-NEXT: fcdp.state @fc.shard shard of @bucket.fc in device : tensor<16xf32>
// CHECK-SAME: at <arena = device, offset = 0, bytes = 64>
fcdp.state @fc.shard shard of @bucket.fc in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
// CHECK-NEXT: fcdp.state @fc.grad grad of @bucket.fc in device : tensor<16xf32>
fcdp.state @fc.grad grad of @bucket.fc in device : tensor<16xf32>
// CHECK-NEXT: fcdp.state @fc.exp_avg exp_avg of @bucket.fc in device : tensor<16xf32>
fcdp.state @fc.exp_avg exp_avg of @bucket.fc in device : tensor<16xf32>
// CHECK-NEXT: fcdp.state @fc.exp_avg_sq exp_avg_sq of @bucket.fc in device : tensor<16xf32>
fcdp.state @fc.exp_avg_sq exp_avg_sq of @bucket.fc in device : tensor<16xf32>
// CHECK-NEXT: fcdp.state @fc.momentum momentum_buffer of @bucket.fc in device : tensor<16xf32>
fcdp.state @fc.momentum momentum_buffer of @bucket.fc in device : tensor<16xf32>
// CHECK-NEXT: fcdp.state @fc.residual residual of @bucket.fc in host : tensor<32xf32>
fcdp.state @fc.residual residual of @bucket.fc in host : tensor<32xf32>
// CHECK-NEXT: fcdp.state @fc.cache cache of @bucket.fc in host : tensor<32xbf16>
// CHECK-SAME: at <arena = host, offset = 256, bytes = 64, local_stride = 64>
fcdp.state @fc.cache cache of @bucket.fc in host : tensor<32xbf16> at <arena = host, offset = 256, bytes = 64, node_stride = 0, local_stride = 64>
// CHECK-NEXT: fcdp.state @fc.resident resident of @bucket.fc in device : tensor<32xbf16>
fcdp.state @fc.resident resident of @bucket.fc in device : tensor<32xbf16>
// CHECK-NEXT: fcdp.state @kept.resident resident of @bucket.kept in device : tensor<64xbf16>
fcdp.state @kept.resident resident of @bucket.kept in device : tensor<64xbf16>
// CHECK-NEXT: fcdp.state @fc.node_grad node_grad of @bucket.fc in device : tensor<32xf32>
fcdp.state @fc.node_grad node_grad of @bucket.fc in device : tensor<32xf32>
// CHECK-NEXT: fcdp.state @fc.full_grad full_grad of @bucket.fc in device : tensor<64xf32>
fcdp.state @fc.full_grad full_grad of @bucket.fc in device : tensor<64xf32>
// CHECK-NEXT: fcdp.state @fc.host_grad host_grad of @bucket.fc in host : tensor<32xf32>
fcdp.state @fc.host_grad host_grad of @bucket.fc in host : tensor<32xf32>
// CHECK-NEXT: fcdp.state @fc.prefetched prefetched of @bucket.fc in device : tensor<64xbf16>
fcdp.state @fc.prefetched prefetched of @bucket.fc in device : tensor<64xbf16>
// CHECK-NEXT: fcdp.state @outer.outer outer of @bucket.outer in host : tensor<32xf32>
fcdp.state @outer.outer outer of @bucket.outer in host : tensor<32xf32>
// CHECK-NEXT: fcdp.state @outer.outer_momentum outer_momentum of @bucket.outer in host : tensor<32xf32>
fcdp.state @outer.outer_momentum outer_momentum of @bucket.outer in host : tensor<32xf32>
// CHECK-NEXT: fcdp.state @outer.residual residual of @bucket.outer in host : tensor<32xf32>
fcdp.state @outer.residual residual of @bucket.outer in host : tensor<32xf32>

// CHECK-NEXT: fcdp.state @slice.grad grad of @bucket.slice in device : tensor<32xf32>
fcdp.state @slice.grad grad of @bucket.slice in device : tensor<32xf32>
// CHECK-NEXT: fcdp.state @whole.shard shard of @bucket.whole in device : tensor<64xf32>
fcdp.state @whole.shard shard of @bucket.whole in device : tensor<64xf32>

// CHECK-LABEL: func.func @sharding
func.func @sharding(%g: tensor<16xf32>) {
  // CHECK: fcdp.read_shard @bucket.slice : tensor<32xf32>
  %slice = fcdp.read_shard @bucket.slice : tensor<32xf32>
  // CHECK: fcdp.read_shard @bucket.whole : tensor<64xf32>
  %whole = fcdp.read_shard @bucket.whole : tensor<64xf32>
  // CHECK: %[[G:.*]] = fcdp.all_gather %{{.*}} of @bucket.slice over @world[node] : tensor<16xf32> to tensor<32xf32>
  %reduced = fcdp.all_gather %g of @bucket.slice over @world[node] : tensor<16xf32> to tensor<32xf32>
  // CHECK: fcdp.accumulate %[[G]] into @bucket.slice add : tensor<32xf32>
  fcdp.accumulate %reduced into @bucket.slice add : tensor<32xf32>
  // CHECK: fcdp.accumulate %[[G]] into @bucket.slice overwrite late on inter : tensor<32xf32>
  fcdp.accumulate %reduced into @bucket.slice overwrite late on inter : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @scale
func.func @scale() -> tensor<f32> {
  // CHECK-NEXT: %{{.*}} = fcdp.read_loss_scale : tensor<f32>
  %s = fcdp.read_loss_scale : tensor<f32>
  // CHECK-NEXT: %{{.*}} = fcdp.read_loss_weight : tensor<f32>
  %f = fcdp.read_loss_weight : tensor<f32>
  // CHECK-NEXT: fcdp.unscale_gradients{{$}}
  fcdp.unscale_gradients
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @clip
func.func @clip() {
  // CHECK-NEXT: fcdp.clip_gradients to 1.000000e+00 scale 2.500000e-01
  fcdp.clip_gradients to 1.0 scale 0.25
  return
}

// CHECK-LABEL: func.func @outer
// CHECK-SAME: attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 1 : i64}
func.func @outer() attributes {fcdp.role = #fcdp.role<outer_update>, fcdp.variant = 1} {
  // CHECK: %[[D:.*]] = fcdp.outer_difference @bucket.outer {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 64>} : tensor<32xbf16>
  %d = fcdp.outer_difference @bucket.outer {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 64>} : tensor<32xbf16>
  // CHECK: %[[R:.*]] = fcdp.reduce_scatter %[[D]] of @bucket.outer over @world[node] code int8 residual @outer.residual : tensor<32xbf16> to tensor<16xbf16>
  %r = fcdp.reduce_scatter %d of @bucket.outer over @world[node] code int8 residual @outer.residual : tensor<32xbf16> to tensor<16xbf16>
  // CHECK: %[[S:.*]] = fcdp.all_gather %[[R]] of @bucket.outer over @world[node] : tensor<16xbf16> to tensor<32xbf16>
  %s = fcdp.all_gather %r of @bucket.outer over @world[node] : tensor<16xbf16> to tensor<32xbf16>
  // CHECK: fcdp.outer_update @bucket.outer with %[[S]] scale 5.000000e-01 : tensor<32xbf16>
  fcdp.outer_update @bucket.outer with %s scale 0.5 : tensor<32xbf16>
  // CHECK: %[[F:.*]] = fcdp.outer_difference @bucket.outer : tensor<32xf32>
  %f = fcdp.outer_difference @bucket.outer : tensor<32xf32>
  // CHECK: fcdp.outer_update @bucket.outer with %[[F]] scale 2.500000e-01 : tensor<32xf32>
  fcdp.outer_update @bucket.outer with %f scale 0.25 : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @resident
func.func @resident(%s: tensor<16xbf16>) {
  // CHECK: fcdp.all_gather %{{.*}} of @bucket.fc over @world[node] range 0 into @fc.resident : tensor<16xbf16> to tensor<32xbf16>
  %slice = fcdp.all_gather %s of @bucket.fc over @world[node] range 0 into @fc.resident : tensor<16xbf16> to tensor<32xbf16>
  // CHECK: fcdp.read_state @fc.resident : tensor<32xbf16>
  %again = fcdp.read_state @fc.resident : tensor<32xbf16>
  // CHECK: %[[SUM:.*]] = fcdp.read_state @fc.node_grad : tensor<32xf32>
  %sum = fcdp.read_state @fc.node_grad : tensor<32xf32>
  // CHECK: fcdp.accumulate %[[SUM]] into @fc.node_grad add : tensor<32xf32>
  fcdp.accumulate %sum into @fc.node_grad add : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @coded
func.func @coded(%s: tensor<16xbf16>, %g: tensor<32xbf16>) {
  // CHECK: fcdp.all_gather %{{.*}} of @bucket.fc over @world[node] range 0 delta @fc.cache on inter {scratch = #fcdp.buffer<arena = device, offset = 0, bytes = 256>} : tensor<16xbf16> to tensor<32xbf16>
  %slice = fcdp.all_gather %s of @bucket.fc over @world[node] range 0 delta @fc.cache on inter {scratch = #fcdp.buffer<arena = device, offset = 0, bytes = 256>} : tensor<16xbf16> to tensor<32xbf16>
  // CHECK: fcdp.reduce_scatter %{{.*}} of @bucket.fc over @world[node] code coded : tensor<32xbf16> to tensor<16xf32>
  %part = fcdp.reduce_scatter %g of @bucket.fc over @world[node] code coded : tensor<32xbf16> to tensor<16xf32>
  return
}

// CHECK-LABEL: func.func @quantised
func.func @quantised(%g: tensor<32xbf16>) {
  // CHECK: fcdp.reduce_scatter %{{.*}} of @bucket.fc over @world[node] code int8 residual @fc.residual : tensor<32xbf16> to tensor<16xf32>
  %part = fcdp.reduce_scatter %g of @bucket.fc over @world[node] code int8 residual @fc.residual : tensor<32xbf16> to tensor<16xf32>
  return
}

// CHECK-LABEL: func.func @prefetched
// CHECK-SAME: (%[[BEFORE:.*]]: !fcdp.token {fcdp.event = 3 : i64}, %[[SLICE:.*]]: tensor<32xbf16>) -> !fcdp.token
func.func @prefetched(%before: !fcdp.token {fcdp.event = 3 : i64}, %slice: tensor<32xbf16>) -> !fcdp.token {
  // CHECK: fcdp.wait %[[BEFORE]] on compute
  fcdp.wait %before on compute
  // CHECK: fcdp.read_state @fc.prefetched : tensor<64xbf16>
  %here = fcdp.read_state @fc.prefetched : tensor<64xbf16>
  // CHECK: fcdp.all_gather %[[SLICE]] of @bucket.fc over @world[local] range 0 into @fc.prefetched on intra : tensor<32xbf16> to tensor<64xbf16>
  %next = fcdp.all_gather %slice of @bucket.fc over @world[local] range 0 into @fc.prefetched on intra : tensor<32xbf16> to tensor<64xbf16>
  // CHECK: fcdp.release %{{.*}} on intra : tensor<64xbf16>
  fcdp.release %next on intra : tensor<64xbf16>
  // CHECK: %[[TOKEN:.*]] = fcdp.record on intra event 3
  %token = fcdp.record on intra event 3
  // CHECK: return %[[TOKEN]]
  return %token : !fcdp.token
}

// CHECK: fcdp.bucket @bucket.streamed unit "s" elements 2048 storage bf16 wire bf16 master f32 trainable states host piece 256 members []
fcdp.bucket @bucket.streamed unit "s" elements 2048 storage bf16 wire bf16 master f32 trainable states host piece 256 members []
// CHECK: fcdp.state @s.exp_avg exp_avg of @bucket.streamed in host : tensor<512xf32>
fcdp.state @s.exp_avg exp_avg of @bucket.streamed in host : tensor<512xf32>
fcdp.state @s.master master of @bucket.streamed in host : tensor<512xf32>

// CHECK-LABEL: func.func @streamed
func.func @streamed() {
  // CHECK: %[[M:.*]] = fcdp.state_load @s.exp_avg at 256 : tensor<256xf32>
  %m = fcdp.state_load @s.exp_avg at 256 : tensor<256xf32>
  %w = fcdp.state_load @s.master at 256 on h2d {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 1024>} : tensor<256xf32>
  // CHECK: fcdp.shard_update @bucket.streamed piece 256 to 512 states(%[[M]], %{{.*}} : tensor<256xf32>, tensor<256xf32>) scale 2.500000e-01 with #fcdp.lion
  fcdp.shard_update @bucket.streamed piece 256 to 512 states(%m, %w : tensor<256xf32>, tensor<256xf32>) scale 2.5e-01 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  // CHECK: fcdp.state_store %[[M]] to @s.exp_avg at 256 : tensor<256xf32>
  fcdp.state_store %m to @s.exp_avg at 256 : tensor<256xf32>
  fcdp.state_store %w to @s.master at 256 on d2h : tensor<256xf32>
  return
}

// CHECK: fcdp.bucket @bucket.hosted unit "h" elements 2048 storage f32 wire f32 trainable states host piece 256 update host members []
fcdp.bucket @bucket.hosted unit "h" elements 2048 storage f32 wire f32 trainable states host piece 256 update host members []

// CHECK-LABEL: func.func @updated_on_host
func.func @updated_on_host() {
  // CHECK: %[[G:.*]] = fcdp.store_gradient @bucket.hosted piece 256 to 512 shard on d2h : <tensor<256xf32>>
  %g = fcdp.store_gradient @bucket.hosted piece 256 to 512 shard on d2h : !fcdp.stored<tensor<256xf32>>
  // CHECK: %[[S:.*]] = fcdp.host_update %[[G]] : <tensor<256xf32>> of @bucket.hosted piece 256 to 512 on host scale 2.500000e-01 with #fcdp.lion
  %s = fcdp.host_update %g : !fcdp.stored<tensor<256xf32>> of @bucket.hosted piece 256 to 512 on host scale 2.5e-01 with #fcdp.lion<lr = 0.1, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0>
  // CHECK: fcdp.load_shard %[[S]] to @bucket.hosted at 256 : <tensor<256xf32>>
  fcdp.load_shard %s to @bucket.hosted at 256 : !fcdp.stored<tensor<256xf32>>
  return
}

// CHECK-LABEL: func.func @host_sum
func.func @host_sum(%g: tensor<32xf32>) {
  // CHECK: %[[SUM:.*]] = fcdp.cache_load @fc.host_grad : tensor<32xf32>
  %sum = fcdp.cache_load @fc.host_grad : tensor<32xf32>
  // CHECK: %[[NEXT:.*]] = fcdp.add %[[SUM]], %{{.*}} : tensor<32xf32>
  %next = fcdp.add %sum, %g : tensor<32xf32>
  // CHECK: fcdp.cache_store %[[NEXT]] to @fc.host_grad : tensor<32xf32>
  fcdp.cache_store %next to @fc.host_grad : tensor<32xf32>
  // CHECK: fcdp.add %{{.*}}, %{{.*}} {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 128>} : tensor<32xf32>
  %placed = fcdp.add %next, %g {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 128>} : tensor<32xf32>
  return
}

// CHECK-LABEL: func.func @imported
func.func @imported(%g: tensor<3x4xf32>, %l: tensor<f32>, %l1: tensor<1x1xbf16>, %m: tensor<8xf32>) {
  // CHECK: fcdp.read_parameter @fc.weight : tensor<3x4xf32>
  %w = fcdp.read_parameter @fc.weight : tensor<3x4xf32>
  // CHECK: fcdp.read_buffer @mean : tensor<8xf32>
  %b = fcdp.read_buffer @mean : tensor<8xf32>
  // CHECK: fcdp.read_input @ids : tensor<4x8xi64>
  %i = fcdp.read_input @ids : tensor<4x8xi64>
  // CHECK: aten.call "aten.neg.default"(self = %{{.*}}) {fcdp.recompute = true} :
  %n = aten.call "aten.neg.default"(self = %m) {fcdp.recompute = true} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: aten.call "aten.neg.default"(self = %{{.*}}) {fcdp.recompute = false} :
  %k = aten.call "aten.neg.default"(self = %m) {fcdp.recompute = false} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: aten.call "aten.neg.default"(self = %{{.*}}) {fcdp.checkpoint_region = 0 : i64} :
  %cr = aten.call "aten.neg.default"(self = %m) {fcdp.checkpoint_region = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: aten.call "aten.neg.default"(self = %{{.*}}) {fcdp.repeated} :
  %r = aten.call "aten.neg.default"(self = %m) {fcdp.repeated} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: fcdp.gradient %{{.*}} of @fc.weight : tensor<3x4xf32>
  fcdp.gradient %g of @fc.weight : tensor<3x4xf32>
  // CHECK: fcdp.loss %{{.*}} : tensor<f32>
  fcdp.loss %l : tensor<f32>
  // CHECK: fcdp.loss %{{.*}} : tensor<1x1xbf16>
  fcdp.loss %l1 : tensor<1x1xbf16>
  // CHECK: fcdp.write_buffer %{{.*}} to @mean : tensor<8xf32>
  fcdp.write_buffer %m to @mean : tensor<8xf32>
  return
}

// A parameter that has no place in a bucket yet.
// CHECK-LABEL: func.func @sharded_parameters
func.func @sharded_parameters(%g: tensor<3x4xf32>) {
  // CHECK: %[[S:.*]] = fcdp.read_shard @fc.weight : !fcdp.shard<tensor<3x4xf32>>
  %s = fcdp.read_shard @fc.weight : !fcdp.shard<tensor<3x4xf32>>
  // CHECK: %[[H:.*]] = fcdp.cast_shard %[[S]] : !fcdp.shard<tensor<3x4xf32>> to !fcdp.shard<tensor<3x4xbf16>>
  %h = fcdp.cast_shard %s : !fcdp.shard<tensor<3x4xf32>> to !fcdp.shard<tensor<3x4xbf16>>
  // CHECK: fcdp.all_gather %[[H]] of @fc.weight over @world[node, local] range 1 : !fcdp.shard<tensor<3x4xbf16>> to tensor<3x4xbf16>
  %w = fcdp.all_gather %h of @fc.weight over @world[node, local] range 1 : !fcdp.shard<tensor<3x4xbf16>> to tensor<3x4xbf16>
  // CHECK: %[[R:.*]] = fcdp.reduce_scatter %{{.*}} of @fc.weight over @world[local, node] : tensor<3x4xf32> to !fcdp.shard<tensor<3x4xf32>>
  %r = fcdp.reduce_scatter %g of @fc.weight over @world[local, node] : tensor<3x4xf32> to !fcdp.shard<tensor<3x4xf32>>
  // CHECK: fcdp.accumulate %[[R]] into @fc.weight overwrite : !fcdp.shard<tensor<3x4xf32>>
  fcdp.accumulate %r into @fc.weight overwrite : !fcdp.shard<tensor<3x4xf32>>
  // CHECK: fcdp.shard_update @fc.weight scale 2.500000e-01 with #fcdp.sgd<lr = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, dampening = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64, nesterov = true>
  fcdp.shard_update @fc.weight scale 0.25 with #fcdp.sgd<lr = 0.1, momentum = 0.9, dampening = 0.0, weight_decay = 0.0, nesterov = true>
  return
}

// CHECK-LABEL: func.func @sharded_buckets
// CHECK-SAME: attributes {fcdp.role = #fcdp.role<only_microbatch>}
func.func @sharded_buckets(%g: tensor<3x4xbf16>) attributes {fcdp.role = #fcdp.role<only_microbatch>} {
  // CHECK: %[[S:.*]] = fcdp.read_shard @bucket.fc : tensor<16xf32>
  %s = fcdp.read_shard @bucket.fc : tensor<16xf32>
  // CHECK: %[[H:.*]] = fcdp.cast_shard %[[S]] : tensor<16xf32> to tensor<16xbf16>
  %h = fcdp.cast_shard %s : tensor<16xf32> to tensor<16xbf16>
  // CHECK: %[[SLICE:.*]] = fcdp.all_gather %[[H]] of @bucket.fc over @world[node] range 0 : tensor<16xbf16> to tensor<32xbf16>
  %slice = fcdp.all_gather %h of @bucket.fc over @world[node] range 0 : tensor<16xbf16> to tensor<32xbf16>
  // CHECK: fcdp.cache_store %[[SLICE]] to @fc.cache : tensor<32xbf16>
  fcdp.cache_store %slice to @fc.cache : tensor<32xbf16>
  // CHECK: %[[LOADED:.*]] = fcdp.cache_load @fc.cache : tensor<32xbf16>
  %loaded = fcdp.cache_load @fc.cache : tensor<32xbf16>
  // CHECK: %[[WHOLE:.*]] = fcdp.all_gather %[[LOADED]] of @bucket.fc over @world[local] range 1 : tensor<32xbf16> to tensor<64xbf16>
  %whole = fcdp.all_gather %loaded of @bucket.fc over @world[local] range 1 : tensor<32xbf16> to tensor<64xbf16>
  // CHECK: fcdp.view_member %[[WHOLE]] @fc.weight of @bucket.fc : tensor<64xbf16> to tensor<3x4xbf16>
  %w = fcdp.view_member %whole @fc.weight of @bucket.fc : tensor<64xbf16> to tensor<3x4xbf16>
  // CHECK: fcdp.pack @bucket.fc() : () -> tensor<64xf32>
  %nothing = fcdp.pack @bucket.fc() : () -> tensor<64xf32>
  // CHECK: %[[B:.*]] = fcdp.pack @bucket.fc(%{{.*}} as @fc.weight) : (tensor<3x4xbf16>) -> tensor<64xbf16>
  %b = fcdp.pack @bucket.fc(%g as @fc.weight) : (tensor<3x4xbf16>) -> tensor<64xbf16>
  // CHECK: fcdp.pack @bucket.types() : () -> tensor<64xf32>
  %wide = fcdp.pack @bucket.types() : () -> tensor<64xf32>
  // CHECK: fcdp.pack @bucket.fc(%{{.*}} as @fc.weight) {in_place = [@fc.weight]} : (tensor<3x4xbf16>) -> tensor<64xbf16>
  %in_place = fcdp.pack @bucket.fc(%g as @fc.weight) {in_place = [@fc.weight]} : (tensor<3x4xbf16>) -> tensor<64xbf16>
  // CHECK: %[[R:.*]] = fcdp.reduce_scatter %[[B]] of @bucket.fc over @world[local] : tensor<64xbf16> to tensor<32xbf16>
  %r = fcdp.reduce_scatter %b of @bucket.fc over @world[local] : tensor<64xbf16> to tensor<32xbf16>
  // CHECK: %[[G:.*]] = fcdp.reduce_scatter %[[R]] of @bucket.fc over @world[node] : tensor<32xbf16> to tensor<16xf32>
  %gs = fcdp.reduce_scatter %r of @bucket.fc over @world[node] : tensor<32xbf16> to tensor<16xf32>
  // CHECK: fcdp.accumulate %[[G]] into @bucket.fc add : tensor<16xf32>
  fcdp.accumulate %gs into @bucket.fc add : tensor<16xf32>
  // CHECK: fcdp.all_gather %[[H]] of @bucket.fc over @world[node, local] range 0 : tensor<16xbf16> to tensor<64xbf16>
  %flat = fcdp.all_gather %h of @bucket.fc over @world[node, local] range 0 : tensor<16xbf16> to tensor<64xbf16>
  // CHECK: fcdp.reduce_scatter %[[B]] of @bucket.fc over @world[node, local] : tensor<64xbf16> to tensor<16xf32>
  %sum = fcdp.reduce_scatter %b of @bucket.fc over @world[node, local] : tensor<64xbf16> to tensor<16xf32>
  return
}

// CHECK-LABEL: func.func @update
func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  // CHECK: fcdp.shard_update @bucket.fc scale 2.500000e-01 with #fcdp.adamw<lr = 1.000000e-03 : f64, beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-02 : f64>
  fcdp.shard_update @bucket.fc scale 2.5e-01 with #fcdp.adamw<lr = 1.0e-03, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 1.0e-02>
  return
}

// CHECK-LABEL: func.func @planned
func.func @planned(%g: tensor<3x4xbf16>, %flying: !fcdp.token) -> !fcdp.token {
  // CHECK: fcdp.wait %{{.*}} on compute
  fcdp.wait %flying on compute
  // CHECK: %[[S:.*]] = fcdp.read_shard @bucket.fc
  %s = fcdp.read_shard @bucket.fc : tensor<16xf32>
  // CHECK: %[[H:.*]] = fcdp.cast_shard %[[S]] {buffer = #fcdp.buffer<arena = device, offset = 64, bytes = 32>} : tensor<16xf32> to tensor<16xbf16>
  %h = fcdp.cast_shard %s {buffer = #fcdp.buffer<arena = device, offset = 64, bytes = 32>} : tensor<16xf32> to tensor<16xbf16>
  // CHECK: %[[SLICE:.*]] = fcdp.all_gather %[[H]] of @bucket.fc over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 64>}
  %slice = fcdp.all_gather %h of @bucket.fc over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 64>} : tensor<16xbf16> to tensor<32xbf16>
  // CHECK: %[[T:.*]] = fcdp.record on inter event 0
  %t = fcdp.record on inter event 0
  // CHECK: fcdp.wait %[[T]] on d2h
  fcdp.wait %t on d2h
  // CHECK: fcdp.cache_store %[[SLICE]] to @fc.cache on d2h : tensor<32xbf16>
  fcdp.cache_store %slice to @fc.cache on d2h : tensor<32xbf16>
  // CHECK: fcdp.release %[[SLICE]] : tensor<32xbf16>
  fcdp.release %slice : tensor<32xbf16>
  // CHECK: fcdp.cache_load @fc.cache on h2d {buffer = #fcdp.buffer<arena = device, offset = 512, bytes = 64>} : tensor<32xbf16>
  %loaded = fcdp.cache_load @fc.cache on h2d {buffer = #fcdp.buffer<arena = device, offset = 512, bytes = 64>} : tensor<32xbf16>
  // CHECK: %[[B:.*]] = fcdp.pack @bucket.fc(%{{.*}} as @fc.weight) {buffer = #fcdp.buffer<arena = device, offset = 768, bytes = 128>} : (tensor<3x4xbf16>) -> tensor<64xbf16>
  %b = fcdp.pack @bucket.fc(%g as @fc.weight) {buffer = #fcdp.buffer<arena = device, offset = 768, bytes = 128>} : (tensor<3x4xbf16>) -> tensor<64xbf16>
  // CHECK: fcdp.reduce_scatter %[[B]] of @bucket.fc over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2048, bytes = 128>} : tensor<64xbf16> to tensor<32xbf16>
  %r = fcdp.reduce_scatter %b of @bucket.fc over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2048, bytes = 128>} : tensor<64xbf16> to tensor<32xbf16>
  // CHECK: %[[LAST:.*]] = fcdp.record on compute
  // CHECK-NOT: event
  // CHECK: return %[[LAST]] : !fcdp.token
  %last = fcdp.record on compute
  return %last : !fcdp.token
}

}

// CHECK-LABEL: func.func @stored
func.func @stored(%x: tensor<8x4xi64>) {
  // CHECK: %[[Y:.*]] = aten.call
  %y = aten.call "aten.neg.default"(self = %x) {fcdp.on_host = array<i64: 0>} : (tensor<8x4xi64>) -> tensor<8x4xi64>
  // CHECK: %[[S:.*]] = fcdp.store_value %[[Y]] : tensor<8x4xi64>
  %s = fcdp.store_value %y : tensor<8x4xi64>
  // CHECK: fcdp.drop_value %[[Y]] stored %[[S]] : tensor<8x4xi64>
  fcdp.drop_value %y stored %s : tensor<8x4xi64>
  // CHECK: fcdp.load_value %[[S]] : tensor<8x4xi64>
  %1 = fcdp.load_value %s : tensor<8x4xi64>
  // CHECK: %[[Z:.*]] = aten.call
  %z = aten.call "aten.neg.default"(self = %x) : (tensor<8x4xi64>) -> tensor<8x4xi64>
  // CHECK: %[[T:.*]] = fcdp.store_value %[[Z]] on d2h {place = #fcdp.buffer<arena = host, offset = 256, bytes = 256, local_stride = 512>} : tensor<8x4xi64>
  %t = fcdp.store_value %z on d2h {place = #fcdp.buffer<arena = host, offset = 256, bytes = 256, local_stride = 512>} : tensor<8x4xi64>
  fcdp.drop_value %z stored %t : tensor<8x4xi64>
  // CHECK: %[[AGAIN:.*]] = fcdp.load_value %[[T]] on h2d {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 256>} : tensor<8x4xi64>
  %2 = fcdp.load_value %t on h2d {buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 256>} : tensor<8x4xi64>
  // CHECK: fcdp.release %[[AGAIN]] : tensor<8x4xi64>
  fcdp.release %2 : tensor<8x4xi64>
  return
}

// CHECK: fcdp.kernel @kernel.mul_add maps [identity, row, column, scalar] {
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[W:.*]]: bf16, %[[C:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT: %[[E:.*]] = arith.extf %[[W]] : bf16 to f32
// CHECK-NEXT: %[[M:.*]] = math.fma %[[X]], %[[E]], %[[C]] : f32
// CHECK-NEXT: %[[D:.*]] = arith.divf %[[M]], %[[S]] : f32
// CHECK-NEXT: %[[T:.*]] = arith.truncf %[[D]] : f32 to bf16
// CHECK-NEXT: fcdp.yield %[[T]], %[[D]] : bf16, f32
fcdp.kernel @kernel.mul_add maps [identity, row, column, scalar] {
^bb0(%x: f32, %w: bf16, %c: f32, %s: f32):
  %0 = arith.extf %w : bf16 to f32
  %1 = math.fma %x, %0, %c : f32
  %2 = arith.divf %1, %s : f32
  %3 = arith.truncf %2 : f32 to bf16
  fcdp.yield %3, %2 : bf16, f32
}
