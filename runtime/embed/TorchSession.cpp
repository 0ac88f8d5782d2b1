// SPDX-License-Identifier: Apache-2.0
//
// A session as a TorchBind class, torch.classes.fcdp.Session: Python calls it
// with its own tensors. python/fcdp/loop uses it.
#include "embed/Arguments.h"
#include "embed/GuardedSession.h"
#include "plan/TorchTypes.h"
#include "state/StateByName.h"
#include "state/StateRows.h"

#include <ATen/ops/empty.h>
#include <torch/custom_class.h>

using namespace fcdp;

namespace {

using Figures = c10::Dict<std::string, double>;
using Texts = c10::Dict<std::string, std::string>;
/// Names, role, a tensor of the device "meta" with shape and type, and whether
/// PyTorch's state dicts have it.
using StateTuple =
    std::tuple<std::vector<std::string>, std::string, at::Tensor, bool>;
using LossScaleTuple = std::tuple<double, double, double, int64_t, int64_t>;

/// Runs `work`. Python distinguishes errors of a session by the code's name
/// before the first colon.
template <typename Work>
auto attempt(Work work) {
  try {
    return work();
  } catch (const SessionError &error) {
    throw std::runtime_error(std::string(name(error.code())) + ": " +
                             error.what());
  }
}

[[noreturn]] void misuse(const std::string &message) {
  throw SessionError(SessionErrorCode::Misuse, message);
}

DType toDType(at::ScalarType type) {
  for (size_t i = 0; i < kNumDTypes; ++i)
    if (toScalarType(DType(i)) == type)
      return DType(i);
  throw SessionError(SessionErrorCode::InputMismatch,
                     std::string("a step takes no tensors of the type ") +
                         c10::toString(type));
}

/// Returns the tensor's values contiguous in host memory. A tensor may be
/// marked as the conjugate or the negative of its memory.
at::Tensor toHost(const at::Tensor &tensor) {
  return tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
}

/// Returns a view of a tensor that `toHost` returned, which must outlive it.
TensorView viewOf(const at::Tensor &tensor) {
  return {static_cast<const std::byte *>(tensor.const_data_ptr()),
          toDType(tensor.scalar_type()), tensor.sizes().vec()};
}

/// Tensors of Python in host memory.
struct HostInputs {
  explicit HostInputs(const std::vector<at::Tensor> &inputs) {
    for (const at::Tensor &input : inputs) {
      hosts.push_back(toHost(input));
      views.push_back(viewOf(hosts.back()));
    }
  }

  std::vector<at::Tensor> hosts;
  std::vector<TensorView> views;
};

/// Returns the shape of a rank's rows of a state, or of a whole buffer.
Shape rowsShape(const NamedState &state, uint32_t rank, uint32_t ranks) {
  Shape shape = state.shape;
  if (state.parameter && !shape.empty())
    shape[0] = numRowsOf(shape, rank, ranks);
  return shape;
}

OnNonfinite onNonfiniteOf(const std::string &text) {
  if (text == "stop")
    return OnNonfinite::Stop;
  if (text == "skip")
    return OnNonfinite::Skip;
  if (text == "continue")
    return OnNonfinite::Continue;
  misuse("on_nonfinite: expected 'stop', 'skip' or 'continue', got '" + text +
         "'");
}

bool isByNccl(const std::string &reductionsBy) {
  if (reductionsBy != "fcdp" && reductionsBy != "nccl")
    misuse("reductions_by: expected 'fcdp' or 'nccl', got '" + reductionsBy +
           "'");
  return reductionsBy == "nccl";
}

class TorchSession : public torch::CustomClassHolder {
  /// Runs work(session). Throws errors as `attempt` does.
  template <typename Work>
  auto use(Work work) {
    return attempt([&] { return guarded->call(work); });
  }

public:
  /// `servesStore` tells whether this process serves the job's store at the
  /// launcher's address. If it is none, it does so if the launcher does not.
  /// `facts` must be equal on all ranks.
  TorchSession(const std::string &object, int64_t number,
               std::optional<double> timeoutSeconds,
               const std::string &interface, std::optional<int64_t> threads,
               int64_t seed, bool cudaGraphs, const std::string &onNonfinite,
               const std::optional<std::string> &lossScale,
               const Figures &padding, bool deterministic,
               const std::string &reductionsBy, std::optional<bool> servesStore,
               int64_t profiledSteps, const std::string &statePath,
               const Texts &facts) {
    guarded = attempt([&] {
      SessionOptions options;
      options.launch = findLaunch();
      options.launch.servesStore =
          servesStore.value_or(options.launch.servesStore);
      options.number = number;
      options.timeoutSeconds = timeoutSeconds;
      options.interface = interface;
      options.threads = threads;
      options.seed = seed;
      options.cudaGraphs = cudaGraphs;
      options.onNonfinite = onNonfiniteOf(onNonfinite);
      if (lossScale)
        options.lossScaling = lossScalingOf(*lossScale);
      for (const auto &entry : padding)
        options.padding[entry.key()] = entry.value();
      options.deterministic = deterministic;
      options.reducesByNccl = isByNccl(reductionsBy);
      options.profiledSteps = profiledSteps;
      options.stateFolders = stateFoldersOf(statePath);
      options.onProfile = [this](const std::string &json) { profile = json; };
      options.facts = [&] {
        std::vector<Fact> all;
        for (const auto &entry : facts)
          all.push_back({entry.key(), entry.value()});
        return all;
      };
      return std::make_unique<GuardedSession>(
          Session::open(loadStep(object), options));
    });
  }
  ~TorchSession() override { guarded->end(); }

  int64_t numSteps() {
    return use([](Session &own) { return own.numSteps(); });
  }
  double learningRate() {
    return use([](Session &own) { return own.learningRate(); });
  }

  std::vector<StateTuple> states() {
    return use([](Session &own) {
      std::vector<StateTuple> found;
      for (StateInfo &state : listStates(own.plan())) {
        at::Tensor like = at::empty(
            state.shape,
            at::TensorOptions(toScalarType(state.dtype)).device(at::kMeta));
        found.emplace_back(std::move(state.names), roleName(state.role),
                           std::move(like), state.persistent);
      }
      return found;
    });
  }

  /// Returns the names of states that are no parameters.
  std::vector<std::string> bufferNames() {
    return use([](Session &own) {
      std::vector<std::string> names;
      for (size_t i : own.plan().stateBuffers())
        names.push_back(own.plan().buffers[i]->name);
      return names;
    });
  }

  void setState(const std::string &name, const std::string &role,
                const at::Tensor &value) {
    at::Tensor host = toHost(value);
    use([&](Session &own) {
      own.setState(name, stateRoleOf(role), viewOf(host));
    });
  }

  /// Returns the whole state on rank 0, and none on other ranks. Collective.
  std::optional<at::Tensor> getState(const std::string &name,
                                     const std::string &role) {
    return use([&](Session &own) -> std::optional<at::Tensor> {
      NamedState state = findState(own.plan(), name, stateRoleOf(role));
      if (own.rank() != 0) {
        own.getState(name, stateRoleOf(role), {});
        return std::nullopt;
      }
      at::Tensor whole =
          at::empty(state.shape, at::TensorOptions(toScalarType(state.dtype)));
      own.getState(
          name, stateRoleOf(role),
          {static_cast<std::byte *>(whole.data_ptr()), size_t(whole.nbytes())});
      return whole;
    });
  }

  /// Returns this rank's rows of a parameter's state, or a buffer. Collective.
  at::Tensor getRows(const std::string &name, const std::string &role) {
    return use([&](Session &own) {
      NamedState state = findState(own.plan(), name, stateRoleOf(role));
      at::Tensor rows =
          at::empty(rowsShape(state, own.rank(), own.plan().mesh.size()),
                    at::TensorOptions(toScalarType(state.dtype)));
      own.getRows(
          name, stateRoleOf(role),
          {static_cast<std::byte *>(rows.data_ptr()), size_t(rows.nbytes())});
      return rows;
    });
  }

  /// Sets this rank's rows of a parameter's state, or a buffer. Collective.
  void setRows(const std::string &name, const std::string &role,
               const at::Tensor &rows) {
    at::Tensor host = toHost(rows);
    use([&](Session &own) {
      own.setRows(name, stateRoleOf(role), viewOf(host));
    });
  }

  /// Returns the scale, its factors of growth and backoff, the interval of its
  /// growth and the growth tracker; none if the step does not scale its loss.
  std::optional<LossScaleTuple> lossScale() {
    return use([&](Session &own) -> std::optional<LossScaleTuple> {
      std::optional<LossScale> scale = own.lossScale();
      if (!scale)
        return std::nullopt;
      const LossScaling &scaling = scale->scaling();
      return LossScaleTuple(scale->value(), scaling.growthFactor(),
                            scaling.backoffFactor(), scaling.growthInterval(),
                            scale->growthTracker());
    });
  }

  void setLossScale(const std::string &text, int64_t growthTracker) {
    use([&](Session &own) {
      own.setLossScale(lossScalingOf(text), growthTracker);
    });
  }

  /// Fails on all ranks if any of them has a problem, or other values than rank
  /// 0. Collective.
  void agree(const std::string &problem, const std::string &values) {
    use([&](Session &own) { own.agree(problem, values); });
  }
  /// Returns the parameters of each bucket. All parameters of a bucket have one
  /// count of updates.
  std::vector<std::vector<std::string>> counted() {
    return use([](Session &own) {
      const StepPlan &plan = own.plan();
      std::vector<std::vector<std::string>> names(plan.buckets.size());
      for (const auto &parameter : plan.parameters)
        names[parameter->bucket].push_back(parameter->names[0]);
      return names;
    });
  }

  /// Returns a line on updates that are too small to have an effect, or "".
  /// Collective.
  std::string lostUpdates() {
    return use([](Session &own) { return own.describeLostUpdates(); });
  }

  int64_t getUpdateCount(const std::string &name) {
    return use([&](Session &own) { return own.getUpdateCount(name); });
  }
  void setUpdateCount(const std::string &name, int64_t count) {
    use([&](Session &own) { own.setUpdateCount(name, count); });
  }

  std::vector<std::string> loadWeights(const std::vector<std::string> &paths) {
    return use([&](Session &own) { return own.loadWeights(paths); });
  }
  void saveWeights(const std::string &path, bool onlyTrained) {
    use([&](Session &own) {
      own.saveWeights({.path = path, .onlyTrained = onlyTrained});
    });
  }

  /// Returns the checkpoint's step, the program's text, and whether its
  /// contents were compared with digests; none without a checkpoint.
  std::optional<std::tuple<int64_t, std::string, bool>>
  loadCheckpoint(const std::string &path) {
    using Loaded = std::optional<std::tuple<int64_t, std::string, bool>>;
    return use([&](Session &own) -> Loaded {
      auto loaded = own.loadCheckpoint(path);
      if (!loaded)
        return std::nullopt;
      return std::tuple(loaded->step, loaded->job, loaded->isVerified);
    });
  }
  void openCheckpoints(const std::string &folder, std::optional<int64_t> keep) {
    use([&](Session &own) {
      if (keep && *keep < 1)
        misuse("keep: expected at least 1, got " + std::to_string(*keep));
      CheckpointOptions options{folder};
      if (keep)
        options.keep = uint32_t(*keep);
      own.openCheckpoints(options);
    });
  }
  void saveCheckpoint(const std::string &job) {
    use([&](Session &own) { own.saveCheckpoint(job); });
  }
  void finishCheckpoint() {
    use([&](Session &own) { own.finishCheckpoint(); });
  }

  void setLearningRate(double base) {
    use([&](Session &own) { own.setLearningRate(base); });
  }
  std::string schedule() {
    return use([&](Session &own) { return own.schedule(); });
  }
  void setSchedule(const std::string &text) {
    use([&](Session &own) { own.setSchedule(scheduleOf(text)); });
  }

  /// Runs one step on the inputs of all micro-batches and returns the figures
  /// of all ranks. Collective.
  Figures step(const std::vector<at::Tensor> &inputs) {
    return use([&](Session &own) {
      HostInputs host(inputs);
      own.run(host.views);
      StepStats stats = own.combine(own.read());
      skippedSteps += stats.skipped;
      own.requireFinite(stats);
      Figures figures = figuresOf(stats);
      figures.insert("learning_rate", stats.learningRate);
      figures.insert("skipped", stats.skipped);
      figures.insert("skipped_steps", double(skippedSteps));
      return figures;
    });
  }

  /// Evaluates the model on the inputs of `batches` batches, the same number on
  /// each rank, and returns the figures of all ranks. Collective.
  Figures evaluate(int64_t batches, const std::vector<at::Tensor> &inputs) {
    return use([&](Session &own) {
      HostInputs host(inputs);
      RankStats stats = own.evaluate(batches, std::span(host.views));
      evaluated = stats.losses;
      return figuresOf(own.combine(stats));
    });
  }

  /// Returns the loss of each of this rank's batches in the last evaluation.
  std::vector<double> evaluationLosses() { return evaluated; }

  /// Returns the text of a profile of the first steps (docs/profile.md) on rank
  /// 0, once, after they have run. Returns none otherwise.
  std::optional<std::string> takeProfile() {
    return std::exchange(profile, std::nullopt);
  }

  /// Ends the session unless another thread is in a call.
  void close() {
    use([](Session &own) { own.close(); });
    guarded->end();
  }
  /// Reports to the other ranks that this rank cannot continue. May be called
  /// while another thread is in a call, which then ends.
  void fail(const std::string &message) {
    attempt([&] { guarded->fail(message); });
  }
  /// Returns whether a thread is in a call.
  bool isBusy() { return guarded->isBusy(); }

private:
  /// Returns the figures that steps and evaluations have in common.
  static Figures figuresOf(const StepStats &stats) {
    Figures figures;
    figures.insert("loss", stats.loss);
    if (stats.gradientNorm)
      figures.insert("gradient_norm", *stats.gradientNorm);
    if (stats.lossScale)
      figures.insert("loss_scale", *stats.lossScale);
    if (stats.weight)
      figures.insert("loss_weight", *stats.weight);
    if (stats.exposedSeconds)
      figures.insert("exposed_seconds", *stats.exposedSeconds);
    figures.insert("seconds", stats.seconds);
    for (LinkId link : kLinks)
      figures.insert(std::string(kLinkNames[link]) + "_bytes",
                     stats.linkBytes[link]);
    figures.insert("control_bytes", stats.controlBytes);
    figures.insert("device_peak_bytes", stats.devicePeakBytes);
    figures.insert("host_cache_bytes", stats.hostCacheBytes);
    if (stats.variant)
      figures.insert("variant", double(*stats.variant));
    return figures;
  }

  std::unique_ptr<GuardedSession> guarded;
  int64_t skippedSteps = 0;
  std::vector<double> evaluated;
  std::optional<std::string> profile;
};

/// The number of nodes, the ranks of a node, this rank's node, its number
/// there, its number in the job, the store's host and port, whether this
/// process serves the store, the number of times that the launcher has
/// restarted the job, and the job's secret.
using LaunchTuple =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, std::string,
               int64_t, bool, int64_t, std::string>;

LaunchTuple launch() {
  return attempt([] {
    Launch found = findLaunch();
    return LaunchTuple(found.mesh.nodes, found.mesh.locals, found.place.node,
                       found.place.local, worldRank(found.mesh, found.place),
                       found.masterHost, found.masterPort, found.servesStore,
                       found.restartCount, found.secret);
  });
}

} // namespace

TORCH_LIBRARY(fcdp, library) {
  library.def("launch", launch);
  library.class_<TorchSession>("Session")
      .def(torch::init<const std::string &, int64_t, std::optional<double>,
                       const std::string &, std::optional<int64_t>, int64_t,
                       bool, const std::string &,
                       const std::optional<std::string> &, const Figures &,
                       bool, const std::string &, std::optional<bool>, int64_t,
                       const std::string &, const Texts &>())
      .def("num_steps", &TorchSession::numSteps)
      .def("states", &TorchSession::states)
      .def("buffer_names", &TorchSession::bufferNames)
      .def("set_state", &TorchSession::setState)
      .def("get_state", &TorchSession::getState)
      .def("get_rows", &TorchSession::getRows)
      .def("set_rows", &TorchSession::setRows)
      .def("loss_scale", &TorchSession::lossScale)
      .def("set_loss_scale", &TorchSession::setLossScale)
      .def("agree", &TorchSession::agree)
      .def("counted", &TorchSession::counted)
      .def("lost_updates", &TorchSession::lostUpdates)
      .def("get_update_count", &TorchSession::getUpdateCount)
      .def("set_update_count", &TorchSession::setUpdateCount)
      .def("load_weights", &TorchSession::loadWeights)
      .def("save_weights", &TorchSession::saveWeights)
      .def("load_checkpoint", &TorchSession::loadCheckpoint)
      .def("open_checkpoints", &TorchSession::openCheckpoints)
      .def("save_checkpoint", &TorchSession::saveCheckpoint)
      .def("finish_checkpoint", &TorchSession::finishCheckpoint)
      .def("learning_rate", &TorchSession::learningRate)
      .def("set_learning_rate", &TorchSession::setLearningRate)
      .def("schedule", &TorchSession::schedule)
      .def("set_schedule", &TorchSession::setSchedule)
      .def("step", &TorchSession::step)
      .def("evaluate", &TorchSession::evaluate)
      .def("evaluation_losses", &TorchSession::evaluationLosses)
      .def("take_profile", &TorchSession::takeProfile)
      .def("close", &TorchSession::close)
      .def("fail", &TorchSession::fail)
      .def("is_busy", &TorchSession::isBusy);
}
