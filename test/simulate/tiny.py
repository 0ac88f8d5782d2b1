# SPDX-License-Identifier: Apache-2.0
"""A step of one parameter in MLIR's generic form, as it is imported and as it is planned for two nodes of one rank. The
loss is the sum of x * w, and the gradient is x."""

OPERATIONS = """
    %6 = "aten.call"(%0, %1) <{argNames = ["self", "other"], args = [#aten.operand<0>, #aten.operand<1>], callee = "aten.mul.Tensor"}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = "aten.call"(%6) <{argNames = ["self"], args = [#aten.operand<0>], callee = "aten.sum.default"}> : (tensor<4xf32>) -> tensor<f32>
    "fcdp.loss"(%7) : (tensor<f32>) -> ()
    %8 = "aten.call"(%0) <{argNames = ["self"], args = [#aten.operand<0>], callee = "aten.clone.default"}> : (tensor<4xf32>) -> tensor<4xf32>
"""
SYMBOLS = """
  "fcdp.input"() <{name = "x", sym_name = "x", type = tensor<4xf32>}> : () -> ()
  "fcdp.parameter"() <{names = ["w"], sym_name = "w", trainable, type = tensor<4xf32>, unit = "a"}> : () -> ()
"""
IMPORTED = f"""
"builtin.module"() ({{
  {SYMBOLS}
  "func.func"() <{{function_type = () -> (), sym_name = "step"}}> ({{
    %0 = "fcdp.read_input"() <{{source = @x}}> : () -> tensor<4xf32>
    %1 = "fcdp.read_parameter"() <{{source = @w}}> : () -> tensor<4xf32>
    {OPERATIONS}
    "fcdp.gradient"(%8) <{{parameter = @w}}> : (tensor<4xf32>) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) {{fcdp.phase = #fcdp.phase<imported>}} : () -> ()
"""
# Bytes 0 to 64 and 64 to 128 are the shards of the parameter and of its gradient; buffers follow.
PLANNED = f"""
"builtin.module"() ({{
  "fcdp.mesh"() <{{local = 1 : i64, node = 2 : i64, sym_name = "world"}}> : () -> ()
  {SYMBOLS}
  "fcdp.bucket"() <{{elements = 32 : i64, members = [#fcdp.member<@w, 0>], sharding = #fcdp<sharding world>, storage = f32, sym_name = "bucket.a", trainable, unit = "a", wire = f32}}> : () -> ()
  "fcdp.state"() <{{arena = #fcdp<arena device>, bucket = @bucket.a, buffer = #fcdp.buffer<arena = device, offset = 0, bytes = 64>, role = #fcdp<state_role shard>, sym_name = "bucket.a.shard", type = tensor<16xf32>}}> : () -> ()
  "fcdp.state"() <{{arena = #fcdp<arena device>, bucket = @bucket.a, buffer = #fcdp.buffer<arena = device, offset = 64, bytes = 64>, role = #fcdp<state_role grad>, sym_name = "bucket.a.grad", type = tensor<16xf32>}}> : () -> ()
  "func.func"() <{{function_type = () -> (), sym_name = "init"}}> ({{
    "func.return"() : () -> ()
  }}) : () -> ()
  "func.func"() <{{function_type = () -> !fcdp.token, sym_name = "only_microbatch"}}> ({{
    %0 = "fcdp.read_input"() <{{source = @x}}> : () -> tensor<4xf32>
    %2 = "fcdp.read_shard"() <{{source = @bucket.a}}> : () -> tensor<16xf32>
    %13 = "fcdp.record"() <{{event = 0 : i64, stream = #fcdp<stream compute>}}> : () -> !fcdp.token
    "fcdp.wait"(%13) <{{stream = #fcdp<stream inter>}}> : (!fcdp.token) -> ()
    %3 = "fcdp.all_gather"(%2) <{{axes = [#fcdp<axis node>], buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 128>, mesh = @world, range = 0 : i64, source = @bucket.a, stream = #fcdp<stream inter>}}> : (tensor<16xf32>) -> tensor<32xf32>
    %4 = "fcdp.record"() <{{event = 1 : i64, stream = #fcdp<stream inter>}}> : () -> !fcdp.token
    "fcdp.wait"(%4) <{{stream = #fcdp<stream compute>}}> : (!fcdp.token) -> ()
    %1 = "fcdp.view_member"(%3) <{{bucket = @bucket.a, parameter = @w}}> : (tensor<32xf32>) -> tensor<4xf32>
    {OPERATIONS}
    "fcdp.release"(%3) : (tensor<32xf32>) -> ()
    %9 = "fcdp.pack"(%8) <{{bucket = @bucket.a, buffer = #fcdp.buffer<arena = device, offset = 128, bytes = 128>, parameters = [@w]}}> : (tensor<4xf32>) -> tensor<32xf32>
    %10 = "fcdp.record"() <{{event = 2 : i64, stream = #fcdp<stream compute>}}> : () -> !fcdp.token
    "fcdp.wait"(%10) <{{stream = #fcdp<stream inter_reduce>}}> : (!fcdp.token) -> ()
    %11 = "fcdp.reduce_scatter"(%9) <{{axes = [#fcdp<axis node>], buffer = #fcdp.buffer<arena = device, offset = 64, bytes = 64>, mesh = @world, scratch = #fcdp.buffer<arena = device, offset = 256, bytes = 128>, source = @bucket.a, stream = #fcdp<stream inter_reduce>}}> : (tensor<32xf32>) -> tensor<16xf32>
    "fcdp.accumulate"(%11) <{{mode = #fcdp<accumulate_mode overwrite>, stream = #fcdp<stream inter_reduce>, target = @bucket.a}}> : (tensor<16xf32>) -> ()
    "fcdp.release"(%11) <{{stream = #fcdp<stream inter_reduce>}}> : (tensor<16xf32>) -> ()
    "fcdp.release"(%9) <{{stream = #fcdp<stream inter_reduce>}}> : (tensor<32xf32>) -> ()
    %12 = "fcdp.record"() <{{event = 3 : i64, stream = #fcdp<stream inter_reduce>}}> : () -> !fcdp.token
    "func.return"(%12) : (!fcdp.token) -> ()
  }}) : () -> ()
  "func.func"() <{{arg_attrs = [{{fcdp.event = 3 : i64}}], function_type = (!fcdp.token) -> (), sym_name = "update"}}> ({{
  ^bb0(%arg0: !fcdp.token):
    "fcdp.wait"(%arg0) <{{stream = #fcdp<stream compute>}}> : (!fcdp.token) -> ()
    "fcdp.shard_update"() <{{optimizer = #fcdp.sgd<lr = 5.000000e-01 : f64>, scale = 5.000000e-01 : f64, target = @bucket.a}}> : () -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) {{fcdp.micro_batches = 1 : i64, fcdp.phase = #fcdp.phase<planned>}} : () -> ()
"""
