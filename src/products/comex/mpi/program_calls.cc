// products/comex/mpi/program_calls.cc: intercepts the program's MPI calls that wait for other
// processes. Those processes may need the memory or processor of this one. Each function calls its
// PMPI name, as the profiling interface provides (MPI 3.1, section 14.2).
//
// Fortran's names are in program_fortran.cc, since Fortran calls do not pass through these. Without
// TND_COMEX_MEMORY a call costs two loads.
#include "products/comex/mpi/mpi_buffer_loans.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"
#include "products/comex/mpi/program_table.hpp"

using namespace tanada::comex;

namespace {

template <class Any>
bool look_nothing(const Any &) noexcept {
  return false;
}
bool look_many(const void *) noexcept {
  return true;
}
bool look_text(const char *argument) noexcept {
  return look_memory(argument);
}
#define look_derived_at_root(TYPE_) (is_root(root, comm) && look_derived(TYPE_))

template <class... Looks>
bool any(Looks... looks) noexcept {
  return (looks || ...);
}

staged_pointer stage(const void *data,
                     int count,
                     MPI_Datatype type,
                     message_direction direction) noexcept {
  return guard_exceptions("MPI",
                          [&] { return staged_message::create(data, count, type, direction); });
}

int send(const char *call, bool stays, auto &&blocking, auto &&start, MPI_Status *about) noexcept {
  return guard_exceptions(call, [&] {
    if (is_swapping_thread())
      return start_and_wait(std::ref(start), about, stays);
    mpi_wait_scope const waiting{stays};
    return blocking();
  });
}

// All processes of a communicator must choose the same form, whatever their threads are: blocking
// and nonblocking collectives do not match.
int gather(const char *call, MPI_Comm comm, bool stays, auto &&blocking, auto &&start) noexcept {
  return guard_exceptions(call, [&] {
    if (is_comex_communicator(comm))
      return start_and_wait(std::ref(start), MPI_STATUS_IGNORE, stays);
    mpi_wait_scope const waiting{stays};
    return blocking();
  });
}

int wait(const char *call, bool stays, auto &&blocking) noexcept {
  return guard_exceptions(call, [&] {
    mpi_wait_scope const waiting{stays};
    return blocking();
  });
}

int gather_all(const char *call, MPI_Comm comm, bool stays, auto &&blocking) noexcept {
  return guard_exceptions(call, [&] {
    wait_for_members(comm);
    mpi_wait_scope const waiting{stays};
    return blocking();
  });
}

}  // namespace

#define EXPORTED extern "C" [[gnu::visibility("default")]] int
#define PARAMETER_(TYPE_, NAME_, LOOK_) [[maybe_unused]] TYPE_ NAME_
#define LOOK_AT_(TYPE_, NAME_, LOOK_) look_##LOOK_(NAME_)
#define PARAMETERS(...) EACH(PARAMETER_, __VA_ARGS__)
#define LOOKS(...) any(EACH(LOOK_AT_, __VA_ARGS__))

// A call with its parameters. BODY is for swapping, and may use DONE, which is the MPI call.
#define DONE(NAME, ...) PMPI_##NAME(ARGUMENTS(__VA_ARGS__))
#define CALL(NAME, BODY, ...)                    \
  EXPORTED MPI_##NAME(PARAMETERS(__VA_ARGS__)) { \
    if (current_swapper() == nullptr) [[likely]] \
      return DONE(NAME, __VA_ARGS__);            \
    BODY                                         \
  }
#define BLOCKING(NAME, ...)         \
  [&] {                             \
    return DONE(NAME, __VA_ARGS__); \
  }
#define STARTING(STARTED, ...)                              \
  [&](MPI_Request *request) {                               \
    return PMPI_##STARTED(ARGUMENTS(__VA_ARGS__), request); \
  }

#define STARTS(NAME, FORTRAN, ...)                                                  \
  CALL(NAME,                                                                        \
       return guard_exceptions("MPI_" #NAME,                                        \
                               [&] {                                                \
                                 int const code = DONE(NAME, __VA_ARGS__, REQUEST); \
                                 if (code == MPI_SUCCESS)                           \
                                   request_started(*request, LOOKS(__VA_ARGS__));   \
                                 return code;                                       \
                               });                                                  \
       , __VA_ARGS__, REQUEST)
// A large staged message replaces `data`, which then need not stay resident.
#define STARTS_STAGED(NAME, DIRECTION, ...)                                              \
  CALL(NAME,                                                                             \
       return guard_exceptions("MPI_" #NAME,                                             \
                               [&] {                                                     \
                                 auto staged = stage(data, count, type, DIRECTION);      \
                                 data = data_of(staged, data);                           \
                                 int const code = DONE(NAME, __VA_ARGS__, REQUEST);      \
                                 if (code == MPI_SUCCESS)                                \
                                   request_started(                                      \
                                       *request, LOOKS(__VA_ARGS__), std::move(staged)); \
                                 return code;                                            \
                               });                                                       \
       , __VA_ARGS__, REQUEST)
#define SENDS(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...)                         \
  CALL(NAME, auto const staged = stage(data, count, type, message_direction::sent); \
       data = data_of(staged, data);                                                \
       return send("MPI_" #NAME,                                                    \
                   LOOKS(__VA_ARGS__),                                              \
                   BLOCKING(NAME, __VA_ARGS__),                                     \
                   STARTING(STARTED, __VA_ARGS__),                                  \
                   MPI_STATUS_IGNORE);                                              \
       , __VA_ARGS__)                                                               \
  STARTS_STAGED(STARTED, message_direction::sent, __VA_ARGS__)
#define RECEIVES(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...)                          \
  CALL(NAME, auto const staged = stage(data, count, type, message_direction::received); \
       data = data_of(staged, data);                                                    \
       int const code = send("MPI_" #NAME,                                              \
                             LOOKS(__VA_ARGS__, ABOUT),                                 \
                             BLOCKING(NAME, __VA_ARGS__, ABOUT),                        \
                             STARTING(STARTED, __VA_ARGS__),                            \
                             about);                                                    \
       if (staged) staged->finish();                                                    \
       return code;                                                                     \
       , __VA_ARGS__, ABOUT)                                                            \
  STARTS_STAGED(STARTED, message_direction::received, __VA_ARGS__)
#define COLLECTIVE(NAME, FORTRAN, STARTED, FORTRAN_STARTED, ...) \
  CALL(NAME,                                                     \
       return gather("MPI_" #NAME,                               \
                     comm,                                       \
                     LOOKS(__VA_ARGS__),                         \
                     BLOCKING(NAME, __VA_ARGS__),                \
                     STARTING(STARTED, __VA_ARGS__));            \
       , __VA_ARGS__)                                            \
  STARTS(STARTED, FORTRAN_STARTED, __VA_ARGS__)
#define WAITS(NAME, FORTRAN, ...)                                                        \
  CALL(NAME, return wait("MPI_" #NAME, LOOKS(__VA_ARGS__), BLOCKING(NAME, __VA_ARGS__)); \
       , __VA_ARGS__)
#define STAYS(NAME, FORTRAN, ...) \
  CALL(NAME, return wait("MPI_" #NAME, true, BLOCKING(NAME, __VA_ARGS__));, __VA_ARGS__)
#define CHANGES(NAME, FORTRAN, ...)                                 \
  CALL(NAME,                                                        \
       return wait("MPI_" #NAME,                                    \
                   LOOKS(__VA_ARGS__) || has_attribute_functions(), \
                   BLOCKING(NAME, __VA_ARGS__));                    \
       , __VA_ARGS__)
#define GATHERS(NAME, FORTRAN, ...)                                       \
  CALL(NAME,                                                              \
       return gather_all("MPI_" #NAME,                                    \
                         comm,                                            \
                         LOOKS(__VA_ARGS__) || has_attribute_functions(), \
                         BLOCKING(NAME, __VA_ARGS__));                    \
       , __VA_ARGS__)
#define ORIGIN(NAME, FORTRAN, ...)                                                        \
  CALL(NAME,                                                                              \
       return guard_exceptions("MPI_" #NAME,                                              \
                               [&] {                                                      \
                                 if (LOOKS(__VA_ARGS__))                                  \
                                   add_loan_once({borrower::origin, bits_of(win), rank}); \
                                 return DONE(NAME, __VA_ARGS__);                          \
                               });                                                        \
       , __VA_ARGS__)
#define SYNCS(NAME, FORTRAN, ...)                                                     \
  CALL(NAME, int const code = wait("MPI_" #NAME, false, BLOCKING(NAME, __VA_ARGS__)); \
       end_loans(borrower::origin, bits_of(win));                                     \
       return code;                                                                   \
       , __VA_ARGS__)
#define SYNCS_RANK(NAME, FORTRAN, ...)                                                \
  CALL(NAME, int const code = wait("MPI_" #NAME, false, BLOCKING(NAME, __VA_ARGS__)); \
       end_loan({borrower::origin, bits_of(win), rank});                              \
       return code;                                                                   \
       , __VA_ARGS__)
#define BEGINS(NAME, FORTRAN, ...)                                                 \
  CALL(NAME,                                                                       \
       return guard_exceptions("MPI_" #NAME,                                       \
                               [&] {                                               \
                                 if (LOOKS(__VA_ARGS__))                           \
                                   add_loan_once({borrower::file, bits_of(file)}); \
                                 mpi_wait_scope const waiting{false};              \
                                 return DONE(NAME, __VA_ARGS__);                   \
                               });                                                 \
       , __VA_ARGS__)
#define ENDS(NAME, FORTRAN, ...)                                                                   \
  CALL(NAME, int const code = wait("MPI_" #NAME, LOOKS(__VA_ARGS__), BLOCKING(NAME, __VA_ARGS__)); \
       end_loan({borrower::file, bits_of(file)});                                                  \
       return code;                                                                                \
       , __VA_ARGS__)
#define BY_HAND(NAME, FORTRAN, ...)

PROGRAM_CALLS

// Every program calls these. So a linker that drops unneeded libraries keeps this library, and in
// front of MPI's.
EXPORTED MPI_Init(int *argc, char ***argv) {
  return PMPI_Init(argc, argv);
}
EXPORTED MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided) {
  return PMPI_Init_thread(argc, argv, wanted, provided);
}

// Rare, and only in C.
#define SPAWN(NAME, ...) STAYS(NAME, , __VA_ARGS__)
SPAWN(Comm_spawn,
      (const char *, command, text),
      (char **, words, memory),
      NUMBER(most),
      INFO(info),
      NUMBER(root),
      COMM,
      MAKES(created),
      FLAG(codes))
SPAWN(Comm_spawn_multiple,
      NUMBER(count),
      (char **, commands, memory),
      (char ***, words, memory),
      NUMBERS(mosts),
      (const MPI_Info *, infos, memory),
      NUMBER(root),
      COMM,
      MAKES(created),
      FLAG(codes))
// MPI calls the program's functions while it waits.
#define GENERAL(NAME, ...) STARTS(NAME, , __VA_ARGS__)
GENERAL(Grequest_start,
        (MPI_Grequest_query_function *, query, nothing),
        (MPI_Grequest_free_function *, release, nothing),
        (MPI_Grequest_cancel_function *, cancel, nothing),
        (void *, extra, many))
