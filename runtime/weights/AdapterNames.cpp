// SPDX-License-Identifier: Apache-2.0
#include "weights/AdapterNames.h"

#include <algorithm>
#include <array>
#include <vector>

namespace fcdp {

namespace {

using Parts = std::vector<std::string_view>;

constexpr std::array<std::string_view, 3> kTorchWrappers = {
    "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};

/// The components of PEFT's modules around a module of the model.
constexpr std::array<std::string_view, 3> kLayerWrappers = {
    "base_layer", "original_module", "token_adapter"};

/// The prefixes of names of adapters' parameters: PEFT's
/// PEFT_TYPE_TO_PREFIX_MAPPING, and the parameters that layers share.
constexpr std::array kAdapterPrefixes = std::to_array<std::string_view>(
    {"lora_",      "adamss_",      "adaption_prompt_",
     "beft_",      "boft_",        "c3a_",
     "cartridge_", "cpt_",         "deft_",
     "delora_",    "fourierft_",   "frod_",
     "glora_",     "gralora_",     "hira_",
     "hra_",       "ia3_",         "lily_",
     "ln_tuning_", "hada_",        "lokr_",
     "miss_",      "oft_",         "shira_",
     "osf_",       "peanut_",      "poly_",
     "psoft_",     "pvera_",       "randlora_",
     "road_",      "shadow_",      "tinylora_",
     "unilora_",   "supertuning_", "trainable_tokens_",
     "vblora_",    "vera_",        "waveft_",
     "xlora_"});

constexpr std::string_view kMagnitude = "lora_magnitude_vector";

Parts split(std::string_view name) {
  Parts parts;
  while (true) {
    size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos)
      return parts;
    name.remove_prefix(dot + 1);
  }
}

std::string join(const Parts &parts) {
  std::string name;
  for (size_t i = 0; i < parts.size(); ++i)
    name.append(i == 0 ? "" : ".").append(parts[i]);
  return name;
}

template <size_t N>
bool isAmong(const std::array<std::string_view, N> &names,
             std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool isOfAdapter(std::string_view part) {
  return std::any_of(kAdapterPrefixes.begin(), kAdapterPrefixes.end(),
                     [&](auto prefix) { return part.starts_with(prefix); });
}

/// Removes the adapter's name from the components after "lora_A" and the like.
/// These are empty, a name, "weight", or both.
void parseAdapter(Parts &parts, TensorName &name) {
  for (size_t rest = 0; rest <= 2 && rest < parts.size(); ++rest) {
    size_t at = parts.size() - 1 - rest;
    if (!isOfAdapter(parts[at]))
      continue;
    bool isLeaf =
        rest == 1 && (parts.back() == "weight" || parts.back() == "bias");
    if (rest > 0 && !isLeaf) {
      name.adapter = parts[at + 1];
      parts.erase(parts.begin() + at + 1);
    }
    // The magnitudes of DoRA were parameters, and later became modules.
    if (parts[at] == kMagnitude && parts.back() == "weight")
      parts.pop_back();
    name.kind = TensorKind::Adapter;
    return;
  }
}

/// Parses the name of an embedding of virtual tokens, which has another name in
/// a file.
void parsePrompt(Parts &parts, TensorName &name) {
  size_t size = parts.size();
  if (size >= 4 && parts[size - 4] == "prompt_encoder" &&
      parts[size - 2] == "embedding" && parts[size - 1] == "weight") {
    name.adapter = parts[size - 3];
    parts.resize(size - 4);
    parts.push_back("prompt_embeddings");
  }
  if (parts.back() == "prompt_embeddings")
    name.kind = TensorKind::Adapter;
}

/// Removes "modules_to_save" and the adapter's name.
void parseCopy(Parts &parts, TensorName &name) {
  auto saved = std::find(parts.begin(), parts.end(), "modules_to_save");
  if (parts.end() - saved < 3)
    return;
  name.kind = TensorKind::Copy;
  name.adapter = saved[1];
  parts.erase(saved, saved + 2);
}

} // namespace

TensorName parseTensorName(std::string_view text) {
  TensorName name;
  Parts parts = split(text);
  std::erase_if(parts, [](auto part) { return isAmong(kTorchWrappers, part); });
  if (parts.empty())
    return name;
  if (std::find(parts.begin(), parts.end(), "original_module") != parts.end())
    name.kind = TensorKind::Original;
  parseCopy(parts, name);
  parseAdapter(parts, name);
  parsePrompt(parts, name);
  name.stored = join(parts);
  if (name.kind != TensorKind::Adapter)
    std::erase_if(parts,
                  [](auto part) { return isAmong(kLayerWrappers, part); });
  name.base = join(parts);
  return name;
}

} // namespace fcdp
