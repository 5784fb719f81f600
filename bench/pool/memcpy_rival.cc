#include <cstring>

#include "rival.hpp"

namespace bench {
namespace {

// One thread's memcpy between populated buffers.
class copier final : public plain_client {
 public:
  explicit copier(std::vector<uint8_t> &area) : area_{area} {}

 protected:
  void put_once(const std::string &, const uint8_t *source, uint64_t size) override {
    std::memcpy(area_.data(), source, size);
  }
  void get_once(const std::string &, uint8_t *target, uint64_t size) override {
    std::memcpy(target, area_.data(), size);
  }

 private:
  std::vector<uint8_t> &area_;
};

class memory final : public rival {
 public:
  std::unique_ptr<client> connect() override {
    return std::make_unique<copier>(area_);
  }

 private:
  std::vector<uint8_t> area_ = std::vector<uint8_t>(bulk_size, 1);
};

}  // namespace

std::unique_ptr<rival> memcpy_rival(const rival_options &) {
  return std::make_unique<memory>();
}

}  // namespace bench
