// backends/etcd/etcd_members.hpp: calls to the members of one etcd cluster, by threads that may
// block.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/etcd/etcd_interrupt.hpp"
#include "backends/etcd/etcd_messages.hpp"
#include "backends/etcd/etcd_tls.hpp"
#include "core/base/mutex.hpp"

namespace tanada::backends {

class etcd_stream;

inline constexpr size_t etcd_answer_size_max = 32 << 20;

// Receives the lines of a stream of answers. False ends the stream. `stream` is that of the call.
using etcd_line_handler = std::function<bool(etcd_stream &stream, std::string_view line)>;

// Deadlines of one attempt.
struct etcd_time_limits {
  uint64_t connect_ns = 0, answer_ns = 0;
};

// The outcome of one attempt at one member.
struct etcd_attempt {
  status code = status::peer_lost;
  bool is_unsent = false;  // the member has certainly not applied it
  std::string answer;
};

/**
 * The members, which of them is tried first, and the token of the user.
 *
 * **Thread safety** All calls may come from several threads, each with an interrupt of its own.
 */
class etcd_members {
 public:
  static result<std::unique_ptr<etcd_members>> create(const etcd_options &options);

  // Tries members until one answers. canceled: interrupted.
  result<std::string> call(const etcd_call &request,
                           uint64_t deadline_ns,
                           const etcd_interrupt &interrupt);

  // Calls one member. With a handler, the lines of the answer are passed to it.
  etcd_attempt call_member(size_t member,
                           const etcd_call &request,
                           const etcd_time_limits &limits,
                           const etcd_interrupt &interrupt,
                           const etcd_line_handler &handler = {});

  size_t count() const noexcept {
    return options_.endpoints.size();
  }
  size_t preferred() const noexcept {
    return preferred_;
  }
  // The member has failed. The next one is preferred, unless another thread has chosen already.
  void report_failure(size_t member) noexcept;

 private:
  explicit etcd_members(const etcd_options &options) : options_{options} {}

  etcd_attempt exchange(size_t member,
                        const etcd_call &request,
                        const etcd_time_limits &limits,
                        const etcd_interrupt &interrupt,
                        const etcd_line_handler &handler);
  status authenticate(size_t member,
                      const etcd_time_limits &limits,
                      const etcd_interrupt &interrupt);
  std::string token();

  etcd_options const options_;
  tls_context context_;
  std::atomic<size_t> preferred_ = 0;
  mutex mutex_;
  std::string token_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::backends
