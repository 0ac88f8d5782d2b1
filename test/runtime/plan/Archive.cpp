// SPDX-License-Identifier: Apache-2.0
#include "plan/Archive.h"

#include <stdexcept>
#include <zip.h>

namespace fcdp::test {

namespace {

using nlohmann::json;

json symInts(const std::vector<int64_t> &values) {
  json list = json::array();
  for (int64_t value : values)
    list.push_back({{"as_int", value}});
  return list;
}

std::string config(const std::vector<ArchiveTensor> &tensors) {
  json all = json::object();
  for (const ArchiveTensor &tensor : tensors)
    all[tensor.name] = {{"path_name", tensor.payload},
                        {"is_param", true},
                        {"use_pickle", tensor.isPickle},
                        {"tensor_meta",
                         {{"dtype", tensor.dtype},
                          {"sizes", symInts(tensor.sizes)},
                          {"requires_grad", true},
                          {"device", {{"type", "cpu"}, {"index", nullptr}}},
                          {"strides", symInts(tensor.strides)},
                          {"storage_offset", {{"as_int", tensor.offset}}},
                          {"layout", 7}}}};
  return json{{"config", all}}.dump();
}

void addEntry(zip_t *archive, const std::string &name,
              const std::string &content) {
  char *copy = static_cast<char *>(malloc(content.size() + 1));
  content.copy(copy, content.size());
  zip_source_t *source = zip_source_buffer(archive, copy, content.size(), 1);
  zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
  if (index < 0)
    throw std::runtime_error("zip_file_add failed");
  zip_set_file_compression(archive, index, ZIP_CM_STORE, 0);
}

} // namespace

void Archive::write(const std::string &path, const std::string &root) const {
  int code = 0;
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!archive)
    throw std::runtime_error("zip_open failed");
  // libtorch wants to know the version of its own format.
  addEntry(archive, root.substr(0, root.find('/')) + "/.data/version", "3\n");
  addEntry(archive, root + "/archive_format", "pt2");
  addEntry(archive, root + "/data/weights/model_weights_config.json",
           config(weights));
  addEntry(archive, root + "/data/constants/model_constants_config.json",
           config(constants));
  for (const auto &[name, bytes] : payloads)
    addEntry(archive,
             root +
                 (name.starts_with("tensor_") ? "/data/constants/"
                                              : "/data/weights/") +
                 name,
             bytes);
  if (zip_close(archive) != 0)
    throw std::runtime_error("zip_close failed");
}

std::string floatBytes(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(float)};
}

} // namespace fcdp::test
