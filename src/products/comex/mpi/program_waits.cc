// products/comex/mpi/program_waits.cc: intercepts MPI calls of the program that complete requests
// and release their memory; see program_calls.cc.
#include "products/comex/mpi/mpi_buffer_loans.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] int

namespace {

MPI_Request same(MPI_Request request) noexcept {
  return request;
}
using watched = watched_requests<MPI_Request, MPI_Request (*)(MPI_Request) noexcept>;

// MPI_Testsome; sets `is_done` where the wait is over.
int test_some(int count,
              MPI_Request requests[],
              int *done,
              int indices[],
              MPI_Status abouts[],
              int *is_done) noexcept {
  int const code = PMPI_Testsome(count, requests, done, indices, abouts);
  *is_done = *done;
  return code;
}

bool any_memory(std::initializer_list<const void *> addresses) noexcept {
  for (auto const address : addresses) {
    if (look_memory(address))
      return true;
  }
  return false;
}

}  // namespace

// Programs repeat these calls until others have done something, and those may need this process's
// slot or memory.
#define LOOKS(NAME, PARAMETERS, ARGUMENTS)  \
  EXPORTED MPI_##NAME PARAMETERS {          \
    int const code = PMPI_##NAME ARGUMENTS; \
    yield_if_requested();                   \
    return code;                            \
  }
#define ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS) \
  EXPORTED MPI_##NAME PARAMETERS {                         \
    if (current_swapper() == nullptr) [[likely]]           \
      return PMPI_##NAME ARGUMENTS;                        \
    return guard_exceptions("MPI_" #NAME, [&] {            \
      int code = MPI_SUCCESS;                              \
      {                                                    \
        watched const before{COUNT, REQUESTS, same};       \
        code = PMPI_##NAME ARGUMENTS;                      \
      }                                                    \
      yield_if_requested();                                \
      return code;                                         \
    });                                                    \
  }
// Polls with LOOK, whose result is `code` and which sets `is_done`, until the wait is over. The
// other arguments are where MPI writes.
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS, LOOK, ...) \
  EXPORTED MPI_##NAME PARAMETERS {                                              \
    if (current_swapper() == nullptr) [[likely]]                                \
      return PMPI_##NAME ARGUMENTS;                                             \
    return guard_exceptions("MPI_" #NAME, [&] {                                 \
      watched const before{COUNT, REQUESTS, same};                              \
      if (!is_swapping_thread())                                                \
        return PMPI_##NAME ARGUMENTS;                                           \
      int code = MPI_SUCCESS, is_done = 0;                                      \
      auto const is_over = [&] {                                                \
        return (code = LOOK) != MPI_SUCCESS || is_done != 0;                    \
      };                                                                        \
      wait_until(std::ref(is_over), any_memory({REQUESTS, __VA_ARGS__}));       \
      return code;                                                              \
    });                                                                         \
  }

WAITS_AND_ENDS(Wait,
               1,
               request,
               (MPI_Request * request, MPI_Status *about),
               (request, about),
               PMPI_Test(request, &is_done, about),
               about)
WAITS_AND_ENDS(Waitall,
               count,
               requests,
               (int count, MPI_Request requests[], MPI_Status abouts[]),
               (count, requests, abouts),
               PMPI_Testall(count, requests, &is_done, abouts),
               abouts)
WAITS_AND_ENDS(Waitany,
               count,
               requests,
               (int count, MPI_Request requests[], int *index, MPI_Status *about),
               (count, requests, index, about),
               PMPI_Testany(count, requests, index, &is_done, about),
               index,
               about)
WAITS_AND_ENDS(Waitsome,
               count,
               requests,
               (int count, MPI_Request requests[], int *done, int indices[], MPI_Status abouts[]),
               (count, requests, done, indices, abouts),
               test_some(count, requests, done, indices, abouts, &is_done),
               done,
               indices,
               abouts)

EXPORTED MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *about) {
  if (!is_swapping_thread())
    return PMPI_Probe(source, tag, comm, about);
  int code = MPI_SUCCESS, is_there = 0;
  auto const is_over = [&] {
    code = PMPI_Iprobe(source, tag, comm, &is_there, about);
    return code != MPI_SUCCESS || is_there != 0;
  };
  wait_until(std::ref(is_over), look_memory(about));
  return code;
}

EXPORTED MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *about) {
  if (!is_swapping_thread())
    return PMPI_Mprobe(source, tag, comm, message, about);
  int code = MPI_SUCCESS, is_there = 0;
  auto const is_over = [&] {
    code = PMPI_Improbe(source, tag, comm, &is_there, message, about);
    return code != MPI_SUCCESS || is_there != 0;
  };
  wait_until(std::ref(is_over), any_memory({message, about}));
  return code;
}

EXPORTED MPI_Sendrecv(const void *data,
                      int count,
                      MPI_Datatype type,
                      int destination,
                      int tag,
                      void *target_data,
                      int count_max,
                      MPI_Datatype receive_type,
                      int source,
                      int receive_tag,
                      MPI_Comm comm,
                      MPI_Status *about) {
  if (!is_swapping_thread())
    return PMPI_Sendrecv(data,
                         count,
                         type,
                         destination,
                         tag,
                         target_data,
                         count_max,
                         receive_type,
                         source,
                         receive_tag,
                         comm,
                         about);
  MPI_Request sent = MPI_REQUEST_NULL;
  int const code = MPI_Isend(data, count, type, destination, tag, comm, &sent);
  if (code != MPI_SUCCESS)
    return code;
  int const received_code =
                MPI_Recv(target_data, count_max, receive_type, source, receive_tag, comm, about),
            sent_code = MPI_Wait(&sent, MPI_STATUS_IGNORE);
  return received_code != MPI_SUCCESS ? received_code : sent_code;
}

// Copies the sent data, as MPI itself does.
EXPORTED MPI_Sendrecv_replace(void *data,
                              int count,
                              MPI_Datatype type,
                              int destination,
                              int tag,
                              int source,
                              int receive_tag,
                              MPI_Comm comm,
                              MPI_Status *about) {
  if (!is_swapping_thread())
    return PMPI_Sendrecv_replace(
        data, count, type, destination, tag, source, receive_tag, comm, about);
  return guard_exceptions("MPI_Sendrecv_replace", [&] {
    int size = 0, packed = 0;
    int code = PMPI_Pack_size(count, type, comm, &size);
    if (code != MPI_SUCCESS)
      return code;
    std::vector<char> copy(size_t(size) + 1);
    code = PMPI_Pack(data, count, type, copy.data(), size, &packed, comm);
    if (code != MPI_SUCCESS)
      return code;
    return MPI_Sendrecv(copy.data(),
                        packed,
                        MPI_PACKED,
                        destination,
                        tag,
                        data,
                        count,
                        type,
                        source,
                        receive_tag,
                        comm,
                        about);
  });
}

LOOKS(Iprobe,
      (int source, int tag, MPI_Comm comm, int *is_there, MPI_Status *about),
      (source, tag, comm, is_there, about))
LOOKS(Improbe,
      (int source, int tag, MPI_Comm comm, int *is_there, MPI_Message *message, MPI_Status *about),
      (source, tag, comm, is_there, message, about))
EXPORTED MPI_Request_get_status(MPI_Request request, int *is_done, MPI_Status *about) {
  int const code = PMPI_Request_get_status(request, is_done, about);
  if (code == MPI_SUCCESS && *is_done != 0)
    complete_staged(request);
  yield_if_requested();
  return code;
}
ENDS(Test,
     1,
     request,
     (MPI_Request * request, int *is_done, MPI_Status *about),
     (request, is_done, about))
ENDS(Testall,
     count,
     requests,
     (int count, MPI_Request requests[], int *is_done, MPI_Status abouts[]),
     (count, requests, is_done, abouts))
ENDS(Testany,
     count,
     requests,
     (int count, MPI_Request requests[], int *index, int *is_done, MPI_Status *about),
     (count, requests, index, is_done, about))
ENDS(Testsome,
     count,
     requests,
     (int count, MPI_Request requests[], int *done, int indices[], MPI_Status abouts[]),
     (count, requests, done, indices, abouts))

EXPORTED MPI_Request_free(MPI_Request *request) {
  if (request == nullptr || !defer_free(*request))
    return PMPI_Request_free(request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

EXPORTED MPI_Buffer_attach(void *data, int size) {
  return guard_exceptions("MPI_Buffer_attach", [&] {
    int const code = PMPI_Buffer_attach(data, size);
    if (code == MPI_SUCCESS)
      lend_memory({borrower::messages, 0}, data);
    return code;
  });
}

EXPORTED MPI_Buffer_detach(void *data, int *size) {
  return guard_exceptions("MPI_Buffer_detach", [&] {
    mpi_wait_scope const waiting{false};
    int const code = PMPI_Buffer_detach(data, size);
    if (code == MPI_SUCCESS)
      end_loan({borrower::messages, 0});
    return code;
  });
}

EXPORTED MPI_Win_create(
    void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window) {
  if (current_swapper() == nullptr) [[likely]]
    return PMPI_Win_create(base, size, unit, info, comm, window);
  return guard_exceptions("MPI_Win_create", [&] {
    wait_for_members(comm);
    mpi_wait_scope const waiting{true};
    int const code = PMPI_Win_create(base, size, unit, info, comm, window);
    if (code == MPI_SUCCESS)
      lend_memory({borrower::window, bits_of(*window), address_bits(base)}, base);
    return code;
  });
}

EXPORTED MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size) {
  return guard_exceptions("MPI_Win_attach", [&] {
    int const code = PMPI_Win_attach(win, base, size);
    if (code == MPI_SUCCESS)
      lend_memory({borrower::window, bits_of(win), address_bits(base)}, base);
    return code;
  });
}

EXPORTED MPI_Win_detach(MPI_Win win, const void *base) {
  int const code = PMPI_Win_detach(win, base);
  if (code == MPI_SUCCESS)
    end_loan({borrower::window, bits_of(win), address_bits(base)});
  return code;
}

EXPORTED MPI_Win_free(MPI_Win *win) {
  if (current_swapper() == nullptr || win == nullptr)
    return PMPI_Win_free(win);
  return guard_exceptions("MPI_Win_free", [&] {
    mpi_wait_scope const waiting{true};
    auto const before = bits_of(*win);
    int const code = PMPI_Win_free(win);
    if (code == MPI_SUCCESS)
      end_window_loans(before);
    return code;
  });
}
