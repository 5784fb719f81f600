#include "products/comex/mpi/outside.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/base/log.hpp"
#include "products/comex/mpi/lent.hpp"
#include "products/comex/mpi/wait_away.hpp"

extern "C" [[gnu::visibility("default")]] void mpi_barrier_(MPI_Fint *, MPI_Fint *);

namespace tanada::comex {
namespace {

// Attributes of communicators that is_among_us() has looked at.
struct known_communicators {
  std::mutex mutex;
  MPI_Comm of = MPI_COMM_NULL;  // of the job that the key is for
  int key = MPI_KEYVAL_INVALID;
};

int key_of(MPI_Comm ours) {
  static auto &known = *new known_communicators;  // programs may call MPI while they exit
  std::lock_guard const lock{known.mutex};
  if (known.of != ours && PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN,
                                                  &known.key, nullptr) == MPI_SUCCESS) {
    known.of = ours;
  }
  return known.key;
}

bool has_all(MPI_Comm ours, MPI_Comm comm) {
  int is_inter = 0, count = 0;
  if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0)
    return false;
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  PMPI_Comm_group(ours, &all);
  PMPI_Comm_group(comm, &some);
  PMPI_Group_size(some, &count);
  std::vector<int> ranks, found(size_t(count), MPI_UNDEFINED);
  for (int i = 0; i < count; i++)
    ranks.push_back(i);
  PMPI_Group_translate_ranks(some, count, ranks.data(), all, found.data());
  PMPI_Group_free(&all);
  PMPI_Group_free(&some);
  return std::find(found.begin(), found.end(), MPI_UNDEFINED) == found.end();
}

}  // namespace

outside_wait::outside_wait(bool stays) : held_{stays} {
  swapping *const away = current_swapping();
  if (away == nullptr || !away->is_own_thread())
    return;
  away->leave_alone();
  away_ = away;
}

outside_wait::~outside_wait() {
  if (away_ != nullptr)
    must("MPI", away_->enter_again());
}

bool look_memory(const void *given) noexcept {
  return current_swapping()->is_swappable(given, 1);
}

bool look_derived(MPI_Datatype given) noexcept {
  if (given == MPI_DATATYPE_NULL)
    return false;
  int ints = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  return PMPI_Type_get_envelope(given, &ints, &addresses, &types, &combiner) == MPI_SUCCESS &&
         combiner != MPI_COMBINER_NAMED;
}

bool look_user_op(MPI_Op given) noexcept {
  MPI_Op const known[] = {MPI_OP_NULL, MPI_MAX,    MPI_MIN,    MPI_SUM,     MPI_PROD,
                          MPI_LAND,    MPI_BAND,   MPI_LOR,    MPI_BOR,     MPI_LXOR,
                          MPI_BXOR,    MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE, MPI_NO_OP};
  return std::find(std::begin(known), std::end(known), given) == std::end(known);
}

namespace {

std::atomic<bool> has_functions{false};

}  // namespace

bool has_attribute_functions() noexcept {
  return has_functions.load(std::memory_order_relaxed);
}

void attribute_functions_made(const void *copy, const void *release) noexcept {
  auto const is_null = [](const void *function, auto... known) {
    return function == nullptr || ((function == reinterpret_cast<const void *>(known)) || ...);
  };
  if (is_null(copy, MPI_COMM_NULL_COPY_FN, MPI_COMM_DUP_FN) &&
      is_null(release, MPI_COMM_NULL_DELETE_FN))
    return;
  has_functions.store(true, std::memory_order_relaxed);
}

bool is_root(int root, MPI_Comm comm) noexcept {
  int is_inter = 0, rank = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS ||
      PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
    return false;
  return is_inter != 0 ? root == MPI_ROOT : root == rank;
}

bool is_paced() noexcept {
  swapping *const away = current_swapping();
  return away != nullptr && away->is_own_thread();
}

bool is_among_us(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL)
    return false;  // the call itself says so
  static char yes, no;
  MPI_Comm const ours = process_of_swapping().communicator;
  int const key = key_of(ours);
  void *known = nullptr;
  int has = 0;
  if (PMPI_Comm_get_attr(comm, key, &known, &has) == MPI_SUCCESS && has != 0)
    return known == &yes;
  bool const is = has_all(ours, comm);
  PMPI_Comm_set_attr(comm, key, is ? &yes : &no);
  return is;
}

void look_until(const std::function<bool()> &is_over, bool stays) noexcept {
  holding const held{stays};
  must("MPI", wait_away(is_over, *process_of_swapping().engine, *current_swapping()));
  look_after_freed();
}

int start_and_wait(const std::function<int(MPI_Request *)> &start, MPI_Status *about,
                   bool stays) noexcept {
  holding const held{stays};
  MPI_Request request = MPI_REQUEST_NULL;
  int code = start(&request), is_over = 0;
  if (code != MPI_SUCCESS)
    return code;
  if (!is_paced())
    return PMPI_Wait(&request, about);
  auto const look = [&] {
    code = PMPI_Test(&request, &is_over, about);
    return code != MPI_SUCCESS || is_over != 0;
  };
  look_until(std::ref(look), false);
  return code;
}

void assemble(MPI_Comm comm) {
  if (!is_among_us(comm))
    return;
  (void)start_and_wait([comm](MPI_Request *request) { return PMPI_Ibarrier(comm, request); },
                       MPI_STATUS_IGNORE, false);
}

bool sees_calls() noexcept {
  bool const has_fortran = dlsym(RTLD_DEFAULT, "pmpi_barrier_") != nullptr;
  if (dlsym(RTLD_DEFAULT, "MPI_Barrier") == reinterpret_cast<void *>(&MPI_Barrier) &&
      (!has_fortran ||
       dlsym(RTLD_DEFAULT, "mpi_barrier_") == reinterpret_cast<void *>(&mpi_barrier_))) {
    return true;
  }
  (void)fail(status::not_supported,
             "with TND_COMEX_MEMORY libcomex has to see the program's calls of MPI: link -lcomex "
             "before MPI's libraries, or start it with "
             "LD_PRELOAD=libcomex.so");
  return false;
}

void make_way_for(swapping &away) noexcept {
  look_after_freed();
  if (away.is_own_thread() && away.is_in())
    must("MPI", away.offer());
}

}  // namespace tanada::comex
