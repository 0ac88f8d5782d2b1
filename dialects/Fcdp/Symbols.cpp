// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifiers of the symbols of a module.

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StateRoles.h"
#include "dialects/Fcdp/Tiers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

template <typename OpTy>
static LogicalResult verifyStatic(OpTy op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (!type.hasStaticShape()) // C1
    return op.emitOpError("expected a static shape, got ") << type;
  Type element = type.getElementType();
  if (!isa<IntegerType, FloatType, ComplexType>(element)) // C1
    return op.emitOpError("expected elements of a number type, got ") << type;
  if (!hasByteSize(type)) // C1
    return op.emitOpError("expected fewer than 2^63 bytes, got ") << type;
  return success();
}

LogicalResult MeshOp::verify() {
  std::optional<int64_t> ranks = llvm::checkedMul<int64_t>(
      static_cast<int64_t>(getNode()), static_cast<int64_t>(getLocal()));
  if (!ranks || !llvm::isInt<32>(*ranks)) // C2
    return emitOpError("expected at most 2147483647 ranks, got ")
           << getNode() << " times " << getLocal();
  MeshOp first = getMesh(cast<ModuleOp>((*this)->getParentOp()));
  if (first == *this)
    return success();
  InFlightDiagnostic diag = emitOpError("expected one mesh in the module");
  diag.attachNote(first.getLoc()) << "the other is here"; // C3
  return diag;
}

LogicalResult ParameterOp::verify() {
  if (failed(verifyStatic(*this)))
    return failure();
  if (std::optional<PackedAttr> packed = getPacked()) {
    Type byte = IntegerType::get(getContext(), 8, IntegerType::Unsigned);
    auto expected = RankedTensorType::get({packed->countBytes()}, byte);
    if (getType() != expected) // C4
      return emitOpError("expected ")
             << expected << " for " << *packed << ", got " << getType();
    if (getTrainable()) // C4
      return emitOpError("expected a packed parameter to be frozen");
  } else if (!isa<FloatType>(getTensorType().getElementType())) { // C1
    return emitOpError("expected elements of a floating-point type, got ")
           << getType();
  }
  if (getNames().empty()) // C2
    return emitOpError("expected at least one name");
  if (getGroup() && !getTrainable()) // C3
    return emitOpError("expected no group, as it is not trainable");
  return success();
}

LogicalResult BufferOp::verify() {
  if (failed(verifyStatic(*this)))
    return failure();
  if (getVariant() && (*getVariant() <= 0 || getPersistent() ||
                       getMutableBuffer() || getEvaluation())) // C2
    return emitOpError("expected a positive variant, of a constant of a step");
  return success();
}

LogicalResult InputOp::verify() {
  if (failed(verifyStatic(*this)))
    return failure();
  auto type = cast<RankedTensorType>(getType());
  if (getLimit() &&
      (*getLimit() <= 0 || !type.getElementType().isInteger())) // C2
    return emitOpError("expected a positive limit on an integer input, got ")
           << *getLimit() << " on " << type;
  if (getIgnore() && !getLimit()) // C2
    return emitOpError("'ignore' needs 'limit'");
  if (getVariant() && (*getVariant() <= 0 || getEvaluation())) // C3
    return emitOpError("expected a positive variant, of an input of a step");
  return success();
}

/// Verifies C1 of fcdp.bucket for one member.
static LogicalResult verifyMember(BucketOp bucket, MemberAttr member,
                                  SymbolTableCollection &symbols,
                                  ParameterOp &parameter) {
  parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(
      bucket, member.getParameter());
  if (!parameter)
    return bucket.emitOpError("member ")
           << member.getParameter() << " is not a parameter";
  if (parameter.getTrainable() != bucket.getTrainable())
    return bucket.emitOpError("member ")
           << member.getParameter() << " differs in trainability";
  Type type = parameter.getTensorType().getElementType();
  if (type != bucket.getStorage())
    return bucket.emitOpError("member ")
           << member.getParameter() << " has type " << type
           << ", expected the storage type " << bucket.getStorage();
  return success();
}

/// Verifies C8 of fcdp.bucket for its residency or carry, which `what` names.
static LogicalResult verifyResidency(BucketOp bucket, StringRef what,
                                     std::optional<Residency> residency) {
  if (!residency || isPossible(bucket.getSharding(), *residency))
    return success();
  return bucket.emitOpError("expected '")
         << what << "' to be "
         << (bucket.getSharding() == Sharding::none ? "'full'"
                                                    : "'full' or 'drop'")
         << " with sharding '" << stringifySharding(bucket.getSharding())
         << "', got '" << stringifyResidency(*residency) << "'";
}

/// Verifies C9 of fcdp.bucket for one member that starts at `offset`.
static LogicalResult verifyBlocks(BucketOp bucket, ParameterOp parameter,
                                  int64_t offset, int64_t shard) {
  LayoutAttr layout = bucket.getLayoutAttr();
  int64_t end = offset + parameter.getTensorType().getNumElements();
  if (!layout || offset == end)
    return success();
  int64_t block = layout.getBlockElements(parameter.getTensorType());
  // If two or more shards begin inside, the first two determine all others.
  int64_t first = (offset / shard + 1) * shard;
  for (int64_t begin : {first, first + shard})
    if (begin < end && (begin - offset) % block != 0)
      return bucket.emitOpError("the shard at ")
             << begin << " begins inside a block of " << block
             << " elements of member @" << parameter.getSymName() << " at "
             << offset;
  return success();
}

LogicalResult BucketOp::verify() {
  bool isPacked = getStorage().isUnsignedInteger(8) &&
                  getWire() == getStorage() && !getTrainable();
  if (!isPacked &&
      (!isa<FloatType>(getStorage()) || !isa<FloatType>(getWire()))) // C5
    return emitOpError("expected floating-point types, got ")
           << getStorage() << " and " << getWire();
  int64_t storageBytes = elementBytes(getStorage());
  int64_t wireBytes = elementBytes(getWire());
  if (wireBytes > storageBytes) // C5
    return emitOpError("expected a wire type no wider than ")
           << getStorage() << ", got " << getWire();
  int64_t bytes =
      std::max(storageBytes, elementBytes(Float32Type::get(getContext())));
  if (!llvm::checkedMul(static_cast<int64_t>(getElements()), bytes)) // C6
    return emitOpError("expected fewer than 2^63 bytes, got ")
           << getElements() << " elements of " << bytes << " bytes";
  if (std::optional<Type> master = getMaster(); // C10
      master && (!master->isF32() || !getTrainable() || storageBytes >= 4))
    return emitOpError("expected a 'master' type of f32 in a trainable bucket "
                       "with a narrower storage type, got ")
           << *master << " beside " << getStorage();
  if (std::optional<Type> reduce = getReduce(); // C11
      reduce && (!getTrainable() ||
                 !(reduce->isF32() || reduce->isBF16() || reduce->isF16())))
    return emitOpError("expected a 'reduce' type of f32, bf16 or f16 in a "
                       "trainable bucket, got ")
           << *reduce;
  if (getAccumulation() && !getTrainable()) // C7
    return emitOpError("a frozen bucket has no gradients to accumulate");
  if (std::optional<int64_t> side = getMaxSide(); // C16
      side && (*side < 0 || *side > kMostSide || !getTrainable()))
    return emitOpError("expected 'max_side' from 0 to ")
           << kMostSide << " in a trainable bucket, got " << *side;
  bool areElsewhere = getStates().value_or(Arena::device) != Arena::device;
  if (getStates() &&
      (!getTrainable() || (areElsewhere && reducesWithinNode(*this)))) // C17
    return emitOpError("expected 'states' in a trainable bucket and, if they "
                       "are in 'host' memory or a 'file', one reduced over all "
                       "ranks, got '")
           << stringifyArena(*getStates()) << "'";
  if (std::optional<int64_t> piece = getPiece();
      piece &&
      (!areElsewhere || *piece <= 0 || *piece % kStateBlock != 0)) // C17
    return emitOpError("expected a 'piece' of a multiple of ")
           << kStateBlock << " elements, with 'states host' or 'file', got "
           << *piece;
  if (getUpdatedOnHost() && getStates() != Arena::host) // C18
    return emitOpError("expected 'states host' for 'update host'");
  if (failed(verifyMessages(*this)) ||
      (reducesWithinNode(*this) && failed(verifyNodes(*this))))
    return failure();
  if (failed(verifyResidency(*this, "residency", getResidency())) ||
      failed(verifyResidency(*this, "carry", getCarry()))) // C8
    return failure();
  return success();
}

LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t elements = getElements();
  int64_t wireBytes = elementBytes(getWire());
  MeshOp mesh = getMesh((*this)->getParentOfType<ModuleOp>());
  if (!mesh)
    return emitOpError("expected a mesh in the module");
  if (elements % mesh.getWorldSize() != 0) // C4
    return emitOpError("expected elements to be a multiple of ")
           << mesh.getWorldSize() << " ranks, got " << elements;

  if (LayoutAttr layout = getLayoutAttr();
      layout && layout.getKind() == LayoutKind::blocks &&
      elements / mesh.getWorldSize() % layout.getRows() != 0) // C12
    return emitOpError("expected shards of a multiple of ")
           << layout.getRows() << " elements, got "
           << elements / mesh.getWorldSize();

  int64_t end = 0;
  SmallPtrSet<Attribute, 8> seen;
  for (MemberAttr member : getMembers().getAsRange<MemberAttr>()) {
    ParameterOp parameter;
    if (failed(verifyMember(*this, member, symbols, parameter)))
      return failure();
    if (!seen.insert(member.getParameter()).second) // C2
      return emitOpError("member ")
             << member.getParameter() << " is given twice";
    if (member.getOffset() < end) // C2
      return emitOpError("member ")
             << member.getParameter() << " starts at " << member.getOffset()
             << ", before the end of the one before, " << end;
    int64_t size = parameter.getTensorType().getNumElements();
    if (size > elements || member.getOffset() > elements - size) // C2
      return emitOpError("member ")
             << member.getParameter() << " of " << size << " elements at "
             << member.getOffset() << " ends after " << elements;
    if (member.getOffset() * wireBytes % kMemberAlignment != 0) // C3
      return emitOpError("member ")
             << member.getParameter() << " starts at element "
             << member.getOffset() << ", not at a multiple of "
             << kMemberAlignment << " bytes";
    if (LayoutAttr layout = getLayoutAttr();
        layout && layout.getKind() == LayoutKind::blocks &&
        member.getOffset() % layout.getRows() != 0) // C12
      return emitOpError("member ")
             << member.getParameter() << " starts at element "
             << member.getOffset() << ", not at a multiple of "
             << layout.getRows();
    if (failed(verifyBlocks(*this, parameter, member.getOffset(),
                            elements / mesh.getWorldSize()))) // C8
      return failure();
    end = member.getOffset() + size;
  }
  return success();
}

bool fcdp::isPossible(Sharding sharding, Residency residency) {
  // Otherwise the shard is the slice, or the whole bucket.
  CopyPart part = getTier(residency).part;
  return sharding == Sharding::world || part == CopyPart::whole ||
         (sharding == Sharding::node && part == CopyPart::none);
}

bool fcdp::keepsSlice(Residency residency, Residency carry) {
  return getTier(residency).part == CopyPart::slice ||
         getTier(carry).part == CopyPart::slice;
}

bool fcdp::sumsSlice(Accumulation accumulation) {
  return accumulation != Accumulation::sharded &&
         accumulation != Accumulation::full;
}

bool fcdp::gathersFlat(Collectives collectives, Residency residency,
                       Residency carry) {
  return collectives == Collectives::flat && !keepsSlice(residency, carry);
}

bool fcdp::reducesFlat(Collectives collectives, Accumulation accumulation) {
  return collectives == Collectives::flat && !sumsSlice(accumulation);
}

static Collectives getCollectivesOf(BucketOp bucket) {
  return bucket.getCollectives().value_or(Collectives::two_level);
}

static bool hasTwoLevels(MeshOp mesh) {
  return mesh.getNode() > 1 && mesh.getLocal() > 1;
}

bool fcdp::gathersFlat(BucketOp bucket, MeshOp mesh) {
  Residency residency = bucket.getResidency().value_or(Residency::drop);
  return hasTwoLevels(mesh) &&
         fcdp::gathersFlat(getCollectivesOf(bucket), residency,
                           bucket.getCarry().value_or(residency));
}

bool fcdp::reducesFlat(BucketOp bucket, MeshOp mesh) {
  return hasTwoLevels(mesh) &&
         fcdp::reducesFlat(
             getCollectivesOf(bucket),
             bucket.getAccumulation().value_or(Accumulation::sharded));
}

int64_t fcdp::countParts(Sharding sharding, MeshOp mesh) {
  switch (sharding) {
  case Sharding::world:
    return mesh.getWorldSize();
  case Sharding::node:
    return mesh.getLocal();
  case Sharding::none:
    return 1;
  }
  llvm_unreachable("unknown sharding");
}

Type fcdp::getOptimizerType(BucketOp bucket) {
  return bucket.getMaster().value_or(bucket.getStorage());
}

#define GET_StateRoleTable_IMPL
#include "dialects/Fcdp/FcdpTables.inc"

static_assert(std::size(StateRoleTable) == kNumStateRoles);

const StateRoleRecord &fcdp::getRecord(StateRole role) {
  return StateRoleTable[static_cast<size_t>(role)];
}

/// Returns the number of elements of a square of one side of a matrix. The
/// dimension is counted from the last one.
static int64_t countSquare(RankedTensorType parameter, int64_t dimension,
                           int64_t maxSide) {
  int64_t elements = parameter.getNumElements(), rank = parameter.getRank();
  if (rank < 2 || elements == 0 ||
      elements !=
          parameter.getDimSize(rank - 1) * parameter.getDimSize(rank - 2))
    return 0;
  int64_t side = parameter.getDimSize(rank - dimension);
  return side <= maxSide ? side * side : 0;
}

int64_t fcdp::countStateElements(StateRole role, RankedTensorType parameter,
                                 int64_t maxSide) {
  int64_t elements = parameter.getNumElements(), rank = parameter.getRank();
  bool hasMeans = rank >= 2 && elements != 0;
  switch (getRecord(role).shape) {
  case StateShape::element:
    return elements;
  case StateShape::block:
    return elements / kStateBlock;
  case StateShape::rowMean:
    return hasMeans ? elements / parameter.getDimSize(rank - 1) : 0;
  case StateShape::columnMean:
    return hasMeans ? elements / parameter.getDimSize(rank - 2) : 0;
  case StateShape::withoutMeans:
    return hasMeans ? 0 : elements;
  case StateShape::rowSquare:
    return countSquare(parameter, 2, maxSide);
  case StateShape::columnSquare:
    return countSquare(parameter, 1, maxSide);
  }
  llvm_unreachable("unknown shape of a state");
}

/// Returns the number of elements of a state in which the parameters of a shard
/// follow each other: the size of the largest shard.
static int64_t countLargestShard(BucketOp bucket, StateRole role, MeshOp mesh) {
  llvm::DenseMap<StringAttr, int64_t> shardOf;
  int64_t parts = countParts(bucket.getSharding(), mesh);
  int64_t elements = std::max<int64_t>(bucket.getElements() / parts, 1);
  for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
    shardOf[member.getParameter().getAttr()] = member.getOffset() / elements;
  // Squares are operands of products, and begin at multiples of 64 bytes.
  int64_t alignment = isSquare(getRecord(role).shape) ? kSquareAlignment : 1;
  llvm::DenseMap<int64_t, int64_t> counts;
  int64_t most = 0;
  for (auto parameter :
       bucket->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    if (auto shard = shardOf.find(parameter.getSymNameAttr());
        shard != shardOf.end())
      most = std::max(most,
                      counts[shard->second] += llvm::alignTo(
                          countStateElements(role, parameter.getTensorType(),
                                             bucket.getMaxSide().value_or(0)),
                          alignment));
  return most;
}

static Type getElementType(BucketOp bucket, StateType type) {
  switch (type) {
  case StateType::storage:
    return bucket.getStorage();
  case StateType::wire:
    return bucket.getWire();
  case StateType::optimizer:
    return getOptimizerType(bucket);
  case StateType::f32:
    return Float32Type::get(bucket.getContext());
  case StateType::u8:
    return IntegerType::get(bucket.getContext(), 8, IntegerType::Unsigned);
  }
  llvm_unreachable("unknown type of a state");
}

static int64_t countPartsOf(StateScope scope, BucketOp bucket, MeshOp mesh) {
  switch (scope) {
  case StateScope::shard:
    return countParts(bucket.getSharding(), mesh);
  case StateScope::slice:
    return mesh.getLocal();
  case StateScope::whole:
    return 1;
  }
  llvm_unreachable("unknown scope of a state");
}

RankedTensorType fcdp::getStateType(BucketOp bucket, StateRole role,
                                    MeshOp mesh) {
  const StateRoleRecord &record = getRecord(role);
  int64_t parts = countPartsOf(record.scope, bucket, mesh);
  int64_t elements = bucket.getElements();
  switch (record.shape) {
  case StateShape::element:
    elements /= parts;
    break;
  case StateShape::block:
    elements /= parts * kStateBlock;
    break;
  case StateShape::rowMean:
  case StateShape::columnMean:
  case StateShape::withoutMeans:
  case StateShape::rowSquare:
  case StateShape::columnSquare:
    elements = countLargestShard(bucket, role, mesh);
  }
  return RankedTensorType::get({elements}, getElementType(bucket, record.type));
}

bool fcdp::isOptimizerState(StateRole role) {
  return getRecord(role).kind == StateKind::optimizer;
}

Arena fcdp::getArena(StateRole role) {
  if (std::optional<Arena> arena = getRecord(role).arena)
    return *arena;
  return *llvm::find_if(kTiers, [&](const Tier &tier) {
            return tier.role == role;
          })->arena;
}

StateOp fcdp::createState(BucketOp bucket, StateRole role,
                          RankedTensorType type, std::optional<Arena> arena) {
  OpBuilder builder(bucket.getContext());
  return StateOp::create(
      builder, bucket.getLoc(),
      (bucket.getSymName() + "." + stringifyStateRole(role)).str(), role,
      bucket.getSymName(), arena.value_or(getArena(role)), type, BufferAttr());
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto bucket =
      symbols.lookupNearestSymbolFrom<BucketOp>(*this, getBucketAttr());
  if (!bucket) // C1
    return emitOpError("expected a bucket, got ") << getBucketAttr();
  if (getRole() == StateRole::master && !bucket.getMaster()) // C5
    return emitOpError("expected a bucket with a 'master' type, got ")
           << getBucketAttr();
  if (failed(verifyNodes(*this, bucket)))
    return failure();
  auto module = (*this)->getParentOfType<ModuleOp>();
  MeshOp mesh = getMesh(module);
  if (!mesh)
    return emitOpError("expected a mesh in the module");
  Arena arena = fcdp::getArena(getRole());
  bool mayMove =
      isOptimizerState(getRole()) && bucket.getStates() == getArena();
  if (arena != getArena() && !mayMove && !isKeptIn(getRole(), getArena())) // C2
    return emitOpError("expected to be in ")
           << stringifyArena(arena) << " memory";
  RankedTensorType expected = getStateType(bucket, getRole(), mesh);
  auto whole = RankedTensorType::get(
      {static_cast<int64_t>(bucket.getElements())}, bucket.getWire());
  bool isWhole = getRole() == StateRole::resident && getType() == whole;
  if (isWhole)
    expected = whole;
  if (getType() != expected) // C3
    return emitOpError("expected type ") << expected << ", got " << getType();
  if (BufferAttr buffer = getBufferAttr()) // C4
    if (buffer.getArena() != getArena() ||
        buffer.getBytes() != byteSize(expected))
      return emitOpError("expected a buffer of ")
             << byteSize(expected) << " bytes in its arena, got " << buffer;
  return success();
}
