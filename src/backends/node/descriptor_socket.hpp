// backends/node/descriptor_socket.hpp: messages with descriptors between the leader of a group and
// its members.
#pragma once

#include <sys/socket.h>

#include <cinttypes>

#include "seams/bootstrap/card.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"

namespace tanada::port {

// One SOCK_SEQPACKET message each way: a member says hello with its descriptors; the leader answers
// with those of some members in turn, until all are through, or with a status that ends it.
struct descriptor_message {
  uint64_t magic = descriptor_magic;
  std::array<uint64_t, 2> secret{};  // of the leader's card
  int32_t index = 0;     // in the group: whose hello this is, whose descriptors come first
  int32_t code = 0;      // of an answer: tanada::status
  uint32_t members = 0;  // of an answer: how many members' descriptors this carries
  uint32_t each = 0;     // descriptors of one member

  static constexpr uint64_t descriptor_magic = 0x31646e6174;
};
static_assert(sizeof(descriptor_message) == 40);

inline constexpr size_t descriptors_in_message_max = 253;  // SCM_MAX_FD

class owned_socket {
 public:
  explicit owned_socket(int socket = -1) noexcept : socket_{socket} {}
  owned_socket(owned_socket &&other) noexcept : socket_{other.socket_} {
    other.socket_ = -1;
  }
  owned_socket &operator=(owned_socket &&other) noexcept;
  ~owned_socket();

  int get() const noexcept {
    return socket_;
  }

 private:
  int socket_;
};

// Where the leader listens: an address without a file.
struct descriptor_place {
  sockaddr_storage address{};
  socklen_t size = 0;
};
descriptor_place descriptor_place_of(const process_card &leader, std::string_view label);

// again: not now. peer_lost: the other side is gone. All descriptors of `message` are in `carried`,
// or none is.
status descriptor_send(int socket, const descriptor_message &message, std::span<const int> carried);
status descriptor_receive(int socket, descriptor_message &message, descriptor_list &carried);

bool is_of_this_user(int socket);

// How long a wait for sockets may last: to the deadline, and not so long that the loss of a rank
// goes unseen. 0: it is over.
int descriptor_wait_ms(uint64_t deadline_ns);

// What one process gives and gets.
struct descriptor_task {
  bootstrap &launcher;
  std::span<const int32_t> group;
  std::string_view label;
  std::span<const int> mine;
  uint64_t deadline_ns;
  size_t index;  // of this process in the group
  process_card leader;

  // Not ok: why there is no point in waiting any longer.
  status still_hopeful() const;
};

result<std::vector<descriptor_list>> descriptor_exchange_as_leader(const descriptor_task &task);
result<std::vector<descriptor_list>> descriptor_exchange_as_member(const descriptor_task &task);

// Duplicates of a process's own.
status descriptor_duplicate(std::span<const int> mine, descriptor_list &made);

}  // namespace tanada::port
