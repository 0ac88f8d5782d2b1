// SPDX-License-Identifier: Apache-2.0
#include "plan/Manifest.h"

#include "plan/ManifestReader.h"
#include "plan/PlanHash.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp {

namespace {

constexpr int64_t kManifestVersion = 3;

} // namespace

uint32_t countParts(Sharding sharding, const Mesh &mesh) {
  switch (sharding) {
  case Sharding::World:
    return mesh.size();
  case Sharding::Node:
    return mesh.locals;
  case Sharding::None:
    return 1;
  }
  throw std::logic_error("unknown sharding");
}

uint32_t partOf(Sharding sharding, const Mesh &mesh, Place place) {
  switch (sharding) {
  case Sharding::World:
    return place.local * mesh.nodes + place.node;
  case Sharding::Node:
    return place.local;
  case Sharding::None:
    return 0;
  }
  throw std::logic_error("unknown sharding");
}

int64_t numElements(const Shape &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

uint32_t Manifest::ranks(Axis axis) const {
  switch (axis) {
  case Axis::Node:
    return mesh.nodes;
  case Axis::Local:
    return mesh.locals;
  case Axis::World:
    return mesh.size();
  }
  return 1;
}

bool Manifest::uses(OpKind kind) const {
  return std::any_of(ops.begin(), ops.end(),
                     [&](const Op &op) { return op.kind == kind; });
}

bool Manifest::uses(OpKind kind, Axis axis) const {
  return std::any_of(ops.begin(), ops.end(), [&](const Op &op) {
    if (auto *gather = std::get_if<ops::AllGather>(&op.body))
      return op.kind == kind && gather->axis == axis;
    auto *reduce = std::get_if<ops::ReduceScatter>(&op.body);
    return reduce && op.kind == kind && reduce->axis == axis;
  });
}

Manifest parseManifest(std::string_view text, uint64_t constantsBytes) {
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception &error) {
    throw std::runtime_error(std::string("manifest: not valid JSON: ") +
                             error.what());
  }
  JsonNode root(value, "manifest");
  int64_t version = root.at("version").integer();
  if (version != kManifestVersion)
    root.at("version").fail("expected " + std::to_string(kManifestVersion) +
                            ", got " + std::to_string(version) +
                            ": compile the step again with the fcdp-compile "
                            "that belongs to this runtime");
  checkPlanHash(text);
  Manifest manifest = readManifest(root);
  checkManifest(manifest, constantsBytes);
  return manifest;
}

} // namespace fcdp
