#include "client/gateway/http_origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

bool http_address_of(const struct sockaddr *sa, struct in6_addr *out)
{
    if (sa->sa_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
        return true;
    }
    if (sa->sa_family != AF_INET)
        return false;
    *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    return true;
}

bool http_is_loopback(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static bool listed(const struct http_names *names, const char *s)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->name[i], "*") == 0 || strcasecmp(names->name[i], s) == 0)
            return true;
    return false;
}

/* "[::1]:80" -> "::1", "Example.org.:80" -> "Example.org"; false: too long for a name. */
static bool name_of(const char *host, char *out, size_t size)
{
    size_t n;
    if (*host == '[') {
        n = strcspn(++host, "]");
    } else {
        n = strcspn(host, ":");
        if (n > 1 && host[n - 1] == '.')
            n--;
    }
    if (n >= size)
        return false;
    memcpy(out, host, n);
    out[n] = '\0';
    return true;
}

static bool parse_address(const char *name, struct in6_addr *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, name, &v4.sin_addr) == 1)
        return http_address_of((const struct sockaddr *)&v4, out);
    return inet_pton(AF_INET6, name, out) == 1;
}

static bool is_local_name(const char *name)
{
    static const char local[] = "localhost", dot_local[] = ".localhost";
    size_t n = strlen(name), n_dot = sizeof dot_local - 1;
    return strcasecmp(name, local) == 0 ||
           (n > n_dot && strcasecmp(name + n - n_dot, dot_local) == 0);
}

static bool is_loopback_name(const char *name)
{
    struct in6_addr a;
    return is_local_name(name) || (parse_address(name, &a) && http_is_loopback(&a));
}

bool http_host_is_loopback(const char *host)
{
    char name[256];
    return name_of(host, name, sizeof name) && is_loopback_name(name);
}

bool http_host_is_allowed(const char *host, const struct http_names *more,
                          const struct in6_addr *local, bool bound_to_all)
{
    char name[256];
    struct in6_addr a;
    if (!*host)
        return true;
    if (!name_of(host, name, sizeof name))
        return false;
    if (is_loopback_name(name) || listed(more, name) || listed(more, host))
        return true;
    return parse_address(name, &a) && (bound_to_all || memcmp(&a, local, sizeof a) == 0);
}

bool http_origin_is_allowed(const char *origin, const struct http_names *more, const char *host)
{
    char name[256];
    if (listed(more, origin))
        return true;
    size_t scheme = strncasecmp(origin, "http://", 7) == 0    ? 7
                    : strncasecmp(origin, "https://", 8) == 0 ? 8
                                                              : 0;
    if (scheme == 0 || strpbrk(origin + scheme, "/@?# ") ||
        !name_of(origin + scheme, name, sizeof name))
        return false;
    return is_loopback_name(name) || (*host && strcasecmp(origin + scheme, host) == 0);
}
