// The scheme of a URL, which selects its store.
#include "seams/store/store_url.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

bool scheme_ok(std::string_view scheme) noexcept {
  auto const letter = [](char c) {
    return c >= 'a' && c <= 'z';
  };
  if (scheme.empty() || !letter(scheme[0]))
    return false;
  return std::all_of(scheme.begin(), scheme.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

}  // namespace

result<std::string> url_scheme(std::string_view url) {
  if (url.empty())
    return fail(status::invalid, "an empty URL");
  size_t const mark = url.find("://");
  size_t const slash = url.find('/');
  if (mark == std::string_view::npos || slash != mark + 1)
    return std::string{"file"};
  auto const scheme = url.substr(0, mark);
  if (!scheme_ok(scheme)) {
    return fail(status::invalid,
                "{}: \"{}\" is no URL scheme (lower-case letters, digits, + - .)",
                url,
                scheme);
  }
  return std::string{scheme};
}

}  // namespace tanada::seams
