// products/comex/armci/select.cc: selects the bytes of the rank with the least or greatest value.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

// The key that all ranks compare, word by word; the least wins. No two are equal, so all ranks
// agree on the winner for any values and any order in which MPI compares them.
struct candidate {
  uint64_t rank_class;  // 0; 1: the value is not a number; 2: the rank does not contribute
  uint64_t key;         // ordered as the values
  uint64_t rank;        // number among the participants
};
constexpr int word_count = sizeof(candidate) / sizeof(uint64_t);
static_assert(sizeof(candidate) == word_count * sizeof(uint64_t));

bool operator<(const candidate &a, const candidate &b) {
  if (a.rank_class != b.rank_class)
    return a.rank_class < b.rank_class;
  return a.key != b.key ? a.key < b.key : a.rank < b.rank;
}

constexpr uint64_t sign_bit = uint64_t(1) << 63;

uint64_t key_of(int64_t value) {
  return uint64_t(value) ^ sign_bit;
}

// The bits of negative numbers are ordered opposite to their values.
uint64_t key_of(double value) {
  auto const bits = std::bit_cast<uint64_t>(value == 0.0 ? 0.0 : value);
  return (bits & sign_bit) != 0 ? ~bits : bits | sign_bit;
}

template <typename Value>
Value value_at(const void *place) {
  Value value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

candidate candidate_at(const void *place, int type) {
  switch (type) {
    case ARMCI_INT:
      return {0, key_of(int64_t(value_at<int>(place))), 0};
    case ARMCI_LONG:
      return {0, key_of(int64_t(value_at<long>(place))), 0};
    case ARMCI_LONG_LONG:
      return {0, key_of(int64_t(value_at<long long>(place))), 0};
    default:
      break;
  }
  double const value =
      type == ARMCI_FLOAT ? double(value_at<float>(place)) : value_at<double>(place);
  if (std::isnan(value))
    return {1, 0, 0};
  return {0, key_of(value), 0};
}

extern "C" void select_least(void *source, void *target, int *count, MPI_Datatype *) {
  auto const *const contribution = static_cast<const candidate *>(source);
  auto *const best = static_cast<candidate *>(target);
  for (int i = 0; i < *count; i++) {
    if (contribution[i] < best[i])
      best[i] = contribution[i];
  }
}

// The MPI type and operation, created once and kept until the end.
struct mpi_names {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op operation = MPI_OP_NULL;
};

const mpi_names &selection_names(const char *call) {
  static mpi_names handles;
  if (handles.operation == MPI_OP_NULL) {
    require_mpi_ok(
        call, "MPI_Type_contiguous", MPI_Type_contiguous(word_count, MPI_UINT64_T, &handles.type));
    require_mpi_ok(call, "MPI_Type_commit", MPI_Type_commit(&handles.type));
    require_mpi_ok(call, "MPI_Op_create", MPI_Op_create(select_least, 1, &handles.operation));
  }
  return handles;
}

bool is_max(const char *call, const char *name) {
  std::string_view const prefix = name == nullptr ? "" : name;
  bool const is_greatest = prefix.starts_with("max");
  if (!is_greatest && !prefix.starts_with("min"))
    fatal(call, "there is no operation \"{}\" to select by", prefix.substr(0, 20));
  return is_greatest;
}

}  // namespace

ARMCI_DEFINE_PLAIN(
    void, armci_msg_sel_scope, (int scope, void *x, int n, char *op, int type, int contribute), {
      element_type const element = element_of(call, type);
      bool const is_greatest = is_max(call, op);
      check_buffer(call, x, n);
      if (n < element.size)
        fatal(call, "{} bytes are too few for a value of {}", n, element.size);
      participants const members(call, scope);
      int me = 0;
      require_mpi_ok(call, "MPI_Comm_rank", MPI_Comm_rank(members.communicator(), &me));
      candidate best = contribute ? candidate_at(x, type) : candidate{2, 0, 0};
      if (is_greatest)
        best.key = ~best.key;
      best.rank = uint64_t(me);
      if (auto &shared = running(call).shared; shared && members.group() == COMEX_GROUP_WORLD) {
        std::vector<candidate> candidates(size_t(running(call).count));
        shared->gather(call, &best, sizeof best, reinterpret_cast<std::byte *>(candidates.data()));
        best = *std::ranges::min_element(
            candidates, [](const candidate &a, const candidate &b) { return a < b; });
        return broadcast(call, members, x, n, int(best.rank));
      }
      fence(call, members);
      MPI_Request request = MPI_REQUEST_NULL;
      auto const &names = selection_names(call);
      int const code = MPI_Iallreduce(
          MPI_IN_PLACE, &best, 1, names.type, names.operation, members.communicator(), &request);
      finish(call, "MPI_Iallreduce", code, &request);
      broadcast(call, members, x, n, int(best.rank));
    })
