// MPI's calls that end requests, as programs call them; see program_calls.cc.
#include <vector>

#include "comex/mpi/outside.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] int

namespace {

// Requests as they are before a call: those that are null afterwards are over.
class watched_requests {
 public:
  watched_requests(int count, MPI_Request *requests) : now_{requests} {
    if (has_requests() && count > 0) before_.assign(requests, requests + count);
  }
  ~watched_requests() {
    for (size_t i = 0; i < before_.size(); i++) {
      if (now_[i] == MPI_REQUEST_NULL) request_ended(before_[i]);
    }
  }
  watched_requests(const watched_requests &) = delete;
  watched_requests &operator=(const watched_requests &) = delete;

 private:
  const MPI_Request *now_;
  std::vector<MPI_Request> before_;
};

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
    int code = MPI_SUCCESS;                                \
    {                                                      \
      watched_requests const watched{COUNT, REQUESTS};     \
      code = PMPI_##NAME ARGUMENTS;                        \
    }                                                      \
    make_way();                                            \
    return code;                                           \
  }
// Looks by LOOK, whose result is `code` and which sets `is_done`, until that is so.
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, ABOUT, PARAMETERS, ARGUMENTS, LOOK, ...) \
  EXPORTED MPI_##NAME PARAMETERS {                                                   \
    watched_requests const watched{COUNT, REQUESTS};                                 \
    if (!is_paced()) return PMPI_##NAME ARGUMENTS;                                   \
    int code = MPI_SUCCESS, is_done = 0;                                             \
    look_until([&] {                                                                 \
      code = PMPI_##LOOK;                                                            \
      return is_done != 0 || code != MPI_SUCCESS;                                    \
    }, {REQUESTS, ABOUT});                                                           \
    __VA_ARGS__;                                                                     \
    return code;                                                                     \
  }

WAITS_AND_ENDS(Wait, 1, request, about, (MPI_Request *request, MPI_Status *about), (request, about), Test(request, &is_done, about))
WAITS_AND_ENDS(Waitall, count, all, abouts, (int count, MPI_Request all[], MPI_Status abouts[]), (count, all, abouts),
               Testall(count, all, &is_done, abouts))
WAITS_AND_ENDS(Waitany, count, all, about, (int count, MPI_Request all[], int *index, MPI_Status *about), (count, all, index, about),
               Testany(count, all, index, &is_done, about))
WAITS_AND_ENDS(Waitsome, count, all, abouts, (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]),
               (count, all, done, indices, abouts), Testsome(count, all, &is_done, indices, abouts), *done = is_done)

EXPORTED MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *about) {
  if (!is_paced()) return PMPI_Probe(from, tag, comm, about);
  int code = MPI_SUCCESS, is_there = 0;
  look_until([&] { return (code = PMPI_Iprobe(from, tag, comm, &is_there, about)) != MPI_SUCCESS || is_there != 0; }, {about});
  return code;
}

EXPORTED MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *about) {
  if (!is_paced()) return PMPI_Mprobe(from, tag, comm, message, about);
  int code = MPI_SUCCESS, is_there = 0;
  look_until([&] { return (code = PMPI_Improbe(from, tag, comm, &is_there, message, about)) != MPI_SUCCESS || is_there != 0; }, {about});
  return code;
}

EXPORTED MPI_Sendrecv(const void *data, int count, MPI_Datatype type, int to, int tag, void *into, int most, MPI_Datatype kind, int from,
                      int mark, MPI_Comm comm, MPI_Status *about) {
  if (!is_paced()) return PMPI_Sendrecv(data, count, type, to, tag, into, most, kind, from, mark, comm, about);
  MPI_Request sent = MPI_REQUEST_NULL;
  int code = PMPI_Isend(data, count, type, to, tag, comm, &sent);
  if (code != MPI_SUCCESS) return code;
  request_started(sent, {data});
  code = start_and_wait([&](MPI_Request *request) { return PMPI_Irecv(into, most, kind, from, mark, comm, request); }, about, {into, about});
  int const sent_code = MPI_Wait(&sent, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS ? code : sent_code;
}

// By a copy of what is sent, as MPI itself does it.
EXPORTED MPI_Sendrecv_replace(void *data, int count, MPI_Datatype type, int to, int tag, int from, int mark, MPI_Comm comm, MPI_Status *about) {
  if (!is_paced()) return PMPI_Sendrecv_replace(data, count, type, to, tag, from, mark, comm, about);
  int size = 0, packed = 0;
  int code = PMPI_Pack_size(count, type, comm, &size);
  if (code != MPI_SUCCESS) return code;
  std::vector<char> copy(size_t(size) + 1);
  code = PMPI_Pack(data, count, type, copy.data(), size, &packed, comm);
  if (code != MPI_SUCCESS) return code;
  return MPI_Sendrecv(copy.data(), packed, MPI_PACKED, to, tag, data, count, type, from, mark, comm, about);
}

LOOKS(Iprobe, (int from, int tag, MPI_Comm comm, int *is_there, MPI_Status *about), (from, tag, comm, is_there, about))
LOOKS(Improbe, (int from, int tag, MPI_Comm comm, int *is_there, MPI_Message *message, MPI_Status *about),
      (from, tag, comm, is_there, message, about))
LOOKS(Request_get_status, (MPI_Request request, int *is_done, MPI_Status *about), (request, is_done, about))
ENDS(Test, 1, request, (MPI_Request *request, int *is_done, MPI_Status *about), (request, is_done, about))
ENDS(Testall, count, all, (int count, MPI_Request all[], int *is_done, MPI_Status abouts[]), (count, all, is_done, abouts))
ENDS(Testany, count, all, (int count, MPI_Request all[], int *index, int *is_done, MPI_Status *about), (count, all, index, is_done, about))
ENDS(Testsome, count, all, (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]), (count, all, done, indices, abouts))
