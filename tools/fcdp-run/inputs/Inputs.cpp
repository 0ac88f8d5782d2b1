// SPDX-License-Identifier: Apache-2.0
#include "inputs/Inputs.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp::run {

namespace {

std::string listInputs(const Manifest &manifest) {
  std::string list;
  for (const InputSpec &input : manifest.inputs)
    list += (list.empty() ? "" : ", ") + input.name + " " + name(input.dtype) +
            toString(input.shape);
  return "the step's inputs are: " + (list.empty() ? "none" : list);
}

void checkNames(const Manifest &manifest,
                const std::vector<InputOption> &options) {
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string &name = options[i].name;
    bool known =
        std::any_of(manifest.inputs.begin(), manifest.inputs.end(),
                    [&](const InputSpec &input) { return input.name == name; });
    if (!known)
      throw std::runtime_error("--input " + name + ": unknown; " +
                               listInputs(manifest));
    for (size_t j = 0; j < i; ++j)
      if (options[j].name == name)
        throw std::runtime_error("--input " + name + ": given twice");
  }
}

const InputOption &optionFor(const InputSpec &input, const Manifest &manifest,
                             const std::vector<InputOption> &options) {
  for (const InputOption &option : options)
    if (option.name == input.name)
      return option;
  throw std::runtime_error("--input " + input.name + "=FILE is missing; " +
                           listInputs(manifest));
}

} // namespace

Inputs::Inputs(const Manifest &manifest,
               const std::vector<InputOption> &options)
    : manifest(manifest) {
  checkNames(manifest, options);
  for (const InputSpec &input : manifest.inputs)
    sources.push_back(
        openInput(optionFor(input, manifest, options).spec, input));
  findRows();
}

void Inputs::findRows() {
  const InputSpec *whole = nullptr;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto own = sources[i]->rows();
    if (!own || sources[i]->isCut())
      continue;
    if (whole && *own != *rows)
      throw std::runtime_error(
          "expected files with equal numbers of rows, got " +
          std::to_string(*rows) + " for input '" + whole->name + "' and " +
          std::to_string(*own) + " for input '" + manifest.inputs[i].name +
          "'");
    whole = &manifest.inputs[i];
    rows = own;
  }
  for (const auto &source : sources)
    if (source->isCut())
      rows = std::min(rows.value_or(*source->rows()), *source->rows());
}

void Inputs::checkValues() const {
  for (const auto &source : sources)
    source->checkValues();
}

void Inputs::read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
                  std::span<std::byte> out) const {
  int64_t row = (step * manifest.microBatches + microBatch) *
                    int64_t(manifest.mesh.size()) +
                rank;
  sources[input]->read(rows ? row % *rows : row, out);
}

} // namespace fcdp::run
