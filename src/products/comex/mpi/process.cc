// products/comex/mpi/process.cc: errors that end the job, collectives over groups, and libarmci's
// interface.
#include "products/comex/mpi/process.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/bounded_text.hpp"
#include "core/base/log.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"
#include "products/comex/mpi/staged_message.hpp"
#include "products/comex/mpi/wait.hpp"
#include "products/comex/mpi/swappable_wait.hpp"
#include "seams/os/bulk_copy.hpp"

namespace tanada::comex {

// The line goes to stderr whatever TND_LOG is, because nothing else reports why the job ended.
void end_job(const char *call, const char *text, int code) noexcept {
  process *const self = current_process;
  std::fflush(stdout);
  if (self != nullptr && self->launcher) {
    std::fprintf(stderr, "%s: process %d: %s\n", call, int(self->launcher->rank()), text);
  } else {
    std::fprintf(stderr, "%s: %s\n", call, text);
  }
  std::fflush(stderr);
  int has_started = 0, has_ended = 0;
  MPI_Initialized(&has_started);
  MPI_Finalized(&has_ended);
  if (has_started != 0 && has_ended == 0)
    MPI_Abort(self != nullptr ? self->communicator : MPI_COMM_WORLD, exit_code_of(code));
  std::_Exit(exit_code_of(code));
}

constinit process *current_process = nullptr;
constinit process *retired_process = nullptr;

process::~process() {
  engine.reset();
  int has_ended = 0;
  MPI_Finalized(&has_ended);
  if (has_ended != 0)
    return;
  for (auto &entry : groups) {
    if (entry && entry->communicator != MPI_COMM_NULL)
      MPI_Comm_free(&entry->communicator);
  }
  launcher.reset();
  if (communicator != MPI_COMM_NULL)
    MPI_Comm_free(&communicator);
}

void fatal_text(const char *call, fmt::string_view format, fmt::format_args arguments) noexcept {
  end_job(call, bounded_text{format, arguments}.c_str(), 1);
}

int report_failure_text(const char *call,
                        fmt::string_view format,
                        fmt::format_args arguments) noexcept {
  std::fprintf(stderr,
               "%s: process %d: %s\n",
               call,
               int(current_process->launcher->rank()),
               bounded_text{format, arguments}.c_str());
  return COMEX_FAILURE;
}

void yield_in_call(process &self, const char *call) noexcept {
  TND_ASSERT(self.engine->swapper() != nullptr);
  process_swapper &swapper = *self.engine->swapper();
  if (swapper.is_own_thread() && swapper.is_running())
    require_ok(call, swapper.yield_if_requested());
}

process &require_running(const char *call) {
  if (current_process == nullptr)
    fatal(call, "called before comex_init, or after comex_finalize");
  return *current_process;
}

group &group_of(process &self, const char *call, comex_group_t handle) {
  if (handle < 0 || size_t(handle) >= self.groups.size() || !self.groups[size_t(handle)]) {
    fatal(call, "there is no group {}", handle);
  }
  return *self.groups[size_t(handle)];
}

pe_index world_rank(process &self, const char *call, comex_group_t handle, int rank) {
  auto const &world = group_of(self, call, handle).world;
  if (rank < 0 || size_t(rank) >= world.size())
    fatal(call, "group {} has no rank {}: valid are 0 to {}", handle, rank, world.size() - 1);
  return world[size_t(rank)];
}

void complete(process &self, const char *call, int started, MPI_Request &request) {
  int code = started;
  if (code == MPI_SUCCESS)
    require_ok(call, wait_for_request(request, MPI_STATUS_IGNORE, code, self.engine.get()));
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  fatal(call, "MPI: {}", text);
}

void gather(process &self,
            const char *call,
            const group &members,
            const void *contribution,
            void *gathered,
            size_t size) {
  TND_ASSERT(members.communicator != MPI_COMM_NULL || members.rank == MPI_UNDEFINED);
  MPI_Request request = MPI_REQUEST_NULL;
  int const started = MPI_Iallgather(contribution,
                                     int(size),
                                     MPI_BYTE,
                                     gathered,
                                     int(size),
                                     MPI_BYTE,
                                     members.communicator,
                                     &request);
  complete(self, call, started, request);
}

void barrier(process &self, const char *call, comex_group_t handle) {
  if (self.is_world(handle) && self.engine->is_one_node())
    return require_ok(call, self.engine->node_barrier());
  require_ok(call, self.engine->finish());
  MPI_Request request = MPI_REQUEST_NULL;
  int const started = MPI_Ibarrier(group_of(self, call, handle).communicator, &request);
  complete(self, call, started, request);
}

}  // namespace tanada::comex

int tnd_comex_wait(MPI_Request *request, MPI_Status *status) {
  auto const *const self = tanada::comex::current_process;
  int code = MPI_SUCCESS;
  tanada::comex::require_ok(
      "MPI_Wait",
      tanada::comex::wait_for_request(
          *request, status, code, self != nullptr ? self->engine.get() : nullptr));
  return code;
}

void tnd_comex_leave(void) {
  if (auto *const swapper = tanada::comex::current_swapper(); swapper != nullptr)
    swapper->begin_unattended_wait();
}

void tnd_comex_enter(void) {
  if (auto *const swapper = tanada::comex::current_swapper(); swapper != nullptr)
    tanada::comex::require_ok("MPI", swapper->end_unattended_wait());
}

// Small buffers are copied to memory that stays resident.
void *tnd_comex_buffer_begin(void *buffer, size_t size, int is_read) {
  constexpr size_t copied_max = size_t{8} << 20;  // bytes
  auto *const swapper = tanada::comex::current_swapper();
  if (swapper == nullptr || !swapper->is_swappable(buffer, size))
    return buffer;
  if (size > copied_max) {
    if (void *const staged = tanada::comex::stage_buffer(buffer, size))
      return staged;
  }
  void *const copy = size <= copied_max ? ::operator new(size, std::nothrow) : nullptr;
  if (copy == nullptr) {
    swapper->pin();
    return buffer;
  }
  if (is_read != 0)
    std::memcpy(copy, buffer, size);
  return copy;
}

void tnd_comex_buffer_end(void *buffer, void *used, size_t size, int is_written) {
  auto *const swapper = tanada::comex::current_swapper();
  if (swapper == nullptr || !swapper->is_swappable(buffer, size))
    return;
  if (used == buffer)
    return swapper->unpin();
  if (tanada::comex::end_staged_buffer(used, is_written != 0))
    return;
  if (is_written != 0)
    std::memcpy(buffer, used, size);
  ::operator delete(used);
}

void *tnd_comex_collective_memory(int process, size_t *size) {
  auto const memory = tanada::comex::require_running("tnd_comex_collective_memory")
                          .engine->collective_memory(process);
  *size = memory.size();
  return memory.empty() ? nullptr : memory.data();
}

void tnd_comex_collective_copy(void *target, const void *source, size_t size) {
  tanada::seams::copy_to_other_processor(target, source, size);
}

const char *tnd_comex_broadcast(void *bytes, size_t size, int root) {
  auto const code = tanada::comex::require_running("tnd_comex_broadcast")
                        .engine->broadcast({static_cast<std::byte *>(bytes), size}, root);
  return code == tanada::status::ok ? nullptr : tanada::last_message().c_str();
}

// With swapping, memory of local processes may be swapped out, so each process counts as a node of
// its own.
int tnd_comex_node_master(void) {
  auto const &self = tanada::comex::require_running("tnd_comex_node_master");
  if (self.engine->swapper() != nullptr)
    return int(self.engine->me());
  auto const &node_pes = self.engine->job().node_pes();
  return int(*std::min_element(node_pes.begin(), node_pes.end()));
}
