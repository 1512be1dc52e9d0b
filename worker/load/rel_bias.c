#include "worker/load/rel_bias.h"

#include <math.h>
#include <stdlib.h>

#include "common/formats/model_config.h"

int32_t rel_bias_bucket(int32_t distance)
{
    enum { SIDE = REL_BUCKETS / 2, EXACT = SIDE / 2 };
    int32_t n = abs(distance), bucket = n;
    if (n >= EXACT) { /* in f32, as the class computes it */
        float share = logf((float)n / (float)EXACT) / (float)log((double)REL_REACH / (double)EXACT);
        bucket = EXACT + (int32_t)(share * (float)(SIDE - EXACT));
        bucket = bucket < SIDE - 1 ? bucket : SIDE - 1;
    }
    return distance > 0 ? SIDE + bucket : bucket;
}

enum status derive_rel_bias(struct copies *c, const struct stored_tensor *stored, size_t first,
                            size_t n, size_t all, struct weight_part *p)
{
    void *to = NULL;
    float row[REL_BUCKETS];
    if (dtype_size(stored->dtype) == 0)
        FAIL(ST_UNSUPPORTED, "tensor %s: biases of type %s are not supported", stored->name,
             stored->type_name);
    *p =
        (struct weight_part){.row_bytes = n * REL_COLS * sizeof(float), .dtype = DT_F32, .rows = 1};
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, p->row_bytes, &to));
    p->data = to;
    for (size_t h = 0; h < n; h++) {
        /* elements first + h, first + h + all, ...: the head's column */
        const struct share_cut cut = {.first = first + h, .step = all, .rows = REL_BUCKETS};
        derive_floats(stored->data, stored->dtype, &cut, row);
        for (int32_t d = -REL_REACH; d <= REL_REACH; d++)
            ((float *)to)[h * REL_COLS + (size_t)rel_at(d)] = row[rel_bias_bucket(d)];
    }
    return ST_OK;
}
