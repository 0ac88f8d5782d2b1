// RUN: fcdp-opt %s --split-input-file --verify-diagnostics --fcdp-bucket

module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 2)
  fcdp.parameter @a : tensor<4xf32> unit "" trainable names ["a"]
  fcdp.parameter @b : tensor<4xf32> unit "" trainable names ["b"]
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} { return }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
    // expected-note @below {{this one differs}}
    fcdp.shard_update @a scale 5.0e-01 with #fcdp.sgd<lr = 1.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
    // expected-error @below {{expected the scale of all other updates}}
    fcdp.shard_update @b scale 2.5e-01 with #fcdp.sgd<lr = 1.0, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, nesterov = false>
    return
  }
}

// -----

module attributes {fcdp.phase = #fcdp.phase<sharded>} {
  fcdp.mesh @world(node = 1, local = 2)
  fcdp.parameter @a : tensor<4xf32> unit "" trainable names ["a"]
  fcdp.input @x : tensor<4xf32> name "x"
  func.func @init() attributes {fcdp.role = #fcdp.role<init>} { return }
  func.func @only_microbatch() attributes {fcdp.role = #fcdp.role<only_microbatch>} {
    %x = fcdp.read_input @x : tensor<4xf32>
    // expected-error @below {{expected one use of its result, by an accumulate}}
    %r = fcdp.reduce_scatter %x of @a over @world[node, local] : tensor<4xf32> to !fcdp.shard<tensor<4xf32>>
    return
  }
  func.func @update() attributes {fcdp.role = #fcdp.role<update>} { return }
}
