// SPDX-License-Identifier: Apache-2.0
//
// The options of the pipeline: name, type, default, help and constraint, each in
// this place only. Passes list the options that they take (Passes.td). Pipeline.td
// makes `struct PipelineOptions` of all of them, and the table from which
// `--fcdp-pipeline`, fcdp-compile and fcdp-sim read them.

#ifndef FCDP_TRANSFORMS_PIPELINE_OPTIONS
#define FCDP_TRANSFORMS_PIPELINE_OPTIONS

include "dialects/Fcdp/FcdpAttrs.td"
include "mlir/Pass/PassBase.td"

// A type with its constraint. `reader` is a function template of
// PipelineOptions.cpp that reads a value from text or says what was expected;
// `arguments` are its template arguments.
class OptionKind<string cppType, string function, string arguments = ""> {
  string type = cppType;
  string reader = function;
  string readerArguments = !if(!empty(arguments), "", ", " # arguments);
}
class AtLeast<int least> : OptionKind<"int64_t", "readInteger", !cast<string>(least)>;
def Positive : OptionKind<"double", "readPositive">;
def Text : OptionKind<"std::string", "readText">;
class CheckedBy<string function> : OptionKind<"std::string", "readText", function>;

// `default` is C++. `defaultHelp` describes it in help texts, also if it stands
// for a choice that is made later.
class PipelineOption<string name, string flag, OptionKind kind, string default,
                     string placeholder, string defaultHelp, string does>
    : Option<name, flag, kind.type, default, does # " (default: " # defaultHelp # ")"> {
  string id = "option::" # NAME;
  string placeholderText = placeholder;
  string read = kind.reader # "<&PipelineOptions::" # name # kind.readerArguments # ">";
  string take = "[](const auto &from, auto &to) { takeOption(from, to, "
                "[](auto &of) -> decltype((of." # name # ")) { return of." # name # "; }); }";
  // A flag that may be given several times. `;` joins the texts.
  bit isRepeatable = 0;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

def Target : PipelineOption<
  "target", "target", CheckedBy<"checkTarget">, "\"\"", "cpu|cuda",
  "the device that it was exported on",
  "selects the device that the step runs on: 'cpu', or 'cuda', to which a step that "
  "was exported on a CPU is retargeted">;
def ComputeCapability : PipelineOption<
  "computeCapability", "compute-capability", Positive, "0", "X.Y", "the cluster's, or 8.0",
  "names the GPUs for which attention is chosen, by NVIDIA's number, such as 9.0 for "
  "H100 and H200: cuDNN's for 9.0 and 10.0 where it has a kernel, the flash kernel "
  "from 8.0 on, and the memory-efficient kernel otherwise">;
def Remat : PipelineOption<
  "remat", "remat", CheckedBy<"checkRemat">, "\"none\"", "none|unit|auto|BYTES", "none",
  "selects the values that the backward pass recomputes instead of keeping them: 'none' "
  "recomputes nothing, 'unit' recomputes all but the values that one unit, such as a "
  "block, passes to the next, a number of bytes recomputes as little as possible so "
  "that at most that many bytes are kept from the forward pass, and 'auto' plans several "
  "amounts and takes the one with which a step that fits is the fastest">;
def Activations : PipelineOption<
  "activations", "activations", CheckedBy<"checkActivations">, "\"device\"", "device|host|auto", "device",
  "selects the memory in which values of the forward pass wait for the backward pass: 'device' "
  "keeps them on the device, 'host' keeps those in host memory whose copies there and back are "
  "expected to be hidden by compute, and 'auto' only as many as the device's memory demands">;
def Nodes : PipelineOption<
  "nodes", "nodes", AtLeast<1>, "1", "N", "the cluster's number, or 1 without a cluster",
  "sets the number of nodes">;
def RanksPerNode : PipelineOption<
  "ranksPerNode", "ranks-per-node", AtLeast<1>, "1", "g",
  "the cluster's number, or 1 without a cluster", "sets the number of ranks per node">;
def MicroBatches : PipelineOption<
  "microBatches", "micro-batches", AtLeast<1>, "1", "K", "1",
  "sets the number of micro-batches per optimizer step, over which gradients are "
  "accumulated">;
def Optimizer : PipelineOption<
  "optimizer", "optimizer", CheckedBy<"checkOptimizer">, "\"adamw\"",
  "NAME[,KEY=VALUE]...[+NAME[,KEY=VALUE]...]", "adamw",
  "selects the optimizer and its settings, with PyTorch's names and defaults: for example "
  # !interleave(!filter(text, !foreach(o, optimizers, o.example), !not(!empty(text))), ", ")
  # ", adafactor or muon,lr=2e-2+adamw,lr=3e-4: Muon for the matrices of hidden layers, and another "
  "optimizer for embeddings, heads and parameters that are not matrices">;
def Group : PipelineOption<
  "group", "group", CheckedBy<"checkGroups">, "\"\"",
  "PATTERN[,PATTERN]...:KEY=VALUE[,KEY=VALUE]...", "none",
  "gives the parameters whose names match a pattern other settings: weight_decay, lr as a "
  "factor of the learning rate and, if the step has two optimizers, optimizer; for example "
  "*.bias,*norm*:weight_decay=0 or *router*:optimizer=adamw. It may be given several times "
  "(or several groups with ';' between them), and the first group that matches counts"> {
  let isRepeatable = 1;
}
def Master : PipelineOption<
  "master", "master", CheckedBy<"checkMaster">, "\"model\"", "model|f32", "model",
  "selects the type in which the optimizer updates parameters of a narrower type and keeps "
  "its states: 'model' uses the parameters' own type, 'f32' uses float32, in a copy of the "
  "parameters that is rounded before gathers">;
def ReduceType : PipelineOption<
  "reduceType", "reduce-dtype", CheckedBy<"checkReduceType">, "\"model\"",
  "model|f32|bf16|f16", "model",
  "selects the type in which gradients are reduced: 'model' is the type in which the model "
  "computes them, another type is the one to which they are rounded before. Sums are in "
  "float32, and are rounded to this type only between two reductions">;
def LossScale : PipelineOption<
  "lossScale", "loss-scale", CheckedBy<"checkLossScale">, "\"off\"", "off|on", "off",
  "scales the loss before the backward pass, and gradients back before they are clipped or "
  "used, so that models in f16 train: 'on' or 'off'. fcdp-run chooses the factor, which is "
  "dynamic, like torch.amp.GradScaler's, or fixed">;
def LossWeight : PipelineOption<
  "lossWeight", "loss-weight", Text, "\"\"", "INPUT", "none, all count alike",
  "weights the loss of each micro-batch by the sum of the elements of its input INPUT, "
  "such as a mask of tokens or a tensor with their number: the loss of a step is sum(w L) "
  "/ sum(w) over all micro-batches and ranks, and gradients are gradients of that loss; an "
  "evaluation weights its loss in the same way">;
def LossChunk : PipelineOption<
  "lossChunk", "loss-chunk", CheckedBy<"checkLossChunk">, "\"off\"", "ROWS|auto|off[,sum|,blocks]", "off",
  "computes the last projection and the cross entropy over its result, or its comparison with a teacher's logits, in chunks of up to ROWS "
  "rows (in multiples of 16), with their gradients, so that logits are never in memory as a whole; 'auto' does so where "
  "logits decide the peak of memory, or where the device's memory demands it, in chunks of a size that pays. The gradient of the "
  "projection's weight is a sum over chunks (',sum'), or is computed by blocks of classes "
  "(',blocks') without the memory of that sum in float32; by default cost and memory decide. With one thread of a CPU, the loss and the gradient "
  "of the projection's input keep their bits">;
def Frozen : PipelineOption<
  "frozen", "frozen", CheckedBy<"checkFrozen">, "\"off\"",
  "nf4|int8|off[,keep=PATTERN]...[,pack=PATTERN]...", "off",
  "packs frozen matrices when weights are loaded, as codes of 4 bits (nf4) or 8 bits (int8) "
  "with scales, and unpacks each right before a product: the matrices that only products "
  "read, without tied ones and output heads; 'keep' leaves out matrices by shell patterns "
  "of their names, and 'pack' includes heads">;
def Fuse : PipelineOption<
  "fuse", "fuse", CheckedBy<"checkFuse">, "\"off\"", "off|exact", "off",
  "turns chains of pointwise operators of the model into kernels that the compiler writes, "
  "for steps on CPUs: 'exact' rounds where the operators round, so that results have their "
  "bits, and 'off' calls each operator">;
def ClipNorm : PipelineOption<
  "clipNorm", "clip-norm", Positive, "0", "X", "no clipping",
  "clips the gradients of a step to this norm, as torch.nn.utils.clip_grad_norm_ does">;

//===----------------------------------------------------------------------===//
// The layout
//===----------------------------------------------------------------------===//

def Layout : PipelineOption<
  "layout", "layout", CheckedBy<"checkLayout">, "\"flat\"", "LAYOUT", "flat",
  "selects the blocks of a parameter that are not split over ranks: 'flat' has none, "
  "'ragged<N>' has blocks of N rows (for row-wise scales), 'owned' has whole matrices. "
  "If an optimizer needs a layout, its parameters have that layout">;
def Wrap : PipelineOption<
  "wrap", "wrap", CheckedBy<"checkWrap">, "\"unit\"", "unit|module|checkpoint", "unit",
  "selects which parameters are gathered and reduced together: 'unit' the parameters of a "
  "unit, such as a block; 'module' the parameters of a module, such as a linear layer, for "
  "smaller gathers that need less device memory; 'checkpoint' the parameters of a unit, "
  "with a separate gather for recomputation in the backward pass, as FSDP gathers within "
  "activation checkpoints">;
def BucketBytes : PipelineOption<
  "bucketBytes", "bucket-bytes", AtLeast<0>, "-1", "BYTES", "0; 'auto' chooses",
  "merges the buckets of neighbouring units up to this number of bytes, for fewer and "
  "larger collectives that need more device memory; 0 makes one bucket per unit">;

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

def Strategy : PipelineOption<
  "strategy", "strategy", CheckedBy<"checkStrategy">, "\"fcdp\"", "S",
  "fcdp, or auto if fcdp-compile is given a cluster",
  "selects where gathered parameters are kept between two uses: 'fcdp' keeps them in "
  "host memory, 'zero1' and 'zero2' on every device, 'hpz' a slice on every device, "
  "'zero3' nowhere; 'hsdp' and 'mics' shard parameters over the ranks of a node only, "
  "'ddp' not at all; 'auto' chooses for each bucket, so that a step on the cluster is fastest">;
def Accumulate : PipelineOption<
  "accumulate", "accumulate", CheckedBy<"checkAccumulation">, "\"\"", "MODE",
  "full for zero1, node for mics, sharded for other presets; 'auto' chooses",
  "selects how gradients are accumulated over micro-batches: 'sharded' reduces them "
  "each time, 'node' reduces them within the node each time, 'node_host' does so with "
  "the accumulator in host memory, 'full' reduces the accumulator after the last">;
def Collectives : PipelineOption<
  "collectives", "collectives", CheckedBy<"checkCollectives">, "\"\"", "C",
  "two-level; auto with the strategy 'auto'",
  "selects how a bucket is gathered and reduced over several nodes of several ranks: "
  "'two-level' goes between nodes and within them, each byte crossing the network once, "
  "'flat' goes over all ranks in one step, 'auto' chooses for each bucket the faster way "
  "on the cluster">;
def Wire : PipelineOption<
  "wire", "wire", CheckedBy<"checkGatherWire">, "\"raw\"", "raw|delta|auto", "raw",
  "selects the values that gathers send between nodes: 'raw' all values, 'delta' the "
  "changes since the last gather, coded without loss, for trained parameters that are "
  "gathered in bf16 or f16 and kept in host memory; 'auto' chooses for each bucket the "
  "faster form on the cluster">;
def ReduceWire : PipelineOption<
  "reduceWire", "reduce-wire", CheckedBy<"checkReduceWire">, "\"raw\"", "raw|coded|int8|int4|auto", "raw",
  "selects the values that reductions send between nodes: 'raw' gradients without coding, "
  "'coded' gradients with exponents that are coded without loss, 'int8' or 'int4' "
  "gradients that are rounded to codes of 8 or 4 bits, and whose rounding errors are added "
  "to the next gradients; 'auto' chooses for each bucket the faster of 'raw' and 'coded' on "
  "the cluster">;
def States : PipelineOption<
  "states", "states", CheckedBy<"checkStates">, "\"device\"", "device|host|file|auto[,piece=BYTES]", "device",
  "selects the memory of the optimizer's states and of masters: 'device'; 'host', from "
  "which the update loads them in pieces of BYTES (67108864) and stores them again, with "
  "the same bits; 'file', the same from files in the folders of fcdp-run --state-path; or "
  "'auto', which moves as few of them to host memory as the device's memory demands">;
def Update : PipelineOption<
  "update", "update", CheckedBy<"checkUpdate">, "\"device\"", "device|host|auto", "device",
  "selects the processors that update states in host memory: 'device', to which the update "
  "loads them in pieces; 'host', the node's, to which gradients are copied and from which "
  "the new shards are; or 'auto', for each bucket the one that the cluster predicts to be "
  "faster. Optimizers that update whole parameters, such as muon, need 'device'">;
def Outer : PipelineOption<
  "outer", "outer", CheckedBy<"checkOuter">, "\"\"", "H[,KEY=VALUE]...", "none",
  "synchronizes nodes only after every H steps, as DiLoCo does: each node trains by itself "
  "for H steps, and then an outer optimizer moves the outer parameters, from which all "
  "nodes continue, by the mean of the nodes' changes. Settings are optimizer=nesterov or "
  "sgd (nesterov), lr (0.7), momentum (0.9), fragments=P, parts of the model that are "
  "synchronized in turn (1), dtype=f32, bf16 or f16, in which changes are sent (bf16), "
  "wire=raw, coded, int8 or int4 (the value of --reduce-wire), and overlap=on or off "
  "(off): whether changes are sent while the last micro-batch of the next step computes, "
  "with the earlier parameters. It needs a strategy that shards within a node, such as hsdp, "
  "or auto, which then plans steps in which nodes train by themselves">;
def Prefetch : PipelineOption<
  "prefetch", "prefetch", AtLeast<0>, "-1", "D", "1; 'auto' chooses for each gather",
  "issues each gather this number of units ahead of its use, also in the previous "
  "micro-batch; a greater number hides more of the gather and needs more device memory; "
  "with 0, nothing is in flight between micro-batches">;
def Reductions : PipelineOption<
  "reductions", "reductions", AtLeast<1>, "-1", "R", "2; 'auto' chooses for each reduction",
  "lets the gradients of this number of units be reduced at once; a greater number hides "
  "more of the reductions and needs more device memory">;

//===----------------------------------------------------------------------===//
// The target hardware and its limits
//===----------------------------------------------------------------------===//

def ClusterFile : PipelineOption<
  "cluster", "cluster", CheckedBy<"checkCluster">, "\"\"", "FILE", "none",
  "describes the hardware that the step will run on, for 'auto' and for predicted "
  "times: a file (docs/cluster.md) or the name of a preset">;
def ProfileFile : PipelineOption<
  "profile", "profile", CheckedBy<"checkProfile">, "\"\"", "FILE", "none",
  "reads times that fcdp-run --profile has measured; they replace estimates for the "
  "cluster (docs/profile.md)">;
def DeviceMemory : PipelineOption<
  "deviceMemory", "device-memory", AtLeast<1>, "0", "BYTES",
  "no bound; for 'auto' the memory that the cluster's devices do not reserve",
  "bounds the bytes of a rank's device that the plan may use">;
def HostMemory : PipelineOption<
  "hostMemory", "host-memory", AtLeast<1>, "0", "BYTES",
  "no bound; for 'auto' the memory of the cluster's hosts",
  "bounds the bytes of a node's host memory that the plan may use">;
def DumpDir : PipelineOption<
  "dumpDir", "dump-dir", Text, "\"\"", "DIR", "none",
  "writes the module after each phase into this folder">;

#endif // FCDP_TRANSFORMS_PIPELINE_OPTIONS
