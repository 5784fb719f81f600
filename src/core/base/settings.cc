// Checks the environment for unknown settings and invalid choices.
#include "core/base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "core/base/log.hpp"
#include "core/base/setting_names.hpp"

namespace tanada {
namespace {

constexpr std::string_view prefix = "TND_";

// An environment variable name as it may appear in a log line: it can contain any byte except '='.
std::string printable(std::string_view name) {
  constexpr size_t size_max = 80;
  std::string text{name.substr(0, size_max)};
  for (char &letter : text) {
    bool const is_control = static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
    if (is_control)
      letter = '?';
  }
  return text;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_choice(std::string_view name, std::string_view value, std::vector<std::string> &faults) {
  for (const choice_setting &setting : choice_settings) {
    if (setting.name != name || contains(setting.values, value))
      continue;
    std::string known;
    for (std::string_view const choice : setting.values)
      known += (known.empty() ? "" : ", ") + std::string{choice};
    faults.push_back(std::string{name} + "=" + printable(value) +
                     " is invalid; choose one of: " + known);
  }
}

}  // namespace

bool setting_is_known(std::string_view name) {
  return contains(setting_names, name) || contains(development_names, name);
}

size_t edit_distance(std::string_view source, std::string_view target) {
  std::vector<size_t> row(target.size() + 1);
  for (size_t column = 0; column < row.size(); column++)
    row[column] = column;
  for (size_t i = 0; i < source.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < target.size(); j++) {
      size_t const replaced = diagonal + (source[i] == target[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  auto const is_nearer = [name](std::string_view first, std::string_view second) {
    return edit_distance(first, name) < edit_distance(second, name);
  };
  auto const nearest = std::min_element(names.begin(), names.end(), is_nearer);
  return nearest != names.end() ? *nearest : std::string_view{};
}

std::vector<std::string> setting_faults() {
  std::vector<std::string> faults;
  for (char **variable = environ; variable != nullptr && *variable != nullptr; variable++) {
    std::string_view const text{*variable};
    size_t const end = text.find('=');
    if (!text.starts_with(prefix) || end == text.npos || end + 1 == text.size())
      continue;
    std::string_view const name = text.substr(0, end);
    if (setting_is_known(name)) {
      check_choice(name, text.substr(end + 1), faults);
      continue;
    }
    faults.push_back("the environment sets " + printable(name) +
                     ", which no Tanada product reads: unset it, or use " +
                     std::string{nearest_name(printable(name), setting_names)} +
                     " if that was meant");
  }
  return faults;
}

status settings_check() {
  std::string message;
  for (const std::string &fault : setting_faults()) {
    log(log_level::error, "{}", fault);
    if (!message.empty())
      message += "; ";
    message += fault;
  }
  if (message.empty())
    return status::ok;
  set_last_message(std::move(message));
  return status::invalid;
}

}  // namespace tanada
