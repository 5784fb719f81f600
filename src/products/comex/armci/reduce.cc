// products/comex/armci/reduce.cc: sums, products, extremes and logical operations over a group.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <type_traits>

#include "products/comex/armci/define.hpp"
#include "products/comex/armci/messages.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex;
using namespace tanada::comex::armci;

namespace {

struct named_reduction {
  const char *name;
  MPI_Op operation;
  armci::operation op;
  bool is_integer_only;
  bool is_absolute;
};

// An operation is identified by a prefix of its name, because Fortran programs pad names with
// blanks. So "&&" must precede "&".
named_reduction operation_of(const char *call, const char *name) {
  using enum armci::operation;
  static named_reduction const known[] = {{"+", MPI_SUM, sum, false, false},
                                          {"*", MPI_PROD, product, false, false},
                                          {"max", MPI_MAX, max, false, false},
                                          {"min", MPI_MIN, min, false, false},
                                          {"absmax", MPI_MAX, max, false, true},
                                          {"absmin", MPI_MIN, min, false, true},
                                          {"or", MPI_BOR, bit_or, true, false},
                                          {"&&", MPI_LAND, logical_and, true, false},
                                          {"land", MPI_LAND, logical_and, true, false},
                                          {"||", MPI_LOR, logical_or, true, false},
                                          {"lor", MPI_LOR, logical_or, true, false},
                                          {"&", MPI_BAND, bit_and, true, false},
                                          {"band", MPI_BAND, bit_and, true, false},
                                          {"|", MPI_BOR, bit_or, true, false},
                                          {"bor", MPI_BOR, bit_or, true, false}};
  if (name == nullptr)
    fatal(call, "the operation is a null pointer");
  auto const match = std::ranges::find_if(
      known,
      [name = std::string_view(name)](auto const &value) { return name.starts_with(value.name); });
  if (match == std::end(known))
    fatal(call, "there is no operation \"{}\"", std::string_view(name).substr(0, 20));
  return *match;
}

template <typename Element>
void make_absolute(void *data, int count) {
  for (Element &value : std::span(static_cast<Element *>(data), size_t(count))) {
    if constexpr (std::is_integral_v<Element>) {
      using bits = std::make_unsigned_t<Element>;  // the least value has no opposite, and stays
      if (value < 0)
        value = Element(bits(0) - bits(value));
    } else {
      value = std::abs(value);
    }
  }
}

void make_absolute(int type, void *data, int count) {
  switch (type) {
    case ARMCI_INT:
      return make_absolute<int>(data, count);
    case ARMCI_LONG:
      return make_absolute<long>(data, count);
    case ARMCI_LONG_LONG:
      return make_absolute<long long>(data, count);
    case ARMCI_FLOAT:
      return make_absolute<float>(data, count);
    default:
      return make_absolute<double>(data, count);
  }
}

struct elements {
  void *data;
  int count;
  int type;
};

void reduce_by_mpi(const char *call,
                   const participants &members,
                   const elements &x,
                   MPI_Op operation) {
  element_type const element = element_of(call, x.type);
  // A reduction without elements would not wait for any rank.
  if (x.count == 0 && members.group() != COMEX_GROUP_NULL)
    return require_ok(call, "comex_barrier", comex_barrier(members.group()));
  fence(call, members);
  message_buffer const message(
      x.data, size_t(x.count) * size_t(element.size), message_buffer::access_mode::read_and_write);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Iallreduce(MPI_IN_PLACE,
                                  message.data(),
                                  x.count,
                                  element.type,
                                  operation,
                                  members.communicator(),
                                  &request);
  finish(call, "MPI_Iallreduce", code, &request);
}

void reduce(const char *call, const participants &members, const elements &x, const char *name) {
  element_type const element = element_of(call, x.type);
  named_reduction const named_op = operation_of(call, name);
  check_buffer(call, x.data, x.count);
  if (named_op.is_integer_only && !element.is_integer)
    fatal(call, "\"{}\" requires an integer type, type {} is not", named_op.name, x.type);
  if (named_op.is_absolute)
    make_absolute(x.type, x.data, x.count);
  if (auto &shared = running(call).shared; shared && members.group() == COMEX_GROUP_WORLD) {
    return shared->reduce(call,
                          reduction_for(named_op.op, x.type),
                          static_cast<std::byte *>(x.data),
                          size_t(x.count) * size_t(element.size));
  }
  reduce_by_mpi(call, members, x, named_op.operation);
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, armci_msg_gop_scope, (int scope, void *x, int n, char *op, int type), {
  reduce(call, participants(call, scope), {x, n, type}, op);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_reduce_scope, (int scope, void *x, int n, char *op, int type), {
  reduce(call, participants(call, scope), {x, n, type}, op);
})

ARMCI_DEFINE_PLAIN(void, armci_msg_reduce, (void *x, int n, char *op, int type), {
  reduce(call, participants(call, SCOPE_ALL), {x, n, type}, op);
})

ARMCI_DEFINE_PLAIN(
    void,
    armci_msg_group_gop_scope,
    (int scope, void *x, int n, char *op, int type, ARMCI_Group *group),
    { reduce(call, participants(call, scope, group_from(call, group)), {x, n, type}, op); })

#define ARMCI_DEFINE_REDUCE(LETTERS, ELEMENT, TYPE)                                               \
  ARMCI_DEFINE_PLAIN(void, armci_msg_##LETTERS##gop, (ELEMENT * x, int n, char *op), {            \
    reduce(call, participants(call, SCOPE_ALL), {x, n, TYPE}, op);                                \
  })                                                                                              \
  ARMCI_DEFINE_PLAIN(void, armci_msg_clus_##LETTERS##gop, (ELEMENT * x, int n, char *op), {       \
    reduce(call, participants(call, SCOPE_NODE), {x, n, TYPE}, op);                               \
  })                                                                                              \
  ARMCI_DEFINE_PLAIN(                                                                             \
      void, armci_msg_group_##LETTERS##gop, (ELEMENT * x, int n, char *op, ARMCI_Group *group), { \
        reduce(call, participants(call, SCOPE_ALL, group_from(call, group)), {x, n, TYPE}, op);   \
      })

ARMCI_DEFINE_REDUCE(i, int, ARMCI_INT)
ARMCI_DEFINE_REDUCE(l, long, ARMCI_LONG)
ARMCI_DEFINE_REDUCE(ll, long long, ARMCI_LONG_LONG)
ARMCI_DEFINE_REDUCE(f, float, ARMCI_FLOAT)
ARMCI_DEFINE_REDUCE(d, double, ARMCI_DOUBLE)

// A null pointer is 0, so the sum over all ranks contains each rank's pointer.
static_assert(sizeof(void *) == sizeof(long));

ARMCI_DEFINE_PLAIN(void, armci_exchange_address, (void *ptr_ar[], int n), {
  reduce(call, participants(call, SCOPE_ALL), {ptr_ar, n, ARMCI_LONG}, "+");
})

ARMCI_DEFINE_PLAIN(void, armci_exchange_address_grp, (void *ptr_arr[], int n, ARMCI_Group *group), {
  reduce(
      call, participants(call, SCOPE_ALL, group_from(call, group)), {ptr_arr, n, ARMCI_LONG}, "+");
})
