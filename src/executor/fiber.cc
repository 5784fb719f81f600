// Fibers: context switches in assembly, and a pool of stacks.
#include "executor/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/mutex.hpp"
#include "executor/sanitizer.hpp"

// Saves the callee-saved registers on the current stack and loads them from the other one. The
// floating-point control words are not switched, because kernels do not change them.
extern "C" {
void tnd_simt_context_switch(void **save_stack_pointer, void *load_stack_pointer);
void tnd_simt_context_entry();
}

#if defined(__x86_64__)

asm(R"(
.pushsection .text
.globl tnd_simt_context_switch
.hidden tnd_simt_context_switch
.type tnd_simt_context_switch,@function
tnd_simt_context_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tnd_simt_context_switch,.-tnd_simt_context_switch
.globl tnd_simt_context_entry
.hidden tnd_simt_context_entry
.type tnd_simt_context_entry,@function
tnd_simt_context_entry:
  movq %rbx, %rdi
  xorl %ebp, %ebp
  call *%r12
  ud2
.size tnd_simt_context_entry,.-tnd_simt_context_entry
.popsection
)");

namespace {

void *initial_stack_pointer(char *top, void (*entry)(void *), void *argument) noexcept {
  void **slot = reinterpret_cast<void **>(reinterpret_cast<unsigned long>(top) & ~15ul);
  *--slot = nullptr;  // The ABI requires a stack aligned to 16 bytes at the call in the entry code.
  *--slot = nullptr;
  *--slot = reinterpret_cast<void *>(&tnd_simt_context_entry);
  *--slot = nullptr;                          // rbp
  *--slot = argument;                         // rbx
  *--slot = reinterpret_cast<void *>(entry);  // r12
  for (int i = 0; i < 3; i++)
    *--slot = nullptr;  // r13 to r15
  return slot;
}

}  // namespace

#elif defined(__aarch64__)

asm(R"(
.pushsection .text
.globl tnd_simt_context_switch
.hidden tnd_simt_context_switch
.type tnd_simt_context_switch,%function
tnd_simt_context_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tnd_simt_context_switch,.-tnd_simt_context_switch
.globl tnd_simt_context_entry
.hidden tnd_simt_context_entry
.type tnd_simt_context_entry,%function
tnd_simt_context_entry:
  mov x0, x19
  mov x29, xzr
  blr x20
  brk #0
.size tnd_simt_context_entry,.-tnd_simt_context_entry
.popsection
)");

namespace {

void *initial_stack_pointer(char *top, void (*entry)(void *), void *argument) noexcept {
  auto *slots =
      reinterpret_cast<unsigned long *>((reinterpret_cast<unsigned long>(top) & ~15ul) - 160);
  memset(slots, 0, 160);
  slots[0] = reinterpret_cast<unsigned long>(argument);                  // x19
  slots[1] = reinterpret_cast<unsigned long>(entry);                     // x20
  slots[11] = reinterpret_cast<unsigned long>(&tnd_simt_context_entry);  // x30
  return slots;
}

}  // namespace

#else
#  error "the host executor needs a context switch for this processor"
#endif

namespace tanada::simt::host {
namespace {

// Constant-initialized and never destroyed: worker threads outlive static objects.
constinit mutex pool_mutex;
constinit fiber *pool_first TND_GUARDED_BY(pool_mutex) = nullptr;

// A protected page splits its mapping, and a process may have 65,530 mappings. Further stacks have
// no guard page: kernels with many threads in each of many blocks need more of them.
constexpr u32 protected_count_max = 8192;
constinit std::atomic<u32> protected_count{0};

// Make an access to the page a fault. Linux 6.13 and later do so without another mapping.
void guard_page(void *addr, u64 page_size) {
#if !defined(MADV_GUARD_INSTALL)
  constexpr int MADV_GUARD_INSTALL = 102;
#endif
  if (madvise(addr, page_size, MADV_GUARD_INSTALL) == 0)
    return;
  if (protected_count.fetch_add(1, std::memory_order_relaxed) < protected_count_max)
    (void)mprotect(addr, page_size, PROT_NONE);
}

fiber *fiber_create(u64 stack_size) {
  u64 const page_size = u64(sysconf(_SC_PAGESIZE));
  u64 const mapped_size = (stack_size + page_size - 1) / page_size * page_size + page_size;
  void *addr = mmap(nullptr,
                    mapped_size,
                    PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                    -1,
                    0);
  if (addr == MAP_FAILED) {
    std::fprintf(stderr,
                 "tanada: insufficient memory for a kernel thread's stack of %llu bytes: %s\n",
                 mapped_size,
                 std::strerror(errno));
    std::abort();
  }
  guard_page(addr, page_size);
  auto *created = new fiber;
  created->stack_low = static_cast<char *>(addr) + page_size;
  created->stack_size = mapped_size - page_size;
#if defined(TND_TSAN)
  created->tsan_handle = __tsan_create_fiber(0);
#endif
  return created;
}

}  // namespace

fiber *fiber_acquire(u64 stack_size) {
  stack_size *= stack_growth;
  {
    lock_guard const lock{pool_mutex};
    for (fiber **link = &pool_first; *link != nullptr; link = &(*link)->next) {
      if ((*link)->stack_size < stack_size)
        continue;
      fiber *const reused = *link;
      *link = reused->next;
      return reused;
    }
  }
  return fiber_create(stack_size);
}

void fiber_release(fiber *instance) noexcept {
  TND_ASSERT(instance != nullptr && instance->stack_low != nullptr);
  lock_guard const lock{pool_mutex};
  instance->next = pool_first;
  pool_first = instance;
}

void fiber_prepare(fiber &instance, void (*entry)(void *), void *argument) noexcept {
  TND_ASSERT(instance.stack_low != nullptr && entry != nullptr);
  instance.stack_pointer =
      initial_stack_pointer(instance.stack_low + instance.stack_size, entry, argument);
  instance.asan_fake_stack = nullptr;
}

void fiber_adopt_thread(fiber &home) noexcept {
#if defined(TND_TSAN)
  home.tsan_handle = __tsan_get_current_fiber();
#else
  (void)home;
#endif
}

void fiber_switch(fiber &source, fiber &target, bool source_is_done) noexcept {
  TND_ASSERT(&source != &target && target.stack_pointer != nullptr);
#if defined(TND_SIMT_ASAN)
  __sanitizer_start_switch_fiber(
      source_is_done ? nullptr : &source.asan_fake_stack, target.stack_low, target.stack_size);
#else
  (void)source_is_done;
#endif
#if defined(TND_TSAN)
  __tsan_switch_to_fiber(target.tsan_handle, 1);
#endif
  tnd_simt_context_switch(&source.stack_pointer, target.stack_pointer);
#if defined(TND_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(source.asan_fake_stack, nullptr, nullptr);
#endif
}

void fiber_entered(fiber &home) noexcept {
#if defined(TND_SIMT_ASAN)
  const void *bottom = nullptr;
  __SIZE_TYPE__ size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  home.stack_low = static_cast<char *>(const_cast<void *>(bottom));
  home.stack_size = size;
#else
  (void)home;
#endif
}

}  // namespace tanada::simt::host
