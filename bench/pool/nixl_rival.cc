#include "python_rival.hpp"

namespace bench {
namespace {

// Two agents: one owns the memory, and the other moves bytes to and from it. No names, no objects.
class nixl final : public rival {
 public:
  explicit nixl(const std::string &python)
      : python_{python}, owner_{role("owner", "none"), scratch_.path() + "/log"} {}
  std::unique_ptr<client> connect() override {
    return std::make_unique<python_client>(role("client", owner_.said()), scratch_.path() + "/log");
  }

 private:
  python_role role(const char *name, const std::string &peer) const {
    return {python_, "nixl_rival.py", name, peer, bulk_size};
  }
  scratch_folder scratch_;
  std::string python_;
  python_owner owner_;
};

}  // namespace

std::unique_ptr<rival> nixl_rival(const rival_options &options) {
  if (options.nixl_python.empty())
    throw not_here("no --nixl-python");
  return std::make_unique<nixl>(options.nixl_python);
}

}  // namespace bench
