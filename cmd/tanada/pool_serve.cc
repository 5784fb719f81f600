// cmd/tanada/pool_serve.cc: tanada pool serve, which runs tanada-poold.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "pool_commands.hpp"

namespace tanada::command {

int pool_serve(const std::vector<std::string> &given_arguments) {
  static constexpr const char *name = "tanada-poold";
  std::string program = name;
  std::vector<char *> arguments{program.data()};
  std::vector<std::string> copies = given_arguments;
  for (std::string &argument : copies)
    arguments.push_back(argument.data());
  arguments.push_back(nullptr);

  std::error_code error;
  auto const own_path = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string const beside = own_path.parent_path() / name;
  if (!error)
    ::execv(beside.c_str(), arguments.data());
  int const why = errno;
  if (error || why == ENOENT)
    ::execvp(name, arguments.data());
  std::fprintf(stderr,
               "tanada: cannot run %s: %s is missing, or: %s; on the PATH: %s\n",
               name,
               beside.c_str(),
               std::strerror(why),
               std::strerror(errno));
  return 1;
}

}  // namespace tanada::command
