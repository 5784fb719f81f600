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
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, ABOUT, PARAMETERS, ARGUMENTS) \
  EXPORTED MPI_##NAME PARAMETERS {                                          \
    watched_requests const watched{COUNT, REQUESTS};                        \
    outside_wait const waiting{{REQUESTS, ABOUT}};                          \
    return PMPI_##NAME ARGUMENTS;                                           \
  }

WAITS_AND_ENDS(Wait, 1, request, about, (MPI_Request *request, MPI_Status *about), (request, about))
WAITS_AND_ENDS(Waitall, count, all, abouts, (int count, MPI_Request all[], MPI_Status abouts[]), (count, all, abouts))
WAITS_AND_ENDS(Waitany, count, all, about, (int count, MPI_Request all[], int *index, MPI_Status *about), (count, all, index, about))
WAITS_AND_ENDS(Waitsome, count, all, abouts, (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]),
               (count, all, done, indices, abouts))
LOOKS(Iprobe, (int from, int tag, MPI_Comm comm, int *is_there, MPI_Status *about), (from, tag, comm, is_there, about))
LOOKS(Improbe, (int from, int tag, MPI_Comm comm, int *is_there, MPI_Message *message, MPI_Status *about),
      (from, tag, comm, is_there, message, about))
LOOKS(Request_get_status, (MPI_Request request, int *is_done, MPI_Status *about), (request, is_done, about))
ENDS(Test, 1, request, (MPI_Request *request, int *is_done, MPI_Status *about), (request, is_done, about))
ENDS(Testall, count, all, (int count, MPI_Request all[], int *is_done, MPI_Status abouts[]), (count, all, is_done, abouts))
ENDS(Testany, count, all, (int count, MPI_Request all[], int *index, int *is_done, MPI_Status *about), (count, all, index, is_done, about))
ENDS(Testsome, count, all, (int count, MPI_Request all[], int *done, int indices[], MPI_Status abouts[]), (count, all, done, indices, abouts))
