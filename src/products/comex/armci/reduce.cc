// products/comex/armci/reduce.cc: sums, products, extremes and logical operations over all ranks of
// a group.
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

struct named_operation {
  const char *name;
  MPI_Op operation;
  armci::operation what;
  bool is_of_integers;
  bool is_absolute;
};

// Names are known by how they begin, as Fortran programs leave blanks after them: "&&" stands
// before "&" for that.
named_operation operation_of(const char *call, const char *name) {
  using enum armci::operation;
  static named_operation const known[] = {{"+", MPI_SUM, sum, false, false},
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
  auto const found = std::ranges::find_if(known, [name = std::string_view(name)](auto const &each) {
    return name.starts_with(each.name);
  });
  if (found == std::end(known))
    fatal(call, "there is no operation \"%.20s\"", name);
  return *found;
}

template <typename Element>
void make_absolute(void *place, int count) {
  for (Element &each : std::span(static_cast<Element *>(place), size_t(count))) {
    if constexpr (std::is_integral_v<Element>) {
      using bits = std::make_unsigned_t<Element>;  // the least value has no opposite: it stays
      if (each < 0)
        each = Element(bits(0) - bits(each));
    } else {
      each = std::abs(each);
    }
  }
}

void make_absolute(int type, void *place, int count) {
  switch (type) {
    case ARMCI_INT: return make_absolute<int>(place, count);
    case ARMCI_LONG: return make_absolute<long>(place, count);
    case ARMCI_LONG_LONG: return make_absolute<long long>(place, count);
    case ARMCI_FLOAT: return make_absolute<float>(place, count);
    default: return make_absolute<double>(place, count);
  }
}

struct elements {
  void *place;
  int count;
  int type;
};

void reduce(const char *call, const audience &who, const elements &x, const char *name) {
  element_type const element = element_of(call, x.type);
  named_operation const what = operation_of(call, name);
  check_place(call, x.place, x.count);
  if (what.is_of_integers && !element.is_integer)
    fatal(call, "\"%s\" is of integers, type %d is not", what.name, x.type);
  if (what.is_absolute)
    make_absolute(x.type, x.place, x.count);
  if (auto &near = running(call).near; near && who.group() == COMEX_GROUP_WORLD) {
    return near->reduce(call, combination_of(what.what, x.type), static_cast<std::byte *>(x.place),
                        size_t(x.count) * size_t(element.size));
  }
  // Without elements nobody would wait for anybody.
  if (x.count == 0 && who.group() != COMEX_GROUP_NULL)
    return need(call, "comex_barrier", comex_barrier(who.group()));
  fence(call, who);
  message_buffer const message(x.place, size_t(x.count) * size_t(element.size),
                               message_buffer::use::read_and_write);
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = MPI_Iallreduce(MPI_IN_PLACE, message.data(), x.count, element.type,
                                  what.operation, who.communicator(), &request);
  finish(call, "MPI_Iallreduce", code, &request);
}

}  // namespace

ARMCI_DEFINE_PLAIN(void, armci_msg_gop_scope, (int scope, void *x, int n, char *op, int type),
                   { reduce(call, audience(call, scope), {x, n, type}, op); })

ARMCI_DEFINE_PLAIN(void, armci_msg_reduce_scope, (int scope, void *x, int n, char *op, int type),
                   { reduce(call, audience(call, scope), {x, n, type}, op); })

ARMCI_DEFINE_PLAIN(void, armci_msg_reduce, (void *x, int n, char *op, int type),
                   { reduce(call, audience(call, SCOPE_ALL), {x, n, type}, op); })

ARMCI_DEFINE_PLAIN(void, armci_msg_group_gop_scope,
                   (int scope, void *x, int n, char *op, int type, ARMCI_Group *group), {
                     reduce(call, audience(call, scope, group_at(call, group)), {x, n, type}, op);
                   })

#define ARMCI_DEFINE_REDUCE(LETTERS, ELEMENT, TYPE)                                             \
  ARMCI_DEFINE_PLAIN(void, armci_msg_##LETTERS##gop, (ELEMENT * x, int n, char *op),            \
                     { reduce(call, audience(call, SCOPE_ALL), {x, n, TYPE}, op); })            \
  ARMCI_DEFINE_PLAIN(void, armci_msg_clus_##LETTERS##gop, (ELEMENT * x, int n, char *op),       \
                     { reduce(call, audience(call, SCOPE_NODE), {x, n, TYPE}, op); })           \
  ARMCI_DEFINE_PLAIN(                                                                           \
      void, armci_msg_group_##LETTERS##gop, (ELEMENT * x, int n, char *op, ARMCI_Group *group), \
      { reduce(call, audience(call, SCOPE_ALL, group_at(call, group)), {x, n, TYPE}, op); })

ARMCI_DEFINE_REDUCE(i, int, ARMCI_INT)
ARMCI_DEFINE_REDUCE(l, long, ARMCI_LONG)
ARMCI_DEFINE_REDUCE(ll, long long, ARMCI_LONG_LONG)
ARMCI_DEFINE_REDUCE(f, float, ARMCI_FLOAT)
ARMCI_DEFINE_REDUCE(d, double, ARMCI_DOUBLE)

// A null pointer is 0, so that the sum of all ranks' has each one's own.
static_assert(sizeof(void *) == sizeof(long));

ARMCI_DEFINE_PLAIN(void, armci_exchange_address, (void *ptr_ar[], int n),
                   { reduce(call, audience(call, SCOPE_ALL), {ptr_ar, n, ARMCI_LONG}, "+"); })

ARMCI_DEFINE_PLAIN(void, armci_exchange_address_grp, (void *ptr_arr[], int n, ARMCI_Group *group), {
  reduce(call, audience(call, SCOPE_ALL, group_at(call, group)), {ptr_arr, n, ARMCI_LONG}, "+");
})
