/* Finds a model's tensors by name, checks them against its configuration and gives a rank views of
 * its share without copying: pointers into the mapped files, valid until loader_close.  A model may
 * be closed once a decoder has loaded it.  Called by the rank's main thread. */
#ifndef WORKER_LOAD_LOADER_H
#define WORKER_LOAD_LOADER_H

#include "common/formats/config_inputs.h"
#include "common/formats/model_config.h"
#include "worker/load/tensor_source.h"

struct loader;

/* A model directory as HuggingFace repositories have it, or a .gguf file.  ST_NOT_FOUND, ST_FORMAT,
 * ST_UNSUPPORTED: one line that names the file and what is wrong. */
MUST_CHECK enum status loader_open(struct loader **out, const char *path);
/* The same for tensors that come from elsewhere; src, by name, is given away, also on failure. */
MUST_CHECK enum status loader_open_source(struct loader **out, const struct model_config *mc,
                                          struct tensor_source **src);
void loader_close(struct loader *ld);

const struct model_config *loader_config(const struct loader *ld);
const char *loader_format(const struct loader *ld);

/* How its quantised matrices' inputs are to be rounded; loader_round_inputs, called behind loader_open, makes
 * loader_config say so.  ST_UNSUPPORTED names what of it is not supported. */
const struct input_scheme *loader_inputs(const struct loader *ld);
MUST_CHECK enum status loader_round_inputs(struct loader *ld);

/* For a backend with these features: integers whose index has the columns of a group in any order are sorted by group where
 * FEATURE_SORTED is there, and meet 8 bits (int_sorted of loader_config), but for groups of fewer than 32 columns,
 * encoders and behind loader_round_inputs. */
void loader_sort_columns(struct loader *ld, unsigned features);

/* All tensors, by name. */
size_t loader_count(const struct loader *ld);
void loader_get(const struct loader *ld, size_t i, struct stored_tensor *out);

/* Equal on ranks that opened the same model: over the configuration's fields that change numbers,
 * and over names, types, shapes and the first bytes of every tensor.  Quick, for the agreement of
 * ranks at start; common/digest/weights_digest.h covers every byte. */
uint64_t loader_digest(const struct loader *ld);

/* name with '#' replaced by the layer and '@' by the expert.  The tensor must have that shape and a
 * type that Ingot computes with: else ST_FORMAT "tensor NAME: expected [..] got [..]"; ST_NOT_FOUND
 * names a missing one. */
MUST_CHECK enum status loader_tensor(struct loader *ld, const char *name, int32_t layer,
                                     int32_t expert, int32_t n_dims, const uint64_t *shape,
                                     struct stored_tensor *out);

/* The same for tensors that are no weights of their own, of the type that the file calls `type`
 * ("U8", "I32"; "float": F32, F16 or BF16). */
MUST_CHECK enum status loader_parts(struct loader *ld, const char *name, const char *type,
                                    int32_t layer, int32_t expert, int32_t n_dims,
                                    const uint64_t *shape, struct stored_tensor *out);

/* Is there a tensor of that name?  *out is it. */
bool loader_has(const struct loader *ld, const char *name, int32_t layer, int32_t expert,
                struct stored_tensor *out);

/* The scales of the e4m3 matrix `matrix` (of loader_tensor): NAME_scale_inv or NAME_scale, finite;
 * with blocks (fp8_rows of the configuration) [rows of blocks, columns of blocks], else one, or one
 * for each row. */
MUST_CHECK enum status loader_scales(struct loader *ld, const struct stored_tensor *matrix,
                                     struct stored_tensor *out);

/* The scales NAME_scale of the e4m3 stack `stack` [n, in, out], whose columns are a matrix's rows: [n, 1, out] or
 * [n, out, 1]. */
MUST_CHECK enum status loader_column_scales(struct loader *ld, const struct stored_tensor *stack,
                                            struct stored_tensor *out);

/* After every tensor of the model has been asked for: one that was not is part of something that
 * this build does not know, ST_UNSUPPORTED names it. */
MUST_CHECK enum status loader_check_used(const struct loader *ld);

/* report(ctx, done, total): bytes of this rank's share, called now and then while a decoder
 * loads. */
void loader_on_progress(struct loader *ld, void (*report)(void *ctx, size_t done, size_t total),
                        void *ctx);
void loader_report(struct loader *ld, size_t done, size_t total);

/* Packed weights beside the files (worker/load/pack_cache.h), borrowed; NULL: none. */
struct pack_cache;
void loader_set_cache(struct loader *ld, struct pack_cache *c);
struct pack_cache *loader_cache(const struct loader *ld);

/* Of most tensors few bytes will be read, or none: a page that is read does not bring its neighbours from the
 * disk.  False: as before. */
void loader_reads_little(const struct loader *ld, bool little);

/* These bytes of the map will be read soon. */
void loader_will_read(const void *data, size_t n_bytes);

#endif
