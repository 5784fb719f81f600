// cmd/tanada/pool_key.cc: tanada pool key new, which creates a client's key as a line for the key
// files of the daemon and the client.
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "pool_commands.hpp"

namespace tanada::command {
namespace {

std::string random_hex(size_t byte_count) {
  std::string bytes(byte_count, 0), text(2 * byte_count + 1, 0);
  randombytes_buf(bytes.data(), bytes.size());
  sodium_bin2hex(text.data(),
                 text.size(),
                 reinterpret_cast<const unsigned char *>(bytes.data()),
                 bytes.size());
  sodium_memzero(bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

// A word of a key line: the daemon splits lines at blanks and lists at commas.
bool is_word(const std::string &text) {
  for (char const letter : text)
    if (static_cast<unsigned char>(letter) <= ' ' || letter == 0x7f)
      return false;
  return !text.empty() && text.size() <= TND_POOL_NAME_SIZE_MAX;
}

bool are_spaces(const std::string &text) {
  std::istringstream words{text + ","};
  for (std::string word; std::getline(words, word, ',');)
    if (!is_word(word) || word.find('/') != word.npos)
      return false;
  return !text.empty();
}

// Creates the file, readable only by its owner. Never replaces an existing file.
bool write_file(const std::string &path, const std::string &line, command_report &report) {
  int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool const is_written = file >= 0 &&
                          ::write(file, line.data(), line.size()) == ssize_t(line.size()) &&
                          ::fsync(file) == 0;
  int const error = errno;
  if (file >= 0)
    ::close(file);
  if (!is_written)
    report.fail(path, -error, std::strerror(error));
  if (!is_written && file >= 0)
    ::unlink(path.c_str());
  return is_written;
}

}  // namespace

int pool_key_new(const pool_key_options &options) {
  command_report report{options.json};
  if (!are_spaces(options.spaces) ||
      (!options.id.empty() && (!is_word(options.id) || options.id.starts_with('#')))) {
    report.fail(
        "key",
        -EINVAL,
        "names have no blanks, namespaces no commas or slashes; give --namespaces a,b or '*'");
    report.finish();
    return 2;
  }
  if (sodium_init() < 0) {
    report.fail("key", -EIO, "libsodium cannot provide random numbers");
    return report.finish();
  }
  std::string const id = options.id.empty() ? "key-" + random_hex(4) : options.id;
  std::string const secret = random_hex(32), rights = options.read_only ? "ro" : "rw";
  std::string const line = id + " " + secret + " " + rights + " " + options.spaces + "\n";
  if (!options.output.empty() && !write_file(options.output, line, report))
    return report.finish();
  if (options.json) {
    report.document() = {{"id", id}, {"rights", rights}, {"namespaces", options.spaces}};
    if (options.output.empty())
      report.document()["line"] = line.substr(0, line.size() - 1);
    else
      report.document()["file"] = options.output;
  } else if (options.output.empty()) {
    std::fputs(line.c_str(), stdout);
  }
  return report.finish();
}

}  // namespace tanada::command
