/* A coordinator's figures in Prometheus' text. */
#ifndef CLIENT_GATEWAY_METRICS_ENGINE_H
#define CLIENT_GATEWAY_METRICS_ENGINE_H

#include "client/gateway/prometheus.h"

/* model: the coordinator's name for it. */
void metrics_write_engine(struct prometheus *p, const char *prefix, const char *model,
                          const struct ingot_stats *s);

#endif
