// products/comex/armci/messages.cc: messages between two ranks, and the binary tree over ranks.
#include "products/comex/armci/messages.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

// A message from this rank to itself that it has not received yet. A rank may send before it
// receives, so the bytes are kept.
struct kept_message {
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> bytes;
};

std::list<kept_message> &kept_messages() {
  static std::list<kept_message> messages;
  return messages;
}

void keep(const char *call, const state &self, const void *buffer, int size, int tag) {
  kept_messages().remove_if([call](kept_message &message) {
    int is_done = 0;
    require_mpi_ok(call, "MPI_Test", MPI_Test(&message.request, &is_done, MPI_STATUS_IGNORE));
    return is_done != 0;
  });
  kept_message message{MPI_REQUEST_NULL, std::make_unique_for_overwrite<char[]>(size_t(size))};
  if (size > 0)
    std::memcpy(message.bytes.get(), buffer, size_t(size));
  require_mpi_ok(
      call,
      "MPI_Isend",
      MPI_Isend(
          message.bytes.get(), size, MPI_BYTE, self.me, tag, self.messages, &message.request));
  kept_messages().push_back(std::move(message));
}

void check_message(const char *call, int tag, const void *buffer, int size) {
  check_buffer(call, buffer, size);
  if (tag < 0)
    fatal(call, "tag {}: it must be 0 or more", tag);
}

void check_rank(const char *call, const state &self, int rank) {
  if (rank < 0 || rank >= self.count)
    fatal(call, "there is no rank {}: valid are 0 to {}", rank, self.count - 1);
}

// Returns the sender.
int receive(const char *call, int tag, void *buffer, int size, int *received, int sender) {
  check_message(call, tag, buffer, size);
  // Bytes after a short message keep their content, so the buffer counts as read, too.
  message_buffer const message(buffer, size_t(size), message_buffer::access_mode::read_and_write);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int const code =
      MPI_Irecv(message.data(), size, MPI_BYTE, sender, tag, running(call).messages, &request);
  finish(call, "MPI_Irecv", code, &request, &status);
  int count = 0;
  require_mpi_ok(call, "MPI_Get_count", MPI_Get_count(&status, MPI_BYTE, &count));
  if (received != nullptr)
    *received = count;
  return status.MPI_SOURCE;
}

}  // namespace

namespace tanada::comex::armci {

void cancel_kept_messages(const char *call) noexcept {
  for (auto &message : kept_messages()) {
    require_mpi_ok(call, "MPI_Cancel", MPI_Cancel(&message.request));
    require_mpi_ok(call, "MPI_Request_free", MPI_Request_free(&message.request));
    static_cast<void>(message.bytes.release());  // MPI may read them until it ends
  }
  kept_messages().clear();
}

}  // namespace tanada::comex::armci

ARMCI_DEFINE_PLAIN(void, armci_msg_snd, (int tag, void *buffer, int len, int receiver), {
  auto const &self = running(call);
  check_message(call, tag, buffer, len);
  check_rank(call, self, receiver);
  if (receiver == self.me)
    return keep(call, self, buffer, len, tag);
  message_buffer const message(buffer, size_t(len), message_buffer::access_mode::read);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Isend(message.data(), len, MPI_BYTE, receiver, tag, self.messages, &request);
  finish(call, "MPI_Isend", code, &request);
})

ARMCI_DEFINE_PLAIN(void,
                   armci_msg_rcv,
                   (int tag, void *buffer, int buflen, int *msglen, int sender),
                   {
                     check_rank(call, running(call), sender);
                     receive(call, tag, buffer, buflen, msglen, sender);
                   })

ARMCI_DEFINE_PLAIN(int, armci_msg_rcvany, (int tag, void *buffer, int buflen, int *msglen), {
  return receive(call, tag, buffer, buflen, msglen, MPI_ANY_SOURCE);
})

ARMCI_DEFINE_PLAIN(int, armci_msg_me, (void), { return running(call).me; })

ARMCI_DEFINE_PLAIN(int, armci_msg_nproc, (void), { return running(call).count; })

namespace {

std::vector<int> ranks_in_scope(const char *call, const state &self, int scope) {
  if (check_scope(call, scope))
    return self.nodes.node_peers(self.me);
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

ARMCI_DEFINE_PLAIN(
    void, armci_msg_bintree, (int scope, int *Root, int *Up, int *Left, int *Right), {
      auto const &self = running(call);
      auto const ranks = ranks_in_scope(call, self, scope);
      auto const position = size_t(std::ranges::find(ranks, self.me) - ranks.begin());
      bool const is_in = position < ranks.size();
      auto const rank_at = [&](size_t index) {
        return is_in && index < ranks.size() ? ranks[index] : -1;
      };
      *Root = ranks.front();
      *Up = position == 0 ? -1 : rank_at((position - 1) / 2);
      *Left = rank_at(2 * position + 1);
      *Right = rank_at(2 * position + 2);
    })
