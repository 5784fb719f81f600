// tanada pool key new: a client's key, as a line of the daemon's key file and of the client's.
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
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char *>(bytes.data()),
                 bytes.size());
  sodium_memzero(bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

// A word of the line: the daemon splits it at blanks and lists at commas.
bool is_word(const std::string &text) {
  for (char const each : text)
    if (static_cast<unsigned char>(each) <= ' ' || each == 0x7f)
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

// Makes the file: never one that is there, never one that others may read.
bool write_file(const std::string &path, const std::string &line, answer &told) {
  int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool const is_written = file >= 0 &&
                          ::write(file, line.data(), line.size()) == ssize_t(line.size()) &&
                          ::fsync(file) == 0;
  int const error = errno;
  if (file >= 0)
    ::close(file);
  if (!is_written)
    told.fail(path, -error, std::strerror(error));
  if (!is_written && file >= 0)
    ::unlink(path.c_str());
  return is_written;
}

}  // namespace

int pool_key_new(const pool_key_options &wanted) {
  answer told{wanted.json};
  if (!are_spaces(wanted.spaces) ||
      (!wanted.id.empty() && (!is_word(wanted.id) || wanted.id.starts_with('#')))) {
    told.fail(
        "key", -EINVAL,
        "names have no blanks, namespaces no commas or slashes; give --namespaces a,b or '*'");
    told.finish();
    return 2;
  }
  if (sodium_init() < 0) {
    told.fail("key", -EIO, "libsodium has no random numbers");
    return told.finish();
  }
  std::string const id = wanted.id.empty() ? "key-" + random_hex(4) : wanted.id;
  std::string const secret = random_hex(32), rights = wanted.read_only ? "ro" : "rw";
  std::string const line = id + " " + secret + " " + rights + " " + wanted.spaces + "\n";
  if (!wanted.output.empty() && !write_file(wanted.output, line, told))
    return told.finish();
  if (wanted.json) {
    told.document() = {{"id", id}, {"rights", rights}, {"namespaces", wanted.spaces}};
    if (wanted.output.empty())
      told.document()["line"] = line.substr(0, line.size() - 1);
    else
      told.document()["file"] = wanted.output;
  } else if (wanted.output.empty()) {
    std::fputs(line.c_str(), stdout);
  }
  return told.finish();
}

}  // namespace tanada::command
