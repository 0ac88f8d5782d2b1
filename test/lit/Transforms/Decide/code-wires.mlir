// Collectives between nodes send what the buckets say.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-decide-wires="wire=delta reduce-wire=coded" --fcdp-two-level --fcdp-cache -o %t.mlir
// RUN: fcdp-opt %t.mlir --fcdp-code-wires -o %t.coded
// RUN: FileCheck %s --input-file=%t.coded

// The values that the next gather refers to are kept, even if they are used once, as @head is.
// CHECK: fcdp.state @bucket.head.cache cache of @bucket.head in host : tensor<64xbf16>
// CHECK-NOT: range 0 delta
// CHECK-LABEL: func.func @only_microbatch
// CHECK: %[[A:.*]] = fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0 delta @bucket.a.cache : tensor<32xbf16> to tensor<64xbf16>
// CHECK-NEXT: fcdp.cache_store %[[A]] to @bucket.a.cache
// CHECK-NEXT: fcdp.all_gather %[[A]] of @bucket.a over @world[local] range 0 : tensor<64xbf16>
// CHECK: %[[H:.*]] = fcdp.all_gather %{{.*}} of @bucket.head over @world[node] range 0 delta @bucket.head.cache
// CHECK-NEXT: fcdp.cache_store %[[H]] to @bucket.head.cache
// CHECK: fcdp.all_gather %{{.*}} of @bucket.wide over @world[node] range 0 : tensor<16xf32>
// CHECK-DAG: fcdp.reduce_scatter %{{.*}} of @bucket.a over @world[node] code coded : tensor<64xbf16> to tensor<32xf32>
// CHECK-DAG: fcdp.reduce_scatter %{{.*}} of @bucket.a over @world[local] : tensor<128xbf16> to tensor<64xbf16>
// CHECK-DAG: fcdp.reduce_scatter %{{.*}} of @bucket.wide over @world[node] code coded : tensor<32xf32> to tensor<16xf32>
// CHECK-LABEL: func.func @update

// Twice is once.
// RUN: fcdp-opt %t.coded --fcdp-code-wires | diff %t.coded -

// DontCode what is raw.
// RUN: fcdp-opt %s --fcdp-shard="nodes=2 ranks-per-node=2" --fcdp-bucket --fcdp-decide="strategy=fcdp" --fcdp-two-level --fcdp-cache -o %t.raw
// RUN: fcdp-opt %t.raw --fcdp-code-wires | diff %t.raw -
// RUN: not fcdp-opt %s --fcdp-code-wires 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: expected a module in phase 'sharded'

// The whole way: messages have scratch memory, and what they send is at most
// their capacity: 64 bytes and 16 more than the 64 of a part, rounded up to 192.
// RUN: fcdp-opt %s --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp wire=delta reduce-wire=coded" -o %t.planned
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.planned
// PLANNED: fcdp.all_gather %{{.*}} of @bucket.a over @world[node] range 0 delta @bucket.a.cache on inter {buffer = {{.*}}, scratch = #fcdp.buffer<arena = device, offset = {{[0-9]+}}, bytes = 384>}

// The proof: a gather refers to a slice that another stream has stored in the
// step before.
// RUN: %edit %s --delete "fcdp.parameter @frozen" --delete "fcdp.read_parameter @frozen" --replace "other = %%f" "other = %%a" | fcdp-opt --fcdp-pipeline="nodes=2 ranks-per-node=2 strategy=fcdp wire=delta" -o %t.trained
// RUN: %edit %t.trained --in only_microbatch --first --line "fcdp.wait %{{.*}} on inter" --replace "on inter" "on h2d" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: error: 'fcdp.all_gather' op for 'a' of @bucket.a in @only_microbatch: reads bytes [0, {{[0-9]+}}) of the {{host|device}} arena on inter, not ordered with another access to them; expected 'inter' to wait for '{{compute|d2h}}'
// A message that is coded beside the store of the slice that it refers to.
// RUN: sed -n '/delta @bucket.a.cache/{s/%%[0-9]* =/%%again =/; s/offset = [0-9]*/offset = 8192/; s/scratch = \(.*\)offset = [0-9]*/scratch = \1offset = 9216/; p;}' %t.trained > %t.again
// RUN: %edit %t.trained --in only_microbatch --insert-file-after "to @bucket.a.cache" %t.again | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=ENCODE
// ENCODE: error: 'fcdp.all_gather' op for 'a' of @bucket.a in @only_microbatch: reads bytes [0, {{[0-9]+}}) of the host arena on inter, not ordered with another access to them; expected 'inter' to wait for 'd2h'
// The slice of another bucket is not what was gathered last.
// RUN: %edit %t.planned --line "fcdp.state @bucket.head.cache" --replace "offset = {{[0-9]+}}" "offset = 0" > %t.shared
// RUN: not fcdp-opt %t.shared --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'fcdp.state' op of {{.*}}: its buffer at 0 overlaps another state
// Bytes are those of the closed forms.
// RUN: %edit %t.planned --line "fcdp.bucket @bucket.a " --replace "gather_wire delta" "gather_wire raw" | not fcdp-opt --fcdp-verify-plan 2>&1 | FileCheck %s --check-prefix=FORMS
// FORMS: error: 'fcdp.bucket' op expected 'a' of @bucket.a with residency 'host' and 2 live ranges to mean that a rank sends between nodes {{[0-9]+}} bytes in @only_microbatch, got

module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64xbf16> unit "a" trainable names ["a"]
  fcdp.parameter @frozen : tensor<64xbf16> unit "frozen" names ["frozen"]
  fcdp.parameter @head : tensor<64xbf16> unit "head" trainable names ["head"]
  fcdp.parameter @wide : tensor<64xf32> unit "wide" trainable names ["wide"]
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64xbf16>
    %f = fcdp.read_parameter @frozen : tensor<64xbf16>
    %h = fcdp.read_parameter @head : tensor<64xbf16>
    %w = fcdp.read_parameter @wide : tensor<64xf32>
    %0 = aten.call "aten.neg.default"(self = %a) : (tensor<64xbf16>) -> tensor<64xbf16>
    %1 = aten.call "aten.mul.Tensor"(self = %0, other = %f) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %2 = aten.call "aten.mul.Tensor"(self = %1, other = %h) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %l = aten.call "aten.sum.default"(self = %w) : (tensor<64xf32>) -> tensor<f32>
    %3 = aten.call "aten.neg.default"(self = %h) : (tensor<64xbf16>) -> tensor<64xbf16>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %a) : (tensor<64xbf16>, tensor<64xbf16>) -> tensor<64xbf16>
    %5 = aten.call "aten.neg.default"(self = %w) : (tensor<64xf32>) -> tensor<64xf32>
    fcdp.loss %l : tensor<f32>
    fcdp.gradient %1 of @head : tensor<64xbf16>
    fcdp.gradient %4 of @a : tensor<64xbf16>
    fcdp.gradient %5 of @wide : tensor<64xf32>
    return
  }
}
