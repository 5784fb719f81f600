// A plugin with an ABI that never existed, for gpu_test.cc.
#include "seams/gpu/gpu_plugin.h"

extern "C" TND_API const tnd_gpu_plugin tnd_gpu_plugin_old __asm__(TND_GPU_PLUGIN_SYMBOL);
extern "C" const tnd_gpu_plugin tnd_gpu_plugin_old = {};
