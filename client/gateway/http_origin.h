/* Who may ask: the Host header (against DNS rebinding: a page of a stranger whose name suddenly means this
 * machine) and the Origin header (CORS).  Pure. */
#ifndef CLIENT_GATEWAY_HTTP_ORIGIN_H
#define CLIENT_GATEWAY_HTTP_ORIGIN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* A list of strings from the options; "*" among them allows all. */
struct http_names {
    const char *const *name;
    size_t n;
};

/* An address as IPv6; IPv4 ones are mapped (::ffff:127.0.0.1).  false: of another family. */
bool http_address_of(const struct sockaddr *sa, struct in6_addr *out);
bool http_is_loopback(const struct in6_addr *a);

/* localhost, *.localhost, or a loopback address; with or without a port. */
bool http_host_is_loopback(const char *host);

/* May a request name this host?  Yes for localhost, *.localhost, loopback addresses, the address that the
 * connection came to, the names of the list, and no name at all; where the server is bound to all
 * addresses, for any address.  The port does not matter. */
bool http_host_is_allowed(const char *host, const struct http_names *more,
                          const struct in6_addr *local, bool bound_to_all);

/* May a page of this origin ask?  Yes for http and https on loopback, for the host of the request itself, and
 * for the origins of the list. */
bool http_origin_is_allowed(const char *origin, const struct http_names *more, const char *host);

#endif
