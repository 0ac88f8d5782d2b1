// SPDX-License-Identifier: Apache-2.0
#include "files/TransferRing.h"

#ifdef FCDP_HAS_URING
#include <cerrno>
#include <exception>
#include <liburing.h>
#include <system_error>
#endif

namespace fcdp {

#ifdef FCDP_HAS_URING

namespace {

class UringTransfers final : public TransferRing {
public:
  UringTransfers() : error(io_uring_queue_init(kDepth, &ring, 0)) {}
  ~UringTransfers() override {
    if (isUsable())
      io_uring_queue_exit(&ring);
  }
  bool isUsable() const { return error == 0; }

  void run(int file, std::span<Transfer> transfers,
           const Check &check) override {
    size_t next = 0, inFlight = 0;
    std::exception_ptr failure;
    while (inFlight != 0 || (!failure && next < transfers.size())) {
      while (!failure && inFlight < kDepth && next < transfers.size()) {
        Transfer &one = transfers[next++];
        if (one.bytes == 0)
          continue;
        add(file, one);
        ++inFlight;
      }
      if (inFlight == 0)
        break;
      // A transfer that cannot be submitted now is with the next ones.
      int submitted = io_uring_submit_and_wait(&ring, 1);
      if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN &&
          submitted != -EBUSY)
        throw std::system_error(-submitted, std::generic_category(),
                                "io_uring_submit_and_wait");
      io_uring_cqe *done = nullptr;
      while (io_uring_peek_cqe(&ring, &done) == 0 && done) {
        auto &one = *static_cast<Transfer *>(io_uring_cqe_get_data(done));
        const int64_t result = done->res;
        io_uring_cqe_seen(&ring, done);
        --inFlight;
        try {
          if (finish(one, result, check) || failure)
            continue;
          add(file, one);
          ++inFlight;
        } catch (...) {
          if (!failure)
            failure = std::current_exception();
        }
      }
    }
    if (failure)
      std::rethrow_exception(failure);
  }

private:
  void add(int file, Transfer &one) {
    // There is room, because no more are in flight than the queue has.
    io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (one.isWrite)
      io_uring_prep_write(entry, file, one.memory, unsigned(one.bytes),
                          one.offset);
    else
      io_uring_prep_read(entry, file, one.memory, unsigned(one.bytes),
                         one.offset);
    io_uring_sqe_set_data(entry, &one);
  }

  /// Takes a result. Returns whether all of the transfer is done.
  static bool finish(Transfer &one, int64_t result, const Check &check) {
    uint64_t moved =
        result == -EINTR || result == -EAGAIN ? 0 : check(one, result);
    one.offset += moved;
    one.memory += moved;
    one.bytes -= moved;
    return one.bytes == 0;
  }

  io_uring ring{};
  const int error;
};

} // namespace

std::unique_ptr<TransferRing> TransferRing::make() {
  auto made = std::make_unique<UringTransfers>();
  return made->isUsable() ? std::move(made) : nullptr;
}

#else

std::unique_ptr<TransferRing> TransferRing::make() { return nullptr; }

#endif

} // namespace fcdp
