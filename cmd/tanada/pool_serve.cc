// tanada pool serve: another name for tanada-poold.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "pool_commands.hpp"

namespace tanada::command {

int pool_serve(const std::vector<std::string> &words) {
  static constexpr const char *name = "tanada-poold";
  std::string program = name;
  std::vector<char *> arguments{program.data()};
  std::vector<std::string> kept = words;
  for (std::string &each : kept)
    arguments.push_back(each.data());
  arguments.push_back(nullptr);

  std::error_code error;
  auto const own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string const beside = own.parent_path() / name;
  if (!error)
    ::execv(beside.c_str(), arguments.data());
  int const why = errno;
  if (error || why == ENOENT)
    ::execvp(name, arguments.data());
  std::fprintf(stderr, "tanada: cannot run %s: %s is missing, or: %s; on the PATH: %s\n", name,
               beside.c_str(), std::strerror(why), std::strerror(errno));
  return 1;
}

}  // namespace tanada::command
