// seams/bootstrap/card.hpp: what every process publishes when it joins, so that processes of a node
// can meet without asking all.
#pragma once

#include <array>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

inline constexpr const char *process_card_key = "tanada.card";

// Goes as bytes between processes of one node.
struct process_card {
  std::array<uint64_t, 2>
      name;  // random: where this process may be met, which nobody can take beforehand
  std::array<uint64_t, 2>
      secret;  // random: what who meets it has to show, since names can be listed by everybody
  uint64_t network_device = 0, network_inode = 0;  // which network namespace it is in; 0: not known
  uint64_t process_device = 0, process_inode = 0;  // which process namespace; 0: not known
  int64_t process = 0;                             // its number there
};
static_assert(sizeof(process_card) == 72);

// A new card of this process. io: the system has no random numbers.
result<process_card> process_card_make();

// Publish one. What implementations of the seam do first.
status process_card_publish(bootstrap &launcher);

// Of a rank, which has published it before an exchange: bad_state while there was none, protocol if
// it is none.
result<process_card> process_card_of(bootstrap &launcher, int32_t rank);

// Random bytes as hexadecimal digits, for names of jobs.
std::string random_digits();

}  // namespace tanada::port
