#include "e2e/launch/launch_join.hpp"

tanada::result<std::unique_ptr<tanada::seams::bootstrap>> launch_join() {
  return tanada::seams::bootstrap_open();
}
