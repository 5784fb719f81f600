// The leader of a group, its first rank: it listens, receives each member's descriptors, and sends
// them all to all members.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/node/descriptor_socket.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

// The maximum of connections that have not sent a hello message; beyond it the oldest is closed.
constexpr size_t unidentified_max = 32;

class leader {
 public:
  explicit leader(const descriptor_task &task)
      : task_{task}, members_(task.group.size()), lists_(task.group.size()) {
    TND_ASSERT(task.index == 0 && task.group.size() >= 2);
  }

  result<std::vector<seams::descriptor_list>> run() {
    status code = listen_for_all();
    if (code == status::ok)
      code = gather();
    if (code == status::ok)
      code = send_lists();
    if (code == status::ok)
      return std::move(lists_);
    send_failure(code);
    return code;
  }

 private:
  struct member {
    owned_socket socket;
    size_t sent_count = 0;  // members whose descriptors it has been sent
  };

  status listen_for_all() {
    listener_ = owned_socket{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    auto const place = descriptor_place_of(task_.leader, task_.label);
    if (listener_.get() >= 0 &&
        bind(listener_.get(), reinterpret_cast<const sockaddr *>(&place.address), place.size) ==
            0 &&
        listen(listener_.get(), SOMAXCONN) == 0) {
      return descriptor_duplicate(task_.descriptors, lists_[0]);
    }
    if (errno == EADDRINUSE) {
      return fail(status::busy,
                  "another exchange of descriptors under the label {} is in progress",
                  task_.label);
    }
    return fail(errno == EMFILE || errno == ENFILE ? status::too_many_files : status::io,
                "cannot listen on a socket: {}",
                std::strerror(errno));
  }

  status gather() {
    for (size_t arrived_count = 1; arrived_count < members_.size();) {
      TND_TRY(task_.check_peers());
      int const wait_ms = descriptor_wait_ms(task_.deadline_ns);
      if (wait_ms == 0)
        return report_missing(arrived_count);
      std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
      for (auto const &connection : unidentified_)
        watched.push_back({connection.get(), POLLIN, 0});
      for (auto const &peer : members_) {
        if (peer.socket.get() >= 0)
          watched.push_back({peer.socket.get(), POLLIN, 0});  // detects a closed connection
      }
      if (poll(watched.data(), watched.size(), wait_ms) <= 0)
        continue;
      TND_TRY(check_members(watched));
      TND_TRY(receive_hellos(arrived_count));
      if (watched[0].revents != 0)
        TND_TRY(accept_connections());
    }
    return status::ok;
  }

  status report_missing(size_t arrived_count) const {
    TND_ASSERT(arrived_count < members_.size());
    size_t first = 1;
    while (members_[first].socket.get() >= 0)
      first++;
    return fail(status::timed_out,
                "{} of {} processes joined the exchange of {} in time: rank {} did not",
                arrived_count,
                members_.size(),
                task_.label,
                task_.group[first]);
  }

  status accept_connections() {
    for (;;) {
      owned_socket connection{
          accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (connection.get() < 0) {
        if (errno == EMFILE || errno == ENFILE)
          return fail(status::too_many_files,
                      "cannot accept a connection: too many open files (ulimit -n)");
        return status::ok;
      }
      if (!is_of_this_user(connection.get()))
        continue;
      if (unidentified_.size() == unidentified_max + members_.size())
        unidentified_.erase(unidentified_.begin());
      unidentified_.push_back(std::move(connection));
    }
  }

  // Members send nothing after their hello message, so any event on their sockets is the end of the
  // connection.
  status check_members(std::span<const pollfd> watched) const {
    for (size_t i = 1; i < members_.size(); i++) {
      int const socket = members_[i].socket.get();
      auto const event = std::find_if(
          watched.begin(), watched.end(), [&](auto &polled) { return polled.fd == socket; });
      if (socket < 0 || event == watched.end() || event->revents == 0)
        continue;
      return fail(status::peer_lost, "rank {} has failed", task_.group[i]);
    }
    return status::ok;
  }

  bool is_of_new_member(const descriptor_message &hello) const {
    return hello.secret == task_.leader.secret && hello.index >= 1 &&
           size_t(hello.index) < members_.size() && members_[size_t(hello.index)].socket.get() < 0;
  }

  // Connections without a message stay; those with an invalid one are closed.
  status receive_hellos(size_t &arrived_count) {
    std::vector<owned_socket> silent;
    for (auto &connection : unidentified_) {
      descriptor_message hello;
      seams::descriptor_list descriptors;
      status const code = descriptor_receive(connection.get(), hello, descriptors);
      if (code == status::again) {
        silent.push_back(std::move(connection));
        continue;
      }
      if (code == status::too_many_files)
        return code;
      if (code != status::ok || !is_of_new_member(hello))
        continue;
      auto const index = size_t(hello.index);
      TND_ASSERT(lists_[index].size() == 0 && arrived_count < members_.size());
      members_[index].socket = std::move(connection);
      if (hello.count_per_member != task_.descriptors.size() ||
          descriptors.size() != hello.count_per_member) {
        return fail(status::invalid,
                    "rank {} gives {} descriptors for {}, rank {} gives {}",
                    task_.group[index],
                    hello.count_per_member,
                    task_.label,
                    task_.group[0],
                    task_.descriptors.size());
      }
      lists_[index] = std::move(descriptors);
      arrived_count++;
    }
    unidentified_ = std::move(silent);
    return status::ok;
  }

  // Sends the next descriptors to one member. again: the member or the system cannot accept them
  // now.
  status send_next(member &recipient) {
    size_t const per_member = task_.descriptors.size();
    size_t const members_max =
        per_member == 0 ? members_.size() : descriptors_in_message_max / per_member;
    size_t const first = recipient.sent_count;
    TND_ASSERT(first < members_.size() && members_max != 0);
    size_t const count = std::min(members_max, members_.size() - first);
    std::vector<int> carried;
    for (size_t i = first; i < first + count; i++) {
      TND_ASSERT(lists_[i].size() == per_member);
      for (size_t k = 0; k < per_member; k++)
        carried.push_back(lists_[i][k]);
    }
    descriptor_message answer;
    answer.index = int32_t(first);
    answer.members = uint32_t(count);
    answer.count_per_member = uint32_t(per_member);
    TND_TRY(descriptor_send(recipient.socket.get(), answer, carried));
    recipient.sent_count += count;
    return status::ok;
  }

  status send_lists() {
    for (;;) {
      bool is_done = true;
      for (size_t i = 1; i < members_.size(); i++) {
        while (members_[i].sent_count < members_.size()) {
          status const code = send_next(members_[i]);
          if (code == status::peer_lost)
            return fail(code, "rank {} has failed", task_.group[i]);
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
      TND_TRY(task_.check_peers());
      if (descriptor_wait_ms(task_.deadline_ns) == 0) {
        return fail(status::timed_out,
                    "not all members received the descriptors for {} in time",
                    task_.label);
      }
      seams::monotonic_clock().sleep_ns(500'000);
    }
  }

  // Sends the reason of a failure to all members, including those whose connections are not
  // accepted yet. Later ones find no listener.
  void send_failure(status code) {
    if (listener_.get() >= 0)
      static_cast<void>(accept_connections());
    descriptor_message answer;
    answer.code = int32_t(code);
    for (auto const &peer : members_) {
      if (peer.socket.get() >= 0)
        static_cast<void>(descriptor_send(peer.socket.get(), answer, {}));
    }
    for (auto const &connection : unidentified_) {
      if (connection.get() >= 0)
        static_cast<void>(descriptor_send(connection.get(), answer, {}));
    }
  }

  const descriptor_task &task_;
  owned_socket listener_;
  std::vector<owned_socket> unidentified_;
  std::vector<member> members_;  // by index in the group; the first, this process, has no socket
  std::vector<seams::descriptor_list> lists_;
};

}  // namespace

result<std::vector<seams::descriptor_list>> descriptor_exchange_as_leader(
    const descriptor_task &task) {
  return leader{task}.run();
}

}  // namespace tanada::backends
