/* How GGUF files write each architecture: the names of its tensors and the order of q's and k's rows.
 * Private to this folder; model_config.h has what others read. */
#ifndef COMMON_FORMATS_CONFIG_GGUF_ARCH_H
#define COMMON_FORMATS_CONFIG_GGUF_ARCH_H

#include "common/formats/model_config.h"

struct gguf_arch {
    struct arch arch;
    bool interleaved;
};

/* config_gguf_streams.c */
extern const struct tensor_rule gguf_gemma3n_tensors[TN_N];

/* By general.architecture; NULL: it is not known. */
const struct gguf_arch *gguf_arch_find(const char *name);
/* By the model type of config.json; experts: of two for one type that with or without any.  NULL: there is none. */
const struct gguf_arch *gguf_arch_of_type(const char *model_type, bool experts);
/* "llama, mistral3, ..." */
const char *gguf_arch_names(void);

#endif
