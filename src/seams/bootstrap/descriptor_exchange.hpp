// seams/bootstrap/descriptor_exchange.hpp: passes open descriptors (memfd, CUDA's memory handles)
// between the processes of a node.
#pragma once

#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::seams {

inline constexpr size_t descriptor_count_max = 8;        // of one process
inline constexpr size_t descriptor_label_size_max = 48;  // characters

// Descriptors of one process. Closed by the destructor.
class descriptor_list {
 public:
  descriptor_list() = default;
  descriptor_list(descriptor_list &&source) noexcept
      : descriptors_{std::move(source.descriptors_)} {
    source.descriptors_.clear();
  }
  descriptor_list &operator=(descriptor_list &&source) noexcept;
  ~descriptor_list();

  // Takes ownership.
  void push_back(int descriptor) {
    descriptors_.push_back(descriptor);
  }
  size_t size() const {
    return descriptors_.size();
  }
  int operator[](size_t index) const {
    TND_ASSERT(index < descriptors_.size());
    return descriptors_[index];
  }
  // The caller owns the descriptor from now on.
  int take(size_t index) {
    TND_ASSERT(index < descriptors_.size());
    return std::exchange(descriptors_[index], -1);
  }

 private:
  std::vector<int> descriptors_;
};

// Collective among `group`: ranks of one node, ascending, including this one. Each gives
// `own_descriptors`, at most descriptor_count_max and as many as every other rank; they stay the
// caller's. Each receives those of all ranks, in the order of the group; its own as duplicates.
// They pass through the first rank of the group, over a UNIX socket without a name in any file
// system, so nothing is left behind. Only processes of the same user and job are accepted. `label`
// differs from that of any other exchange of the job at that time.
// To be called after the job's first launcher.exchange(), which distributes the addresses of
// processes: bad_state before it. The processes of a group have to be in one network namespace,
// where such sockets are: otherwise no_device, with a message. Other errors: timed_out, peer_lost,
// access (a process of another user had taken the leader's address), too_big, invalid (the counts
// differ), too_many_files, or the system's error, with a message. Counts as a call to `launcher`
// for its thread safety.
result<std::vector<descriptor_list>> descriptor_exchange(bootstrap &launcher,
                                                         std::span<const int32_t> group,
                                                         std::string_view label,
                                                         std::span<const int> own_descriptors,
                                                         uint64_t timeout_ns);

}  // namespace tanada::seams
