// Exchanging file descriptors among processes of a node, and the part of a group's member.
#include "seams/bootstrap/descriptor_exchange.hpp"

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

status check(const seams::bootstrap &launcher,
             std::span<const int32_t> group,
             std::string_view label,
             std::span<const int> descriptors) {
  if (descriptors.size() > seams::descriptor_count_max ||
      label.size() > seams::descriptor_label_size_max) {
    return fail(
        status::too_big,
        "exchange of {} descriptors under a label of {} characters: the maximum is {} and {}",
        descriptors.size(),
        label.size(),
        seams::descriptor_count_max,
        seams::descriptor_label_size_max);
  }
  if (!std::is_sorted(group.begin(), group.end(), std::less_equal{}) ||
      !std::binary_search(group.begin(), group.end(), launcher.rank())) {
    return fail(status::invalid,
                "invalid group: the ranks must ascend, and the caller's rank {} must be among them",
                launcher.rank());
  }
  auto const &node = launcher.node_ranks();
  for (int32_t const rank : group) {
    if (!std::binary_search(node.begin(), node.end(), rank)) {
      return fail(
          status::invalid, "rank {} is on a different node than rank {}", rank, launcher.rank());
    }
  }
  return status::ok;
}

status check_namespace(const seams::process_card &self_card,
                       const seams::process_card &leader,
                       int32_t rank) {
  bool const is_known = self_card.network_inode != 0 && leader.network_inode != 0;
  if (!is_known || (self_card.network_device == leader.network_device &&
                    self_card.network_inode == leader.network_inode))
    return status::ok;
  return fail(status::no_device,
              "rank {} (process {}) is on this node, but in another network namespace: processes "
              "that share memory must be in one namespace, or be configured as different nodes",
              rank,
              leader.process);
}

// again: the leader does not listen yet.
status try_connect(const descriptor_task &task,
                   const descriptor_place &place,
                   owned_socket &connected) {
  owned_socket candidate{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (candidate.get() < 0) {
    bool const is_full = errno == EMFILE || errno == ENFILE;
    return fail(is_full ? status::too_many_files : status::no_memory,
                "cannot create a socket: {}",
                std::strerror(errno));
  }
  if (connect(candidate.get(), reinterpret_cast<const sockaddr *>(&place.address), place.size) !=
      0) {
    bool const may_come = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
    return may_come ? status::again
                    : fail(status::io,
                           "cannot connect to rank {}: {}",
                           task.group[0],
                           std::strerror(errno));
  }
  if (!is_of_this_user(candidate.get())) {
    return fail(status::access,
                "a process of another user listens at the address of rank {}",
                task.group[0]);
  }
  connected = std::move(candidate);
  return status::ok;
}

// Tries until the leader listens and has accepted the hello message.
status send_hello(const descriptor_task &task, owned_socket &leader) {
  auto const place = descriptor_place_of(task.leader, task.label);
  descriptor_message hello;
  hello.secret = task.leader.secret;
  hello.index = int32_t(task.index);
  hello.count_per_member = uint32_t(task.descriptors.size());
  for (uint64_t pause_ns = 100'000;; pause_ns = std::min<uint64_t>(pause_ns * 2, 10'000'000)) {
    status code = leader.get() >= 0 ? status::ok : try_connect(task, place, leader);
    if (code == status::ok)
      code = descriptor_send(leader.get(), hello, task.descriptors);
    if (code != status::again)
      return code;
    TND_TRY(task.check_peers());
    if (descriptor_wait_ms(task.deadline_ns) == 0) {
      return fail(status::timed_out,
                  "rank {}, which distributes descriptors for {}, did not listen in time",
                  task.group[0],
                  task.label);
    }
    seams::monotonic_clock().sleep_ns(pause_ns);
  }
}

status wait_readable(const descriptor_task &task, int socket) {
  for (;;) {
    TND_TRY(task.check_peers());
    int const wait_ms = descriptor_wait_ms(task.deadline_ns);
    if (wait_ms == 0) {
      return fail(status::timed_out,
                  "rank {} did not answer for {} in time: a process of the group is missing",
                  task.group[0],
                  task.label);
    }
    pollfd polled{socket, POLLIN, 0};
    if (poll(&polled, 1, wait_ms) > 0)
      return status::ok;
  }
}

// Processes one answer, which has the descriptors of the next members.
status take_answer(const descriptor_task &task,
                   const descriptor_message &answer,
                   seams::descriptor_list &carried,
                   std::vector<seams::descriptor_list> &lists) {
  if (answer.code != 0)
    return fail(status(answer.code), "rank {} ended the exchange of {}", task.group[0], task.label);
  bool const fits = size_t(answer.index) == lists.size() && answer.members >= 1 &&
                    answer.members <= task.group.size() - lists.size() &&
                    answer.count_per_member == task.descriptors.size() &&
                    carried.size() == size_t(answer.members) * answer.count_per_member;
  if (!fits)
    return fail(
        status::protocol, "rank {} sent descriptors that were not requested", task.group[0]);
  for (size_t member = 0, next = 0; member < answer.members; member++) {
    auto &list = lists.emplace_back();
    for (size_t i = 0; i < answer.count_per_member; i++)
      list.push_back(carried.take(next++));
  }
  return status::ok;
}

}  // namespace

result<std::vector<seams::descriptor_list>> descriptor_exchange_as_member(
    const descriptor_task &task) {
  TND_ASSERT(task.index != 0 && task.index < task.group.size());
  owned_socket leader;
  TND_TRY(send_hello(task, leader));
  TND_ASSERT(leader.get() >= 0);
  std::vector<seams::descriptor_list> lists;
  while (lists.size() < task.group.size()) {
    TND_TRY(wait_readable(task, leader.get()));
    descriptor_message answer;
    seams::descriptor_list carried;
    status const code = descriptor_receive(leader.get(), answer, carried);
    if (code == status::again)
      continue;
    if (code == status::peer_lost)
      return fail(code, "rank {}, which distributes descriptors, has failed", task.group[0]);
    TND_TRY(code);
    TND_TRY(take_answer(task, answer, carried, lists));
  }
  return lists;
}

}  // namespace tanada::backends

namespace tanada::seams {

result<std::vector<descriptor_list>> descriptor_exchange(bootstrap &launcher,
                                                         std::span<const int32_t> group,
                                                         std::string_view label,
                                                         std::span<const int> descriptors,
                                                         uint64_t timeout_ns) {
  TND_TRY(backends::check(launcher, group, label, descriptors));
  if (group.size() == 1) {
    std::vector<descriptor_list> lists(1);
    TND_TRY(backends::descriptor_duplicate(descriptors, lists[0]));
    return lists;
  }
  auto self_card = process_card_of(launcher, launcher.rank());
  if (!self_card.ok())
    return self_card.error();
  auto leader = process_card_of(launcher, group[0]);
  if (!leader.ok())
    return leader.error();
  TND_TRY(backends::check_namespace(self_card.value(), leader.value(), group[0]));
  auto const position = std::lower_bound(group.begin(), group.end(), launcher.rank());
  backends::descriptor_task const task{launcher,
                                       group,
                                       label,
                                       descriptors,
                                       deadline_after(monotonic_clock().now_ns(), timeout_ns),
                                       size_t(position - group.begin()),
                                       leader.value()};
  return task.index == 0 ? backends::descriptor_exchange_as_leader(task)
                         : backends::descriptor_exchange_as_member(task);
}

}  // namespace tanada::seams
