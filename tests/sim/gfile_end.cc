// The end of a run: all data are in the store, and nothing is left over.
#include "gfile_actor.hpp"

namespace gfile_sim {

using tanada::tier::page_state;
namespace word = tanada::tier::word;

void gfile_run::end() {
  store_->under.heal();
  stall_ns_ = 0;
  heal_ns_ = 0;
  foreign_writes_ = false;
  if (setting_.sky == weather::stalls && world_.random.chance(30)) {
    // The store stalls for longer than the session waits.
    store_->under.stall();
    status const code = session_->service().shut_down(world_.now_ns() + 5'000'000);
    if (code != status::ok && code != status::timed_out)
      fail("shut_down of a store that stands still: " + std::to_string(int(code)));
    store_->under.heal();
  }
  status const code = session_->shut_down();
  if (code == status::timed_out)
    return fail("shut_down timed out");
  if (code != status::ok) {
    if (setting_.sky == weather::fair)
      fail("shut_down: " + std::to_string(int(code)));
    reported_all_ = true;
  }
  world_.note(u64(u32(int(code))));
  if (session_->wait(0) != status::ok)
    fail("an error after shut_down");
  check_contents();
  check_leaks();
}

// The store has what was written, or an error was reported.
void gfile_run::check_contents() {
  if (reported_all_ && lossy())
    return;
  auto const differs = [&](const std::string &url, const std::string &wanted) {
    if (lossy() && reported_.count(url) != 0)
      return;
    auto found = store_->under.contents(url);
    if (!found.ok())
      return fail(url + ": not at the store");
    const std::string &bytes = found.value();
    if (bytes.size() != wanted.size())
      return fail(url + ": " + std::to_string(bytes.size()) +
                  " bytes at the store; there should be " + std::to_string(wanted.size()));
    for (u64 i = 0; i < bytes.size(); i++)
      if (bytes[i] != wanted[i])
        return fail(url + ": a wrong byte at the store at " + std::to_string(i) +
                    ", and nobody was told");
  };
  for (shared_file const &file : shared_)
    if (file.exists)
      differs(file.url, file.contents());
  for (actor const &each : actors_) {
    if (in_doubt(each.own.url))
      continue;
    if (each.own.named != nullptr)
      differs(each.own.url, *each.own.named);
    else if (reported_.count(each.own.url) == 0 && store_->under.contents(each.own.url).ok())
      fail(each.own.url + ": was deleted");
  }
}

void gfile_run::check_leaks() {
  auto const &state = *static_cast<const tanada::gfile::device_state *>(session_->ref().state);
  auto const check_table = [&](const char *name, auto const &table) {
    for (u32 frame = 0; frame < table.shape.frame_count(); frame++) {
      u64 const seen = table.load_word(frame);
      bool const at_rest =
          word::state(seen) == page_state::empty || word::state(seen) == page_state::ready;
      if (word::pins(seen) != 0)
        fail(std::string{name} + " frame " + std::to_string(frame) + " is still pinned");
      if (!at_rest)
        fail(std::string{name} + " frame " + std::to_string(frame) + " is in state " +
             std::to_string(u32(word::state(seen))));
    }
  };
  check_table("device", state.device_table);
  check_table("host", state.host_table);
  for (u32 i = 0; i < tanada::rpc::slot_count; i++) {
    tanada::u64 const word = state.ring.slots->slots[i];
    bool const claimed = (word & tanada::rpc::slot_word::claimed) != 0,
               detached = (word & tanada::rpc::slot_word::detached) != 0;
    if (claimed && !detached)
      fail("request slot " + std::to_string(i) + " is still claimed");
    if (detached &&
        u32(state.ring.mail->answers[i].head[0] >> 32) != tanada::rpc::slot_word::sequence(word))
      fail("the request in slot " + std::to_string(i) + " was never answered");
  }
  u32 open = 0, wanted = 0;
  for (u32 i = 0; i < state.file_count; i++)
    if (u32(state.descriptors[i].word >> 24 & 15) != 0)
      open++;
  for (actor const &each : actors_)
    for (slot const &held : each.slots)
      wanted += held.fd >= 0 ? 1 : 0;
  if (wanted == 0 && open != 0)
    fail(std::to_string(open) + " descriptors are still in use");
}

}  // namespace gfile_sim
