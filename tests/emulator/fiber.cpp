#include "fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 128 << 10 };
#endif

#ifdef __APPLE__
#define SYMBOL "_emulator_switch"
#else
#define SYMBOL "emulator_switch"
#endif

#if defined(__x86_64__)
extern "C" void emulator_switch(void **save_sp, void *load_sp);
/* rbx, rbp, r12 to r15 are the callee's to keep; the return address is on the stack. */
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **sp = (void **)(void *)top;
    *--sp = nullptr; /* entry's return address: none; also keeps the ABI's alignment */
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    return sp;
}
#elif defined(__aarch64__)
extern "C" void emulator_switch(void **save_sp, void *load_sp);
/* x19 to x30 and d8 to d15 are the callee's to keep. */
asm(".text\n.balign 4\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **sp = (void **)(void *)(top - 160);
    memset(sp, 0, 160);
    sp[11] = (void *)entry; /* x30 */
    return sp;
}
#endif

bool fiber_take(struct fiber *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED)
        return false;
    mprotect(p, page, PROT_NONE);
    f->stack = (char *)p + page;
    f->stack_bytes = STACK_BYTES;
    f->fake_stack = nullptr;
    return true;
}

void fiber_give(struct fiber *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (f->stack)
        munmap(f->stack - page, f->stack_bytes + page);
    f->stack = nullptr;
}

void fiber_start(struct fiber *f, void (*entry)(void))
{
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(f->stack, f->stack_bytes); /* of a fiber that was given up */
    f->fake_stack = nullptr;
#endif
#ifdef FIBER_UCONTEXT
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = f->stack_bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
#else
    f->sp = first_frame(f->stack + f->stack_bytes, entry);
#endif
}

/* Where the fiber that is about to go on, or to begin, keeps its sanitizer state. */
static thread_local struct fiber *arriving;
#ifdef WITH_ASAN
static thread_local struct fiber *leaving;

static void arrived()
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(arriving->fake_stack, &bottom, &size);
    if (!leaving->stack) { /* the OS thread's own stack, seen here for the first time */
        leaving->stack = (char *)bottom;
        leaving->stack_bytes = size;
    }
}
#else
static void arrived()
{
}
#endif

void fiber_entered()
{
    arrived();
}

void fiber_switch(struct fiber *from, struct fiber *to, bool ended)
{
#ifdef WITH_ASAN
    leaving = from;
    __sanitizer_start_switch_fiber(ended ? nullptr : &from->fake_stack, to->stack, to->stack_bytes);
#else
    (void)ended;
#endif
    arriving = to;
#ifdef FIBER_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    emulator_switch(&from->sp, to->sp);
#endif
    arrived();
}
