#include "verify.hpp"

#include <cstdio>
#include <map>
#include <string_view>
#include <unordered_map>

namespace string_match {
namespace {

std::vector<std::string_view> split_words(const std::string &dictionary, std::size_t word_limit) {
  std::vector<std::string_view> words;
  std::string_view const all = dictionary;
  for (std::size_t at = 0; at < all.size() && words.size() < word_limit;) {
    std::size_t const first = all.find_first_not_of("\r\n", at);
    if (first == all.npos)
      break;
    std::size_t const end = std::min(all.find_first_of("\r\n", first), all.size());
    words.push_back(all.substr(first, end - first));
    at = end;
  }
  return words;
}

}  // namespace

std::string reference_lines(const std::string &dictionary,
                            const std::vector<std::string> &texts,
                            std::size_t word_limit) {
  std::vector<std::string_view> const words = split_words(dictionary, word_limit);
  std::map<std::size_t, std::unordered_map<std::string_view, unsigned>> counts_by_size;
  for (std::string_view word : words)
    counts_by_size[word.size()][word] = 0;
  for (const std::string &text : texts)
    for (auto &[size, counts] : counts_by_size)
      for (std::size_t at = 0; at + size <= text.size(); at++) {
        auto const found = counts.find(std::string_view(text).substr(at, size));
        if (found != counts.end())
          found->second++;
      }
  std::string lines;
  for (std::string_view word : words) {
    char line[64];
    std::snprintf(line,
                  sizeof line,
                  "%-31.*s %10u\n",
                  int(word.size()),
                  word.data(),
                  counts_by_size[word.size()][word]);
    lines += line;
  }
  return lines;
}

std::string first_difference(const std::string &expected, const std::string &written) {
  if (expected == written)
    return "";
  std::size_t first = 0, end = std::min(expected.size(), written.size());
  while (first < end && expected[first] == written[first])
    first++;
  std::size_t const line = expected.rfind('\n', first == 0 ? 0 : first - 1);
  std::size_t const from = line == expected.npos ? 0 : line + 1;
  auto const line_of = [&](const std::string &lines) {
    return from < lines.size() ? lines.substr(from, lines.find('\n', from) - from)
                               : std::string("(end of the file)");
  };
  return "expected '" + line_of(expected) + "', got '" + line_of(written) + "'";
}

}  // namespace string_match
