#include "seams/bootstrap/card.hpp"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::port {
namespace {

template <class T>
bool fill_random(T &value) {
  return getrandom(&value, sizeof value, 0) == ssize_t(sizeof value);
}

}  // namespace

result<process_card> process_card_make() {
  process_card card{};
  if (!fill_random(card.name) || !fill_random(card.secret))
    return fail(status::io, "getrandom gave nothing");
  struct stat found{};
  if (stat("/proc/self/ns/net", &found) == 0) {
    card.network_device = found.st_dev;
    card.network_inode = found.st_ino;
  }
  if (stat("/proc/self/ns/pid", &found) == 0) {
    card.process_device = found.st_dev;
    card.process_inode = found.st_ino;
  }
  card.process = getpid();
  return card;
}

status process_card_publish(bootstrap &launcher) {
  auto made = process_card_make();
  if (!made.ok())
    return made.error();
  return launcher.publish(process_card_key, std::as_bytes(std::span{&made.value(), 1}));
}

result<process_card> process_card_of(bootstrap &launcher, int32_t rank) {
  auto found = launcher.lookup(rank, process_card_key);
  if (!found.ok() && found.error() == status::no_entry) {
    return fail(status::bad_state, "processes cannot meet before the job's first exchange");
  }
  if (!found.ok())
    return found.error();
  process_card card;
  if (found.value().size() != sizeof card) {
    return fail(status::protocol, "rank %" PRId32 " published a card of %zu bytes", rank,
                found.value().size());
  }
  std::memcpy(&card, found.value().data(), sizeof card);
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

}  // namespace tanada::port
