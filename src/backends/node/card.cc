// Process cards: the identity that a process publishes for connections within its node.
#include "seams/bootstrap/card.hpp"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

template <class T>
bool fill_random(T &value) {
  return getrandom(&value, sizeof value, 0) == ssize_t(sizeof value);
}

}  // namespace

result<process_card> process_card_make() {
  process_card card{};
  if (!fill_random(card.name) || !fill_random(card.secret))
    return fail(status::io, "getrandom returned too few bytes");
  struct stat info{};
  if (stat("/proc/self/ns/net", &info) == 0) {
    card.network_device = info.st_dev;
    card.network_inode = info.st_ino;
  }
  if (stat("/proc/self/ns/pid", &info) == 0) {
    card.process_device = info.st_dev;
    card.process_inode = info.st_ino;
  }
  card.process = getpid();
  return card;
}

status process_card_publish(bootstrap &launcher) {
  auto card = process_card_make();
  if (!card.ok())
    return card.error();
  return launcher.publish(process_card_key, std::as_bytes(std::span{&card.value(), 1}));
}

result<process_card> process_card_of(bootstrap &launcher, int32_t rank) {
  auto bytes = launcher.lookup(rank, process_card_key);
  if (!bytes.ok() && bytes.error() == status::no_entry) {
    return fail(status::bad_state, "processes cannot connect before the job's first exchange");
  }
  if (!bytes.ok())
    return bytes.error();
  process_card card;
  if (bytes.value().size() != sizeof card) {
    return fail(
        status::protocol, "rank {} published a card of {} bytes", rank, bytes.value().size());
  }
  std::memcpy(&card, bytes.value().data(), sizeof card);
  return card;
}

std::string random_digits() {
  uint64_t number = 0;
  if (!fill_random(number))
    number = uint64_t(getpid());
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, number);
  return text;
}

}  // namespace tanada::seams
