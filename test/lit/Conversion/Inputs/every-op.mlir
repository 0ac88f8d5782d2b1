// A planned step with every operation that the runtime has a call for: one
// trained bucket, gathered in bf16 and cached in the first micro-batch, and one
// frozen bucket, cached in @init.
module attributes {fcdp.archive = "every-op.pt2", fcdp.micro_batches = 3 : i64, fcdp.phase = #fcdp.phase<planned>, fcdp.strategy = "fcdp"} {

fcdp.mesh @world(node = 2, local = 2)
fcdp.parameter @w : tensor<3x4xf32> unit "fc" trainable names ["fc.weight", "tied.weight"]
fcdp.parameter @b : tensor<3xf32> unit "fc" trainable names ["fc.bias"] group <lr = 0.5, weight_decay = 0.25>
fcdp.parameter @e : tensor<3x4xf32> unit "emb" names ["emb.weight"]
fcdp.buffer @mean : tensor<2x3xbf16> name "running_mean" persistent mutable
fcdp.buffer @mask : tensor<5xi1> name "mask"
fcdp.buffer @scale : tensor<2xf64> name "scale"
fcdp.input @ids : tensor<2xi64> name "ids" limit 3 ignore -100
fcdp.input @x : tensor<2x4xbf16> name "x"

fcdp.bucket @fc unit "fc" elements 64 storage f32 wire bf16 trainable residency host members [@w at 0, @b at 32]
fcdp.state @fc.shard shard of @fc in device : tensor<16xf32> at <arena = device, offset = 0, bytes = 64>
fcdp.state @fc.grad grad of @fc in device : tensor<16xf32> at <arena = device, offset = 256, bytes = 64>
fcdp.state @fc.momentum momentum_buffer of @fc in device : tensor<16xf32> at <arena = device, offset = 512, bytes = 64>
fcdp.state @fc.cache cache of @fc in host : tensor<32xbf16> at <arena = host, offset = 512, bytes = 64, local_stride = 256>
fcdp.state @fc.sum host_grad of @fc in host : tensor<32xf32> at <arena = host, offset = 1024, bytes = 128, local_stride = 256>
fcdp.bucket @emb unit "emb" elements 16 storage f32 wire f32 residency host members [@e at 0]
fcdp.state @emb.shard shard of @emb in device : tensor<4xf32> at <arena = device, offset = 768, bytes = 16>
fcdp.state @emb.cache cache of @emb in host : tensor<8xf32> at <arena = host, offset = 0, bytes = 32, local_stride = 256>

func.func @init() attributes {fcdp.role = #fcdp.role<init>} {
  %shard = fcdp.read_shard @emb : tensor<4xf32>
  %slice = fcdp.all_gather %shard of @emb over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 32>} : tensor<4xf32> to tensor<8xf32>
  %gathered = fcdp.record on inter event 0
  fcdp.wait %gathered on d2h
  fcdp.cache_store %slice to @emb.cache on d2h : tensor<8xf32>
  %stored = fcdp.record on d2h event 1
  fcdp.wait %stored on compute
  fcdp.release %slice : tensor<8xf32>
  return
}

func.func @first_microbatch() attributes {fcdp.role = #fcdp.role<first_microbatch>} {
  %ids = fcdp.read_input @ids : tensor<2xi64>
  %x = fcdp.read_input @x : tensor<2x4xbf16>
  %mean = fcdp.read_buffer @mean : tensor<2x3xbf16>
  %scale = fcdp.read_buffer @scale : tensor<2xf64>
  %loss_scale = fcdp.read_loss_scale : tensor<f32>

  // The cast's result, the node slice and the whole share their memory.
  %shard = fcdp.read_shard @fc : tensor<16xf32>
  %cast = fcdp.cast_shard %shard {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 32, node_stride = 32, local_stride = 64>} : tensor<16xf32> to tensor<16xbf16>
  %slice = fcdp.all_gather %cast of @fc over @world[node] range 0 on inter {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 64, local_stride = 64>} : tensor<16xbf16> to tensor<32xbf16>
  fcdp.cache_store %slice to @fc.cache on d2h : tensor<32xbf16>
  %whole = fcdp.all_gather %slice of @fc over @world[local] range 0 on intra {buffer = #fcdp.buffer<arena = device, offset = 1024, bytes = 128>} : tensor<32xbf16> to tensor<64xbf16>
  %w = fcdp.view_member %whole @w of @fc : tensor<64xbf16> to tensor<3x4xbf16>
  %b = fcdp.view_member %whole @b of @fc : tensor<64xbf16> to tensor<3xbf16>

  // The frozen bucket comes from the cache.
  %emb_slice = fcdp.cache_load @emb.cache on h2d {buffer = #fcdp.buffer<arena = device, offset = 1280, bytes = 32, local_stride = 32>} : tensor<8xf32>
  %emb = fcdp.all_gather %emb_slice of @emb over @world[local] range 0 on intra {buffer = #fcdp.buffer<arena = device, offset = 1280, bytes = 64>} : tensor<8xf32> to tensor<16xf32>
  %e = fcdp.view_member %emb @e of @emb : tensor<16xf32> to tensor<3x4xf32>

  %t = aten.call "aten.t.default"(self = %w) : (tensor<3x4xbf16>) -> tensor<4x3xbf16>
  %mm = aten.call "aten.addmm.default"(self = %b, mat1 = %x, mat2 = %t) : (tensor<3xbf16>, tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>
  %row = aten.call "aten.index.Tensor"(self = %e, indices = [%ids, none]) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %next = aten.call "aten.lerp.Scalar"(self = %mean, end = %mm, weight = 1.000000e-01) : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x3xbf16>
  %sum = aten.call "aten.sum.dim_IntList"(self = %mm, dim = [0, 1], keepdim = false, dtype = f32) : (tensor<2x3xbf16>) -> tensor<f32>
  %norm:2 = aten.call "aten.native_group_norm.default"(input = %row, weight = %loss_scale) {undefined = array<i64: 1>} : (tensor<2x4xf32>, tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %gw = aten.call "aten.full.default"(size = [3, 4], fill_value = 0x7FF0000000000000 : f64, dtype = bf16, layout = #aten.layout<strided>, device = #aten.device<"cpu">, memory_format = #aten.memory_format<contiguous>, pin_memory = none, name = "g", mask = [true, false], factors = [1.500000e+00, 2.000000e+00], tensors = []) : () -> tensor<3x4xbf16>
  fcdp.write_buffer %next to @mean : tensor<2x3xbf16>
  fcdp.loss %sum : tensor<f32>

  %packed = fcdp.pack @fc(%gw as @w) {buffer = #fcdp.buffer<arena = device, offset = 1536, bytes = 128>} : (tensor<3x4xbf16>) -> tensor<64xbf16>
  %part = fcdp.reduce_scatter %packed of @fc over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 1792, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2048, bytes = 128>} : tensor<64xbf16> to tensor<32xbf16>
  // Straight into the accumulator.
  %grad = fcdp.reduce_scatter %part of @fc over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 256, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2304, bytes = 64>} : tensor<32xbf16> to tensor<16xf32>
  fcdp.accumulate %grad into @fc overwrite : tensor<16xf32>
  fcdp.release %cast : tensor<16xbf16>
  fcdp.release %slice : tensor<32xbf16>
  fcdp.release %whole : tensor<64xbf16>
  fcdp.release %emb_slice : tensor<8xf32>
  fcdp.release %emb : tensor<16xf32>
  fcdp.release %packed : tensor<64xbf16>
  fcdp.release %part : tensor<32xbf16>
  fcdp.release %grad : tensor<16xf32>
  return
}

func.func @next_microbatch() attributes {fcdp.role = #fcdp.role<next_microbatch>} {
  %packed = fcdp.pack @fc() {buffer = #fcdp.buffer<arena = device, offset = 1536, bytes = 128>} : () -> tensor<64xbf16>
  %part = fcdp.reduce_scatter %packed of @fc over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 1792, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2048, bytes = 128>} : tensor<64xbf16> to tensor<32xbf16>
  %grad = fcdp.reduce_scatter %part of @fc over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 2560, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2304, bytes = 64>} : tensor<32xbf16> to tensor<16xf32>
  fcdp.accumulate %grad into @fc add : tensor<16xf32>
  fcdp.release %packed : tensor<64xbf16>
  fcdp.release %part : tensor<32xbf16>
  fcdp.release %grad : tensor<16xf32>
  return
}

func.func @last_microbatch() attributes {fcdp.role = #fcdp.role<last_microbatch>} {
  %packed = fcdp.pack @fc() {buffer = #fcdp.buffer<arena = device, offset = 1536, bytes = 128>} : () -> tensor<64xbf16>
  %part = fcdp.reduce_scatter %packed of @fc over @world[local] on intra_reduce {buffer = #fcdp.buffer<arena = device, offset = 1792, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2048, bytes = 128>} : tensor<64xbf16> to tensor<32xbf16>
  %grad = fcdp.reduce_scatter %part of @fc over @world[node] on inter_reduce {buffer = #fcdp.buffer<arena = device, offset = 2560, bytes = 64>, scratch = #fcdp.buffer<arena = device, offset = 2304, bytes = 64>} : tensor<32xbf16> to tensor<16xf32>
  fcdp.accumulate %grad into @fc add : tensor<16xf32>
  fcdp.release %packed : tensor<64xbf16>
  fcdp.release %part : tensor<32xbf16>
  fcdp.release %grad : tensor<16xf32>
  %sum = fcdp.cache_load @fc.sum on h2d {buffer = #fcdp.buffer<arena = device, offset = 2816, bytes = 128>} : tensor<32xf32>
  %twice = fcdp.add %sum, %sum {buffer = #fcdp.buffer<arena = device, offset = 3072, bytes = 128>} : tensor<32xf32>
  fcdp.release %sum : tensor<32xf32>
  fcdp.release %twice : tensor<32xf32>
  return
}

func.func @update() attributes {fcdp.role = #fcdp.role<update>} {
  fcdp.unscale_gradients
  fcdp.clip_gradients to 0.5 scale 0.125
  fcdp.shard_update @fc scale 1.250000e-01 with #fcdp.sgd<lr = 1.000000e-01, momentum = 9.000000e-01, dampening = 0.000000e+00, weight_decay = 0.000000e+00, nesterov = true>
  return
}
}
