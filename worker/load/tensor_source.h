/* Where tensors come from: one kind of model file (safetensors, GGUF), already
 * parsed and checked.  The loader owns a source and is the only one who calls it. */
#ifndef WORKER_LOAD_TENSOR_SOURCE_H
#define WORKER_LOAD_TENSOR_SOURCE_H

#include "common/formats/model_config.h"
#include "worker/load/safetensors.h"

struct stored_tensor {
    const char *name;
    const char *type_name; /* as the file calls it */
    enum dtype dtype;      /* DT_N: not one that Ingot computes with */
    int32_t n_dims;
    uint64_t shape[MAX_TENSOR_DIMS]; /* slowest first */
    const unsigned char *data;       /* in the map, any alignment */
    size_t n_bytes;
};

struct tensor_source;

struct tensor_source_ops {
    const char *format; /* "safetensors" */
    void (*close)(struct tensor_source *s);
    size_t (*count)(const struct tensor_source *s);
    /* i < count; by name. */
    void (*get)(const struct tensor_source *s, size_t i, struct stored_tensor *out);
};

struct tensor_source { /* head of every source */
    const struct tensor_source_ops *ops;
    bool bare; /* the model was saved as its base class, which has no head */
};

/* model.safetensors, or the files that model.safetensors.index.json names.  wrapped: of a
 * multi-modal model the tensors of the text part alone, by the names that a text model has.  A model that was saved
 * as its base class ("layers.0...") has those names too.  prefix: what names begin with in some files and not in
 * others is left out of them; NULL: nothing. */
MUST_CHECK enum status safetensors_source_open(struct tensor_source **out, const char *dir,
                                               bool wrapped, const char *prefix);

/* A GGUF file (any part of a split one), which holds the configuration too. */
MUST_CHECK enum status gguf_source_open(struct tensor_source **out, struct model_config *mc,
                                        const char *path);

#endif
