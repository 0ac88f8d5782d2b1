// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ParameterFiles.h"
#include "checkpoint/CheckpointFolders.h"
#include "checkpoint/PackedWeights.h"
#include "files/FileErrors.h"
#include "weights/AdapterFiles.h"
#include "weights/SafetensorsWriter.h"
#include "weights/WeightMatching.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace fcdp {

namespace {

namespace fs = std::filesystem;
using Entry = SafetensorsWriter::Entry;

constexpr const char *kIndex = "model.safetensors.index.json";

/// The tensors to write.
struct Selection {
  struct Member {
    const plan::ParameterT *parameter;
    Entry entry;
  };
  struct Buffer {
    size_t index;
    Entry entry;
  };
  /// The members by bucket, in the order of their places.
  std::vector<std::vector<Member>> members;
  std::vector<Buffer> buffers;

  std::vector<Entry> entries() const {
    std::vector<Entry> all;
    for (const auto &bucket : members)
      for (const Member &member : bucket)
        all.push_back(member.entry);
    for (const Buffer &buffer : buffers)
      all.push_back(buffer.entry);
    return all;
  }
};

/// The step's tensors under the names that they have in a file of weights.
class Template {
public:
  Template(const StepPlan &plan, const std::string &path) {
    std::vector<std::string> all;
    for (const TensorNames &names : namesOf(plan)) {
      tensors.push_back(names);
      all.insert(all.end(), names.begin(), names.end());
    }
    GivenWeights given = std::move(openGiven({path}, tensors).front());
    source = std::move(given.source);
    std::vector<WeightNames> files;
    files.emplace_back(all, source->names(), given.origin);
    try {
      matches = matchWeights(tensors, files, {.makesCopies = false});
    } catch (const std::exception &error) {
      throwAt(path, error.what());
    }
  }

  /// Returns an entry for each of the file's tensors that has these names, with
  /// all names under which the file has it.
  std::vector<Entry> find(const Entry &entry) {
    size_t t = std::find(tensors.begin(), tensors.end(), entry.names) -
               tensors.begin();
    std::vector<Entry> entries;
    std::vector<const std::byte *> storages;
    for (const WeightPlace &place : matches[t].places) {
      StoredTensor tensor = *source->find(place.name);
      if (tensor.shape != entry.shape)
        throwAt(source->path(), "'" + place.name + "': expected shape " +
                                    toString(entry.shape) + ", got " +
                                    toString(tensor.shape));
      used.insert(place.name);
      size_t i =
          std::find(storages.begin(), storages.end(), tensor.storage.data()) -
          storages.begin();
      if (i == storages.size()) {
        storages.push_back(tensor.storage.data());
        entries.push_back({{}, entry.shape, entry.dtype});
      }
      entries[i].names.push_back(place.name);
    }
    return entries;
  }

  void checkAllUsed() const {
    for (const std::string &name : source->names())
      if (!used.contains(name))
        throwAt(source->path(), "expected weights of the step's model, got '" +
                                    name + "', which the step has not" +
                                    adviceOnForm(source->path(), "from-model"));
  }

private:
  static std::vector<TensorNames> namesOf(const StepPlan &plan) {
    std::vector<TensorNames> all;
    for (const auto &parameter : plan.parameters)
      all.push_back(parameter->names);
    for (const auto &buffer : plan.buffers)
      if (buffer->persistent)
        all.push_back({buffer->name});
    return all;
  }

  std::vector<TensorNames> tensors;
  std::unique_ptr<WeightSource> source;
  /// The match of each tensor in `tensors`.
  std::vector<WeightMatch> matches;
  std::set<std::string> used;
};

/// Returns the tensor that is written for a parameter: a packed one is written
/// unpacked.
Entry entryOf(const plan::ParameterT &parameter) {
  if (parameter.packed)
    return {parameter.names, parameter.packed->shape,
            toDType(parameter.packed->dtype)};
  return {parameter.names, parameter.shape, toDType(parameter.dtype)};
}

Selection select(const StepPlan &plan, const ParameterOutput &output) {
  std::optional<Template> like;
  if (!output.like.empty())
    like.emplace(plan, output.like);
  auto choose = [&](const Entry &entry) {
    return like ? like->find(entry) : std::vector{entry};
  };
  Selection selection;
  selection.members.resize(plan.buckets.size());
  auto members = membersOf(plan);
  for (size_t b = 0; b < members.size(); ++b)
    for (const plan::ParameterT *parameter : members[b])
      for (Entry &entry : choose(entryOf(*parameter)))
        if (parameter->trainable || !output.onlyTrained)
          selection.members[b].push_back({parameter, std::move(entry)});
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (const plan::BufferT &buffer = *plan.buffers[b]; buffer.persistent)
      for (Entry &entry :
           choose({{buffer.name}, buffer.shape, toDType(buffer.dtype)}))
        if (!output.onlyTrained)
          selection.buffers.push_back({b, std::move(entry)});
  if (like)
    like->checkAllUsed();
  return selection;
}

bool isFolder(const std::string &path) {
  std::error_code error;
  return path.ends_with('/') || fs::is_directory(path, error);
}

/// Throws if the files would be inside a checkpoint.
void checkPlace(const std::string &path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  const std::string folder =
      error || isFolder(path) ? path : real.parent_path().string();
  if (!isStream(path) && isCheckpoint(folder))
    throwAt(path, "expected a place outside of checkpoints, got one in the "
                  "checkpoint " +
                      folder);
}

/// Writes tensors in their order to one file, or to the files of a folder.
class TensorFiles {
public:
  TensorFiles(const ParameterOutput &output, std::vector<Entry> all)
      : folder(isFolder(output.path) ? output.path : "") {
    if (folder.empty()) {
      groups.push_back(std::move(all));
      names.push_back(output.path);
      return;
    }
    fs::create_directories(folder);
    uint64_t bytes = 0;
    for (Entry &entry : all) {
      uint64_t own = numElements(entry.shape) * byteSize(entry.dtype);
      total += own;
      if (groups.empty() || bytes + own > output.mostFileBytes) {
        groups.emplace_back();
        bytes = 0;
      }
      bytes += own;
      groups.back().push_back(std::move(entry));
    }
    for (size_t i = 0; i < groups.size(); ++i)
      names.push_back((fs::path(folder) / nameOf(i)).string());
  }
  ~TensorFiles() {
    // Without an index, a part of the files would look like a whole model.
    for (size_t i = 0; !isFinished && !folder.empty() && i < begun; ++i)
      std::remove(names[i].c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!writer || left == 0)
      next();
    writer->write(bytes);
    --left;
  }

  void finish() {
    while (begun < groups.size())
      next();
    if (writer)
      writer->finish();
    if (groups.size() > 1)
      writeIndex();
    isFinished = true;
  }

private:
  std::string nameOf(size_t index) const {
    if (groups.size() == 1)
      return "model.safetensors";
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors",
                  index + 1, groups.size());
    return name;
  }
  void next() {
    if (writer)
      writer->finish();
    writer.emplace(names[begun], groups[begun]);
    left = groups[begun].size();
    ++begun;
  }
  void writeIndex() {
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = total;
    for (size_t i = 0; i < groups.size(); ++i)
      for (const Entry &entry : groups[i])
        index["weight_map"][entry.names.front()] = nameOf(i);
    std::string path = (fs::path(folder) / kIndex).string();
    std::string text = index.dump(1) + "\n";
    ReplacedFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.finish();
  }

  std::string folder;
  std::vector<std::vector<Entry>> groups;
  /// Paths, one for each group.
  std::vector<std::string> names;
  uint64_t total = 0;
  std::optional<SafetensorsWriter> writer;
  size_t begun = 0, left = 0;
  bool isFinished = false;
};

} // namespace

uint64_t checkOutput(const StepPlan &plan, const ParameterOutput &output) {
  checkPlace(output.path);
  std::error_code error;
  if (isFolder(output.path))
    for (const fs::directory_entry &entry :
         fs::directory_iterator(output.path, error))
      if (std::string name = entry.path().filename();
          name.ends_with(".safetensors") ||
          name.ends_with(".safetensors.index.json"))
        throwAt(output.path, "expected a folder without weights, got one "
                             "with " +
                                 name + "; name another folder");
  std::vector<Entry> entries = select(plan, output).entries();
  if (entries.empty())
    throwAt(output.path, "expected parameters to write, got none");
  return SafetensorsWriter::fileBytes(entries);
}

ParameterOutput moveTo(const ParameterOutput &output,
                       const std::string &folder) {
  ParameterOutput moved = output;
  moved.path = folder + "/fcdp-params." + ownToken() +
               (isFolder(output.path) ? "/" : ".safetensors");
  return moved;
}

void saveParameters(const StepPlan &plan, const ParameterOutput &output,
                    bool isWriter, const GatherShards &gather,
                    const MemoryOf &buffer) {
  Selection selection;
  std::optional<TensorFiles> files;
  std::exception_ptr problem;
  // The other ranks send all their parts, even after an error here.
  auto attempt = [&](auto &&work) {
    try {
      if (isWriter && !problem)
        work();
    } catch (...) {
      problem = std::current_exception();
      files.reset();
    }
  };
  attempt([&] {
    checkPlace(output.path);
    selection = select(plan, output);
    files.emplace(output, selection.entries());
  });
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (output.onlyTrained && !plan.buckets[b]->trainable)
      continue;
    std::vector<std::byte> bucket = gather(b);
    attempt([&] {
      for (const auto &[parameter, entry] : selection.members[b]) {
        const size_t width = byteSize(toDType(parameter->dtype));
        auto bytes = std::span<const std::byte>(bucket).subspan(
            parameter->offsetElements * width,
            numElements(parameter->shape) * width);
        if (parameter->packed)
          files->write(unpackMatrix(*parameter->packed, bytes));
        else
          files->write(bytes);
      }
    });
  }
  attempt([&] {
    for (const auto &[index, entry] : selection.buffers)
      files->write(buffer(index));
    files->finish();
  });
  if (problem)
    std::rethrow_exception(problem);
}

} // namespace fcdp
