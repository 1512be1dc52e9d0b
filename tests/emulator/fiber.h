/* Fibers: stacks that one OS thread switches between by hand.  The emulator runs each GPU thread of
 * a block as one.  Switching saves the callee-saved registers in own assembly on x86-64 and
 * aarch64 (tens of nanoseconds; swapcontext makes a system call), elsewhere through ucontext.
 * AddressSanitizer is told of every switch. */
#ifndef TESTS_EMULATOR_FIBER_H
#define TESTS_EMULATOR_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define FIBER_UCONTEXT
#include <ucontext.h>
#endif

struct fiber {
    void *sp; /* saved stack pointer */
    char *stack;
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
#ifdef FIBER_UCONTEXT
    ucontext_t context;
#endif
};

/* Takes a stack (with a guard page below it); false: no memory. */
bool fiber_take(struct fiber *f);
void fiber_give(struct fiber *f);

/* The next fiber_switch to f calls entry() on f's stack.  entry must never return: it ends with
 * fiber_switch(.., ended = true).  A fiber may be started again at any time it does not run. */
void fiber_start(struct fiber *f, void (*entry)(void));

/* Leaves `from` and goes on in `to`. */
void fiber_switch(struct fiber *from, struct fiber *to, bool ended);

/* First statement of an entry function. */
void fiber_entered();

#endif
