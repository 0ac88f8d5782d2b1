// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Pt2Tensors.h"

#include "Tensors.h"
#include "Types.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace fcdp;
using namespace fcdp::pt2;

/// The greatest size in bytes of a tensor that is larger than its storage,
/// because of a stride of zero. A larger one is treated as damaged.
static constexpr int64_t kMaxExpanded = int64_t(1) << 30;

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
  std::optional<StridedExtent> extent = measure(payload);
  int64_t total, reach;
  if (!extent || MulOverflow(extent->elements, bytes, total) ||
      MulOverflow(extent->end, bytes, reach))
    return makeError("the value of '" + name + "' has impossible sizes");
  if (extent->elements == 0)
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
  copyElements(payload, bytes,
               reinterpret_cast<const std::byte *>(storage->data()), 0,
               extent->elements, reinterpret_cast<std::byte *>(result.data()));
  return result;
}
