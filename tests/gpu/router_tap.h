/* How sure a mixture's routers are, found with the CPU backend, whose activations are f32. */
#ifndef TESTS_GPU_ROUTER_TAP_H
#define TESTS_GPU_ROUTER_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

/* sure[t]: in every layer the last expert that token t of ids [n] chooses is ahead of the first
 * that it does not by more than `margin` of its greatest |logit|. */
enum status router_sure_rows(const char *dir, const int32_t *ids, int32_t n, double margin,
                             bool *sure);

#endif
