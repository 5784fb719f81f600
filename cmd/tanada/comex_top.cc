#include "comex_top.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "core/base/log.hpp"
#include "onesided/swap/viewer.hpp"
#include "seams/os/page_folder.hpp"

namespace tanada::command {
namespace {

using nodes = std::map<std::string, nlohmann::json>;  // by name of the page

// What stderr is told of is left out.
nodes sample(const comex_top_options &wanted) {
  std::string const folder = port::page_folder_path();
  auto listed = port::list_pages(folder, comex::swap::viewer_page_kind);
  if (!listed.ok())
    std::fprintf(stderr, "tanada: %s\n", last_message().c_str());
  nodes found;
  for (auto const &[process, name] :
       listed.ok() ? listed.value() : std::vector<port::found_page>{}) {
    if (wanted.process != 0 && process != wanted.process)
      continue;
    std::vector<std::byte> bytes;
    status const code = port::read_page(folder, name, comex::swap::viewer_page_size_max, bytes);
    if (code == status::no_entry)
      continue;  // it has just ended
    auto parsed = nlohmann::json::parse(reinterpret_cast<const char *>(bytes.data()),
                                        reinterpret_cast<const char *>(bytes.data() + bytes.size()),
                                        nullptr, false);
    bool const is_good = code == status::ok && parsed.is_object() && parsed.contains("ranks");
    if (is_good)
      found[name] = std::move(parsed);
    else if (code != status::again)
      std::fprintf(stderr, "tanada: the page of process %d is damaged\n", int(process));
  }
  return found;
}

}  // namespace

int comex_top(const comex_top_options &wanted) {
  bool const is_live = !wanted.json && ::isatty(STDOUT_FILENO) != 0;
  nodes before;
  for (uint32_t taken = 0;; taken++) {
    nodes now = sample(wanted);
    if (now.empty()) {
      if (taken == 0)
        std::fputs("tanada: no process of this user has TND_COMEX_MEMORY, or it has ended\n",
                   stderr);
      return taken == 0 ? 1 : 0;
    }
    if (is_live)
      std::fputs("\x1b[H\x1b[J", stdout);
    for (auto const &[name, each] : now) {
      auto const old = before.find(name);
      std::string const text =
          wanted.json ? each.dump() + "\n"
                      : comex_text(each, old == before.end() ? nlohmann::json{} : old->second);
      std::fputs(text.c_str(), stdout);
    }
    std::fflush(stdout);
    before = std::move(now);
    if (taken + 1 == wanted.count)
      return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted.period_s));
  }
}

}  // namespace tanada::command
