// backends/pmix/pmix_wait.hpp: answers of PMIx that are waited for with a deadline, and the loss
// of a rank that ends waits.
#pragma once

#include <pmix.h>

#include <functional>
#include <memory>
#include <string>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

// What an answer carried.
struct pmix_answer {
  pmix_status_t code = PMIX_ERROR;
  size_t reference = 0;          // of a registered handler
  uint32_t number = 0;           // of a value that is a number or a truth
  std::vector<std::byte> bytes;  // of a value that is bytes or text
};

// What PMIx_Get gives, copied and freed. Not PMIx_Get_nb: whose its value is after the callback
// differs by version, and 4.2 frees none of them.
pmix_answer pmix_get(const pmix_proc_t &of, const std::string &key);

// One answer that is to come, at most once, by a thread of PMIx. Whoever gives up before has left
// nothing behind: the last of the two frees it.
class pmix_wait {
 public:
  pmix_wait();

  // For a call of PMIx: the data of its callback, which must then come, once. take_back() if the
  // call has failed instead.
  void *data();
  static void take_back(void *data);
  static void on_done(pmix_status_t code, void *data);
  static void on_registered(pmix_status_t code, size_t reference, void *data);

  // timed_out, or peer_lost when a rank is lost and `may_be_lost`; ok: PMIx has answered, whatever
  // its code.
  status wait(uint64_t timeout_ns, bool may_be_lost, pmix_answer &answer);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

// Run a call of PMIx that blocks, in a thread that is left behind if it does not return in time:
// timed_out.
status pmix_bounded(uint64_t timeout_ns, std::function<pmix_status_t()> call, pmix_status_t &code);

// The rank that is gone; -1 while there is none. A loss ends every wait that may be lost.
int32_t pmix_lost() noexcept;
void pmix_lose(int32_t rank);

// Ours for what PMIx says; never ok for an error.
status pmix_status_of(pmix_status_t code);

}  // namespace tanada::port
