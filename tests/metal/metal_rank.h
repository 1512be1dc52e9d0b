/* A rank on the tests' double of Metal, with its memory plan (gpu/rank_rig.h). */
#ifndef TESTS_METAL_METAL_RANK_H
#define TESTS_METAL_METAL_RANK_H

#include "gpu/rank_rig.h"

/* Plans for a fixture of tests/golden/models, with the options of rank_rig_plan. */
void metal_rank_plan(struct rank_rig *r, const char *model);

/* Every part of the plan is taken to the byte; the host's own memory of a step is in its part. */
void metal_rank_check(const struct rank_rig *r);

#endif
