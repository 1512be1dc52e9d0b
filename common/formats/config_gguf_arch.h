/* How GGUF files write each architecture: the names of its tensors and the order of q's and k's rows.
 * Private to this folder; model_config.h has what others read. */
#ifndef COMMON_FORMATS_CONFIG_GGUF_ARCH_H
#define COMMON_FORMATS_CONFIG_GGUF_ARCH_H

#include "common/formats/model_config.h"

struct gguf_arch {
    struct arch arch;
    bool interleaved;
};

/* By general.architecture; NULL: it is not known. */
const struct gguf_arch *gguf_arch_find(const char *name);
/* "llama, mistral3, ..." */
const char *gguf_arch_names(void);

#endif
