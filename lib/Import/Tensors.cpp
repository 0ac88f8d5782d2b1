// SPDX-License-Identifier: Apache-2.0

#include "Tensors.h"

#include "Types.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace fcdp;
using namespace fcdp::pt2;

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
  // Pickled values need no description.
  if (!payload.pickled &&
      (!readAll("sizes", payload.shape) ||
       !readAll("strides", payload.strides) ||
       payload.shape.size() != payload.strides.size() ||
       payload.shape.size() > kMaxRank || payload.offset < 0))
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
