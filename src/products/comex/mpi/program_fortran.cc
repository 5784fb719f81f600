// products/comex/mpi/program_fortran.cc: intercepts the program's MPI calls in Fortran, as
// program_calls.cc does in C. MPI's Fortran library does not call the C names. The names are those
// that compilers generate on Linux, and each calls pmpi_*_. Only programs with MPI's Fortran
// library call them. All arguments are addresses, and may be in swappable memory: programs of
// Global Arrays pass even numbers from large arrays.
//
// The mpi_f08 calls have the same arguments; the last one is optional.
#include "products/comex/mpi/program_fortran.hpp"

using namespace tanada::comex;

namespace {

template <class... Looks>
bool any(Looks... looks) noexcept {
  return (looks || ...);
}

staged_pointer stage(word data, word count, word type, message_direction direction) noexcept {
  return guard_exceptions(
      "MPI", [&] { return staged_message::create(data, *count, MPI_Type_f2c(*type), direction); });
}
word staged_address(const staged_pointer &staged, word data) noexcept {
  return static_cast<word>(data_of(staged, data));
}

void send(
    const char *call, bool stays, word about, word code, auto &&blocking, auto &&start) noexcept {
  guard_exceptions(call, [&] {
    if (!is_swapping_thread()) {
      mpi_wait_scope const waiting{stays || look_memory(code)};
      return blocking();
    }
    pin_scope const pin{stays || look_memory(code)};
    MPI_Fint request = 0;
    start(&request);
    if (*code == MPI_SUCCESS)
      wait_for_request(&request, about, code);
  });
}

void gather(
    const char *call, word comm, bool stays, word code, auto &&blocking, auto &&start) noexcept {
  guard_exceptions(call, [&] {
    bool const all_stays = stays || look_memory(code);
    if (!is_comex_communicator(MPI_Comm_f2c(*comm))) {
      mpi_wait_scope const waiting{all_stays};
      return blocking();
    }
    pin_scope const pin{all_stays};
    MPI_Fint request = 0;
    start(&request);
    if (*code != MPI_SUCCESS)
      return;
    if (is_swapping_thread())
      wait_for_request(&request, ignored_status, code);
    else
      pmpi_wait_(&request, ignored_status, code);
  });
}

void wait(const char *call, bool stays, word code, auto &&blocking) noexcept {
  guard_exceptions(call, [&] {
    mpi_wait_scope const waiting{stays || look_memory(code)};
    blocking();
  });
}

void gather_all(const char *call, word comm, bool stays, auto &&blocking) noexcept {
  guard_exceptions(call, [&] {
    wait_for_members(MPI_Comm_f2c(*comm));
    mpi_wait_scope const waiting{stays};
    blocking();
  });
}

}  // namespace

#define EXPORTED extern "C" [[gnu::visibility("default")]] void
#define LENGTH_nothing(NAME_)
#define LENGTH_memory(NAME_)
#define LENGTH_derived(NAME_)
#define LENGTH_derived_at_root(NAME_)
#define LENGTH_user_op(NAME_)
#define LENGTH_many(NAME_)
#define LENGTH_text(NAME_) , size_t NAME_##_length
#define LENGTH_OF_nothing(NAME_)
#define LENGTH_OF_memory(NAME_)
#define LENGTH_OF_derived(NAME_)
#define LENGTH_OF_derived_at_root(NAME_)
#define LENGTH_OF_user_op(NAME_)
#define LENGTH_OF_many(NAME_)
#define LENGTH_OF_text(NAME_) , NAME_##_length
#define PARAMETER_(TYPE_, NAME_, LOOK_) [[maybe_unused]] word NAME_
#define LENGTH_(TYPE_, NAME_, LOOK_) LENGTH_##LOOK_(NAME_)
#define LENGTH_OF_(TYPE_, NAME_, LOOK_) LENGTH_OF_##LOOK_(NAME_)
#define LOOK_AT_(TYPE_, NAME_, LOOK_) look_##LOOK_(NAME_)
#define PARAMETERS(...) EACH(PARAMETER_, __VA_ARGS__), word code EACH_BESIDE(LENGTH_, __VA_ARGS__)
#define LOOKS(...) any(EACH(LOOK_AT_, __VA_ARGS__))
#define look_derived_at_root(TYPE_) (is_root(*root, MPI_Comm_f2c(*comm)) && look_derived(TYPE_))

// A call with its parameters. BODY is for swapping, and may use DONE, which is the MPI call.
#define DONE(FORTRAN, ...) \
  pmpi_##FORTRAN##_(ARGUMENTS(__VA_ARGS__), code EACH_BESIDE(LENGTH_OF_, __VA_ARGS__))
#define CALL(FORTRAN, BODY, ...)                                            \
  extern "C" [[gnu::weak]] void pmpi_##FORTRAN##_(PARAMETERS(__VA_ARGS__)); \
  EXPORTED mpi_##FORTRAN##_(PARAMETERS(__VA_ARGS__)) {                      \
    if (current_swapper() == nullptr) [[likely]]                            \
      return DONE(FORTRAN, __VA_ARGS__);                                    \
    BODY                                                                    \
  }                                                                         \
  BY_HAND(, FORTRAN, __VA_ARGS__)
// The mpi_f08 name.
#define BY_HAND(NAME, FORTRAN, ...)                                                      \
  extern "C" void mpi_##FORTRAN##_(PARAMETERS(__VA_ARGS__));                             \
  EXPORTED mpi_##FORTRAN##_f08_(PARAMETERS(__VA_ARGS__)) {                               \
    MPI_Fint left_out = 0;                                                               \
    if (code == nullptr)                                                                 \
      code = &left_out;                                                                  \
    mpi_##FORTRAN##_(ARGUMENTS(__VA_ARGS__), code EACH_BESIDE(LENGTH_OF_, __VA_ARGS__)); \
  }
#define BLOCKING(FORTRAN, ...)  \
  [&] {                         \
    DONE(FORTRAN, __VA_ARGS__); \
  }
#define STARTING(STARTED, ...)                                \
  [&](word request) {                                         \
    pmpi_##STARTED##_(ARGUMENTS(__VA_ARGS__), request, code); \
  }

#define STARTS(NAME, FORTRAN, ...)                                                          \
  CALL(FORTRAN,                                                                             \
       guard_exceptions("MPI_" #NAME,                                                       \
                        [&] {                                                               \
                          DONE(FORTRAN, __VA_ARGS__, REQUEST);                              \
                          if (*code == MPI_SUCCESS)                                         \
                            request_started(MPI_Request_f2c(*request), LOOKS(__VA_ARGS__)); \
                        });                                                                 \
       , __VA_ARGS__, REQUEST)
// A large staged message replaces `data`, which then need not stay resident.
#define STARTS_STAGED(NAME, FORTRAN, DIRECTION, ...)                                               \
  CALL(FORTRAN,                                                                                    \
       guard_exceptions("MPI_" #NAME,                                                              \
                        [&] {                                                                      \
                          auto staged = stage(data, count, type, DIRECTION);                       \
                          data = staged_address(staged, data);                                     \
                          DONE(FORTRAN, __VA_ARGS__, REQUEST);                                     \
                          if (*code == MPI_SUCCESS)                                                \
                            request_started(                                                       \
                                MPI_Request_f2c(*request), LOOKS(__VA_ARGS__), std::move(staged)); \
                        });                                                                        \
       , __VA_ARGS__, REQUEST)
#define SENDS(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...)                            \
  STARTS_STAGED(STARTED, FORTRAN_STARTED, message_direction::sent, __VA_ARGS__)        \
  CALL(FORTRAN, auto const staged = stage(data, count, type, message_direction::sent); \
       data = staged_address(staged, data);                                            \
       send("MPI_" #NAME,                                                              \
            LOOKS(__VA_ARGS__),                                                        \
            ignored_status,                                                            \
            code,                                                                      \
            BLOCKING(FORTRAN, __VA_ARGS__),                                            \
            STARTING(FORTRAN_STARTED, __VA_ARGS__));                                   \
       , __VA_ARGS__)
#define RECEIVES(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...)                             \
  STARTS_STAGED(STARTED, FORTRAN_STARTED, message_direction::received, __VA_ARGS__)        \
  CALL(FORTRAN, auto const staged = stage(data, count, type, message_direction::received); \
       data = staged_address(staged, data);                                                \
       send("MPI_" #NAME,                                                                  \
            LOOKS(__VA_ARGS__, ABOUT),                                                     \
            about,                                                                         \
            code,                                                                          \
            BLOCKING(FORTRAN, __VA_ARGS__, ABOUT),                                         \
            STARTING(FORTRAN_STARTED, __VA_ARGS__));                                       \
       if (staged) staged->finish();                                                       \
       , __VA_ARGS__, ABOUT)
#define COLLECTIVE(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...) \
  STARTS(STARTED, FORTRAN_STARTED, __VA_ARGS__)                  \
  CALL(FORTRAN,                                                  \
       gather("MPI_" #NAME,                                      \
              comm,                                              \
              LOOKS(__VA_ARGS__),                                \
              code,                                              \
              BLOCKING(FORTRAN, __VA_ARGS__),                    \
              STARTING(FORTRAN_STARTED, __VA_ARGS__));           \
       , __VA_ARGS__)
#define WAITS(NAME, FORTRAN, ...)                                                             \
  CALL(FORTRAN, wait("MPI_" #NAME, LOOKS(__VA_ARGS__), code, BLOCKING(FORTRAN, __VA_ARGS__)); \
       , __VA_ARGS__)
#define STAYS(NAME, FORTRAN, ...) \
  CALL(FORTRAN, wait("MPI_" #NAME, true, code, BLOCKING(FORTRAN, __VA_ARGS__));, __VA_ARGS__)
#define CHANGES(NAME, FORTRAN, ...)                          \
  CALL(FORTRAN,                                              \
       wait("MPI_" #NAME,                                    \
            LOOKS(__VA_ARGS__) || has_attribute_functions(), \
            code,                                            \
            BLOCKING(FORTRAN, __VA_ARGS__));                 \
       , __VA_ARGS__)
#define GATHERS(NAME, FORTRAN, ...)                                                     \
  CALL(FORTRAN,                                                                         \
       gather_all("MPI_" #NAME,                                                         \
                  comm,                                                                 \
                  LOOKS(__VA_ARGS__) || look_memory(code) || has_attribute_functions(), \
                  BLOCKING(FORTRAN, __VA_ARGS__));                                      \
       , __VA_ARGS__)
#define ORIGIN(NAME, FORTRAN, ...)                                                                \
  CALL(FORTRAN,                                                                                   \
       guard_exceptions("MPI_" #NAME,                                                             \
                        [&] {                                                                     \
                          if (LOOKS(__VA_ARGS__))                                                 \
                            add_loan_once({borrower::origin, bits_of(MPI_Win_f2c(*win)), *rank}); \
                          DONE(FORTRAN, __VA_ARGS__);                                             \
                        });                                                                       \
       , __VA_ARGS__)
#define SYNCS(NAME, FORTRAN, ...)                                                             \
  CALL(FORTRAN, wait("MPI_" #NAME, LOOKS(__VA_ARGS__), code, BLOCKING(FORTRAN, __VA_ARGS__)); \
       end_loans(borrower::origin, bits_of(MPI_Win_f2c(*win)));                               \
       , __VA_ARGS__)
#define SYNCS_RANK(NAME, FORTRAN, ...)                                                        \
  CALL(FORTRAN, wait("MPI_" #NAME, LOOKS(__VA_ARGS__), code, BLOCKING(FORTRAN, __VA_ARGS__)); \
       end_loan({borrower::origin, bits_of(MPI_Win_f2c(*win)), *rank});                       \
       , __VA_ARGS__)
#define BEGINS(NAME, FORTRAN, ...)                                                         \
  CALL(FORTRAN,                                                                            \
       guard_exceptions("MPI_" #NAME,                                                      \
                        [&] {                                                              \
                          bool const stays = LOOKS(__VA_ARGS__);                           \
                          if (stays)                                                       \
                            add_loan_once({borrower::file, bits_of(MPI_File_f2c(*file))}); \
                          mpi_wait_scope const waiting{look_memory(code)};                 \
                          DONE(FORTRAN, __VA_ARGS__);                                      \
                        });                                                                \
       , __VA_ARGS__)
#define ENDS(NAME, FORTRAN, ...)                                                              \
  CALL(FORTRAN, wait("MPI_" #NAME, LOOKS(__VA_ARGS__), code, BLOCKING(FORTRAN, __VA_ARGS__)); \
       end_loan({borrower::file, bits_of(MPI_File_f2c(*file))});                              \
       , __VA_ARGS__)

PROGRAM_CALLS

extern "C" [[gnu::weak]] void pmpi_init_(word);
extern "C" [[gnu::weak]] void pmpi_init_thread_(word, word, word);
EXPORTED mpi_init_(word code) {
  pmpi_init_(code);
}
EXPORTED mpi_init_thread_(word wanted, word provided, word code) {
  pmpi_init_thread_(wanted, provided, code);
}
extern "C" void mpi_finalize_(word);
EXPORTED mpi_finalize_f08_(word code) {
  MPI_Fint left_out = 0;
  mpi_finalize_(code == nullptr ? &left_out : code);
}
