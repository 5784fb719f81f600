#include "seams/bootstrap/descriptor_exchange.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/node/descriptor_socket.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::port {
namespace {

status check(const bootstrap &launcher, std::span<const int32_t> group, std::string_view label,
             std::span<const int> mine) {
  if (mine.size() > descriptor_count_max || label.size() > descriptor_label_size_max) {
    return fail(
        status::too_big,
        "an exchange of %zu descriptors under a label of %zu characters: at most %zu and %zu",
        mine.size(), label.size(), descriptor_count_max, descriptor_label_size_max);
  }
  if (!std::is_sorted(group.begin(), group.end(), std::less_equal{}) ||
      !std::binary_search(group.begin(), group.end(), launcher.rank())) {
    return fail(status::invalid,
                "a group is ranks in ascending order, rank %" PRId32 ", which asks, among them",
                launcher.rank());
  }
  auto const &node = launcher.node_ranks();
  for (int32_t const each : group) {
    if (!std::binary_search(node.begin(), node.end(), each)) {
      return fail(status::invalid, "rank %" PRId32 " is on another node than rank %" PRId32, each,
                  launcher.rank());
    }
  }
  return status::ok;
}

status check_namespace(const process_card &own, const process_card &leader, int32_t rank) {
  bool const is_known = own.network_inode != 0 && leader.network_inode != 0;
  if (!is_known ||
      (own.network_device == leader.network_device && own.network_inode == leader.network_inode))
    return status::ok;
  return fail(status::no_device,
              "rank %" PRId32 " (process %" PRId64
              ") is on this node and in another network namespace: processes of a node that "
              "are to share memory have to be in one, or be told that they are of different nodes",
              rank, leader.process);
}

// again: the leader does not listen yet.
status try_connect(const descriptor_task &task, const descriptor_place &place,
                   owned_socket &connected) {
  owned_socket made{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (made.get() < 0) {
    bool const is_full = errno == EMFILE || errno == ENFILE;
    return fail(is_full ? status::too_many_files : status::no_memory, "no socket: %s",
                std::strerror(errno));
  }
  if (connect(made.get(), reinterpret_cast<const sockaddr *>(&place.address), place.size) != 0) {
    bool const may_come = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
    return may_come ? status::again
                    : fail(status::io, "connect to rank %" PRId32 ": %s", task.group[0],
                           std::strerror(errno));
  }
  if (!is_of_this_user(made.get())) {
    return fail(status::access, "a process of another user is where rank %" PRId32 " should be",
                task.group[0]);
  }
  connected = std::move(made);
  return status::ok;
}

// Until the leader listens and has taken the greeting.
status greet(const descriptor_task &task, owned_socket &leader) {
  auto const place = descriptor_place_of(task.leader, task.label);
  descriptor_message hello;
  hello.secret = task.leader.secret;
  hello.index = int32_t(task.index);
  hello.each = uint32_t(task.mine.size());
  for (uint64_t pause_ns = 100'000;; pause_ns = std::min<uint64_t>(pause_ns * 2, 10'000'000)) {
    status code = leader.get() >= 0 ? status::ok : try_connect(task, place, leader);
    if (code == status::ok)
      code = descriptor_send(leader.get(), hello, task.mine);
    if (code != status::again)
      return code;
    TND_TRY(task.still_hopeful());
    if (descriptor_wait_ms(task.deadline_ns) == 0) {
      return fail(status::timed_out,
                  "rank %" PRId32 ", which hands out descriptors for %.*s, did not come",
                  task.group[0], int(task.label.size()), task.label.data());
    }
    monotonic_clock().sleep_ns(pause_ns);
  }
}

status wait_readable(const descriptor_task &task, int socket) {
  for (;;) {
    TND_TRY(task.still_hopeful());
    int const wait_ms = descriptor_wait_ms(task.deadline_ns);
    if (wait_ms == 0) {
      return fail(status::timed_out,
                  "rank %" PRId32
                  " has not answered about %.*s: somebody of the group did not come",
                  task.group[0], int(task.label.size()), task.label.data());
    }
    pollfd one{socket, POLLIN, 0};
    if (poll(&one, 1, wait_ms) > 0)
      return status::ok;
  }
}

// One answer: descriptors of the next members.
status take(const descriptor_task &task, const descriptor_message &answer, descriptor_list &carried,
            std::vector<descriptor_list> &all) {
  if (answer.code != 0)
    return fail(status(answer.code), "rank %" PRId32 " ended the exchange of %.*s", task.group[0],
                int(task.label.size()), task.label.data());
  bool const fits = size_t(answer.index) == all.size() && answer.members >= 1 &&
                    answer.members <= task.group.size() - all.size() &&
                    answer.each == task.mine.size() &&
                    carried.size() == size_t(answer.members) * answer.each;
  if (!fits)
    return fail(status::protocol, "rank %" PRId32 " sent other descriptors than those asked for",
                task.group[0]);
  for (size_t member = 0, next = 0; member < answer.members; member++) {
    auto &list = all.emplace_back();
    for (size_t i = 0; i < answer.each; i++)
      list.push_back(carried.take(next++));
  }
  return status::ok;
}

}  // namespace

result<std::vector<descriptor_list>> descriptor_exchange_as_member(const descriptor_task &task) {
  owned_socket leader;
  TND_TRY(greet(task, leader));
  std::vector<descriptor_list> all;
  while (all.size() < task.group.size()) {
    TND_TRY(wait_readable(task, leader.get()));
    descriptor_message answer;
    descriptor_list carried;
    status const code = descriptor_receive(leader.get(), answer, carried);
    if (code == status::again)
      continue;
    if (code == status::peer_lost)
      return fail(code, "rank %" PRId32 ", which hands out descriptors, is gone", task.group[0]);
    TND_TRY(code);
    TND_TRY(take(task, answer, carried, all));
  }
  return all;
}

result<std::vector<descriptor_list>> descriptor_exchange(bootstrap &launcher,
                                                         std::span<const int32_t> group,
                                                         std::string_view label,
                                                         std::span<const int> mine,
                                                         uint64_t timeout_ns) {
  TND_TRY(check(launcher, group, label, mine));
  if (group.size() == 1) {
    std::vector<descriptor_list> all(1);
    TND_TRY(descriptor_duplicate(mine, all[0]));
    return all;
  }
  auto own = process_card_of(launcher, launcher.rank());
  if (!own.ok())
    return own.error();
  auto leader = process_card_of(launcher, group[0]);
  if (!leader.ok())
    return leader.error();
  TND_TRY(check_namespace(own.value(), leader.value(), group[0]));
  auto const at = std::lower_bound(group.begin(), group.end(), launcher.rank());
  descriptor_task const task{launcher,
                             group,
                             label,
                             mine,
                             deadline_after(monotonic_clock().now_ns(), timeout_ns),
                             size_t(at - group.begin()),
                             leader.value()};
  return task.index == 0 ? descriptor_exchange_as_leader(task)
                         : descriptor_exchange_as_member(task);
}

}  // namespace tanada::port
