// Every operation that does something becomes one call with the next index,
// in order; reads, views and releases are none.
//
// RUN: env PYTHONPATH=%S/../Import/Inputs %python %S/Inputs/constants.py %t.pt2
// RUN: fcdp-opt %S/Inputs/every-op.mlir --convert-fcdp-to-llvm=archive=%t.pt2 | FileCheck %s

// CHECK: module {
// CHECK-NEXT: llvm.func @fcdp_rt_all_gather(!llvm.ptr, i64)
// CHECK-NEXT: llvm.func @fcdp_rt_record(!llvm.ptr, i64)
// CHECK-NEXT: llvm.func @fcdp_rt_wait(!llvm.ptr, i64)

// CHECK-LABEL: llvm.func @fcdp_init(
// CHECK-SAME: %[[STEP:.*]]: !llvm.ptr) {
// CHECK-NEXT: %[[I0:.*]] = llvm.mlir.constant(0 : i64) : i64
// CHECK-NEXT: llvm.call @fcdp_rt_all_gather(%[[STEP]], %[[I0]]) : (!llvm.ptr, i64) -> ()
// CHECK-NEXT: %[[I1:.*]] = llvm.mlir.constant(1 : i64) : i64
// CHECK-NEXT: llvm.call @fcdp_rt_record(%[[STEP]], %[[I1]])
// CHECK-NEXT: llvm.mlir.constant(2 : i64)
// CHECK-NEXT: llvm.call @fcdp_rt_wait
// CHECK-NEXT: llvm.mlir.constant(3 : i64)
// CHECK-NEXT: llvm.call @fcdp_rt_cache_store
// CHECK-NEXT: llvm.mlir.constant(4 : i64)
// CHECK-NEXT: llvm.call @fcdp_rt_record
// CHECK-NEXT: llvm.mlir.constant(5 : i64)
// CHECK-NEXT: llvm.call @fcdp_rt_wait
// CHECK-NEXT: llvm.return

// CHECK-LABEL: llvm.func @fcdp_first_microbatch(
// CHECK-NEXT: llvm.mlir.constant(6 : i64)
// CHECK-NEXT: llvm.call @fcdp_rt_cast
// CHECK: llvm.call @fcdp_rt_all_gather
// CHECK: llvm.call @fcdp_rt_cache_store
// CHECK: llvm.call @fcdp_rt_all_gather
// CHECK: llvm.call @fcdp_rt_cache_load
// CHECK: llvm.call @fcdp_rt_all_gather
// CHECK-COUNT-7: llvm.call @fcdp_rt_aten_call
// CHECK-NOT: llvm.call @fcdp_rt_aten_call
// CHECK: llvm.call @fcdp_rt_write_buffer
// CHECK: llvm.call @fcdp_rt_loss
// CHECK: llvm.call @fcdp_rt_pack
// CHECK: llvm.call @fcdp_rt_reduce_scatter
// CHECK: llvm.call @fcdp_rt_reduce_scatter
// The reduction has written the accumulator.
// CHECK-NEXT: llvm.return

// CHECK-LABEL: llvm.func @fcdp_next_microbatch(
// CHECK: llvm.call @fcdp_rt_accumulate
// CHECK-NEXT: llvm.return

// CHECK-LABEL: llvm.func @fcdp_last_microbatch(
// CHECK: llvm.call @fcdp_rt_accumulate
// CHECK: llvm.call @fcdp_rt_cache_load
// CHECK: llvm.call @fcdp_rt_add
// CHECK-NEXT: llvm.return

// CHECK-LABEL: llvm.func @fcdp_update(
// CHECK: llvm.call @fcdp_rt_clip_gradients
// CHECK: llvm.call @fcdp_rt_shard_update
// CHECK-NEXT: llvm.return

// CHECK: llvm.mlir.global external constant @fcdp_abi_version(5 : i32)
// CHECK-NEXT: llvm.mlir.global external constant @fcdp_manifest("{\22hash\22:
// CHECK-NEXT: llvm.mlir.global external constant @fcdp_manifest_size([[#]] : i64)
// The second constant starts at byte 64.
// CHECK-NEXT: llvm.mlir.global external constant @fcdp_constants("\01\00\01\01\00\00{{(\\00)*}}\F8?\00\00\00\00\00\00\00\C0") {{.*}}alignment = 64
// CHECK-NEXT: llvm.mlir.global external constant @fcdp_constants_size(80 : i64)
// CHECK-NOT: fcdp.
