#include "e2e/launch/launch_join.hpp"

tanada::result<std::unique_ptr<tanada::port::bootstrap>> launch_join() {
  return tanada::port::bootstrap_open();
}
