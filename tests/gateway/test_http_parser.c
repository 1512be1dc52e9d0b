/* The HTTP parser: a table of requests, each whole, byte by byte and cut in two everywhere. */
#include <criterion/criterion.h>

#include "gateway/http_table.h"
#include "gateway/http_transcript.h"
#include "model/guard.h"

/* Is got the row's transcript?  Of a refusal the text may go on, and the head of its request may be there. */
static bool matches(const struct http_row *row, const char *got)
{
    const char *bar = strrchr(row->out, '|'), *last = bar ? bar + 2 : row->out;
    if (*last != '4' && *last != '5')
        return strcmp(got, row->out) == 0;
    const char *at = strstr(got, row->out);
    return at && (bar ? at == got : !strchr(got, '|'));
}

Test(http_parser, table)
{
    cr_assert_geq(n_http_rows, 120);
    for (size_t i = 0; i < n_http_rows; i++) {
        const struct http_row *row = &http_rows[i];
        struct text_buf got = http_transcript(row->in, row->n, row->n + 1, 1);
        cr_expect(matches(row, got.data), "row %zu: %s\n  gives %s\n  not   %s", i, row->in,
                  got.data, row->out);
        text_buf_free(&got);
    }
}

Test(http_parser, cuts_do_not_matter)
{
    for (size_t i = 0; i < n_http_rows; i++) {
        const struct http_row *row = &http_rows[i];
        struct text_buf whole = http_transcript(row->in, row->n, row->n + 1, 1);
        for (size_t first = 1; first <= row->n; first++) {
            struct text_buf two = http_transcript(row->in, row->n, first, row->n + 1);
            cr_assert_str_eq(whole.data, two.data, "row %zu cut at %zu", i, first);
            text_buf_free(&two);
        }
        for (size_t step = 1; step <= 3; step++) {
            struct text_buf cut = http_transcript(row->in, row->n, step, step);
            cr_assert_str_eq(whole.data, cut.data, "row %zu in steps of %zu", i, step);
            text_buf_free(&cut);
        }
        text_buf_free(&whole);
    }
}

/* Pieces that end where memory ends. */
Test(http_parser, guard_page)
{
    for (size_t i = 0; i < n_http_rows; i++) {
        for (size_t n = 1; n <= http_rows[i].n; n++) {
            static const struct http_limits limits = {200, 20, 1000, 100};
            struct guarded g = guard_copy(http_rows[i].in, n);
            struct http_parser p;
            size_t at = 0, used;
            enum http_event ev;
            http_parser_init(&p, &limits);
            do {
                ev = http_parser_feed(&p, (const char *)g.data + at, n - at, &used);
                at += used;
                if (ev == HTTP_EV_DONE)
                    http_parser_next(&p);
            } while (ev == HTTP_EV_HEAD || (ev == HTTP_EV_DONE && at < n));
            http_parser_fini(&p);
            guard_free(&g);
        }
    }
}

Test(http_parser, states_between)
{
    static const struct http_limits limits = {200, 20, 1000, 100};
    static const char head[] =
        "POST /a HTTP/1.1\r\nHost: h\r\nX-Key: v\r\nContent-Length: 2\r\n\r\n";
    struct http_parser p;
    size_t used;
    http_parser_init(&p, &limits);
    cr_expect(http_parser_is_idle(&p));
    cr_expect_eq(http_parser_feed(&p, head, 5, &used), HTTP_EV_MORE);
    cr_expect_not(http_parser_is_idle(&p));
    cr_expect_eq(http_parser_feed(&p, head + 5, sizeof head - 6, &used), HTTP_EV_HEAD);
    cr_expect_eq(used, sizeof head - 6);
    cr_expect(http_parser_wants_body(&p));
    cr_expect_str_eq(p.request.path, "/a");
    cr_expect_str_eq(http_request_header(&p.request, "x-key"), "v");
    cr_expect_null(http_request_header(&p.request, "x-other"));
    cr_expect_eq(http_parser_feed(&p, "", 0, &used), HTTP_EV_MORE);
    cr_expect_eq(http_parser_feed(&p, "xyGET", 5, &used), HTTP_EV_DONE);
    cr_expect_eq(used, 2);
    cr_expect_not(http_parser_wants_body(&p));
    cr_expect_eq(http_parser_feed(&p, "GET", 3, &used), HTTP_EV_DONE, "it waits for next");
    cr_expect_eq(used, 0);
    http_parser_next(&p);
    cr_expect(http_parser_is_idle(&p));
    cr_expect_eq(http_parser_feed(&p, "G T\r\n", 5, &used), HTTP_EV_BAD);
    cr_expect_eq(http_parser_feed(&p, "GET", 3, &used), HTTP_EV_BAD, "a bad connection stays bad");
    http_parser_fini(&p);
}
