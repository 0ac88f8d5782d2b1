// If a step does not fit, states, values of the forward pass, or both leave the device.
// RUN: mkdir -p %t
// RUN: %python %S/../Inputs/layers.py 6 512 256 > %t/layers.mlir
// RUN: %python %S/../Inputs/chain.py 12 65536 > %t/chain.mlir
// DEFINE: %{mesh} = nodes=2 ranks-per-node=2 cluster=cpu
// DEFINE: %{layers} = fcdp-opt %t/layers.mlir --remarks-filter="fcdp-decide|fcdp-decide-states" --remark-format=emitRemark

// Nothing moves if all fits on the device.
// RUN: %{layers} --fcdp-pipeline="%{mesh} strategy=auto states=auto activations=auto device-memory=20000000" 2>&1 | FileCheck %s --check-prefix=FITS
// FITS-NOT: Remark="on the device:
// FITS-NOT: states host
// FITS-NOT: fcdp.store_value

// With the strategy auto, a plan is found that counts on values leaving the device. States stay, because they are not
// enough, and would cost more time.
// RUN: %{layers} --fcdp-pipeline="%{mesh} strategy=auto activations=auto device-memory=9000000" 2>&1 | FileCheck %s --check-prefix=VALUES
// RUN: %{layers} --fcdp-pipeline="%{mesh} strategy=auto states=auto activations=auto device-memory=9000000" 2>&1 | FileCheck %s --check-prefix=VALUES
// VALUES: Remark="on the device: no plan fits: the smallest takes {{[0-9]+}} bytes of device memory of 9000000 {{.*}}; with activations that may leave: {{.*}} ms and {{.*}} MB, activations in host memory;{{.*}} chosen: activations in host memory"
// VALUES-NOT: states host
// VALUES: fcdp.store_value

// Both leave if neither is enough, and no more states than are needed.
// RUN: not %{layers} --fcdp-pipeline="%{mesh} strategy=auto activations=auto device-memory=4700000" 2>&1 | FileCheck %s --check-prefix=ONLY-VALUES
// ONLY-VALUES: error: strategy 'auto': no plan fits: the smallest takes {{[0-9]+}} bytes of device memory of 4700000{{.*}}, with activations in host memory
// RUN: not %{layers} --fcdp-pipeline="%{mesh} strategy=auto states=auto device-memory=4700000" 2>&1 | FileCheck %s --check-prefix=ONLY-STATES
// ONLY-STATES: error: strategy 'auto': no plan fits: the smallest takes {{[0-9]+}} bytes of device memory of 4700000{{.*}}, with states in host memory
// RUN: %{layers} --fcdp-pipeline="%{mesh} strategy=auto states=auto activations=auto device-memory=4700000" 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: chosen: states and activations in host memory"
// BOTH: Remark="states: {{.*}} of {{[1-5]}} buckets are in host memory; the plan needs {{.*}} of 4.7 MB
// BOTH: states host
// BOTH: fcdp.store_value

// States are what does not fit, and leave alone.
// RUN: not fcdp-opt %t/chain.mlir --fcdp-pipeline="%{mesh} strategy=auto device-memory=4000000" 2>&1 | FileCheck %s --check-prefix=NEITHER
// NEITHER: error: strategy 'auto': no plan fits: the smallest takes 5242880 bytes of device memory of 4000000 and 0 bytes of host memory of {{[0-9]+$}}
// RUN: fcdp-opt %t/chain.mlir --fcdp-pipeline="%{mesh} strategy=auto states=auto activations=auto device-memory=4000000" | FileCheck %s --check-prefix=STATES
// STATES: states host
// STATES-NOT: fcdp.store_value

// A preset has its residencies, and the same choice.
// RUN: %{layers} --fcdp-pipeline="%{mesh} strategy=zero3 states=auto activations=auto device-memory=9000000" 2>&1 | FileCheck %s --check-prefix=PRESET
// PRESET: Remark="states: all stay on the device;
// PRESET: Remark="states and activations: all on the device takes {{.*}}; activations in host memory takes {{.*}}; states in host memory takes {{.*}} chosen: activations in host memory"
// PRESET-NOT: states host
// PRESET: fcdp.store_value

// With recomputation in the same problem: copies are hidden by fast links, and recomputing is faster than slow ones.
// DEFINE: %{choose} = fcdp-opt --remarks-filter=fcdp-choose-remat --remark-format=emitRemark
// RUN: %{choose} %t/layers.mlir --fcdp-pipeline="%{mesh} strategy=zero3 remat=auto activations=auto device-memory=7000000" 2>&1 | FileCheck %s --check-prefix=FAST
// FAST: Remark="remat auto: none takes {{.*}}; unit takes {{.*}}; {{[0-9]+}} takes {{.*}} chosen: none"
// FAST: fcdp.store_value
// RUN: %edit %fcdp_src_root/cluster/cpu.yaml --replace "3.5e9" "1e8" > %t/slow.yaml
// RUN: %{choose} %t/layers.mlir --fcdp-pipeline="nodes=2 ranks-per-node=2 cluster=%t/slow.yaml strategy=zero3 remat=auto activations=auto device-memory=12000000" 2>&1 | FileCheck %s --check-prefix=SLOW
// SLOW: chosen: {{unit|[0-9]+}}"
// SLOW: fcdp.repeated
// SLOW-NOT: fcdp.store_value

// If the step fits without, nothing is recomputed. A choice that was made stays.
// RUN: fcdp-opt %t/layers.mlir --fcdp-pipeline="%{mesh} strategy=zero3 remat=auto" | FileCheck %s --check-prefix=NONE
// NONE-NOT: fcdp.repeated
// RUN: not fcdp-opt %t/layers.mlir --fcdp-pipeline="strategy=zero3 remat=auto" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// CLUSTER: error: remat 'auto' chooses for a cluster; give one as 'cluster', a file or the name of a preset
// RUN: not fcdp-opt %t/layers.mlir --fcdp-decide-remat=remat=auto 2>&1 | FileCheck %s --check-prefix=PASS
// PASS: error: remat 'auto' compares whole plans; expected a choice, or --fcdp-pipeline
// RUN: not fcdp-opt %t/layers.mlir --fcdp-pipeline="%{mesh} strategy=zero3 remat=auto device-memory=1000" 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: the plan needs {{[0-9]+}} bytes of device memory per rank, expected at most 1000
