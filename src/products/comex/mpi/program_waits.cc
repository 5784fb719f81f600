// MPI's calls that end requests and what they have of memory, as programs call them; see
// program_calls.cc.
#include "products/comex/mpi/lent.hpp"
#include "products/comex/mpi/outside.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] int

namespace {

MPI_Request same(MPI_Request request) noexcept {
  return request;
}
using watched = watched_requests<MPI_Request, MPI_Request (*)(MPI_Request) noexcept>;

bool any_memory(std::initializer_list<const void *> given) noexcept {
  for (auto const each : given) {
    if (look_memory(each))
      return true;
  }
  return false;
}

}  // namespace

// Programs look again and again for what others do, who may need what this process has.
#define LOOKS(NAME, PARAMETERS, ARGUMENTS)  \
  EXPORTED MPI_##NAME PARAMETERS {          \
    int const code = PMPI_##NAME ARGUMENTS; \
    make_way();                             \
    return code;                            \
  }
#define ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS) \
  EXPORTED MPI_##NAME PARAMETERS {                         \
    if (current_swapping() == nullptr) [[likely]]          \
      return PMPI_##NAME ARGUMENTS;                        \
    return fenced("MPI_" #NAME, [&] {                      \
      int code = MPI_SUCCESS;                              \
      {                                                    \
        watched const before{COUNT, REQUESTS, same};       \
        code = PMPI_##NAME ARGUMENTS;                      \
      }                                                    \
      make_way();                                          \
      return code;                                         \
    });                                                    \
  }
// Looks by LOOK, whose result is `code` and which sets `is_done`, until that is so; the rest is
// where MPI writes.
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS, LOOK, ...) \
  EXPORTED MPI_##NAME PARAMETERS {                                              \
    if (current_swapping() == nullptr) [[likely]]                               \
      return PMPI_##NAME ARGUMENTS;                                             \
    return fenced("MPI_" #NAME, [&] {                                           \
      watched const before{COUNT, REQUESTS, same};                              \
      if (!is_paced())                                                          \
        return PMPI_##NAME ARGUMENTS;                                           \
      int code = MPI_SUCCESS, is_done = 0;                                      \
      auto const is_over = [&] {                                                \
        return (code = LOOK) != MPI_SUCCESS || is_done != 0;                    \
      };                                                                        \
      look_until(std::ref(is_over), any_memory({REQUESTS, __VA_ARGS__}));       \
      return code;                                                              \
    });                                                                         \
  }

WAITS_AND_ENDS(Wait, 1, request, (MPI_Request * request, MPI_Status *about), (request, about),
               PMPI_Test(request, &is_done, about), about)
WAITS_AND_ENDS(Waitall, count, all, (int count, MPI_Request all[], MPI_Status abouts[]),
               (count, all, abouts), PMPI_Testall(count, all, &is_done, abouts), abouts)
WAITS_AND_ENDS(Waitany, count, all, (int count, MPI_Request all[], int *index, MPI_Status *about),
               (count, all, index, about), PMPI_Testany(count, all, index, &is_done, about), index,
               about)
WAITS_AND_ENDS(Waitsome, count, all,
               (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]),
               (count, all, done, indices, abouts),
               (code = PMPI_Testsome(count, all, done, indices, abouts), is_done = *done, code),
               done, indices, abouts)

EXPORTED MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *about) {
  if (!is_paced())
    return PMPI_Probe(from, tag, comm, about);
  int code = MPI_SUCCESS, is_there = 0;
  auto const is_over = [&] {
    code = PMPI_Iprobe(from, tag, comm, &is_there, about);
    return code != MPI_SUCCESS || is_there != 0;
  };
  look_until(std::ref(is_over), look_memory(about));
  return code;
}

EXPORTED MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *about) {
  if (!is_paced())
    return PMPI_Mprobe(from, tag, comm, message, about);
  int code = MPI_SUCCESS, is_there = 0;
  auto const is_over = [&] {
    code = PMPI_Improbe(from, tag, comm, &is_there, message, about);
    return code != MPI_SUCCESS || is_there != 0;
  };
  look_until(std::ref(is_over), any_memory({message, about}));
  return code;
}

EXPORTED MPI_Sendrecv(const void *data, int count, MPI_Datatype type, int to, int tag, void *into,
                      int most, MPI_Datatype kind, int from, int mark, MPI_Comm comm,
                      MPI_Status *about) {
  if (!is_paced())
    return PMPI_Sendrecv(data, count, type, to, tag, into, most, kind, from, mark, comm, about);
  MPI_Request sent = MPI_REQUEST_NULL;
  int const code = MPI_Isend(data, count, type, to, tag, comm, &sent);
  if (code != MPI_SUCCESS)
    return code;
  int const received_code = MPI_Recv(into, most, kind, from, mark, comm, about),
            sent_code = MPI_Wait(&sent, MPI_STATUS_IGNORE);
  return received_code != MPI_SUCCESS ? received_code : sent_code;
}

// By a copy of what is sent, as MPI itself does it.
EXPORTED MPI_Sendrecv_replace(void *data, int count, MPI_Datatype type, int to, int tag, int from,
                              int mark, MPI_Comm comm, MPI_Status *about) {
  if (!is_paced())
    return PMPI_Sendrecv_replace(data, count, type, to, tag, from, mark, comm, about);
  return fenced("MPI_Sendrecv_replace", [&] {
    int size = 0, packed = 0;
    int code = PMPI_Pack_size(count, type, comm, &size);
    if (code != MPI_SUCCESS)
      return code;
    std::vector<char> copy(size_t(size) + 1);
    code = PMPI_Pack(data, count, type, copy.data(), size, &packed, comm);
    if (code != MPI_SUCCESS)
      return code;
    return MPI_Sendrecv(copy.data(), packed, MPI_PACKED, to, tag, data, count, type, from, mark,
                        comm, about);
  });
}

LOOKS(Iprobe, (int from, int tag, MPI_Comm comm, int *is_there, MPI_Status *about),
      (from, tag, comm, is_there, about))
LOOKS(Improbe,
      (int from, int tag, MPI_Comm comm, int *is_there, MPI_Message *message, MPI_Status *about),
      (from, tag, comm, is_there, message, about))
EXPORTED MPI_Request_get_status(MPI_Request request, int *is_done, MPI_Status *about) {
  int const code = PMPI_Request_get_status(request, is_done, about);
  if (code == MPI_SUCCESS && *is_done != 0)
    request_over(request);
  make_way();
  return code;
}
ENDS(Test, 1, request, (MPI_Request * request, int *is_done, MPI_Status *about),
     (request, is_done, about))
ENDS(Testall, count, all, (int count, MPI_Request all[], int *is_done, MPI_Status abouts[]),
     (count, all, is_done, abouts))
ENDS(Testany, count, all,
     (int count, MPI_Request all[], int *index, int *is_done, MPI_Status *about),
     (count, all, index, is_done, about))
ENDS(Testsome, count, all,
     (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]),
     (count, all, done, indices, abouts))

EXPORTED MPI_Request_free(MPI_Request *request) {
  if (request == nullptr || !request_freed(*request))
    return PMPI_Request_free(request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

EXPORTED MPI_Buffer_attach(void *data, int size) {
  return fenced("MPI_Buffer_attach", [&] {
    int const code = PMPI_Buffer_attach(data, size);
    if (code == MPI_SUCCESS)
      memory_lent({borrower::messages, 0}, data);
    return code;
  });
}

EXPORTED MPI_Buffer_detach(void *data, int *size) {
  return fenced("MPI_Buffer_detach", [&] {
    outside_wait const waiting{false};
    int const code = PMPI_Buffer_detach(data, size);
    if (code == MPI_SUCCESS)
      give_back({borrower::messages, 0});
    return code;
  });
}

EXPORTED MPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                        MPI_Win *made) {
  if (current_swapping() == nullptr) [[likely]]
    return PMPI_Win_create(base, size, unit, info, comm, made);
  return fenced("MPI_Win_create", [&] {
    assemble(comm);
    outside_wait const waiting{true};
    int const code = PMPI_Win_create(base, size, unit, info, comm, made);
    if (code == MPI_SUCCESS)
      memory_lent({borrower::window, bits_of(*made), place_of(base)}, base);
    return code;
  });
}

EXPORTED MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size) {
  return fenced("MPI_Win_attach", [&] {
    int const code = PMPI_Win_attach(win, base, size);
    if (code == MPI_SUCCESS)
      memory_lent({borrower::window, bits_of(win), place_of(base)}, base);
    return code;
  });
}

EXPORTED MPI_Win_detach(MPI_Win win, const void *base) {
  int const code = PMPI_Win_detach(win, base);
  if (code == MPI_SUCCESS)
    give_back({borrower::window, bits_of(win), place_of(base)});
  return code;
}

EXPORTED MPI_Win_free(MPI_Win *win) {
  if (current_swapping() == nullptr || win == nullptr)
    return PMPI_Win_free(win);
  return fenced("MPI_Win_free", [&] {
    outside_wait const waiting{true};
    auto const before = bits_of(*win);
    int const code = PMPI_Win_free(win);
    if (code == MPI_SUCCESS)
      window_gone(before);
    return code;
  });
}
