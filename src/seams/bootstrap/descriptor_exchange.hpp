// seams/bootstrap/descriptor_exchange.hpp: open files (memory of others: memfd, CUDA's handles)
// between the processes of a node.
#pragma once

#include <utility>
#include <vector>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

inline constexpr size_t descriptor_count_max = 8;        // that one process gives
inline constexpr size_t descriptor_label_size_max = 48;  // characters

// Descriptors of one process. Closed by the destructor.
class descriptor_list {
 public:
  descriptor_list() = default;
  descriptor_list(descriptor_list &&other) noexcept : descriptors_{std::move(other.descriptors_)} {
    other.descriptors_.clear();
  }
  descriptor_list &operator=(descriptor_list &&other) noexcept;
  ~descriptor_list();

  void push_back(int descriptor) {
    descriptors_.push_back(descriptor);
  }  // takes it over
  size_t size() const {
    return descriptors_.size();
  }
  int operator[](size_t index) const {
    return descriptors_[index];
  }
  int take(size_t index) {
    return std::exchange(descriptors_[index], -1);
  }  // the caller's from now on

 private:
  std::vector<int> descriptors_;
};

// Collective among `group` (ranks of one node, ascending, this one among them): each gives `mine`
// (as many as everybody else, at most descriptor_count_max, which stay the caller's) and gets
// everybody's, in the order of the group; its own as duplicates. Through the first rank of the
// group, over a UNIX socket without a name in any file system: nothing stays behind. Only processes
// of the same user and of this job are let in. `label`: unlike in any other exchange of the job at
// that time.
//
// After the job's first launcher.exchange(), which tells where each process may be met: bad_state
// before it. The processes of a group have to be in one network namespace, for that is where such
// sockets are: no_device, and a message, where they are not. timed_out, peer_lost, access (a
// process of another user was there in the leader's place), too_big, invalid (not as many from
// each), too_many_files, or what the system said, with a message. Counts as a call to `launcher`
// for its thread safety.
result<std::vector<descriptor_list>> descriptor_exchange(bootstrap &launcher,
                                                         std::span<const int32_t> group,
                                                         std::string_view label,
                                                         std::span<const int> mine,
                                                         uint64_t timeout_ns);

}  // namespace tanada::port
