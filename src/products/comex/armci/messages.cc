// products/comex/armci/messages.cc: messages between two ranks, and where a rank is in a tree.
#include "products/comex/armci/messages.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

// A message from this rank to itself, which it has not received: it may send before it receives, so
// that the bytes are kept.
struct kept_message {
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> bytes;
};

std::list<kept_message> &kept_messages() {
  static std::list<kept_message> kept;
  return kept;
}

void keep(const char *call, const state &self, const void *buffer, int size, int tag) {
  kept_messages().remove_if([call](kept_message &each) {
    int is_done = 0;
    need_mpi(call, "MPI_Test", MPI_Test(&each.request, &is_done, MPI_STATUS_IGNORE));
    return is_done != 0;
  });
  kept_message made{MPI_REQUEST_NULL, std::make_unique_for_overwrite<char[]>(size_t(size))};
  if (size > 0)
    std::memcpy(made.bytes.get(), buffer, size_t(size));
  need_mpi(call, "MPI_Isend",
           MPI_Isend(made.bytes.get(), size, MPI_BYTE, self.me, tag, self.messages, &made.request));
  kept_messages().push_back(std::move(made));
}

void check_message(const char *call, int tag, const void *buffer, int size) {
  check_place(call, buffer, size);
  if (tag < 0)
    fatal(call, "tag %d: it must be 0 or more", tag);
}

void check_rank(const char *call, const state &self, int rank) {
  if (rank < 0 || rank >= self.count)
    fatal(call, "there is no rank %d: they are 0 to %d", rank, self.count - 1);
}

// Returns the sender.
int receive(const char *call, int tag, void *buffer, int size, int *received, int sender) {
  check_message(call, tag, buffer, size);
  // What is not received stays as it is.
  message_buffer const message(buffer, size_t(size), message_buffer::use::read_and_write);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int const code =
      MPI_Irecv(message.data(), size, MPI_BYTE, sender, tag, running(call).messages, &request);
  finish(call, "MPI_Irecv", code, &request, &status);
  int count = 0;
  need_mpi(call, "MPI_Get_count", MPI_Get_count(&status, MPI_BYTE, &count));
  if (received != nullptr)
    *received = count;
  return status.MPI_SOURCE;
}

}  // namespace

namespace tanada::comex::armci {

void forget_messages(const char *call) noexcept {
  for (auto &each : kept_messages()) {
    need_mpi(call, "MPI_Cancel", MPI_Cancel(&each.request));
    need_mpi(call, "MPI_Request_free", MPI_Request_free(&each.request));
    static_cast<void>(each.bytes.release());  // MPI may read them to its end
  }
  kept_messages().clear();
}

}  // namespace tanada::comex::armci

ARMCI_DEFINE_PLAIN(void, armci_msg_snd, (int tag, void *buffer, int len, int to), {
  auto const &self = running(call);
  check_message(call, tag, buffer, len);
  check_rank(call, self, to);
  if (to == self.me)
    return keep(call, self, buffer, len, tag);
  message_buffer const message(buffer, size_t(len), message_buffer::use::read);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Isend(message.data(), len, MPI_BYTE, to, tag, self.messages, &request);
  finish(call, "MPI_Isend", code, &request);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_rcv, (int tag, void *buffer, int buflen, int *msglen, int from),
                   {
                     check_rank(call, running(call), from);
                     receive(call, tag, buffer, buflen, msglen, from);
                   })

ARMCI_DEFINE_PLAIN(int, armci_msg_rcvany, (int tag, void *buffer, int buflen, int *msglen),
                   { return receive(call, tag, buffer, buflen, msglen, MPI_ANY_SOURCE); })

ARMCI_DEFINE_PLAIN(int, armci_msg_me, (void), { return running(call).me; })

ARMCI_DEFINE_PLAIN(int, armci_msg_nproc, (void), { return running(call).count; })

namespace {

std::vector<int> ranks_in(const char *call, const state &self, int scope) {
  if (check_scope(call, scope))
    return self.nodes.neighbours(self.me);
  std::vector<int> ranks;
  if (scope == SCOPE_MASTERS) {
    for (auto const &node : self.nodes.ranks_of)
      ranks.push_back(node.front());
  } else {
    for (int rank = 0; rank < self.count; rank++)
      ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, armci_msg_bintree, (int scope, int *Root, int *Up, int *Left, int *Right),
                   {
                     auto const &self = running(call);
                     auto const ranks = ranks_in(call, self, scope);
                     auto const place = size_t(std::ranges::find(ranks, self.me) - ranks.begin());
                     bool const is_in = place < ranks.size();
                     auto const at = [&](size_t index) {
                       return is_in && index < ranks.size() ? ranks[index] : -1;
                     };
                     *Root = ranks.front();
                     *Up = place == 0 ? -1 : at((place - 1) / 2);
                     *Left = at(2 * place + 1);
                     *Right = at(2 * place + 2);
                   })
