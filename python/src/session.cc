#include "session.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "error.hpp"
#include "records.hpp"

namespace nb = nanobind;
using namespace std::chrono_literals;

namespace tanada::python {
namespace {

using std::chrono::steady_clock;

constexpr auto signal_check_interval = 100ms;

std::chrono::nanoseconds duration_of(uint64_t timeout_ns) {
  return std::chrono::nanoseconds(int64_t(std::min<uint64_t>(timeout_ns, INT64_MAX)));
}

// A wait() of a Python thread. A C++ thread waits in its place, so that the Python thread still
// handles Ctrl-C.
struct waiting {
  std::mutex mutex;  // guards the members below
  std::condition_variable done;
  bool finished = false, abandoned = false;
  outcome result;
};

}  // namespace

struct session::shared {
  ownership kind = ownership::own;
  tnd_gfile *owned = nullptr;
  uint64_t timeout_ns = 0;

  std::mutex mutex;  // guards the members below
  std::condition_variable idle;
  uint64_t use_count = 0;
  bool closing = false, closed = false;
  outcome left_over;  // of a wait ended by Ctrl-C: the next wait() or close() returns it

  tnd_gfile *instance() const {
    return kind == ownership::own ? owned : tnd_gfile_default();
  }

  outcome take_left_over() {
    std::lock_guard const lock{mutex};
    return std::exchange(left_over, {});
  }
};

// The instance cannot be destroyed while one of these exists.
class session::use {
 public:
  explicit use(std::shared_ptr<shared> of) : shared_{std::move(of)} {
    {
      std::lock_guard const lock{shared_->mutex};
      if (!shared_->closing && !shared_->closed) {
        shared_->use_count++;
        instance_ = shared_->instance();
        held_ = true;
      }
    }
    if (instance_ != nullptr)
      return;
    release();
    check({-TND_ESTATE, "the session is closed"});
  }
  use(use &&from) noexcept
      : shared_{std::move(from.shared_)},
        instance_{from.instance_},
        held_{std::exchange(from.held_, false)} {}
  use &operator=(use &&) = delete;
  ~use() {
    release();
  }

  tnd_gfile *instance() const {
    return instance_;
  }

 private:
  void release() {
    if (!std::exchange(held_, false))
      return;
    std::lock_guard const lock{shared_->mutex};
    if (--shared_->use_count == 0)
      shared_->idle.notify_all();
  }

  std::shared_ptr<shared> shared_;
  tnd_gfile *instance_ = nullptr;
  bool held_ = false;
};

session::session(const nb::dict &settings, ownership kind) : shared_{std::make_shared<shared>()} {
  tnd_gfile_config const config = config_of(settings);
  shared_->kind = kind;
  call_without_gil([&] {
    return outcome_of(kind == ownership::own ? tnd_gfile_create(&config, &shared_->owned)
                                             : ginitialize(&config));
  });
  shared_->timeout_ns = tnd_gfile_get_ref(shared_->instance()).timeout_ns;
}

// The Python class closes it and warns. An instance still open here is in use by an abandoned wait,
// which keeps it.
session::~session() = default;

bool session::is_closed() const {
  std::lock_guard const lock{shared_->mutex};
  return shared_->closed;
}

void session::close() {
  {
    std::lock_guard const lock{shared_->mutex};
    if (shared_->closed)
      return;
    if (shared_->closing)
      check({-EBUSY, "another thread closes this session"});
    shared_->closing = true;
  }
  auto const start = steady_clock::now();
  auto const give_up = [&] {
    std::lock_guard const lock{shared_->mutex};
    shared_->closing = false;
  };
  for (;;) {
    bool is_idle = false;
    {
      nb::gil_scoped_release const released;
      std::unique_lock lock{shared_->mutex};
      is_idle = shared_->idle.wait_for(
          lock, signal_check_interval, [&] { return shared_->use_count == 0; });
    }
    if (is_idle)
      break;
    bool const interrupted = PyErr_CheckSignals() != 0;
    if (!interrupted && steady_clock::now() - start <= duration_of(shared_->timeout_ns))
      continue;
    give_up();
    if (interrupted)
      throw nb::python_error();
    check({-EBUSY, "a wait() of this session still runs in another thread; it stays open"});
  }
  outcome ended;
  {
    nb::gil_scoped_release const released;
    ended = outcome_of(shared_->kind == ownership::own ? tnd_gfile_destroy(shared_->owned)
                                                       : gfinalize());
    std::lock_guard const lock{shared_->mutex};
    shared_->closed = true;
  }
  outcome const before = shared_->take_left_over();
  check(ended.status != TND_OK ? ended : before);
}

void session::wait(uint64_t timeout_ns) {
  use held{shared_};
  check(shared_->take_left_over());
  auto const call = std::make_shared<waiting>();
  std::thread{[call, timeout_ns, held = std::move(held), shared = shared_] {
    auto const start = steady_clock::now();
    outcome result = outcome_of(tnd_gfile_wait(held.instance(), timeout_ns));
    bool const lasted = steady_clock::now() - start >= duration_of(timeout_ns);
    std::lock_guard const lock{call->mutex};
    if (call->abandoned && result.status != TND_OK && !(result.status == -ETIMEDOUT && lasted)) {
      std::lock_guard const shared_lock{shared->mutex};
      if (shared->left_over.status == TND_OK)
        shared->left_over = std::move(result);
    } else {
      call->result = std::move(result);
    }
    call->finished = true;
    call->done.notify_all();
  }}.detach();
  for (;;) {
    {
      nb::gil_scoped_release const released;
      std::unique_lock lock{call->mutex};
      if (call->done.wait_for(lock, signal_check_interval, [&] { return call->finished; }))
        break;
    }
    if (PyErr_CheckSignals() != 0) {
      std::lock_guard const lock{call->mutex};
      call->abandoned = true;
      if (!call->finished)
        throw nb::python_error();
      break;
    }
  }
  check(call->result);
}

nb::tuple session::ref() const {
  use const held{shared_};
  tnd_gfile_ref const ref = tnd_gfile_get_ref(held.instance());
  return nb::make_tuple(reinterpret_cast<uintptr_t>(ref.state), ref.timeout_ns);
}

nb::dict session::statistics() const {
  use const held{shared_};
  tnd_gfile_statistics now = TND_GFILE_STATISTICS_INIT;
  call_without_gil([&] { return outcome_of(tnd_gfile_get_statistics(held.instance(), &now)); });
  return record_of(now);
}

nb::list session::files() const {
  use const held{shared_};
  std::vector<tnd_gfile_file> found;
  call_without_gil([&] { return all_files(held.instance(), found); });
  nb::list list;
  for (const tnd_gfile_file &file : found)
    list.append(record_of(file));
  return list;
}

nb::dict session::fault() const {
  use const held{shared_};
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  call_without_gil([&] { return outcome_of(tnd_gfile_get_fault(held.instance(), &fault)); });
  return record_of(fault);
}

}  // namespace tanada::python
