// backends/node/descriptor_socket.hpp: messages with descriptors between the leader of a group and
// its members.
#pragma once

#include <sys/socket.h>

#include <cinttypes>
#include <cstddef>
#include <type_traits>

#include "seams/bootstrap/card.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"

namespace tanada::backends {

// Each is one SOCK_SEQPACKET message. A member sends a hello message with its descriptors. The
// leader answers with the descriptors of some members at a time, until all are sent, or with a
// status that ends the exchange.
struct descriptor_message {
  uint64_t magic = descriptor_magic;
  std::array<uint64_t, 2> secret{};  // from the leader's card
  int32_t index = 0;     // in the group: the sender of a hello, or the first member of an answer
  int32_t code = 0;      // in an answer: tanada::status
  uint32_t members = 0;  // in an answer: number of members whose descriptors it has
  uint32_t count_per_member = 0;  // descriptors of each member

  static constexpr uint64_t descriptor_magic = 0x31646e6174;
};
static_assert(sizeof(descriptor_message) == 40 && offsetof(descriptor_message, secret) == 8);
static_assert(offsetof(descriptor_message, index) == 24 &&
              offsetof(descriptor_message, count_per_member) == 36);
static_assert(std::is_trivially_copyable_v<descriptor_message>);

inline constexpr size_t descriptors_in_message_max = 253;  // SCM_MAX_FD
static_assert(seams::descriptor_count_max <= descriptors_in_message_max);

class owned_socket {
 public:
  explicit owned_socket(int socket = -1) noexcept : socket_{socket} {}
  owned_socket(owned_socket &&source) noexcept : socket_{source.socket_} {
    source.socket_ = -1;
  }
  owned_socket &operator=(owned_socket &&source) noexcept;
  ~owned_socket();

  int get() const noexcept {
    return socket_;
  }

 private:
  int socket_;
};

// The address at which the leader listens; it needs no file.
struct descriptor_place {
  sockaddr_storage address{};
  socklen_t size = 0;
};
descriptor_place descriptor_place_of(const seams::process_card &leader, std::string_view label);

// again: not possible now. peer_lost: the peer has closed the connection. `carried` gets all
// descriptors of `message` or none.
status descriptor_send(int socket, const descriptor_message &message, std::span<const int> carried);
status descriptor_receive(int socket, descriptor_message &message, seams::descriptor_list &carried);

bool is_of_this_user(int socket);

// Returns how long to poll sockets: until the deadline, but short enough to notice a failed rank.
// 0: the deadline has passed.
int descriptor_wait_ms(uint64_t deadline_ns);

// The part of one process in an exchange.
struct descriptor_task {
  seams::bootstrap &launcher;
  std::span<const int32_t> group;
  std::string_view label;
  std::span<const int> descriptors;
  uint64_t deadline_ns;
  size_t index;  // this process's index in the group
  seams::process_card leader;

  // Returns an error if waiting any longer is pointless.
  status check_peers() const;
};

result<std::vector<seams::descriptor_list>> descriptor_exchange_as_leader(
    const descriptor_task &task);
result<std::vector<seams::descriptor_list>> descriptor_exchange_as_member(
    const descriptor_task &task);

// Duplicates a process's own descriptors.
status descriptor_duplicate(std::span<const int> descriptors, seams::descriptor_list &duplicates);

}  // namespace tanada::backends
