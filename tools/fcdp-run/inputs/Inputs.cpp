// SPDX-License-Identifier: Apache-2.0
#include "inputs/Inputs.h"

#include "policy/EqualSizes.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp::run {

namespace {

std::string listInputs(const InputGroup &group) {
  std::string list;
  for (const auto &input : group.inputs)
    list += (list.empty() ? "" : ", ") + input->name + " " +
            name(toDType(input->dtype)) + toString(input->shape);
  return group.owner + " inputs are: " + (list.empty() ? "none" : list);
}

const InputOption &optionFor(const plan::InputT &input, const InputGroup &group,
                             const std::vector<InputOption> &options) {
  for (const InputOption &option : options)
    if (option.name == input.name)
      return option;
  throw std::runtime_error(group.option + " " + input.name +
                           "=FILE is missing; " + listInputs(group));
}

} // namespace

void checkNames(const InputGroup &group,
                const std::vector<InputOption> &options) {
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string &name = options[i].name;
    bool known =
        std::any_of(group.inputs.begin(), group.inputs.end(),
                    [&](const auto &input) { return input->name == name; });
    if (!known)
      throw std::runtime_error(group.option + " " + name + ": unknown; " +
                               listInputs(group));
    for (size_t j = 0; j < i; ++j)
      if (options[j].name == name)
        throw std::runtime_error(group.option + " " + name + ": given twice");
  }
}

Inputs::Inputs(const StepPlan &plan, const InputGroup &group,
               const std::vector<InputOption> &options, const DataOptions &data,
               const Shapes *shapes)
    : plan(plan), group(group), inputs(group.inputs), inputOptions(options),
      data(data) {
  checkNames(group, options);
  for (const auto &input : inputs)
    sources.push_back(
        openAll(optionFor(*input, group, options).spec, *input,
                shapes ? shapes->padding(sources.size()) : nullptr));
  auto files = findFiles();
  if (shapes)
    requireEqualSizes(files.value_or(1));
  if (!files && !toText(data).empty())
    throw std::runtime_error("--data: expected an input from a file, got only "
                             "random ones, which have no end");
  if (!files)
    return;
  int64_t before = 0;
  for (size_t file = 0; file < *files; ++file) {
    randomRows.push_back(before);
    rowsOfFiles.push_back(findRows(file));
    before += rowsOfFiles.back();
  }
  dataOrder.emplace(data, rowsOfFiles);
}

Inputs::Sources Inputs::openAll(const std::string &spec,
                                const plan::InputT &input,
                                const PadElement *pad) const {
  Sources sources;
  std::vector<std::string> files = splitFiles(spec);
  for (const std::string &file : files) {
    if (file.empty() || (files.size() > 1 && isRandom(file)))
      throw std::runtime_error(group.option + " " + input.name +
                               ": expected files, separated by ',', got '" +
                               spec + "'");
    sources.push_back(openInput(file, input, pad));
  }
  return sources;
}

std::optional<size_t> Inputs::findFiles() const {
  std::optional<size_t> first;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i][0]->rows())
      continue;
    if (first && sources[*first].size() != sources[i].size())
      throw std::runtime_error(
          "--input: expected as many files for each input, got " +
          std::to_string(sources[*first].size()) + " for input '" +
          inputs[*first]->name + "' and " + std::to_string(sources[i].size()) +
          " for input '" + inputs[i]->name + "'");
    first = first.value_or(i);
  }
  return first ? std::optional(sources[*first].size()) : std::nullopt;
}

int64_t Inputs::findRows(size_t file) const {
  const plan::InputT *whole = nullptr;
  std::optional<int64_t> rows, windows;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i][0]->rows())
      continue;
    const InputSource &source = *sources[i][file];
    int64_t own = *source.rows();
    if (source.isWindowed()) {
      windows = std::min(windows.value_or(own), own);
      continue;
    }
    if (whole && own != *rows)
      throw std::runtime_error(
          "expected files with equal numbers of rows, got " +
          std::to_string(*rows) + " for input '" + whole->name + "' and " +
          std::to_string(own) + " for input '" + inputs[i]->name + "'");
    whole = inputs[i].get();
    rows = own;
  }
  if (!rows || (windows && *windows < *rows))
    rows = windows;
  return *rows;
}

void Inputs::requireEqualSizes(size_t files) const {
  for (size_t file = 0; file < files; ++file) {
    std::string problem =
        describeWrongSizes(plan, [&](size_t input) -> const Shape & {
          const Sources &own = sources[input];
          return own[std::min(file, own.size() - 1)]->rowShape();
        });
    if (!problem.empty())
      throw std::runtime_error("rows of the files of --input: " + problem);
  }
}

void Inputs::checkValues() const {
  for (const Sources &files : sources)
    for (const auto &source : files)
      source->checkValues();
}

void Inputs::startAt(int64_t step, int64_t row) {
  startStep = step;
  startRow = row;
}

int64_t Inputs::firstRowOf(int64_t step) const {
  return startRow +
         (step - startStep) * plan.microBatches * int64_t(plan.mesh.size());
}

std::vector<int64_t> Inputs::epochsOf(int64_t step) const {
  std::vector<int64_t> epochs;
  for (size_t series = 0; dataOrder && series < dataOrder->numSeries();
       ++series)
    epochs.push_back(dataOrder->epochAt(series, firstRowOf(step + 1)));
  return epochs;
}

std::vector<EpochEnd> Inputs::epochsThatEndIn(int64_t step) const {
  std::vector<EpochEnd> ends;
  for (size_t series = 0; dataOrder && series < dataOrder->numSeries();
       ++series) {
    int64_t ended = dataOrder->epochsBefore(series, firstRowOf(step + 1));
    if (ended > dataOrder->epochsBefore(series, firstRowOf(step)))
      ends.push_back({ended, dataOrder->rowsOf(series),
                      dataOrder->numSeries() > 1 ? fileName(series) : ""});
  }
  return ends;
}

std::string Inputs::fileName(size_t file) const {
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i][0]->rows())
      return splitFiles(optionFor(*inputs[i], group, inputOptions).spec)
          .at(file);
  return "";
}

std::string describeEnd(const EpochEnd &end) {
  return "epoch " + std::to_string(end.epoch) + " ends: all " +
         std::to_string(end.rows) + " rows" +
         (end.file.empty() ? "" : " of " + end.file) + " have been read";
}

void Inputs::read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
                  std::span<std::byte> out) const {
  int64_t position =
      firstRowOf(step) + microBatch * int64_t(plan.mesh.size()) + rank;
  const Sources &files = sources[input];
  if (!dataOrder)
    return files[0]->read(position, out);
  RowPlace place = dataOrder->at(position);
  if (files[0]->rows())
    files[place.file]->read(place.row, out);
  else
    files[0]->read(randomRows[place.file] + place.row, out);
}

} // namespace fcdp::run
