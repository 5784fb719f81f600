// A C++ compiler, libclang, in each rank. Its trees are swapped out while the rank waits, and must
// hold the same as without swapping. Rank 0 prints a checksum. Usage: compiler ROUNDS
#include <clang-c/Index.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" {
#include "armci.h"
#include "message.h"
}

namespace {

// Large headers, and templates that differ between ranks.
std::string source_of(int rank, int round) {
  return "#include <algorithm>\n#include <filesystem>\n#include <functional>\n#include "
         "<future>\n#include <iostream>\n#include <map>\n"
         "#include <random>\n#include <regex>\n#include <unordered_map>\n#include <variant>\n"
         "template <int N> struct chain { std::map<std::string, chain<N - 1>> next; "
         "std::variant<int, std::string> value; };\n"
         "template <> struct chain<0> {};\n"
         "chain<" +
         std::to_string(10 + rank) +
         "> made;\n"
         "int main() { std::regex const r(\"a+\"); return std::regex_match(std::string(\"aa\"), r) "
         "? " +
         std::to_string(round) + " : 1; }\n";
}

struct walk {
  uint64_t sum = 14695981039346656037u;
  uint64_t count = 0;

  void add(uint64_t value) {
    sum = (sum ^ value) * 1099511628211u;
  }
  void add(CXString text) {
    for (const char *at = clang_getCString(text); at != nullptr && *at != 0; at++)
      add(uint64_t(*at));
    clang_disposeString(text);
  }
};

CXChildVisitResult visit(CXCursor cursor, CXCursor, CXClientData data) {
  auto &all = *static_cast<walk *>(data);
  all.count++;
  all.add(uint64_t(clang_getCursorKind(cursor)));
  all.add(clang_getCursorSpelling(cursor));
  all.add(clang_getTypeSpelling(clang_getCursorType(cursor)));
  return CXChildVisit_Recurse;
}

CXTranslationUnit parse(CXIndex index, const std::string &source) {
  CXUnsavedFile file{"source.cc", source.c_str(), source.size()};
  const char *const options[] = {"-std=c++17"};
  CXTranslationUnit unit = nullptr;
  CXErrorCode const code = clang_parseTranslationUnit2(
      index, "source.cc", options, 1, &file, 1, CXTranslationUnit_None, &unit);
  if (code != CXError_Success || clang_getNumDiagnostics(unit) != 0) {
    std::fprintf(stderr,
                 "libclang: code %d, %u diagnostics\n",
                 int(code),
                 unit == nullptr ? 0 : clang_getNumDiagnostics(unit));
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return unit;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  // Allocations of threads other than the waiting one stay resident.
  setenv("LIBCLANG_NOTHREADS", "1", 1);
  MPI_Init(&argc, &argv);
  ARMCI_Init();
  int const me = armci_msg_me();
  CXIndex const index = clang_createIndex(0, 0);
  CXTranslationUnit unit = nullptr;
  walk all;
  for (int round = 0; round < std::atoi(argv[1]); round++) {
    if (unit != nullptr)
      clang_disposeTranslationUnit(unit);
    unit = parse(index, source_of(me, round));
    MPI_Barrier(MPI_COMM_WORLD);
    clang_visitChildren(clang_getTranslationUnitCursor(unit), visit, &all);
    armci_msg_barrier();
    clang_visitChildren(clang_getTranslationUnitCursor(unit), visit, &all);
  }
  if (all.count < 100000)
    MPI_Abort(MPI_COMM_WORLD, 4);
  clang_disposeTranslationUnit(unit);
  clang_disposeIndex(index);
  long sum = long((all.sum ^ all.count) >> 8);
  armci_msg_lgop(&sum, 1, const_cast<char *>("+"));
  ARMCI_Finalize();
  MPI_Finalize();
  if (me == 0)
    std::printf("sum %lx\npassed\n", static_cast<unsigned long>(sum));
  return 0;
}
