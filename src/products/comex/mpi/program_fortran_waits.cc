// products/comex/mpi/program_fortran_waits.cc: intercepts Fortran's MPI calls that complete
// requests and release their memory, as program_waits.cc does in C.
#include "products/comex/mpi/program_fortran.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] void

namespace {

MPI_Request request_of(MPI_Fint word) noexcept {
  return MPI_Request_f2c(word);
}
using watched = watched_requests<MPI_Fint, MPI_Request (*)(MPI_Fint) noexcept>;

bool any_memory(std::initializer_list<word> addresses) noexcept {
  for (auto const address : addresses) {
    if (look_memory(address))
      return true;
  }
  return false;
}

}  // namespace

void tanada::comex::wait_for_request(word request, word about, word code) {
  MPI_Fint is_done = 0;
  auto const is_over = [&] {
    pmpi_test_(request, &is_done, about, code);
    return is_done != 0 || *code != MPI_SUCCESS;
  };
  wait_until(std::ref(is_over), false);
}

#define BEHIND(NAME, PARAMETERS) extern "C" [[gnu::weak]] void pmpi_##NAME##_ PARAMETERS;
#define LOOKS(NAME, PARAMETERS, ARGUMENTS) \
  BEHIND(NAME, PARAMETERS)                 \
  EXPORTED mpi_##NAME##_ PARAMETERS {      \
    pmpi_##NAME##_ ARGUMENTS;              \
    yield_if_requested();                  \
  }
#define ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS) \
  BEHIND(NAME, PARAMETERS)                                 \
  EXPORTED mpi_##NAME##_ PARAMETERS {                      \
    if (current_swapper() == nullptr) [[likely]]           \
      return pmpi_##NAME##_ ARGUMENTS;                     \
    guard_exceptions("mpi_" #NAME, [&] {                   \
      {                                                    \
        watched const before{COUNT, REQUESTS, request_of}; \
        pmpi_##NAME##_ ARGUMENTS;                          \
      }                                                    \
      yield_if_requested();                                \
    });                                                    \
  }
// Polls with LOOK, which sets `is_done` and `code`, until the wait is over.
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS, LOOK)    \
  BEHIND(NAME, PARAMETERS)                                                    \
  EXPORTED mpi_##NAME##_ PARAMETERS {                                         \
    if (current_swapper() == nullptr) [[likely]]                              \
      return pmpi_##NAME##_ ARGUMENTS;                                        \
    guard_exceptions("mpi_" #NAME, [&] {                                      \
      watched const before{COUNT, REQUESTS, request_of};                      \
      if (!is_swapping_thread())                                              \
        return pmpi_##NAME##_ ARGUMENTS;                                      \
      MPI_Fint is_done = 0;                                                   \
      auto const is_over = [&] {                                              \
        LOOK;                                                                 \
        return is_done != 0 || *code != MPI_SUCCESS;                          \
      };                                                                      \
      wait_until(std::ref(is_over), any_memory ARGUMENTS_AS_LIST_ ARGUMENTS); \
    });                                                                       \
  }
#define ARGUMENTS_AS_LIST_(...) ({__VA_ARGS__})

BEHIND(testall, (word, word, word, word, word))
BEHIND(testany, (word, word, word, word, word, word))
BEHIND(testsome, (word, word, word, word, word, word))
BEHIND(iprobe, (word, word, word, word, word, word))
BEHIND(improbe, (word, word, word, word, word, word, word))

LOOKS(iprobe,
      (word source, word tag, word comm, word is_there, word about, word code),
      (source, tag, comm, is_there, about, code))
LOOKS(improbe,
      (word source, word tag, word comm, word is_there, word message, word about, word code),
      (source, tag, comm, is_there, message, about, code))
BEHIND(request_get_status, (word, word, word, word))
EXPORTED mpi_request_get_status_(word request, word is_done, word about, word code) {
  pmpi_request_get_status_(request, is_done, about, code);
  if (*code == MPI_SUCCESS && *is_done != 0)
    complete_staged(MPI_Request_f2c(*request));
  yield_if_requested();
}
ENDS(test,
     1,
     request,
     (word request, word is_done, word about, word code),
     (request, is_done, about, code))
ENDS(testall,
     *count,
     requests,
     (word count, word requests, word is_done, word abouts, word code),
     (count, requests, is_done, abouts, code))
ENDS(testany,
     *count,
     requests,
     (word count, word requests, word index, word is_done, word about, word code),
     (count, requests, index, is_done, about, code))
ENDS(testsome,
     *count,
     requests,
     (word count, word requests, word done, word indices, word abouts, word code),
     (count, requests, done, indices, abouts, code))
WAITS_AND_ENDS(wait,
               1,
               request,
               (word request, word about, word code),
               (request, about, code),
               pmpi_test_(request, &is_done, about, code))
WAITS_AND_ENDS(waitall,
               *count,
               requests,
               (word count, word requests, word abouts, word code),
               (count, requests, abouts, code),
               pmpi_testall_(count, requests, &is_done, abouts, code))
WAITS_AND_ENDS(waitany,
               *count,
               requests,
               (word count, word requests, word index, word about, word code),
               (count, requests, index, about, code),
               pmpi_testany_(count, requests, index, &is_done, about, code))
WAITS_AND_ENDS(waitsome,
               *count,
               requests,
               (word count, word requests, word done, word indices, word abouts, word code),
               (count, requests, done, indices, abouts, code),
               pmpi_testsome_(count, requests, done, indices, abouts, code);
               is_done = *done)

BEHIND(probe, (word, word, word, word, word))
EXPORTED mpi_probe_(word source, word tag, word comm, word about, word code) {
  if (!is_swapping_thread())
    return pmpi_probe_(source, tag, comm, about, code);
  MPI_Fint is_there = 0;
  auto const is_over = [&] {
    pmpi_iprobe_(source, tag, comm, &is_there, about, code);
    return is_there != 0 || *code != MPI_SUCCESS;
  };
  wait_until(std::ref(is_over), any_memory({source, tag, comm, about, code}));
}

BEHIND(mprobe, (word, word, word, word, word, word))
EXPORTED mpi_mprobe_(word source, word tag, word comm, word message, word about, word code) {
  if (!is_swapping_thread())
    return pmpi_mprobe_(source, tag, comm, message, about, code);
  MPI_Fint is_there = 0;
  auto const is_over = [&] {
    pmpi_improbe_(source, tag, comm, &is_there, message, about, code);
    return is_there != 0 || *code != MPI_SUCCESS;
  };
  wait_until(std::ref(is_over), any_memory({source, tag, comm, message, about, code}));
}

extern "C" void mpi_isend_(word, word, word, word, word, word, word, word);
extern "C" void mpi_recv_(word, word, word, word, word, word, word, word);
BEHIND(sendrecv, (word, word, word, word, word, word, word, word, word, word, word, word, word))
EXPORTED mpi_sendrecv_(word data,
                       word count,
                       word type,
                       word destination,
                       word tag,
                       word target_data,
                       word count_max,
                       word receive_type,
                       word source,
                       word receive_tag,
                       word comm,
                       word about,
                       word code) {
  if (!is_swapping_thread())
    return pmpi_sendrecv_(data,
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
                          about,
                          code);
  MPI_Fint sent = 0, sent_code = 0;
  mpi_isend_(data, count, type, destination, tag, comm, &sent, code);
  if (*code != MPI_SUCCESS)
    return;
  mpi_recv_(target_data, count_max, receive_type, source, receive_tag, comm, about, code);
  mpi_wait_(&sent, ignored_status, &sent_code);
  if (*code == MPI_SUCCESS)
    *code = sent_code;
}

// MPI copies the sent data while it waits.
BEHIND(sendrecv_replace, (word, word, word, word, word, word, word, word, word, word))
EXPORTED mpi_sendrecv_replace_(word data,
                               word count,
                               word type,
                               word destination,
                               word tag,
                               word source,
                               word receive_tag,
                               word comm,
                               word about,
                               word code) {
  if (current_swapper() == nullptr)
    return pmpi_sendrecv_replace_(
        data, count, type, destination, tag, source, receive_tag, comm, about, code);
  guard_exceptions("mpi_sendrecv_replace", [&] {
    mpi_wait_scope const waiting{
        look_derived(type) ||
        any_memory({data, count, destination, tag, source, receive_tag, comm, about, code})};
    pmpi_sendrecv_replace_(
        data, count, type, destination, tag, source, receive_tag, comm, about, code);
  });
}

BEHIND(request_free, (word, word))
EXPORTED mpi_request_free_(word request, word code) {
  if (!has_loans() || !defer_free(MPI_Request_f2c(*request)))
    return pmpi_request_free_(request, code);
  *request = MPI_Request_c2f(MPI_REQUEST_NULL);
  *code = MPI_SUCCESS;
}

BEHIND(buffer_attach, (word, word, word))
EXPORTED mpi_buffer_attach_(word data, word size, word code) {
  guard_exceptions("mpi_buffer_attach", [&] {
    pmpi_buffer_attach_(data, size, code);
    if (*code == MPI_SUCCESS)
      lend_memory({borrower::messages, 0}, data);
  });
}

BEHIND(buffer_detach, (word, word, word))
EXPORTED mpi_buffer_detach_(word data, word size, word code) {
  guard_exceptions("mpi_buffer_detach", [&] {
    mpi_wait_scope const waiting{current_swapper() != nullptr && any_memory({data, size, code})};
    pmpi_buffer_detach_(data, size, code);
    if (*code == MPI_SUCCESS)
      end_loan({borrower::messages, 0});
  });
}

BEHIND(win_create, (word, word, word, word, word, word, word))
EXPORTED mpi_win_create_(
    word base, word size, word unit, word info, word comm, word window, word code) {
  if (current_swapper() == nullptr) [[likely]]
    return pmpi_win_create_(base, size, unit, info, comm, window, code);
  guard_exceptions("mpi_win_create", [&] {
    wait_for_members(MPI_Comm_f2c(*comm));
    mpi_wait_scope const waiting{true};
    pmpi_win_create_(base, size, unit, info, comm, window, code);
    if (*code == MPI_SUCCESS)
      lend_memory({borrower::window, bits_of(MPI_Win_f2c(*window)), address_bits(base)}, base);
  });
}

BEHIND(win_attach, (word, word, word, word))
EXPORTED mpi_win_attach_(word win, word base, word size, word code) {
  guard_exceptions("mpi_win_attach", [&] {
    pmpi_win_attach_(win, base, size, code);
    if (*code == MPI_SUCCESS)
      lend_memory({borrower::window, bits_of(MPI_Win_f2c(*win)), address_bits(base)}, base);
  });
}

BEHIND(win_detach, (word, word, word))
EXPORTED mpi_win_detach_(word win, word base, word code) {
  pmpi_win_detach_(win, base, code);
  if (*code == MPI_SUCCESS && has_loans())
    end_loan({borrower::window, bits_of(MPI_Win_f2c(*win)), address_bits(base)});
}

BEHIND(win_free, (word, word))
EXPORTED mpi_win_free_(word win, word code) {
  if (current_swapper() == nullptr)
    return pmpi_win_free_(win, code);
  guard_exceptions("mpi_win_free", [&] {
    mpi_wait_scope const waiting{true};
    auto const before = bits_of(MPI_Win_f2c(*win));
    pmpi_win_free_(win, code);
    if (*code == MPI_SUCCESS)
      end_window_loans(before);
  });
}
