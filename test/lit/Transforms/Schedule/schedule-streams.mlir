// Operations are on their streams: gathers and reductions have one each per axis.
// RUN: fcdp-opt %s --fcdp-schedule | FileCheck %s

// In one step over all ranks they are on the network's streams.
// RUN: %edit %s --replace " trainable members" " trainable collectives flat members" --delete "%%part = " --delete "%%slice = " \
// RUN:   --line "%%sum = " --replace "%%part of @b over @world[node] : tensor<32xf32>" "%%packed of @b over @world[node, local] : tensor<64xf32>" \
// RUN:   --line "%%w = " --replace "%%slice of @b over @world[local] range 0 : tensor<32xf32>" "%%s of @b over @world[node, local] range 0 : tensor<16xf32>" | fcdp-opt --fcdp-schedule | FileCheck %s --check-prefix=FLAT
// FLAT: fcdp.reduce_scatter {{.*}} over @world[node, local] on inter_reduce
// FLAT: fcdp.all_gather {{.*}} over @world[node, local] range 0 on inter :

// CHECK-LABEL: func.func @only_microbatch
// CHECK-SAME: only_microbatch
// CHECK: fcdp.reduce_scatter {{.*}} over @world[local] on intra_reduce
// CHECK-NEXT: %[[PART:.*]] = fcdp.record on intra_reduce
// CHECK-NEXT: fcdp.wait %[[PART]] on inter_reduce
// CHECK-NEXT: fcdp.reduce_scatter {{.*}} over @world[node] on inter_reduce
// CHECK-NEXT: %[[SUM:.*]] = fcdp.record on inter_reduce
// Dont: what is gathered next does not wait for the reduction.
// CHECK-NEXT: %[[BEFORE:.*]] = fcdp.record on compute
// CHECK-NEXT: fcdp.wait %[[BEFORE]] on inter{{$}}
// CHECK-NEXT: fcdp.all_gather {{.*}} over @world[node] range 0 on inter :
// CHECK-NEXT: %[[SLICE:.*]] = fcdp.record on inter{{$}}
// CHECK-NEXT: fcdp.wait %[[SLICE]] on intra{{$}}
// CHECK-NEXT: fcdp.all_gather {{.*}} over @world[local] range 0 on intra :
// CHECK: fcdp.loss
// CHECK: fcdp.wait %[[SUM]] on compute
// CHECK: fcdp.accumulate
module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 2, local = 2)
  fcdp.parameter @w : tensor<64xf32> unit "" trainable names ["w"]
  fcdp.input @x : tensor<64xf32> name "x"
  fcdp.bucket @b unit "" elements 64 storage f32 wire f32 trainable members [@w at 0]
  fcdp.state @b.shard shard of @b in device : tensor<16xf32>
  fcdp.state @b.grad grad of @b in device : tensor<16xf32>
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<64xf32>
    %s = fcdp.read_shard @b : tensor<16xf32>
    %packed = fcdp.pack @b(%x as @w) : (tensor<64xf32>) -> tensor<64xf32>
    %part = fcdp.reduce_scatter %packed of @b over @world[local] : tensor<64xf32> to tensor<32xf32>
    %sum = fcdp.reduce_scatter %part of @b over @world[node] : tensor<32xf32> to tensor<16xf32>
    %slice = fcdp.all_gather %s of @b over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    %w = fcdp.all_gather %slice of @b over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    %v = fcdp.view_member %w @w of @b : tensor<64xf32> to tensor<64xf32>
    %l = aten.call "aten.sum.default"(self = %v) : (tensor<64xf32>) -> tensor<f32>
    fcdp.loss %l : tensor<f32>
    fcdp.accumulate %sum into @b overwrite : tensor<16xf32>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
