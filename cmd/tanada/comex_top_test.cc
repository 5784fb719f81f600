#include "comex_top.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

TEST(comex_top, shows_states_and_rates) {
  auto current = nlohmann::json::parse(
      R"({"process":7,"budget":1073741824,"cache_size":0,"slots":2,"time":12.0,"bytes_out":2097152,
    "bytes_in":1048576,"bytes_served":0,"bytes_written_back":0,"swaps_out":2,"swaps_in":1,"requests":0,"beyond_budget":0,"move_seconds":1.0,
    "ranks":[{"rank":0,"process":7,"state":"Running","wants":false,"here":1048576,"away":0,"allocated":1048576,"seconds":1.5},
             {"rank":1,"process":8,"state":"Swapped","wants":false,"here":0,"away":1048576,"allocated":1048576,"seconds":0.5}]})");
  auto previous = current;
  previous["time"] = 10.0;
  previous["bytes_out"] = 0;
  std::string const text = comex_text(current, previous);
  for (auto const *part : {"Running", "Swapped", "1.0 MiB/s", "1.50", "2 slots"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(comex_text(current, {}).find("B/s"), std::string::npos);
}

}  // namespace
}  // namespace tanada::command
