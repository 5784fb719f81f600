// seams/bootstrap/card.hpp: what every process publishes when it joins, so that processes of a node
// can connect without a collective of all.
#pragma once

#include <array>
#include <type_traits>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::seams {

inline constexpr const char *process_card_key = "tanada.card";

// Sent as bytes between processes of one node.
struct process_card {
  // Random: the address of this process, which no other process can take beforehand.
  std::array<uint64_t, 2> name;
  // Random: what a process that connects has to present, since all users can list names.
  std::array<uint64_t, 2> secret;
  uint64_t network_device = 0, network_inode = 0;  // its network namespace; 0: not known
  uint64_t process_device = 0, process_inode = 0;  // its process namespace; 0: not known
  int64_t process = 0;                             // its process ID there
};
static_assert(sizeof(process_card) == 72 && std::is_trivially_copyable_v<process_card>);
static_assert(offsetof(process_card, secret) == 16 && offsetof(process_card, process) == 64);

// Makes a new card of this process. io: the system has no random numbers.
result<process_card> process_card_make();

// Publishes a card, which implementations of the seam do first.
status process_card_publish(bootstrap &launcher);

// The card of a rank, published before an exchange. bad_state: there was no exchange. protocol: the
// value is not a card.
result<process_card> process_card_of(bootstrap &launcher, int32_t rank);

// Random bytes as hexadecimal digits, for names of jobs.
std::string random_digits();

}  // namespace tanada::seams
