// SPDX-License-Identifier: Apache-2.0

#include "Tensors.h"

#include "Types.h"
#include "fcdp/Import/Pt2.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace llvm;
using namespace fcdp;
using namespace fcdp::pt2;

/// A stride of zero makes a tensor larger than its storage. Beyond this many
/// bytes that is taken for damage.
static constexpr int64_t kMaxExpanded = int64_t(1) << 30;

static Error readPayload(StringRef folder, const JsonMember &member,
                         Payload &payload) {
  const Json &json = member.value;
  const Json &meta = json["tensor_meta"];
  payload.entry = (folder + json["path_name"].asString().value_or("")).str();
  payload.pickled = json["use_pickle"].asBoolean().value_or(false);
  payload.scalarType = meta["dtype"].asInteger().value_or(0);
  auto readAll = [&](StringRef key, std::vector<int64_t> &values) {
    for (const Json &value : meta[key].elements())
      values.push_back(value["as_int"].asInteger().value_or(-1));
    return all_of(values, [](int64_t value) { return value >= 0; });
  };
  payload.offset = meta["storage_offset"]["as_int"].asInteger().value_or(-1);
  // What is pickled need not have a description.
  if (!payload.pickled &&
      (!readAll("sizes", payload.sizes) ||
       !readAll("strides", payload.strides) ||
       payload.sizes.size() != payload.strides.size() ||
       payload.sizes.size() > kMaxRank || payload.offset < 0))
    return makeError("the value of '" + member.name +
                     "' has no valid sizes and strides");
  return Error::success();
}

Expected<Payloads> fcdp::pt2::readPayloads(const Archive &archive) {
  Payloads payloads;
  for (auto [folder, name] :
       {std::pair<StringRef, StringRef>{"data/weights/",
                                        "model_weights_config.json"},
        {"data/constants/", "model_constants_config.json"}}) {
    std::string entry = (folder + name).str();
    if (!archive.contains(entry))
      continue;
    Expected<std::string> text = archive.read(entry);
    if (!text)
      return text.takeError();
    BumpPtrAllocator arena;
    Expected<Json> json = parseJson(*text, arena);
    if (!json)
      return makeError("in '" + entry + "': " + toString(json.takeError()));
    for (const JsonMember &member : (*json)["config"].members())
      if (Error error = readPayload(folder, member, payloads[member.name]))
        return error;
  }
  return payloads;
}

struct Pt2Tensors::State {
  Archive archive;
  Payloads payloads;
};

Pt2Tensors::Pt2Tensors(std::unique_ptr<State> state)
    : state(std::move(state)) {}
Pt2Tensors::Pt2Tensors(Pt2Tensors &&) = default;
Pt2Tensors &Pt2Tensors::operator=(Pt2Tensors &&) = default;
Pt2Tensors::~Pt2Tensors() = default;

Expected<Pt2Tensors> Pt2Tensors::open(StringRef path) {
  Expected<Archive> archive = Archive::openFile(path);
  if (!archive)
    return archive.takeError();
  Expected<Payloads> payloads = readPayloads(*archive);
  if (!payloads)
    return payloads.takeError();
  return Pt2Tensors(std::make_unique<State>(
      State{std::move(*archive), std::move(*payloads)}));
}

Expected<Pt2Tensors> Pt2Tensors::open(MemoryBufferRef bytes) {
  Expected<Archive> archive = Archive::openBuffer(bytes);
  if (!archive)
    return archive.takeError();
  Expected<Payloads> payloads = readPayloads(*archive);
  if (!payloads)
    return payloads.takeError();
  return Pt2Tensors(std::make_unique<State>(
      State{std::move(*archive), std::move(*payloads)}));
}

/// Elements of `payload`, and one past the last element of the storage that it
/// reaches; false if a number does not fit.
static bool measure(const Payload &payload, int64_t &elements, int64_t &end) {
  elements = 1;
  int64_t last = payload.offset;
  for (auto [size, stride] : zip_equal(payload.sizes, payload.strides)) {
    int64_t reach;
    if (MulOverflow(elements, size, elements) ||
        MulOverflow(std::max<int64_t>(size - 1, 0), stride, reach) ||
        AddOverflow(last, reach, last))
      return false;
  }
  return !AddOverflow(last, int64_t(1), end);
}

/// Copies the strided elements from `dimension` on, row by row.
static char *gather(const Payload &payload, size_t dimension, int64_t bytes,
                    const char *from, char *to) {
  if (dimension == payload.sizes.size()) {
    std::memcpy(to, from, bytes);
    return to + bytes;
  }
  int64_t size = payload.sizes[dimension];
  int64_t stride = payload.strides[dimension];
  if (dimension + 1 == payload.sizes.size() && stride == 1) {
    std::memcpy(to, from, size * bytes);
    return to + size * bytes;
  }
  for (int64_t i = 0; i < size; ++i)
    to = gather(payload, dimension + 1, bytes, from + i * stride * bytes, to);
  return to;
}

Expected<std::vector<char>> Pt2Tensors::readTensor(StringRef name) const {
  auto found = state->payloads.find(name);
  if (found == state->payloads.end())
    return makeError("the archive holds no value for '" + name + "'");
  const Payload &payload = found->second;
  if (payload.pickled)
    return makeError("the value of '" + name +
                     "' is pickled: tensor subclasses are not supported");
  int64_t bytes = getElementBytes(payload.scalarType);
  if (bytes == 0)
    return makeError("the value of '" + name + "' has the unknown data type " +
                     Twine(payload.scalarType));
  int64_t elements, end, total, reach;
  if (!measure(payload, elements, end) || MulOverflow(elements, bytes, total) ||
      MulOverflow(end, bytes, reach))
    return makeError("the value of '" + name + "' has impossible sizes");
  if (elements == 0)
    return std::vector<char>();
  Expected<std::string> storage = state->archive.read(payload.entry);
  if (!storage)
    return storage.takeError();
  int64_t available = storage->size();
  if (available == 0)
    return std::vector<char>(); // the model was built under FakeTensorMode
  if (reach > available)
    return makeError("the value of '" + name + "' ends at byte " +
                     Twine(reach) + " of '" + payload.entry + "', which has " +
                     Twine(available));
  if (total > std::max(available, kMaxExpanded))
    return makeError("the value of '" + name + "' has " + Twine(total) +
                     " bytes, but its storage only " + Twine(available));
  std::vector<char> result(total);
  gather(payload, 0, bytes, storage->data() + payload.offset * bytes,
         result.data());
  return result;
}
