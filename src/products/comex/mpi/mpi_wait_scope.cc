// products/comex/mpi/mpi_wait_scope.cc: waits inside MPI during which this process's memory may be
// swapped out.
#include "products/comex/mpi/mpi_wait_scope.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/base/log.hpp"
#include "products/comex/mpi/mpi_buffer_loans.hpp"
#include "products/comex/mpi/swappable_wait.hpp"

extern "C" [[gnu::visibility("default")]] void mpi_barrier_(MPI_Fint *, MPI_Fint *);

namespace tanada::comex {
namespace {

// The attribute key with which is_comex_communicator() caches its result on communicators.
struct known_communicators {
  mutex lookup_mutex;
  // The job's communicator that the key belongs to.
  MPI_Comm job_communicator TND_GUARDED_BY(lookup_mutex) = MPI_COMM_NULL;
  int key TND_GUARDED_BY(lookup_mutex) = MPI_KEYVAL_INVALID;
};

int key_of(MPI_Comm communicator) {
  static auto &known = *new known_communicators;  // programs may call MPI during exit
  lock_guard const lock{known.lookup_mutex};
  if (known.job_communicator != communicator &&
      PMPI_Comm_create_keyval(
          MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &known.key, nullptr) == MPI_SUCCESS) {
    known.job_communicator = communicator;
  }
  return known.key;
}

bool contains_all(MPI_Comm job_communicator, MPI_Comm comm) {
  int is_inter = 0, count = 0;
  if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0)
    return false;
  MPI_Group job_group = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  PMPI_Comm_group(job_communicator, &job_group);
  PMPI_Comm_group(comm, &members);
  PMPI_Group_size(members, &count);
  std::vector<int> ranks, translated(size_t(count), MPI_UNDEFINED);
  for (int i = 0; i < count; i++)
    ranks.push_back(i);
  PMPI_Group_translate_ranks(members, count, ranks.data(), job_group, translated.data());
  PMPI_Group_free(&job_group);
  PMPI_Group_free(&members);
  return std::find(translated.begin(), translated.end(), MPI_UNDEFINED) == translated.end();
}

}  // namespace

mpi_wait_scope::mpi_wait_scope(bool stays) : held_{stays} {
  process_swapper *const swapper = current_swapper();
  if (swapper == nullptr || !swapper->is_own_thread())
    return;
  swapper->begin_unattended_wait();
  swapper_ = swapper;
}

mpi_wait_scope::~mpi_wait_scope() {
  if (swapper_ != nullptr)
    require_ok("MPI", swapper_->end_unattended_wait());
}

bool look_memory(const void *argument) noexcept {
  TND_ASSERT(current_swapper() != nullptr);
  return current_swapper()->is_swappable(argument, 1);
}

bool look_derived(MPI_Datatype argument) noexcept {
  if (argument == MPI_DATATYPE_NULL)
    return false;
  int ints = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  return PMPI_Type_get_envelope(argument, &ints, &addresses, &types, &combiner) == MPI_SUCCESS &&
         combiner != MPI_COMBINER_NAMED;
}

bool look_user_op(MPI_Op argument) noexcept {
  MPI_Op const known[] = {MPI_OP_NULL,
                          MPI_MAX,
                          MPI_MIN,
                          MPI_SUM,
                          MPI_PROD,
                          MPI_LAND,
                          MPI_BAND,
                          MPI_LOR,
                          MPI_BOR,
                          MPI_LXOR,
                          MPI_BXOR,
                          MPI_MAXLOC,
                          MPI_MINLOC,
                          MPI_REPLACE,
                          MPI_NO_OP};
  return std::find(std::begin(known), std::end(known), argument) == std::end(known);
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

bool is_swapping_thread() noexcept {
  process_swapper *const swapper = current_swapper();
  return swapper != nullptr && swapper->is_own_thread();
}

bool is_comex_communicator(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL)
    return false;  // the MPI call itself reports it
  static char yes, no;
  MPI_Comm const job_communicator = process_of_swapper().communicator;
  int const key = key_of(job_communicator);
  void *known = nullptr;
  int has = 0;
  if (PMPI_Comm_get_attr(comm, key, &known, &has) == MPI_SUCCESS && has != 0)
    return known == &yes;
  bool const is_member = contains_all(job_communicator, comm);
  PMPI_Comm_set_attr(comm, key, is_member ? &yes : &no);
  return is_member;
}

void wait_until(const std::function<bool()> &is_over, bool stays) noexcept {
  TND_ASSERT(is_swapping_thread());
  pin_scope const pin{stays};
  require_ok("MPI", wait_swappable(is_over, *process_of_swapper().engine, *current_swapper()));
  reap_freed_requests();
}

int start_and_wait(const std::function<int(MPI_Request *)> &start,
                   MPI_Status *about,
                   bool stays) noexcept {
  pin_scope const pin{stays};
  MPI_Request request = MPI_REQUEST_NULL;
  int code = start(&request), is_over = 0;
  if (code != MPI_SUCCESS)
    return code;
  if (!is_swapping_thread())
    return PMPI_Wait(&request, about);
  auto const look = [&] {
    code = PMPI_Test(&request, &is_over, about);
    return code != MPI_SUCCESS || is_over != 0;
  };
  wait_until(std::ref(look), false);
  return code;
}

void wait_for_members(MPI_Comm comm) {
  if (!is_comex_communicator(comm))
    return;
  (void)start_and_wait([comm](MPI_Request *request) { return PMPI_Ibarrier(comm, request); },
                       MPI_STATUS_IGNORE,
                       false);
}

bool intercepts_calls() noexcept {
  bool const has_fortran = dlsym(RTLD_DEFAULT, "pmpi_barrier_") != nullptr;
  if (dlsym(RTLD_DEFAULT, "MPI_Barrier") == reinterpret_cast<void *>(&MPI_Barrier) &&
      (!has_fortran ||
       dlsym(RTLD_DEFAULT, "mpi_barrier_") == reinterpret_cast<void *>(&mpi_barrier_))) {
    return true;
  }
  (void)fail(status::not_supported,
             "with TND_COMEX_MEMORY libcomex must intercept the program's MPI calls: link -lcomex "
             "before MPI's libraries, or start the program with LD_PRELOAD=libcomex.so");
  return false;
}

void yield_swapper(process_swapper &swapper) noexcept {
  reap_freed_requests();
  if (swapper.is_own_thread() && swapper.is_running())
    require_ok("MPI", swapper.yield_if_requested());
}

}  // namespace tanada::comex
