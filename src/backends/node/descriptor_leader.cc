// The first rank of a group: it listens, takes what each member brings, and hands all of it to all.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/node/descriptor_socket.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::port {
namespace {

// Who is not known yet is kept in this number; the one that has been silent for longest goes first.
constexpr size_t strangers_max = 32;

class leader {
 public:
  explicit leader(const descriptor_task &task)
      : task_{task}, members_(task.group.size()), all_(task.group.size()) {}

  result<std::vector<descriptor_list>> run() {
    status code = listen_for_all();
    if (code == status::ok)
      code = gather();
    if (code == status::ok)
      code = hand_out();
    if (code == status::ok)
      return std::move(all_);
    tell(code);
    return code;
  }

 private:
  struct member {
    owned_socket socket;
    size_t sent_count = 0;  // of the group's members whose descriptors it has
  };

  status listen_for_all() {
    listener_ = owned_socket{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    auto const place = descriptor_place_of(task_.leader, task_.label);
    if (listener_.get() >= 0 &&
        bind(listener_.get(), reinterpret_cast<const sockaddr *>(&place.address), place.size) ==
            0 &&
        listen(listener_.get(), SOMAXCONN) == 0) {
      return descriptor_duplicate(task_.mine, all_[0]);
    }
    if (errno == EADDRINUSE) {
      return fail(status::busy, "another exchange of descriptors under the label %.*s is going on",
                  int(task_.label.size()), task_.label.data());
    }
    return fail(errno == EMFILE || errno == ENFILE ? status::too_many_files : status::io,
                "no socket to meet at: %s", std::strerror(errno));
  }

  status gather() {
    for (size_t here = 1; here < members_.size();) {
      TND_TRY(task_.still_hopeful());
      int const wait_ms = descriptor_wait_ms(task_.deadline_ns);
      if (wait_ms == 0)
        return missing(here);
      std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
      for (auto const &each : strangers_)
        watched.push_back({each.get(), POLLIN, 0});
      for (auto const &each : members_) {
        if (each.socket.get() >= 0)
          watched.push_back({each.socket.get(), POLLIN, 0});  // its end
      }
      if (poll(watched.data(), watched.size(), wait_ms) <= 0)
        continue;
      TND_TRY(hear_members(watched));
      TND_TRY(hear_strangers(here));
      if (watched[0].revents != 0)
        TND_TRY(let_in());
    }
    return status::ok;
  }

  status missing(size_t here) const {
    size_t first = 1;
    while (members_[first].socket.get() >= 0)
      first++;
    return fail(status::timed_out,
                "%zu of %zu processes came to the exchange of %.*s: rank %" PRId32 " did not", here,
                members_.size(), int(task_.label.size()), task_.label.data(), task_.group[first]);
  }

  status let_in() {
    for (;;) {
      owned_socket visitor{
          accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (visitor.get() < 0) {
        if (errno == EMFILE || errno == ENFILE)
          return fail(status::too_many_files, "no room for a socket (ulimit -n)");
        return status::ok;
      }
      if (!is_of_this_user(visitor.get()))
        continue;
      if (strangers_.size() == strangers_max + members_.size())
        strangers_.erase(strangers_.begin());
      strangers_.push_back(std::move(visitor));
    }
  }

  // Members say nothing after their greeting: what is heard is their end.
  status hear_members(std::span<const pollfd> watched) const {
    for (size_t i = 1; i < members_.size(); i++) {
      int const socket = members_[i].socket.get();
      auto const found = std::find_if(watched.begin(), watched.end(),
                                      [&](auto &each) { return each.fd == socket; });
      if (socket < 0 || found == watched.end() || found->revents == 0)
        continue;
      return fail(status::peer_lost, "rank %" PRId32 " is gone", task_.group[i]);
    }
    return status::ok;
  }

  // Silent ones are left alone; who says something wrong has to go.
  status hear_strangers(size_t &here) {
    std::vector<owned_socket> silent;
    for (auto &each : strangers_) {
      descriptor_message hello;
      descriptor_list brought;
      status const code = descriptor_receive(each.get(), hello, brought);
      if (code == status::again) {
        silent.push_back(std::move(each));
        continue;
      }
      if (code == status::too_many_files)
        return code;
      if (code != status::ok || hello.secret != task_.leader.secret)
        continue;
      if (hello.index < 1 || size_t(hello.index) >= members_.size() ||
          members_[size_t(hello.index)].socket.get() >= 0)
        continue;
      auto const index = size_t(hello.index);
      members_[index].socket = std::move(each);
      if (hello.each != task_.mine.size() || brought.size() != hello.each) {
        return fail(status::invalid,
                    "rank %" PRId32 " gives %" PRIu32 " descriptors for %.*s, rank %" PRId32
                    " gives %zu",
                    task_.group[index], hello.each, int(task_.label.size()), task_.label.data(),
                    task_.group[0], task_.mine.size());
      }
      all_[index] = std::move(brought);
      here++;
    }
    strangers_ = std::move(silent);
    return status::ok;
  }

  // The next descriptors for one member. again: it, or the system, has no room for them now.
  status send_next(member &to) {
    size_t const each = task_.mine.size();
    size_t const room = each == 0 ? members_.size() : descriptors_in_message_max / each;
    size_t const first = to.sent_count, count = std::min(room, members_.size() - first);
    std::vector<int> carried;
    for (size_t i = first; i < first + count; i++) {
      for (size_t k = 0; k < each; k++)
        carried.push_back(all_[i][k]);
    }
    descriptor_message answer;
    answer.index = int32_t(first);
    answer.members = uint32_t(count);
    answer.each = uint32_t(each);
    TND_TRY(descriptor_send(to.socket.get(), answer, carried));
    to.sent_count += count;
    return status::ok;
  }

  status hand_out() {
    for (;;) {
      bool is_done = true;
      for (size_t i = 1; i < members_.size(); i++) {
        while (members_[i].sent_count < members_.size()) {
          status const code = send_next(members_[i]);
          if (code == status::peer_lost)
            return fail(code, "rank %" PRId32 " is gone", task_.group[i]);
          if (code != status::ok && code != status::again)
            return code;
          if (code == status::again)
            break;
        }
        if (members_[i].sent_count < members_.size())
          is_done = false;
      }
      if (is_done)
        return status::ok;
      TND_TRY(task_.still_hopeful());
      if (descriptor_wait_ms(task_.deadline_ns) == 0) {
        return fail(status::timed_out, "descriptors for %.*s were not taken",
                    int(task_.label.size()), task_.label.data());
      }
      monotonic_clock().sleep_ns(500'000);
    }
  }

  // Why it ends, to who is here and who is at the door. Who comes later finds nobody.
  void tell(status code) {
    if (listener_.get() >= 0)
      static_cast<void>(let_in());
    descriptor_message answer;
    answer.code = int32_t(code);
    for (auto const &each : members_) {
      if (each.socket.get() >= 0)
        static_cast<void>(descriptor_send(each.socket.get(), answer, {}));
    }
    for (auto const &each : strangers_) {
      if (each.get() >= 0)
        static_cast<void>(descriptor_send(each.get(), answer, {}));
    }
  }

  const descriptor_task &task_;
  owned_socket listener_;
  std::vector<owned_socket> strangers_;
  std::vector<member> members_;  // by their place in the group; the first, this one, has no socket
  std::vector<descriptor_list> all_;
};

}  // namespace

result<std::vector<descriptor_list>> descriptor_exchange_as_leader(const descriptor_task &task) {
  return leader{task}.run();
}

}  // namespace tanada::port
