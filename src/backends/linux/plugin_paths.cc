// backends/linux/plugin_paths.cc: where plugins are searched.
#include "seams/os/plugin_paths.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace tanada::seams {
namespace {

// Copies a file name that the dynamic linker wrote when it loaded the file, maybe for another
// thread. dladdr() takes the lock that protects the write, but ThreadSanitizer does not see that
// lock, so this read is excluded from its checks.
__attribute__((no_sanitize("thread"))) std::string copy_linker_name(const char *text) {
  std::string copy;
  for (; *text != '\0'; text++)
    copy.push_back(*text);
  return copy;
}

std::string folder_of_this_code() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void *>(&plugin_paths), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::string file = copy_linker_name(info.dli_fname);
  // For the program itself, the linker has the name by which it was started: a word that the shell
  // looked up, or a link.
  if (file == program_invocation_name) {
    std::error_code error;
    file = std::filesystem::read_symlink("/proc/self/exe", error).string();
  }
  size_t const slash = file.rfind('/');
  return slash == std::string::npos ? std::string{} : file.substr(0, slash);
}

}  // namespace

std::vector<std::string> plugin_paths(const char *file) {
  std::vector<std::string> paths;
  if (const char *list = std::getenv("TND_PLUGIN_PATH"); list != nullptr) {
    std::string_view rest = list;
    while (!rest.empty()) {
      auto const folder = rest.substr(0, rest.find(':'));
      if (!folder.empty())
        paths.push_back(std::string{folder} + "/" + file);
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    }
  }
  if (auto const code_folder = folder_of_this_code(); !code_folder.empty())
    for (const char *subfolder : {"/", "/tanada/", "/../lib/", "/../lib/tanada/"})
      paths.push_back(code_folder + subfolder + file);
#if defined(TND_PLUGIN_DIR)
  // The folder above has libraries that are no plugins, such as libarmci.
  for (const char *subfolder : {"/", "/../"})
    paths.push_back(std::string{TND_PLUGIN_DIR} + subfolder + file);
#endif
  paths.push_back(file);
  return paths;
}

std::string plugin_path(const char *file) {
  std::error_code error;
  for (const std::string &path : plugin_paths(file)) {
    if (path.find('/') == std::string::npos || !std::filesystem::exists(path, error))
      continue;
    return std::filesystem::weakly_canonical(path, error);
  }
  return {};
}

}  // namespace tanada::seams
