// The contract's main: skipped where its kernels cannot run.
#include <gtest/gtest.h>
#include <tanada/gfile.h>

#include <cstdio>

namespace gfile_contract {
bool on_gpu();
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (gfile_contract::on_gpu()) {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.device = TND_GFILE_DEVICE_CUDA;
    tnd_gfile *probe = nullptr;
    if (tnd_gfile_create(&config, &probe) != TND_OK) {
      std::printf("skipped: %s\n", tnd_last_message());
      return 77;
    }
    if (tnd_gfile_destroy(probe) != TND_OK)
      return 1;
  }
  return RUN_ALL_TESTS();
}
