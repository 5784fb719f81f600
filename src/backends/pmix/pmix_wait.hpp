// backends/pmix/pmix_wait.hpp: waits for answers of PMIx, with a deadline, which a failed rank may
// end.
#pragma once

#include <pmix.h>

#include <functional>
#include <memory>
#include <string>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::backends {

// The contents of an answer.
struct pmix_answer {
  pmix_status_t code = PMIX_ERROR;
  size_t reference = 0;          // handler number, of a registration
  uint32_t number = 0;           // value, if it is a number or a boolean
  std::vector<std::byte> bytes;  // value, if it is bytes or text
};

// Calls PMIx_Get, and copies and frees the value. Not PMIx_Get_nb: the owner of its value after the
// callback depends on PMIx's version, and 4.2 frees none.
pmix_answer pmix_get(const pmix_proc_t &process, const std::string &key);

// One answer, which a thread of PMIx gives at most once. A caller may stop waiting earlier:
// whichever side is last frees the state.
class pmix_wait {
 public:
  pmix_wait();

  // Returns the data argument of a call's callback, which must then come once. If the call fails
  // instead, pass the data to release_data().
  void *data();
  static void release_data(void *data);
  static void on_done(pmix_status_t code, void *data);
  static void on_registered(pmix_status_t code, size_t reference, void *data);

  // timed_out; peer_lost if a rank has failed and `may_be_lost`; ok if PMIx has answered, with any
  // code.
  status wait(uint64_t timeout_ns, bool may_be_lost, pmix_answer &answer);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

// Runs a blocking call of PMIx in a thread. timed_out: the call did not return in time, and the
// thread is abandoned.
status pmix_bounded(uint64_t timeout_ns, std::function<pmix_status_t()> call, pmix_status_t &code);

// The failed rank; -1 if no rank has failed. A failure ends all waits with `may_be_lost`.
int32_t pmix_failed_rank() noexcept;
void pmix_set_failed(int32_t rank);

// Converts PMIx's status; never ok for an error.
status pmix_status_of(pmix_status_t code);

}  // namespace tanada::backends
