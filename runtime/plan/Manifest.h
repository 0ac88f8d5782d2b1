// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a compiled step (docs/manifest.md) as typed, checked values.
// Everything here is plain data: safe to read from several threads.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"
#include "plan/HeldMemory.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fcdp {

enum class Arena : uint8_t { Device, Host };

/// A region of an arena, at another offset on each rank.
struct Buf {
  Arena arena = Arena::Device;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t nodeStride = 0;
  uint64_t localStride = 0;

  uint64_t offsetOn(Place place) const {
    return offset + place.node * nodeStride + place.local * localStride;
  }
};

struct TypedBuf : Buf {
  DType dtype = DType::F32;
};

using Shape = std::vector<int64_t>;
/// The product of the extents.
int64_t numElements(const Shape &shape);
/// "[2, 3]"
std::string toString(const Shape &shape);

struct Parameter {
  std::string name;
  /// All names, the first is `name`.
  std::vector<std::string> names;
  Shape shape;
  DType dtype;
  bool trainable;
  size_t bucket;
  int64_t offsetElements;
};

/// The ranks that a bucket's states are cut over.
enum class Sharding : uint8_t { World, Node, None };

struct Bucket {
  std::string name, unit;
  bool trainable;
  int64_t elements;
  /// What a rank owns.
  int64_t shardElements;
  Sharding sharding = Sharding::World;
  DType storage, wire;
  std::optional<DType> reduce;
  std::optional<TypedBuf> shard, grad, expAvg, expAvgSq, momentumBuffer, host;
  std::optional<TypedBuf> resident, nodeGrad, fullGrad, hostGrad;
};

/// How many different parts of a bucket there are.
uint32_t countParts(Sharding sharding, const Mesh &mesh);
/// The number of the part that `place` owns.
uint32_t partOf(Sharding sharding, const Mesh &mesh, Place place);

struct BufferSpec {
  std::string name;
  Shape shape;
  DType dtype;
  bool persistent, isMutable;
  /// Where its value stands in fcdp_constants; none: it comes from --weights.
  std::optional<uint64_t> constantOffset;
};

struct InputSpec {
  std::string name;
  Shape shape;
  DType dtype;
  /// Values must be in [0, indexLimit), or equal to ignoreIndex.
  std::optional<int64_t> indexLimit, ignoreIndex;
};

struct TransientSlot {};
struct InputSlot {
  size_t input;
};
struct BufferSlot {
  size_t buffer;
};
struct PlannedSlot {
  Buf buf;
  Shape shape;
  DType dtype;
};
using Slot = std::variant<TransientSlot, InputSlot, BufferSlot, PlannedSlot>;

struct AdamW {
  double lr, beta1, beta2, eps, weightDecay;
};
struct Sgd {
  double lr, momentum, dampening, weightDecay;
  bool nesterov;
};
using Optimizer = std::variant<AdamW, Sgd>;

/// An argument of an ATen call.
namespace arg {
struct None {};
struct TensorSlot {
  int64_t slot;
};
struct TensorSlots {
  std::vector<int64_t> slots; ///< -1 for none
};
struct Device {
  std::string name;
};
struct Layout {
  std::string name;
};
struct MemoryFormat {
  std::string name;
};
} // namespace arg
using Arg = std::variant<arg::None, arg::TensorSlot, arg::TensorSlots, int64_t,
                         std::vector<int64_t>, double, std::vector<double>,
                         bool, std::vector<bool>, std::string, DType,
                         arg::Device, arg::Layout, arg::MemoryFormat>;

/// What the entries of "ops" hold, one type per form.
namespace ops {
struct AtenCall {
  std::string callee, overload;
  std::vector<std::pair<std::string, Arg>> args;
  std::vector<int64_t> results; ///< slots, -1 for an undefined one
  std::vector<size_t> free;
  /// The memory plan relies on results that are new memory.
  bool mustBeFresh = false;
  /// A device may do it again by itself, with the same addresses.
  bool replayable = false;
  /// Of a call that writes to its argument `out`: the overload that makes new
  /// memory for the same, whose name people and profiles know.
  std::optional<std::string> functional = std::nullopt;
};
struct WriteBuffer {
  size_t slot, buffer;
  std::vector<size_t> free;
};
struct Loss {
  size_t slot;
  std::vector<size_t> free;
};
struct Cast {
  Buf in, out;
  DType inType, outType;
  int64_t elements;
};
struct Pack {
  struct Member {
    size_t source, planned;
  };
  std::vector<Member> members;
  std::vector<Buf> zero;
  std::vector<size_t> free;
  /// For people.
  std::optional<size_t> bucket;
};
struct Accumulate {
  Buf in, out;
  int64_t elements;
  bool add;
  StreamId stream;
  /// For people.
  std::optional<size_t> bucket;
};
/// out = sum + in, in f32.
struct Add {
  Buf sum, in, out;
  int64_t elements;
};
struct ClipGradients {
  double maxNorm, gradScale;
};
struct ShardUpdate {
  size_t bucket;
  double gradScale;
};
struct AllGather {
  size_t bucket;
  Axis axis;
  StreamId stream;
  Buf in, out;
};
struct ReduceScatter {
  size_t bucket;
  Axis axis;
  StreamId stream;
  Buf in, out;
  /// Absent only on an axis of one rank.
  std::optional<Buf> scratch;
  DType inType, outType;
  int64_t elements;
};
struct CacheCopy {
  size_t bucket;
  StreamId stream;
  Buf in, out;
};
struct Event {
  uint32_t event;
  StreamId stream;
};
} // namespace ops

enum class OpKind : uint8_t {
  AtenCall,
  WriteBuffer,
  Loss,
  Cast,
  Pack,
  Accumulate,
  Add,
  ClipGradients,
  ShardUpdate,
  AllGather,
  ReduceScatter,
  CacheStore,
  CacheLoad,
  Record,
  Wait,
};
/// "aten_call", ...: the entry point without fcdp_rt_.
const char *name(OpKind kind);

struct Op {
  OpKind kind;
  /// `file:line` and the module path; may be empty.
  std::string loc, module;
  std::variant<ops::AtenCall, ops::WriteBuffer, ops::Loss, ops::Cast, ops::Pack,
               ops::Accumulate, ops::Add, ops::ClipGradients, ops::ShardUpdate,
               ops::AllGather, ops::ReduceScatter, ops::CacheCopy, ops::Event>
      body;
  /// For messages: "aten::mm (module 'blocks.0.fc', model.py:12)".
  std::string what;
};

/// What one node sends or copies when a function runs once.
struct LinkBytes {
  uint64_t inter, intra, h2d, d2h;
};

/// The operations of a function, [first, end), what is held meanwhile, and
/// where their results are planned to be, by operation.
struct FunctionSpec {
  size_t first = 0, end = 0;
  HeldMemory held;
  std::vector<ResultPlace> results;
};

/// What a step runs on.
enum class Target { Cpu, Cuda };

struct Manifest {
  std::string hash;
  Target target = Target::Cpu;
  std::string strategy;
  Mesh mesh;
  int64_t microBatches;
  Optimizer optimizer;
  std::vector<std::string> functions;
  uint64_t deviceBytes; ///< per rank
  uint64_t hostBytes;   ///< per node
  /// Of the device arena: in front of this byte nothing is ever lent to
  /// operators.
  uint64_t stateBytes;
  /// Of the functions that what is held is known of. Without them nothing is
  /// lent.
  std::map<std::string, FunctionSpec> specs;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<BufferSpec> buffers;
  std::vector<InputSpec> inputs;
  std::vector<Slot> slots;
  uint32_t numEvents;
  std::map<std::string, LinkBytes> expected;
  std::vector<Op> ops;

  /// Ranks of an axis.
  uint32_t ranks(Axis axis) const;
  /// Whether there is an operation of `kind`.
  bool uses(OpKind kind) const;
  /// Whether there is an operation of `kind`, a gather or reduction, over
  /// `axis`.
  bool uses(OpKind kind, Axis axis) const;
};

/// Parses and checks the text: all of what the runtime relies on later, so
/// that no index or range needs to be looked at again. `constantsBytes` is the
/// size of fcdp_constants. Throws std::runtime_error that names the key.
Manifest parseManifest(std::string_view text, uint64_t constantsBytes);

/// The checks that look at several entries at once; a part of parseManifest.
void checkManifest(const Manifest &manifest, uint64_t constantsBytes);
/// The same of what is held of the device arena.
void checkHeldMemory(const Manifest &manifest);

} // namespace fcdp
