// This process's connection to its PMIx launcher.
#include "backends/pmix/pmix_session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>

#include "backends/pmix/pmix_wait.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t join_timeout_ns = 30'000'000'000;
constexpr uint64_t leave_timeout_ns = 10'000'000'000;

pmix_status_t watched_codes[] = {
    PMIX_ERR_LOST_CONNECTION,
    PMIX_ERR_PROC_ABORTED_BY_SIG,
    PMIX_ERR_PROC_TERM_WO_SYNC,
    PMIX_ERR_PROC_REQUESTED_ABORT,
    PMIX_ERR_PROC_KILLED_BY_CMD,
    PMIX_ERR_EXIT_NONZERO_TERM,
    PMIX_ERR_JOB_ABORTED,
    PMIX_EVENT_NODE_DOWN,
#if defined(PMIX_ERR_PROC_ABORTED)
    PMIX_ERR_PROC_ABORTED,
#endif
#if defined(PMIX_ERR_PROC_ABORTING)
    PMIX_ERR_PROC_ABORTING,
#endif
};

bool is_watched(pmix_status_t code) {
  return std::find(std::begin(watched_codes), std::end(watched_codes), code) !=
         std::end(watched_codes);
}

// The process that the event affects, which is `source` unless `info` names another one.
pmix_proc_t affected_process(const pmix_proc_t *source, std::span<const pmix_info_t> info) {
  pmix_proc_t affected = source == nullptr ? pmix_proc_t{} : *source;
  for (auto const &entry : info) {
    bool const is_named = std::strncmp(entry.key, PMIX_EVENT_AFFECTED_PROC, sizeof entry.key) == 0;
    if (is_named && entry.value.type == PMIX_PROC && entry.value.data.proc != nullptr)
      affected = *entry.value.data.proc;
  }
  return affected;
}

void handle_failure(pmix_status_t code, const pmix_proc_t &failed) {
  auto &session = pmix_session::process_session();
  auto const &self = session.self();
  log(log_level::debug,
      "PMIx reported {}: rank {} of {}",
      PMIx_Error_string(code),
      failed.rank,
      failed.nspace);
  // If it is not a rank of this job, the launcher or a node has failed: this process's part of the
  // job ends.
  bool const is_rank =
      failed.rank <= INT32_MAX && std::strncmp(failed.nspace, self.nspace, sizeof self.nspace) == 0;
  pmix_set_failed(int32_t(is_rank ? failed.rank : self.rank));
  if (code == PMIX_ERR_LOST_CONNECTION && !is_rank)
    session.notify_launcher_lost();
}

// Called by a thread of PMIx. `source` is the process that reports the event; `info` may name the
// process affected.
void on_event(size_t,
              pmix_status_t code,
              const pmix_proc_t *source,
              pmix_info_t info[],
              size_t info_count,
              pmix_info_t[],
              size_t,
              pmix_event_notification_cbfunc_fn_t done,
              void *data) {
  if (is_watched(code))
    handle_failure(code, affected_process(source, {info, info_count}));
  if (done != nullptr)
    done(PMIX_EVENT_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, data);
}

}  // namespace

// Never destroyed, because threads of PMIx may use it until the process ends.
pmix_session &pmix_session::process_session() {
  static auto *const session = new pmix_session;
  return *session;
}

status pmix_session::join(std::string &message) {
  lock_guard const lock{mutex_};
  if (is_exiting_ || (is_connected_ && process_ != getpid())) {
    message = is_exiting_ ? "the process is ending"
                          : "this process was forked from one of the job and is not part of it";
    return status::bad_state;
  }
  if (!is_connected_)
    TND_TRY(connect(message));
  users_++;
  return status::ok;
}

void pmix_session::watch_launcher(std::function<void()> callback) {
  {
    lock_guard const lock{launcher_mutex_};
    if (!has_lost_launcher_) {
      on_launcher_lost_ = std::move(callback);
      return;
    }
  }
  callback();
}

void pmix_session::notify_launcher_lost() {
  std::function<void()> callback;
  {
    lock_guard const lock{launcher_mutex_};
    has_lost_launcher_ = true;
    callback.swap(on_launcher_lost_);
  }
  if (callback)
    callback();
}

void pmix_session::leave() {
  lock_guard const lock{mutex_};
  TND_ASSERT(users_ != 0);
  users_--;
  if (is_exiting_ && users_ == 0)
    end();
}

void pmix_session::at_exit() {
  auto &session = process_session();
  lock_guard const lock{session.mutex_};
  session.is_exiting_ = true;
  if (session.users_ == 0)
    session.end();
}

status pmix_session::connect(std::string &message) {
  TND_ASSERT(mutex_.is_held() && !is_connected_);
  auto const self = std::make_shared<pmix_proc_t>();  // outlives this call if PMIx does not return
  pmix_status_t code = PMIX_ERROR;
  status const bounded =
      pmix_bounded(join_timeout_ns, [self] { return PMIx_Init(self.get(), nullptr, 0); }, code);
  if (bounded != status::ok) {
    message = "the launcher's process on this node did not answer within 30 s";
    return bounded;
  }
  if (code != PMIX_SUCCESS) {
    message = std::string{"PMIx_Init: "} + PMIx_Error_string(code) +
              "; if its launcher has ended, TND_BOOTSTRAP=alone runs this process by itself";
    return code == PMIX_ERR_UNREACH ? status::no_device : pmix_status_of(code);
  }
  self_ = *self;
  is_connected_ = true;
  process_ = getpid();
  if (std::atexit(at_exit) != 0)
    log(log_level::warning,
        "cannot register an exit handler: the launcher will report this process's exit as a "
        "failure");
  watch();
  return status::ok;
}

// SLURM accepts no event registrations by code. The events it sends by default, such as the loss of
// the launcher, must suffice. Processes of this node are watched in any case.
void pmix_session::watch() {
  TND_ASSERT(mutex_.is_held() && is_connected_ && !is_watching_);
  for (size_t count : {std::size(watched_codes), size_t{0}}) {
    pmix_wait wait;
    pmix_answer answer;
    pmix_status_t const code = PMIx_Register_event_handler(count == 0 ? nullptr : watched_codes,
                                                           count,
                                                           nullptr,
                                                           0,
                                                           on_event,
                                                           pmix_wait::on_registered,
                                                           wait.data());
    if (code >= 0 && wait.wait(join_timeout_ns, false, answer) == status::ok && answer.code >= 0) {
      handler_ = answer.reference;
      is_watching_ = true;
      return;
    }
    log(log_level::debug,
        "PMIx did not register a handler of {} events: {}",
        count,
        PMIx_Error_string(code < 0 ? code : answer.code));
  }
}

void pmix_session::end() {
  TND_ASSERT(mutex_.is_held() && users_ == 0);
  if (!is_connected_ || process_ != getpid())
    return;
  is_connected_ = false;
  pmix_status_t code = PMIX_ERROR;
  if (is_watching_) {
    pmix_wait wait;
    pmix_answer answer;
    void *const data = wait.data();
    code = PMIx_Deregister_event_handler(handler_, pmix_wait::on_done, data);
    if (code == PMIX_SUCCESS)
      static_cast<void>(wait.wait(leave_timeout_ns, false, answer));
    else
      pmix_wait::release_data(data);
  }
  auto const publish_and_finalize = [] {
    pmix_value_t left_value{};
    left_value.type = PMIX_BOOL;
    left_value.data.flag = true;
    if (PMIx_Put(PMIX_GLOBAL, pmix_left_key, &left_value) == PMIX_SUCCESS)
      static_cast<void>(PMIx_Commit());
    return PMIx_Finalize(nullptr, 0);
  };
  status const bounded = pmix_bounded(leave_timeout_ns, publish_and_finalize, code);
  if (bounded != status::ok)
    log(log_level::warning, "PMIx_Finalize did not return within 10 s");
  else if (code != PMIX_SUCCESS)
    log(log_level::warning, "PMIx_Finalize: {}", PMIx_Error_string(code));
}

}  // namespace tanada::backends
