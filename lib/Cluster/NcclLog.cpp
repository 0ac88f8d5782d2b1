// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/NcclLog.h"

#include "NcclRanks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace fcdp;
using Words = llvm::SmallVector<llvm::StringRef, 32>;

/// The programs of nccl-tests, without "_perf".
static constexpr llvm::StringLiteral kPrograms[] = {
    "all_gather", "all_reduce", "alltoall",      "alltoallv",
    "broadcast",  "gather",     "hypercube",     "reduce",
    "scatter",    "sendrecv",   "reduce_scatter"};

std::optional<NcclProgram> fcdp::parseNcclProgram(llvm::StringRef name) {
  name.consume_back("_mpi");
  name.consume_back("_perf");
  if (name == "all_gather")
    return NcclProgram::allGather;
  if (name == "reduce_scatter")
    return NcclProgram::reduceScatter;
  if (name == "all_reduce")
    return NcclProgram::allReduce;
  return std::nullopt;
}

namespace {
/// The positions of the figures in a row, counted from its end, because a
/// program without `redop` or `root` may print nothing in their place.
struct Columns {
  size_t count = 0, time = 0, busBandwidth = 0;
  bool hasTimestamp = false;
};

class LogReader {
public:
  LogReader(llvm::MemoryBufferRef text, std::optional<NcclProgram> given)
      : text(text), given(given) {}
  llvm::Expected<std::vector<NcclTest>> read();

private:
  llvm::Error fail(const llvm::Twine &message) const;
  llvm::Error readLine(llvm::StringRef line);
  llvm::Error readComment(const Words &words);
  llvm::Error begin();
  llvm::Error finish();
  llvm::Error readRow(Words words);
  llvm::Error checkRow(double bytes, double micros, double printed,
                       double rate) const;
  void noteProgram(llvm::StringRef line);
  llvm::Expected<NcclProgram> getProgram() const;

  llvm::MemoryBufferRef text;
  std::optional<NcclProgram> given;
  int64_t line = 0;
  /// The last name of a program in the log.
  std::string name;
  NcclRanks ranks;
  std::optional<Columns> columns;
  NcclTest current;
  std::vector<NcclTest> tests;
};
} // namespace

llvm::Error LogReader::fail(const llvm::Twine &message) const {
  return llvm::createStringError(text.getBufferIdentifier() + ":" +
                                 llvm::Twine(std::max<int64_t>(line, 1)) +
                                 ": error: " + message);
}

/// Removes the label that mpirun --tag-output ("[1,0]<stdout>:") or srun
/// --label ("0: ") has put before a line.
static llvm::StringRef withoutLabel(llvm::StringRef line) {
  llvm::StringRef rest = line.ltrim();
  if (rest.starts_with("[")) {
    auto [label, tail] = rest.split(">:");
    if (tail.data() && label.contains("]<std"))
      return tail;
  }
  llvm::StringRef tail = rest.drop_while(llvm::isDigit);
  return tail.size() < rest.size() && tail.consume_front(": ") ? tail : line;
}

void LogReader::noteProgram(llvm::StringRef line) {
  size_t end = line.rfind("_perf");
  if (end == llvm::StringRef::npos)
    return;
  llvm::StringRef head = line.take_front(end);
  size_t before = head.find_last_not_of("abcdefghijklmnopqrstuvwxyz_");
  llvm::StringRef found =
      head.drop_front(before == llvm::StringRef::npos ? 0 : before + 1);
  if (llvm::is_contained(kPrograms, found))
    name = found.str();
}

/// Returns the program whose name the file's name contains.
static std::optional<NcclProgram> findInName(llvm::StringRef path) {
  llvm::StringRef file = llvm::sys::path::filename(path);
  for (llvm::StringRef name : {"all_gather", "reduce_scatter", "all_reduce"})
    if (file.contains(name))
      return parseNcclProgram(name);
  return std::nullopt;
}

llvm::Expected<NcclProgram> LogReader::getProgram() const {
  if (given)
    return *given;
  if (name.empty()) {
    if (auto program = findInName(text.getBufferIdentifier()))
      return *program;
    return fail("expected the name of a program as 'all_gather_perf' before "
                "its results; give --collective");
  }
  if (auto program = parseNcclProgram(name))
    return *program;
  return fail("expected results of all_gather_perf, reduce_scatter_perf or "
              "all_reduce_perf, got those of " +
              name + "_perf");
}

/// Begins the rows of a run.
llvm::Error LogReader::begin() {
  if (!current.rows.empty())
    return llvm::Error::success();
  llvm::Expected<NcclProgram> program = getProgram();
  if (!program)
    return program.takeError();
  current.program = *program;
  llvm::Expected<NcclGroups> groups = ranks.getGroups();
  if (!groups)
    return fail(toString(groups.takeError()));
  current.set = groups->set;
  current.nodes = groups->nodes;
  current.ranksPerNode = groups->ranksPerNode;
  return llvm::Error::success();
}

llvm::Error LogReader::finish() {
  if (!current.rows.empty())
    tests.push_back(std::move(current));
  current = {};
  columns.reset();
  ranks = {};
  return llvm::Error::success();
}

static std::optional<Columns> findColumns(const Words &words) {
  auto size = llvm::find(words, "size"), count = llvm::find(words, "count");
  auto time = llvm::find_if(words, [](llvm::StringRef word) {
    return word == "time" || word == "cputime";
  });
  auto bus = llvm::find(words, "busbw");
  if (size == words.end() || count != size + 1 || time == words.end() ||
      bus < time || bus == words.end())
    return std::nullopt;
  Columns columns;
  columns.hasTimestamp = words.back() == "timestamp";
  auto end = words.end() - columns.hasTimestamp;
  columns.count = end - size;
  columns.time = end - time;
  columns.busBandwidth = end - bus;
  return columns;
}

llvm::Error LogReader::readComment(const Words &words) {
  if (words.size() > 1 && words[1] == "nThread") {
    // Programs without MPI each print this before any prints its ranks.
    if (columns)
      return finish();
    return llvm::Error::success();
  }
  if (words.size() > 1 && words[1] == "Rank") {
    if (columns)
      if (llvm::Error error = finish())
        return error;
    if (llvm::Error error = ranks.add(words))
      return fail(toString(std::move(error)));
    return llvm::Error::success();
  }
  if (llvm::StringRef(words.back()) == "FAILED" && words.size() > 2 &&
      words[1] == "Out")
    return fail("expected right results, but nccl-tests found values out of "
                "bounds");
  if (auto found = findColumns(words))
    columns = found;
  return llvm::Error::success();
}

/// Returns the bus bandwidth in bytes per second (nccl-tests,
/// doc/PERFORMANCE.md).
static double getBusBandwidth(NcclProgram program, int64_t ranks, double bytes,
                              double seconds) {
  double factor = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  if (program == NcclProgram::allReduce)
    factor *= 2;
  return factor * bytes / seconds;
}

/// Checks that the printed bus bandwidth, in GB/s, matches the program and its
/// number of ranks. It has two decimals. Long times have two digits.
llvm::Error LogReader::checkRow(double bytes, double micros, double printed,
                                double rate) const {
  double tolerance = micros < 1e7 ? 0.03 : 0.06;
  double expected = rate / 1e9;
  if (std::abs(printed - expected) <= tolerance * expected + 0.011)
    return llvm::Error::success();
  return fail(
      llvm::formatv("expected a busbw of {0:f2} GB/s for {1:f0} bytes in "
                    "{2:f2} us on {3} ranks, got {4:f2}: is this the right "
                    "collective, and are all ranks listed?",
                    expected, bytes, micros, ranks.getGroupSize(), printed));
}

llvm::Error LogReader::readRow(Words words) {
  uint64_t bytes = 0, count = 0;
  // Lines of other programs are in the log, too.
  if (words.size() < 2 || words[0].getAsInteger(10, bytes) ||
      words[1].getAsInteger(10, count))
    return llvm::Error::success();
  if (columns->hasTimestamp && words.size() > 2)
    words.pop_back_n(2);
  // `redop` and `root` may be empty.
  if (words.size() > columns->count || words.size() + 2 < columns->count ||
      words.size() < columns->time)
    return fail(llvm::formatv("expected a row of {0} columns, got {1}",
                              columns->count, words.size()));
  double micros = 0, printed = 0;
  llvm::StringRef time = words[words.size() - columns->time],
                  bus = words[words.size() - columns->busBandwidth];
  if (time.getAsDouble(micros) || !(micros >= 0) || !std::isfinite(micros))
    return fail("expected a time in microseconds, got '" + time + "'");
  if (bus.getAsDouble(printed) || !(printed >= 0) || !std::isfinite(printed))
    return fail("expected a bus bandwidth in GB/s, got '" + bus + "'");
  if (bytes == 0) // less than an element a rank
    return llvm::Error::success();
  if (micros == 0)
    return fail("expected a time above 0");
  if (llvm::Error error = begin())
    return error;
  double rate = getBusBandwidth(current.program, ranks.getGroupSize(),
                                static_cast<double>(bytes), micros * 1e-6);
  if (llvm::Error error =
          checkRow(static_cast<double>(bytes), micros, printed, rate))
    return error;
  current.rows.push_back({static_cast<double>(bytes), rate});
  return llvm::Error::success();
}

llvm::Error LogReader::readLine(llvm::StringRef whole) {
  noteProgram(whole);
  Words words;
  llvm::SplitString(withoutLabel(whole), words);
  if (words.empty())
    return llvm::Error::success();
  if (words.front() == "#")
    return readComment(words);
  return columns ? readRow(words) : llvm::Error::success();
}

llvm::Expected<std::vector<NcclTest>> LogReader::read() {
  llvm::StringRef rest = text.getBuffer();
  while (!rest.empty()) {
    auto [first, tail] = rest.split('\n');
    ++line;
    rest = tail;
    if (llvm::Error error = readLine(first))
      return error;
  }
  if (llvm::Error error = finish())
    return error;
  if (tests.empty())
    return fail("expected results of nccl-tests ('# size count type ...' and "
                "rows), got none");
  return std::move(tests);
}

llvm::Expected<std::vector<NcclTest>>
fcdp::parseNcclLog(llvm::MemoryBufferRef text,
                   std::optional<NcclProgram> program) {
  return LogReader(text, program).read();
}
