// cmd/tanada/comex_top.cc: samples the pages of swap agents.
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

using node_samples = std::map<std::string, nlohmann::json>;  // by page name

// Leaves out pages for which an error is printed.
node_samples sample(const comex_top_options &options) {
  std::string const folder = seams::page_folder_path();
  auto listed = seams::list_pages(folder, onesided::swap::viewer_page_kind);
  if (!listed.ok())
    std::fprintf(stderr, "tanada: %s\n", last_message().c_str());
  node_samples samples;
  for (auto const &[process, name] :
       listed.ok() ? listed.value() : std::vector<seams::page_entry>{}) {
    if (options.process != 0 && process != options.process)
      continue;
    std::vector<std::byte> bytes;
    status const code = seams::read_page(folder, name, onesided::swap::viewer_page_size_max, bytes);
    if (code == status::no_entry)
      continue;  // the process has just ended
    auto parsed = nlohmann::json::parse(reinterpret_cast<const char *>(bytes.data()),
                                        reinterpret_cast<const char *>(bytes.data() + bytes.size()),
                                        nullptr,
                                        false);
    bool const is_good = code == status::ok && parsed.is_object() && parsed.contains("ranks");
    if (is_good)
      samples[name] = std::move(parsed);
    else if (code != status::again)
      std::fprintf(stderr, "tanada: the page of process %d is corrupt\n", int(process));
  }
  return samples;
}

}  // namespace

int comex_top(const comex_top_options &options) {
  bool const is_live = !options.json && ::isatty(STDOUT_FILENO) != 0;
  node_samples previous;
  for (uint32_t sample_count = 0;; sample_count++) {
    node_samples current = sample(options);
    if (current.empty()) {
      if (sample_count == 0)
        std::fputs("tanada: no running process of this user has TND_COMEX_MEMORY set\n", stderr);
      return sample_count == 0 ? 1 : 0;
    }
    if (is_live)
      std::fputs("\x1b[H\x1b[J", stdout);
    for (auto const &[name, node] : current) {
      auto const old = previous.find(name);
      std::string const text =
          options.json ? node.dump() + "\n"
                       : comex_text(node, old == previous.end() ? nlohmann::json{} : old->second);
      std::fputs(text.c_str(), stdout);
    }
    std::fflush(stdout);
    previous = std::move(current);
    if (sample_count + 1 == options.count)
      return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.period_s));
  }
}

}  // namespace tanada::command
