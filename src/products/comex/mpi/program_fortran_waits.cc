// Fortran's calls of MPI that end requests and what they have of memory, as program_waits.cc has
// C's.
#include "products/comex/mpi/program_fortran.hpp"

using namespace tanada::comex;

#define EXPORTED extern "C" [[gnu::visibility("default")]] void

namespace {

MPI_Request request_of(MPI_Fint word) noexcept {
  return MPI_Request_f2c(word);
}
using watched = watched_requests<MPI_Fint, MPI_Request (*)(MPI_Fint) noexcept>;

bool any_memory(std::initializer_list<word> given) noexcept {
  for (auto const each : given) {
    if (look_memory(each))
      return true;
  }
  return false;
}

}  // namespace

void tanada::comex::await(word request, word about, word code) {
  MPI_Fint is_done = 0;
  auto const is_over = [&] {
    pmpi_test_(request, &is_done, about, code);
    return is_done != 0 || *code != MPI_SUCCESS;
  };
  look_until(std::ref(is_over), false);
}

#define BEHIND(NAME, PARAMETERS) extern "C" [[gnu::weak]] void pmpi_##NAME##_ PARAMETERS;
#define LOOKS(NAME, PARAMETERS, ARGUMENTS) \
  BEHIND(NAME, PARAMETERS)                 \
  EXPORTED mpi_##NAME##_ PARAMETERS {      \
    pmpi_##NAME##_ ARGUMENTS;              \
    make_way();                            \
  }
#define ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS) \
  BEHIND(NAME, PARAMETERS)                                 \
  EXPORTED mpi_##NAME##_ PARAMETERS {                      \
    if (current_swapping() == nullptr) [[likely]]          \
      return pmpi_##NAME##_ ARGUMENTS;                     \
    fenced("mpi_" #NAME, [&] {                             \
      {                                                    \
        watched const before{COUNT, REQUESTS, request_of}; \
        pmpi_##NAME##_ ARGUMENTS;                          \
      }                                                    \
      make_way();                                          \
    });                                                    \
  }
// Looks by LOOK, which sets `is_done` and `code`, until that is so.
#define WAITS_AND_ENDS(NAME, COUNT, REQUESTS, PARAMETERS, ARGUMENTS, LOOK)    \
  BEHIND(NAME, PARAMETERS)                                                    \
  EXPORTED mpi_##NAME##_ PARAMETERS {                                         \
    if (current_swapping() == nullptr) [[likely]]                             \
      return pmpi_##NAME##_ ARGUMENTS;                                        \
    fenced("mpi_" #NAME, [&] {                                                \
      watched const before{COUNT, REQUESTS, request_of};                      \
      if (!is_paced())                                                        \
        return pmpi_##NAME##_ ARGUMENTS;                                      \
      MPI_Fint is_done = 0;                                                   \
      auto const is_over = [&] {                                              \
        return LOOK, is_done != 0 || *code != MPI_SUCCESS;                    \
      };                                                                      \
      look_until(std::ref(is_over), any_memory ARGUMENTS_AS_LIST_ ARGUMENTS); \
    });                                                                       \
  }
#define ARGUMENTS_AS_LIST_(...) ({__VA_ARGS__})

BEHIND(testall, (word, word, word, word, word))
BEHIND(testany, (word, word, word, word, word, word))
BEHIND(testsome, (word, word, word, word, word, word))
BEHIND(iprobe, (word, word, word, word, word, word))
BEHIND(improbe, (word, word, word, word, word, word, word))

LOOKS(iprobe, (word from, word tag, word comm, word is_there, word about, word code),
      (from, tag, comm, is_there, about, code))
LOOKS(improbe, (word from, word tag, word comm, word is_there, word message, word about, word code),
      (from, tag, comm, is_there, message, about, code))
BEHIND(request_get_status, (word, word, word, word))
EXPORTED mpi_request_get_status_(word request, word is_done, word about, word code) {
  pmpi_request_get_status_(request, is_done, about, code);
  if (*code == MPI_SUCCESS && *is_done != 0)
    request_over(MPI_Request_f2c(*request));
  make_way();
}
ENDS(test, 1, request, (word request, word is_done, word about, word code),
     (request, is_done, about, code))
ENDS(testall, *count, all, (word count, word all, word is_done, word abouts, word code),
     (count, all, is_done, abouts, code))
ENDS(testany, *count, all, (word count, word all, word index, word is_done, word about, word code),
     (count, all, index, is_done, about, code))
ENDS(testsome, *count, all, (word count, word all, word done, word indices, word abouts, word code),
     (count, all, done, indices, abouts, code))
WAITS_AND_ENDS(wait, 1, request, (word request, word about, word code), (request, about, code),
               pmpi_test_(request, &is_done, about, code))
WAITS_AND_ENDS(waitall, *count, all, (word count, word all, word abouts, word code),
               (count, all, abouts, code), pmpi_testall_(count, all, &is_done, abouts, code))
WAITS_AND_ENDS(waitany, *count, all, (word count, word all, word index, word about, word code),
               (count, all, index, about, code),
               pmpi_testany_(count, all, index, &is_done, about, code))
WAITS_AND_ENDS(waitsome, *count, all,
               (word count, word all, word done, word indices, word abouts, word code),
               (count, all, done, indices, abouts, code),
               (pmpi_testsome_(count, all, done, indices, abouts, code), is_done = *done))

BEHIND(probe, (word, word, word, word, word))
EXPORTED mpi_probe_(word from, word tag, word comm, word about, word code) {
  if (!is_paced())
    return pmpi_probe_(from, tag, comm, about, code);
  MPI_Fint is_there = 0;
  auto const is_over = [&] {
    pmpi_iprobe_(from, tag, comm, &is_there, about, code);
    return is_there != 0 || *code != MPI_SUCCESS;
  };
  look_until(std::ref(is_over), any_memory({from, tag, comm, about, code}));
}

BEHIND(mprobe, (word, word, word, word, word, word))
EXPORTED mpi_mprobe_(word from, word tag, word comm, word message, word about, word code) {
  if (!is_paced())
    return pmpi_mprobe_(from, tag, comm, message, about, code);
  MPI_Fint is_there = 0;
  auto const is_over = [&] {
    pmpi_improbe_(from, tag, comm, &is_there, message, about, code);
    return is_there != 0 || *code != MPI_SUCCESS;
  };
  look_until(std::ref(is_over), any_memory({from, tag, comm, message, about, code}));
}

extern "C" void mpi_isend_(word, word, word, word, word, word, word, word);
extern "C" void mpi_recv_(word, word, word, word, word, word, word, word);
BEHIND(sendrecv, (word, word, word, word, word, word, word, word, word, word, word, word, word))
EXPORTED mpi_sendrecv_(word data, word count, word type, word to, word tag, word into, word most,
                       word kind, word from, word mark, word comm, word about, word code) {
  if (!is_paced())
    return pmpi_sendrecv_(data, count, type, to, tag, into, most, kind, from, mark, comm, about,
                          code);
  MPI_Fint sent = 0, sent_code = 0;
  mpi_isend_(data, count, type, to, tag, comm, &sent, code);
  if (*code != MPI_SUCCESS)
    return;
  mpi_recv_(into, most, kind, from, mark, comm, about, code);
  mpi_wait_(&sent, ignored_status, &sent_code);
  if (*code == MPI_SUCCESS)
    *code = sent_code;
}

// MPI copies what is sent while it waits.
BEHIND(sendrecv_replace, (word, word, word, word, word, word, word, word, word, word))
EXPORTED mpi_sendrecv_replace_(word data, word count, word type, word to, word tag, word from,
                               word mark, word comm, word about, word code) {
  if (current_swapping() == nullptr)
    return pmpi_sendrecv_replace_(data, count, type, to, tag, from, mark, comm, about, code);
  fenced("mpi_sendrecv_replace", [&] {
    outside_wait const waiting{look_derived(type) ||
                               any_memory({data, count, to, tag, from, mark, comm, about, code})};
    pmpi_sendrecv_replace_(data, count, type, to, tag, from, mark, comm, about, code);
  });
}

BEHIND(request_free, (word, word))
EXPORTED mpi_request_free_(word request, word code) {
  if (!has_loans() || !request_freed(MPI_Request_f2c(*request)))
    return pmpi_request_free_(request, code);
  *request = MPI_Request_c2f(MPI_REQUEST_NULL);
  *code = MPI_SUCCESS;
}

BEHIND(buffer_attach, (word, word, word))
EXPORTED mpi_buffer_attach_(word data, word size, word code) {
  fenced("mpi_buffer_attach", [&] {
    pmpi_buffer_attach_(data, size, code);
    if (*code == MPI_SUCCESS)
      memory_lent({borrower::messages, 0}, data);
  });
}

BEHIND(buffer_detach, (word, word, word))
EXPORTED mpi_buffer_detach_(word data, word size, word code) {
  fenced("mpi_buffer_detach", [&] {
    outside_wait const waiting{current_swapping() != nullptr && any_memory({data, size, code})};
    pmpi_buffer_detach_(data, size, code);
    if (*code == MPI_SUCCESS)
      give_back({borrower::messages, 0});
  });
}

BEHIND(win_create, (word, word, word, word, word, word, word))
EXPORTED mpi_win_create_(word base, word size, word unit, word info, word comm, word made,
                         word code) {
  if (current_swapping() == nullptr) [[likely]]
    return pmpi_win_create_(base, size, unit, info, comm, made, code);
  fenced("mpi_win_create", [&] {
    assemble(MPI_Comm_f2c(*comm));
    outside_wait const waiting{true};
    pmpi_win_create_(base, size, unit, info, comm, made, code);
    if (*code == MPI_SUCCESS)
      memory_lent({borrower::window, bits_of(MPI_Win_f2c(*made)), place_of(base)}, base);
  });
}

BEHIND(win_attach, (word, word, word, word))
EXPORTED mpi_win_attach_(word win, word base, word size, word code) {
  fenced("mpi_win_attach", [&] {
    pmpi_win_attach_(win, base, size, code);
    if (*code == MPI_SUCCESS)
      memory_lent({borrower::window, bits_of(MPI_Win_f2c(*win)), place_of(base)}, base);
  });
}

BEHIND(win_detach, (word, word, word))
EXPORTED mpi_win_detach_(word win, word base, word code) {
  pmpi_win_detach_(win, base, code);
  if (*code == MPI_SUCCESS && has_loans())
    give_back({borrower::window, bits_of(MPI_Win_f2c(*win)), place_of(base)});
}

BEHIND(win_free, (word, word))
EXPORTED mpi_win_free_(word win, word code) {
  if (current_swapping() == nullptr)
    return pmpi_win_free_(win, code);
  fenced("mpi_win_free", [&] {
    outside_wait const waiting{true};
    auto const before = bits_of(MPI_Win_f2c(*win));
    pmpi_win_free_(win, code);
    if (*code == MPI_SUCCESS)
      window_gone(before);
  });
}
