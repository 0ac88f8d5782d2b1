// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightSource.h"
#include "files/FileErrors.h"
#include "files/ReplacedFile.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace fcdp {

namespace {

[[noreturn]] void throwAtTensor(const WeightSource &source,
                                const std::string &name,
                                const std::string &message) {
  throwAt(source.path(), "'" + name + "': " + message);
}

[[noreturn]] void throwAtType(const WeightSource &source,
                              const std::string &name, DType expected,
                              DType found) {
  throwAtTensor(source, name,
                std::string("expected type ") + fcdp::name(expected) +
                    ", got " + fcdp::name(found));
}

} // namespace

std::string nameBeside(const std::string &name, const std::string &end) {
  if (end.starts_with('.'))
    return name + end;
  const size_t dot = name.rfind('.');
  return (dot == std::string::npos ? "" : name.substr(0, dot + 1)) + end;
}

std::unique_ptr<WeightSource> openWeights(const std::string &path) {
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return openWeightFolder(path);
  if (isStream(path))
    throwAt(path, "expected a file, got something else");
  std::ifstream file(path, std::ios::binary);
  std::array<char, 9> start{};
  if (!file.read(start.data(), start.size()))
    throwAt(path,
            std::string("expected a .pt2 archive or a safetensors file, got ") +
                (file.is_open() ? "a file of fewer than 9 bytes"
                                : "a file that cannot be opened"));
  if (std::memcmp(start.data(), "PK", 2) == 0)
    return openPt2(path);
  if (start[8] == '{')
    return openSafetensors(path);
  throwAt(path, "expected a .pt2 archive or a safetensors file, got another");
}

StoredTensor requireConvertible(WeightSource &source,
                                const std::vector<std::string> &names,
                                const Shape &shape, DType dtype) {
  std::optional<StoredTensor> tensor;
  for (const std::string &name : names)
    if ((tensor = source.find(name)))
      break;
  const std::string &name = names.front();
  if (!tensor)
    throwAtTensor(
        source, name,
        "expected a tensor of this name, got none; give the weights of the "
        "model that the step was compiled from");
  if (tensor->shape != shape)
    throwAtTensor(source, name,
                  "expected shape " + toString(shape) + ", got " +
                      toString(tensor->shape));
  if (!isConvertible(tensor->dtype, dtype))
    throwAtType(source, name, dtype, tensor->dtype);
  return *tensor;
}

StoredTensor requireTensor(WeightSource &source,
                           const std::vector<std::string> &names,
                           const Shape &shape, DType dtype) {
  StoredTensor tensor = requireConvertible(source, names, shape, dtype);
  if (tensor.dtype != dtype)
    throwAtType(source, names.front(), dtype, tensor.dtype);
  return tensor;
}

} // namespace fcdp
