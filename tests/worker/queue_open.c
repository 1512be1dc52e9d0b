/* Linked with --wrap=backend_open: every backend that the program opens gets a queue. */
#include "worker/queue_backend.h"

enum status __real_backend_open(struct backend **out, const char *name,
                                const struct backend_config *cfg);
enum status __wrap_backend_open(struct backend **out, const char *name,
                                const struct backend_config *cfg);

enum status __wrap_backend_open(struct backend **out, const char *name,
                                const struct backend_config *cfg)
{
    TRY(__real_backend_open(out, name, cfg));
    queue_backend_wrap(*out);
    return ST_OK;
}
