// SPDX-License-Identifier: Apache-2.0
//
// The C interface: each function calls the session's, and converts its
// exceptions to a status and a text.
#include "fcdp/session.h"

#include "embed/Arguments.h"
#include "embed/GuardedSession.h"
#include "policy/Padding.h"
#include "state/StateByName.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <sstream>
#include <vector>

using namespace fcdp;

// The header spells out these values.
static_assert(int(DType::F16) == FCDP_F16 && int(DType::BF16) == FCDP_BF16 &&
              int(DType::F32) == FCDP_F32 && int(DType::F64) == FCDP_F64 &&
              int(DType::I8) == FCDP_I8 && int(DType::I16) == FCDP_I16 &&
              int(DType::I32) == FCDP_I32 && int(DType::I64) == FCDP_I64 &&
              int(DType::U8) == FCDP_U8 && int(DType::Bool) == FCDP_BOOL &&
              int(DType::C64) == FCDP_C64 && int(DType::C128) == FCDP_C128);
static_assert(int(OnNonfinite::Stop) == FCDP_NONFINITE_STOP &&
              int(OnNonfinite::Skip) == FCDP_NONFINITE_SKIP &&
              int(OnNonfinite::Continue) == FCDP_NONFINITE_CONTINUE);

namespace {

thread_local std::string lastError;

fcdp_status statusOf(SessionErrorCode code) {
  switch (code) {
  case SessionErrorCode::BadObject:
    return FCDP_BAD_OBJECT;
  case SessionErrorCode::BadLaunch:
    return FCDP_BAD_LAUNCH;
  case SessionErrorCode::BadWeights:
    return FCDP_BAD_WEIGHTS;
  case SessionErrorCode::InputMismatch:
    return FCDP_INPUT_MISMATCH;
  case SessionErrorCode::NoDevice:
    return FCDP_NO_DEVICE;
  case SessionErrorCode::RendezvousFailed:
    return FCDP_RENDEZVOUS_FAILED;
  case SessionErrorCode::PeerFailed:
    return FCDP_PEER_FAILED;
  case SessionErrorCode::TimedOut:
    return FCDP_TIMED_OUT;
  case SessionErrorCode::OutOfMemory:
    return FCDP_OUT_OF_MEMORY;
  case SessionErrorCode::FileFailed:
    return FCDP_FILE_FAILED;
  case SessionErrorCode::NotFinite:
    return FCDP_NOT_FINITE;
  case SessionErrorCode::Misuse:
    return FCDP_MISUSE;
  case SessionErrorCode::Busy:
    return FCDP_BUSY;
  case SessionErrorCode::Failed:
    return FCDP_FAILED;
  }
  return FCDP_FAILED;
}

fcdp_status keep(fcdp_status status, const char *text) noexcept {
  try {
    lastError = text;
  } catch (const std::bad_alloc &) {
    lastError.clear();
  }
  return status;
}

/// Runs `work`, and throws nothing into C.
template <typename Work>
fcdp_status attempt(Work work) noexcept {
  try {
    work();
    return FCDP_OK;
  } catch (const SessionError &error) {
    return keep(statusOf(error.code()), error.what());
  } catch (const std::bad_alloc &error) {
    return keep(FCDP_OUT_OF_MEMORY, error.what());
  } catch (const std::exception &error) {
    return keep(FCDP_FAILED, error.what());
  }
}

void require(bool condition, const char *expected) {
  if (!condition)
    throw SessionError(SessionErrorCode::Misuse, expected);
}

/// Runs `work` on the session, if no other thread is in a call.
template <typename Handle, typename Work>
fcdp_status attemptOn(Handle *handle, Work work) noexcept {
  return attempt([&] {
    require(handle, "expected a session, got a null pointer");
    handle->guarded.call([&](Session &session) { work(session); });
  });
}

/// Runs `work` on the constant properties of a session, also while other
/// threads are in calls.
template <typename Handle, typename Work>
fcdp_status attemptToLook(const Handle *handle, Work work) noexcept {
  return attempt([&] {
    require(handle, "expected a session, got a null pointer");
    const std::shared_ptr<const Session> session = handle->guarded.look();
    require(session != nullptr, "the session is closed");
    work(*session);
  });
}

/// Returns the number that `work` computes from constant properties, or 0
/// without a session.
template <typename Number, typename Handle, typename Work>
Number lookAt(const Handle *handle, Work work) noexcept {
  Number number = 0;
  (void)attemptToLook(
      handle, [&](const Session &session) { number = Number(work(session)); });
  return number;
}

/// Returns the result of `work`, or 0 without a session or while another thread
/// is in a call.
template <typename Number, typename Handle, typename Work>
Number numberOf(const Handle *handle, Work work) noexcept {
  Number number = 0;
  (void)attemptOn(
      handle, [&](const Session &session) { number = Number(work(session)); });
  return number;
}

/// The roles that have a number, in the order of the numbers, which programs
/// have compiled in. Roles of later optimizers have names alone.
constexpr plan::StateRole kNumberedRoles[] = {plan::StateRole::shard,
                                              plan::StateRole::exp_avg,
                                              plan::StateRole::exp_avg_sq,
                                              plan::StateRole::momentum_buffer,
                                              plan::StateRole::master,
                                              plan::StateRole::exp_avg_code,
                                              plan::StateRole::exp_avg_scale,
                                              plan::StateRole::exp_avg_sq_code,
                                              plan::StateRole::exp_avg_sq_scale,
                                              plan::StateRole::row_var,
                                              plan::StateRole::col_var,
                                              plan::StateRole::variance};
static_assert(std::size(kNumberedRoles) == FCDP_VARIANCE + 1);

plan::StateRole roleOf(fcdp_state_role role) {
  require(role >= FCDP_VALUE && role <= FCDP_VARIANCE,
          "expected a known role of a state");
  return kNumberedRoles[role];
}

/// Returns a string that the caller passed.
std::string textOf(const char *text) {
  require(text, "expected a text, got a null pointer");
  return text;
}

SessionErrorCode codeOf(fcdp_status status) {
  for (int i = 0; i <= int(SessionErrorCode::Failed); ++i)
    if (statusOf(SessionErrorCode(i)) == status)
      return SessionErrorCode(i);
  return SessionErrorCode::Failed;
}

Launch launchOf(const fcdp_launch *given) {
  if (given) {
    require(given->nodes > 0 && given->ranks_per_node > 0 &&
                given->node < given->nodes &&
                given->local < given->ranks_per_node,
            "fcdp_launch: expected a rank within the mesh");
    Launch launch;
    launch.launcher = "the program";
    launch.mesh = {given->nodes, given->ranks_per_node};
    launch.place = {given->node, given->local};
    launch.rank = worldRank(launch.mesh, launch.place);
    launch.masterHost = given->host ? given->host : "127.0.0.1";
    launch.masterPort = given->port;
    launch.servesStore = given->serves_store != 0;
    return launch;
  }
  return findLaunch();
}

std::map<std::string, double> paddingOf(const std::string &text) {
  std::map<std::string, double> values;
  std::istringstream parts(text);
  try {
    for (std::string part; std::getline(parts, part, ',');)
      addPadding(values, part, "padding");
  } catch (const std::runtime_error &error) {
    throw SessionError(SessionErrorCode::Misuse, error.what());
  }
  return values;
}

SessionOptions optionsOf(const fcdp_options *given) {
  fcdp_options defaults;
  fcdp_options_init(&defaults);
  const fcdp_options &from = given ? *given : defaults;
  SessionOptions options;
  options.launch = launchOf(from.launch);
  options.number = from.number;
  if (from.timeout_seconds > 0)
    options.timeoutSeconds = from.timeout_seconds;
  if (from.threads > 0)
    options.threads = from.threads;
  options.seed = from.seed;
  options.cudaGraphs = from.cuda_graphs != 0;
  require(from.on_nonfinite >= FCDP_NONFINITE_STOP &&
              from.on_nonfinite <= FCDP_NONFINITE_CONTINUE,
          "on_nonfinite: expected a value of fcdp_on_nonfinite");
  options.onNonfinite = OnNonfinite(from.on_nonfinite);
  options.interface = from.network_interface ? from.network_interface : "";
  if (from.loss_scale)
    options.lossScaling = lossScalingOf(from.loss_scale);
  if (from.padding)
    options.padding = paddingOf(from.padding);
  options.deterministic = from.deterministic != 0;
  require(from.reductions_by >= FCDP_REDUCTIONS_BY_FCDP &&
              from.reductions_by <= FCDP_REDUCTIONS_BY_NCCL,
          "reductions_by: expected a value of fcdp_reductions_by");
  options.reducesByNccl = from.reductions_by == FCDP_REDUCTIONS_BY_NCCL;
  if (from.state_path)
    options.stateFolders = stateFoldersOf(from.state_path);
  return options;
}

TensorView viewOf(const fcdp_tensor &tensor) {
  require(tensor.dtype >= FCDP_F16 && tensor.dtype <= FCDP_C128,
          "expected a tensor of a known type");
  require(tensor.num_dims == 0 || tensor.shape,
          "expected a tensor with a shape");
  return {static_cast<const std::byte *>(tensor.data), DType(tensor.dtype),
          Shape(tensor.shape, tensor.shape + tensor.num_dims)};
}

void describe(const std::string &name, DType dtype, const Shape &shape,
              fcdp_tensor_info *info) {
  *info = {name.c_str(), fcdp_dtype(dtype), uint32_t(shape.size()),
           shape.data(), uint64_t(numElements(shape)) * byteSize(dtype)};
}

std::vector<TensorView> viewsOf(const fcdp_tensor *tensors, size_t count) {
  require(tensors || count == 0, "expected tensors, got a null pointer");
  std::vector<TensorView> views;
  for (size_t i = 0; i < count; ++i)
    views.push_back(viewOf(tensors[i]));
  return views;
}

void describe(const plan::InputT &input, fcdp_tensor_info *info) {
  describe(input.name, toDType(input.dtype), input.shape, info);
}

double known(double figure) { return figure; }
double known(std::optional<double> figure) {
  return figure.value_or(RankStats::kUnknown);
}

template <typename Stats>
fcdp_figures figuresOf(const Stats &stats, double loss, double hostCache,
                       uint64_t skippedSteps) {
  return {loss,
          stats.seconds,
          uint64_t(stats.linkBytes[LinkId::Inter]),
          uint64_t(stats.linkBytes[LinkId::Intra]),
          uint64_t(stats.linkBytes[LinkId::H2D]),
          uint64_t(stats.linkBytes[LinkId::D2H]),
          uint64_t(stats.controlBytes),
          uint64_t(stats.devicePeakBytes),
          uint64_t(hostCache),
          stats.learningRate,
          skippedSteps,
          known(stats.gradientNorm),
          known(stats.lossScale)};
}

} // namespace

struct fcdp_session {
  explicit fcdp_session(std::unique_ptr<Session> opened)
      : guarded(std::move(opened)) {}

  /// Mutable, because a call changes nothing that its caller can see.
  mutable GuardedSession guarded;
  /// The figures that were read last.
  RankStats last;
  uint64_t skippedSteps = 0;
  /// The checkpoint that was loaded last.
  LoadedCheckpoint loaded;
};

namespace {

/// Keeps a handle as long as the process, so that a call after the session was
/// destroyed is an error and does not read freed memory. A process opens only a
/// few.
fcdp_session *keepHandle(std::unique_ptr<fcdp_session> made) {
  static std::mutex mutex;
  // It is never destroyed, because its handles must not be at the end of the
  // process.
  static auto *all = new std::vector<std::unique_ptr<fcdp_session>>();
  std::lock_guard<std::mutex> lock(mutex);
  all->push_back(std::move(made));
  return all->back().get();
}

} // namespace

extern "C" {

const char *fcdp_status_name(fcdp_status status) {
  return status == FCDP_OK ? "ok" : name(codeOf(status));
}

const char *fcdp_last_error(void) { return lastError.c_str(); }

void fcdp_options_init(fcdp_options *options) {
  if (options)
    *options = fcdp_options{};
}

fcdp_status fcdp_session_open(const char *object, const fcdp_options *options,
                              fcdp_session **session) {
  return attempt([&] {
    require(session, "expected a place for the session, got a null pointer");
    *session = nullptr;
    require(object, "expected the path of an object, got a null pointer");
    auto made = std::make_unique<fcdp_session>(
        Session::open(loadStep(object), optionsOf(options)));
    *session = keepHandle(std::move(made));
  });
}

fcdp_status fcdp_session_close(fcdp_session *session) {
  return attemptOn(session, [](Session &session) { session.close(); });
}

void fcdp_session_destroy(fcdp_session *session) {
  if (session)
    session->guarded.end();
}

void fcdp_session_fail(fcdp_session *session, const char *message) {
  (void)attempt([&] {
    require(session, "expected a session, got a null pointer");
    session->guarded.fail(textOf(message));
  });
}

uint32_t fcdp_session_rank(const fcdp_session *session) {
  return lookAt<uint32_t>(session,
                          [](const Session &own) { return own.rank(); });
}

uint32_t fcdp_session_num_ranks(const fcdp_session *session) {
  return lookAt<uint32_t>(
      session, [](const Session &own) { return own.plan().mesh.size(); });
}

uint32_t fcdp_session_num_micro_batches(const fcdp_session *session) {
  return lookAt<uint32_t>(
      session, [](const Session &own) { return own.plan().microBatches; });
}

size_t fcdp_session_num_inputs(const fcdp_session *session) {
  return lookAt<size_t>(
      session, [](const Session &own) { return own.plan().numStepInputs(); });
}

fcdp_status fcdp_session_input(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info) {
  return attemptToLook(session, [&](const Session &own) {
    const StepPlan::Inputs inputs = own.plan().greatestInputs();
    require(info && index < inputs.size(), "expected the number of an input");
    describe(*inputs[index], info);
  });
}

size_t fcdp_session_num_states(const fcdp_session *session) {
  return lookAt<size_t>(session, [](const Session &own) {
    return own.plan().parameters.size() + own.plan().stateBuffers().size();
  });
}

fcdp_status fcdp_session_state(const fcdp_session *session, size_t index,
                               fcdp_tensor_info *info) {
  return attemptToLook(session, [&](const Session &own) {
    const StepPlan &plan = own.plan();
    require(info && index < fcdp_session_num_states(session),
            "expected the number of a state");
    if (index < plan.parameters.size()) {
      const plan::ParameterT &parameter = *plan.parameters[index];
      return describe(parameter.names[0], toDType(parameter.dtype),
                      parameter.shape, info);
    }
    const plan::BufferT &buffer =
        *plan.buffers[plan.stateBuffers()[index - plan.parameters.size()]];
    describe(buffer.name, toDType(buffer.dtype), buffer.shape, info);
  });
}

fcdp_status fcdp_session_load_weights(fcdp_session *session, const char *path) {
  return attemptOn(
      session, [&](Session &session) { session.loadWeights({textOf(path)}); });
}

fcdp_status fcdp_session_save_weights(fcdp_session *session, const char *path) {
  return attemptOn(session, [&](Session &session) {
    session.saveWeights({.path = textOf(path)});
  });
}

fcdp_status fcdp_session_load_checkpoint(fcdp_session *session,
                                         const char *path, int64_t *step,
                                         const char **job) {
  return attemptOn(session, [&](Session &own) {
    auto loaded = own.loadCheckpoint(textOf(path));
    session->loaded = loaded.value_or(LoadedCheckpoint{"", -1, "{}", {}});
    if (step)
      *step = session->loaded.step;
    if (job)
      *job = session->loaded.job.c_str();
  });
}

fcdp_status fcdp_session_open_checkpoints(fcdp_session *session,
                                          const char *folder, uint32_t keep) {
  return attemptOn(session, [&](Session &session) {
    CheckpointOptions options{textOf(folder)};
    if (keep != 0)
      options.keep = keep;
    session.openCheckpoints(options);
  });
}

fcdp_status fcdp_session_save_checkpoint(fcdp_session *session,
                                         const char *job) {
  return attemptOn(session, [&](Session &session) {
    session.saveCheckpoint(job ? job : "{}");
  });
}

fcdp_status fcdp_session_finish_checkpoint(fcdp_session *session) {
  return attemptOn(session,
                   [](Session &session) { session.finishCheckpoint(); });
}

int64_t fcdp_session_num_steps(const fcdp_session *session) {
  return numberOf<int64_t>(session,
                           [](const Session &own) { return own.numSteps(); });
}

fcdp_status fcdp_session_set_learning_rate(fcdp_session *session, double base) {
  return attemptOn(session,
                   [&](Session &session) { session.setLearningRate(base); });
}

fcdp_status fcdp_session_set_schedule(fcdp_session *session,
                                      const char *schedule) {
  return attemptOn(session, [&](Session &session) {
    session.setSchedule(scheduleOf(textOf(schedule)));
  });
}

double fcdp_session_learning_rate(const fcdp_session *session) {
  return numberOf<double>(
      session, [](const Session &own) { return own.learningRate(); });
}

fcdp_status fcdp_session_set_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role,
                                   const fcdp_tensor *value) {
  return attemptOn(session, [&](Session &session) {
    require(value, "expected a tensor, got a null pointer");
    session.setState(textOf(name), roleOf(role), viewOf(*value));
  });
}

fcdp_status fcdp_session_get_state(fcdp_session *session, const char *name,
                                   fcdp_state_role role, void *data,
                                   size_t bytes) {
  return attemptOn(session, [&](Session &session) {
    session.getState(textOf(name), roleOf(role),
                     {static_cast<std::byte *>(data), bytes});
  });
}

fcdp_status fcdp_session_set_named_state(fcdp_session *session,
                                         const char *name, const char *role,
                                         const fcdp_tensor *value) {
  return attemptOn(session, [&](Session &session) {
    require(value, "expected a tensor, got a null pointer");
    session.setState(textOf(name), stateRoleOf(textOf(role)), viewOf(*value));
  });
}

fcdp_status fcdp_session_get_named_state(fcdp_session *session,
                                         const char *name, const char *role,
                                         void *data, size_t bytes) {
  return attemptOn(session, [&](Session &session) {
    session.getState(textOf(name), stateRoleOf(textOf(role)),
                     {static_cast<std::byte *>(data), bytes});
  });
}

fcdp_status fcdp_session_get_update_count(fcdp_session *session,
                                          const char *name, int64_t *count) {
  return attemptOn(session, [&](Session &session) {
    require(count, "expected a place for the count, got a null pointer");
    *count = session.getUpdateCount(textOf(name));
  });
}

fcdp_status fcdp_session_set_update_count(fcdp_session *session,
                                          const char *name, int64_t count) {
  return attemptOn(session, [&](Session &session) {
    session.setUpdateCount(textOf(name), count);
  });
}

fcdp_status fcdp_session_run(fcdp_session *session, const fcdp_tensor *inputs,
                             size_t count) {
  return attemptOn(
      session, [&](Session &session) { session.run(viewsOf(inputs, count)); });
}

fcdp_status fcdp_session_read(fcdp_session *session, double *losses,
                              fcdp_figures *figures) {
  return attemptOn(session, [&](Session &own) {
    RankStats stats = own.read();
    session->skippedSteps += stats.skipped != 0;
    if (losses)
      std::copy(stats.losses.begin(), stats.losses.end(), losses);
    if (figures)
      *figures = figuresOf(stats, fcdp::combine({1, 1}, {stats}).loss,
                           double(own.plan().hostBytes), session->skippedSteps);
    session->last = std::move(stats);
  });
}

size_t fcdp_session_num_unread(const fcdp_session *session) {
  return numberOf<size_t>(session,
                          [](const Session &own) { return own.numUnread(); });
}

size_t fcdp_session_max_unread(const fcdp_session *session) {
  return numberOf<size_t>(session,
                          [](const Session &own) { return own.maxUnread(); });
}

fcdp_status fcdp_session_combine(fcdp_session *session, fcdp_figures *figures) {
  return attemptOn(session, [&](Session &own) {
    require(!session->last.losses.empty(),
            "expected a step that was read before");
    StepStats stats = own.combine(session->last);
    if (figures)
      *figures = figuresOf(stats, stats.loss, stats.hostCacheBytes,
                           session->skippedSteps);
    own.requireFinite(stats);
  });
}

size_t fcdp_session_num_eval_inputs(const fcdp_session *session) {
  return lookAt<size_t>(session, [](const Session &own) {
    return own.plan().evaluationInputs().size();
  });
}

fcdp_status fcdp_session_eval_input(const fcdp_session *session, size_t index,
                                    fcdp_tensor_info *info) {
  return attemptToLook(session, [&](const Session &own) {
    const StepPlan::Inputs inputs = own.plan().evaluationInputs();
    require(info && index < inputs.size(),
            "expected the number of an input of the evaluation");
    describe(*inputs[index], info);
  });
}

fcdp_status fcdp_session_evaluate(fcdp_session *session,
                                  const fcdp_tensor *inputs, size_t count,
                                  size_t batches, fcdp_figures *figures) {
  return attemptOn(session, [&](Session &own) {
    StepStats stats =
        own.combine(own.evaluate(int64_t(batches), viewsOf(inputs, count)));
    if (figures)
      *figures = figuresOf(stats, stats.loss, stats.hostCacheBytes,
                           session->skippedSteps);
  });
}
}
