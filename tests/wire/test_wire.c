/* Messages on the wire: golden bytes, round trips, damaged messages, and the checks of
 * endpoints. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/utf8.h"
#include "common/wire/sock.h"
#include "tests/wire/fixtures.h"

static struct wire_mem a, b;

static void setup(void)
{
    cr_assert(wire_mem_init(&a, 1 << 20) == ST_OK);
    cr_assert(wire_mem_init(&b, 1 << 20) == ST_OK);
}

static void teardown(void)
{
    wire_mem_fini(&a);
    wire_mem_fini(&b);
}

TestSuite(wire, .init = setup, .fini = teardown);

static enum status encode(const struct fixture *f, struct wire_bytes *out, struct wire_mem *mem)
{
    switch (f->kind) {
    case FIX_REQUEST:
        return client_msg_encode_request(out, &f->client, mem);
    case FIX_REPLY:
        return client_msg_encode_reply(out, &f->client, mem);
    default:
        return worker_msg_encode(out, &f->worker, mem);
    }
}

/* decoded again into a fixture of the same kind */
static enum status decode(const struct fixture *f, struct wire_bytes in, struct fixture *out,
                          struct wire_mem *mem)
{
    *out = *f;
    switch (f->kind) {
    case FIX_REQUEST:
        return client_msg_decode_request(&out->client, in.data, in.n, mem, NULL, NULL);
    case FIX_REPLY:
        return client_msg_decode_reply(&out->client, in.data, in.n, mem);
    default:
        return worker_msg_decode(&out->worker, in.data, in.n, mem);
    }
}

static size_t golden(const char *name, uint8_t *buf, size_t cap)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proto/golden/%s.bin", INGOT_SOURCE_DIR, name);
    FILE *fp = fopen(path, "rb");
    cr_assert(fp != NULL, "%s is missing", path);
    size_t n = fread(buf, 1, cap, fp);
    fclose(fp);
    return n;
}

Test(wire, golden_bytes)
{
    static struct fixture fix[N_FIXTURES];
    uint8_t want[4096];
    fixtures_make(fix);
    for (int i = 0; i < N_FIXTURES; i++) {
        struct wire_bytes got;
        wire_mem_reset(&a);
        cr_assert(encode(&fix[i], &got, &a) == ST_OK, "%s: %s", fix[i].name, status_detail());
        if (getenv("INGOT_WRITE_GOLDEN")) {
            char path[512];
            snprintf(path, sizeof path, "%s/proto/golden/%s.bin", INGOT_SOURCE_DIR, fix[i].name);
            FILE *fp = fopen(path, "wb");
            cr_assert(fp && fwrite(got.data, 1, got.n, fp) == got.n && fclose(fp) == 0);
        }
        size_t n = golden(fix[i].name, want, sizeof want);
        cr_assert(n == got.n && memcmp(want, got.data, n) == 0, "%s has other bytes", fix[i].name);
    }
}

Test(wire, decode_then_encode_gives_the_same_bytes)
{
    static struct fixture fix[N_FIXTURES], back;
    fixtures_make(fix);
    for (int i = 0; i < N_FIXTURES; i++) {
        struct wire_bytes one, two;
        wire_mem_reset(&a);
        wire_mem_reset(&b);
        cr_assert(encode(&fix[i], &one, &a) == ST_OK);
        cr_assert(decode(&fix[i], one, &back, &b) == ST_OK, "%s: %s", fix[i].name, status_detail());
        cr_assert(encode(&back, &two, &b) == ST_OK);
        cr_assert(one.n == two.n && memcmp(one.data, two.data, one.n) == 0, "%s", fix[i].name);
    }
}

Test(wire, every_truncation_and_every_flipped_byte_is_survived)
{
    static struct fixture fix[N_FIXTURES], back;
    uint8_t copy[4096];
    int refused = 0;
    fixtures_make(fix);
    for (int i = 0; i < N_FIXTURES; i++) {
        struct wire_bytes one;
        wire_mem_reset(&a);
        cr_assert(encode(&fix[i], &one, &a) == ST_OK);
        for (size_t n = 0; n < one.n; n++) {
            struct wire_bytes cut = {one.data, n};
            wire_mem_reset(&b);
            refused += decode(&fix[i], cut, &back, &b) != ST_OK;
            for (int bit = 0; bit < 8; bit++) {
                memcpy(copy, one.data, one.n);
                copy[n] ^= (uint8_t)(1 << bit);
                wire_mem_reset(&b);
                refused += decode(&fix[i], (struct wire_bytes){copy, one.n}, &back, &b) != ST_OK;
            }
        }
    }
    cr_assert(refused > 1000);
}

/* every message that the decoder takes has its id found; false: the decoder refuses it */
static bool head_agrees(const uint8_t *data, size_t n)
{
    struct client_msg m;
    struct request_head h;
    const char *id, *field;
    wire_mem_reset(&b);
    if (client_msg_decode_request(&m, data, n, &b, &id, &field) != ST_OK)
        return false;
    cr_assert_eq(client_msg_head(&h, data, n, &field), ST_OK, "%s", status_detail());
    cr_assert_eq(h.type, m.type);
    cr_assert_str_eq(h.id, id);
    const struct tenant none = {0}, *t = m.type == MSG_GENERATE         ? &m.u.generate.tenant
                                         : m.type == MSG_CANCEL         ? &m.u.cancel.tenant
                                         : m.type == MSG_TOKENIZE       ? &m.u.tokenize.tenant
                                         : m.type == MSG_DETOKENIZE     ? &m.u.detokenize.tenant
                                         : m.type == MSG_APPLY_TEMPLATE ? &m.u.apply_template.tenant
                                                                        : &none;
    cr_assert(tenant_equal(&h.tenant, t));
    if (m.type == MSG_GENERATE) {
        const struct msg_generate *g = &m.u.generate;
        cr_assert(h.has_limits == g->has_limits && h.has_grace == g->has_grace);
        cr_assert(h.limits.max_samples == g->limits.max_samples &&
                  h.limits.tokens_per_minute == g->limits.tokens_per_minute &&
                  h.grace_ms == g->grace_ms);
        cr_assert(h.has_resume == (g->resume != NULL));
        for (uint32_t i = 0; g->resume && i < g->n; i++)
            cr_assert(h.n_resumed == g->n && h.resumed[i].n_ids == g->resume->samples[i].n &&
                      h.resumed[i].n_text == g->resume->samples[i].n_text);
    }
    return true;
}

Test(wire, the_head_agrees_with_the_decoder)
{
    static struct fixture fix[N_FIXTURES];
    uint8_t copy[4096];
    int taken = 0, refused = 0;
    fixtures_make(fix);
    for (int i = 0; i < N_FIXTURES; i++) {
        struct wire_bytes one;
        if (fix[i].kind != FIX_REQUEST)
            continue;
        wire_mem_reset(&a);
        cr_assert(encode(&fix[i], &one, &a) == ST_OK);
        cr_assert(head_agrees(one.data, one.n));
        for (size_t n = 0; n < one.n; n++) {
            refused += !head_agrees(one.data, n);
            for (int bit = 0; bit < 8; bit++) {
                memcpy(copy, one.data, one.n);
                copy[n] ^= (uint8_t)(1 << bit);
                taken += head_agrees(copy, one.n);
            }
        }
    }
    cr_assert(taken > 100 && refused > 100);
}

/* Two Generates are the same request unless they differ in more than limits, grace and resume. */
Test(wire, the_digest_of_a_generate)
{
    static struct fixture fix[N_FIXTURES];
    uint64_t digest[4];
    fixtures_make(fix);
    struct client_msg *m = &fix[1].client;
    cr_assert_str_eq(fix[1].name, "generate_text");
    for (int i = 0; i < 4; i++) {
        struct wire_bytes bytes;
        struct request_head h;
        const char *field;
        m->u.generate.grace_ms = i == 1 ? 1 : 10000;
        m->u.generate.has_limits = i != 1;
        if (i == 1)
            m->u.generate.resume = NULL;
        m->u.generate.client_digest.n = i == 2 ? 2 : 3;
        m->u.generate.max_tokens = i == 3 ? 127 : 128;
        wire_mem_reset(&a);
        cr_assert(encode(&fix[1], &bytes, &a) == ST_OK);
        cr_assert(client_msg_head(&h, bytes.data, bytes.n, &field) == ST_OK);
        digest[i] = h.digest;
    }
    cr_assert_eq(digest[0], digest[1]);
    cr_assert_neq(digest[0], digest[2]);
    cr_assert_neq(digest[0], digest[3]);
}

static void refuse_head(const void *body, size_t n, const char *word, const char *want_field)
{
    uint8_t bytes[256];
    struct request_head h;
    const char *field;
    frame_header(bytes, MSG_CANCEL);
    memcpy(bytes + FRAME_HEADER, body, n);
    cr_assert_neq(client_msg_head(&h, bytes, FRAME_HEADER + n, &field), ST_OK, "%s", word);
    cr_assert(strstr(status_text(), word) != NULL, "%s: %s", word, status_text());
    cr_assert_str_eq(field, want_field);
    cr_assert_eq(h.type, MSG_CANCEL);
    cr_assert_str_eq(h.id, strcmp(want_field, "request_id") == 0 ? "" : "r");
    cr_assert_eq(h.tenant.n, 0);
}

Test(wire, a_bad_head_is_refused_by_name)
{
    char longest[2 + 65] = {10, 65};
    memset(longest + 2, 'x', 65);
    refuse_head("", 0, "no request_id", "request_id");
    refuse_head("\x0a\x00", 2, "0 bytes", "request_id");
    refuse_head(longest, sizeof longest, "65 bytes", "request_id");
    refuse_head("\x0a\x03r\0r", 5, "NUL", "request_id");
    refuse_head("\x0a\x01\xff", 3, "UTF-8", "request_id");
    refuse_head("\x08\x01", 2, "not a string", "request_id");
    refuse_head("\x0a\x01r\x0a\x00", 5, "0 bytes", "request_id"); /* the last one counts */
    refuse_head("\x0a\x01r\x1a\x05", 5, "cut off", "");
    refuse_head("\x0a\x01r\x12\x00", 5, "tenant has 0 bytes", "tenant");
    refuse_head("\x0a\x01r\x10\x01", 5, "tenant is not", "tenant");
    char tenant[5 + 65] = {10, 1, 'r', 18, 65};
    refuse_head(tenant, sizeof tenant, "tenant has 65 bytes", "tenant");
    refuse_head("\x0a\x01r\x18\xff", 5, "cut off", "");
    refuse_head("\x0a\x01r\x11\x01", 5, "cut off", "");
    refuse_head("\x0a\x01r\x13", 4, "wire type 3", "");
}

Test(wire, unknown_fields_are_named)
{
    struct client_msg m;
    struct wire_bytes out;
    const char *id, *field;
    uint8_t bytes[64];
    m.type = MSG_PING;
    m.u.simple = (struct msg_simple){"r", 0};
    cr_assert(client_msg_encode_request(&out, &m, &a) == ST_OK);
    memcpy(bytes, out.data, out.n);
    bytes[out.n] = 15 << 3; /* field 15, varint */
    bytes[out.n + 1] = 1;
    cr_assert(client_msg_decode_request(&m, bytes, out.n + 2, &b, &id, &field) == ST_UNSUPPORTED);
    cr_assert(strstr(status_text(), "field number 15 of Ping") != NULL, "%s", status_text());
    cr_assert_str_eq(id, "r");
    cr_assert_str_eq(field, "15");

    /* in a message within: sampling (6) with a field 99 */
    static const uint8_t body[] = {10, 1, 'r', 26, 1, 'x', 50, 3, 0x98, 6, 1};
    frame_header(bytes, MSG_GENERATE);
    memcpy(bytes + FRAME_HEADER, body, sizeof body);
    cr_assert(client_msg_decode_request(&m, bytes, FRAME_HEADER + sizeof body, &b, &id, &field) ==
              ST_UNSUPPORTED);
    cr_assert(strstr(status_text(), "sampling.99: field number 99 of Sampling") != NULL, "%s",
              status_text());
    cr_assert_str_eq(field, "sampling.99");
}

Test(wire, strings_with_nul_are_named)
{
    static const struct {
        enum msg_type type;
        const char *field;
        const char *body;
        size_t n;
    } cases[] = {
        {MSG_HELLO, "client",
         "\x08\x01\x10\x01\x1a\x03"
         "a\0b",
         9},
        {MSG_TOKENIZE, "model", "\x0a\x01r\x12\x01x\x22\x02m\0", 10},
        /* chat (2) of ApplyTemplate: turn (1) with role (1) "u\0s" and content (2) "x" */
        {MSG_APPLY_TEMPLATE, "chat.turn.role", "\x0a\x01r\x12\x0a\x0a\x08\x0a\x03u\0s\x12\x01x",
         15},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client_msg m;
        const char *id, *field;
        uint8_t bytes[64];
        frame_header(bytes, (uint16_t)cases[i].type);
        memcpy(bytes + FRAME_HEADER, cases[i].body, cases[i].n);
        wire_mem_reset(&b);
        cr_assert(client_msg_decode_request(&m, bytes, FRAME_HEADER + cases[i].n, &b, &id,
                                            &field) == ST_FORMAT,
                  "%zu: %s", i, status_text());
        cr_assert_str_eq(field, cases[i].field);
        cr_assert(strstr(status_text(), "NUL") != NULL, "%s", status_text());
    }
}

static void refuse(struct msg_generate g, const char *word, const char *want_field)
{
    struct client_msg m = {.type = MSG_GENERATE};
    struct wire_bytes out;
    const char *id, *field;
    m.u.generate = g;
    wire_mem_reset(&a);
    wire_mem_reset(&b);
    cr_assert(client_msg_encode_request(&out, &m, &a) == ST_OK);
    cr_assert(client_msg_decode_request(&m, out.data, out.n, &b, &id, &field) != ST_OK, "%s", word);
    cr_assert(strstr(status_text(), word) != NULL, "%s: %s", word, status_text());
    cr_assert_str_eq(field, want_field);
}

Test(wire, bad_values_are_refused_by_name)
{
    struct msg_generate good = msg_generate_default(), g;
    good.sampling.unset = 0;
    good.request_id = "x";
    good.text = (struct wire_text){"hi", 2};
    g = good, g.sampling.sp.temperature = -1.0f;
    refuse(g, "temperature", "sampling.temperature");
    g = good, g.sampling.sp.top_p = 0.0f;
    refuse(g, "top_p", "sampling.top_p");
    g = good, g.sampling.sp.top_p = NAN;
    refuse(g, "top_p", "sampling.top_p");
    g = good, g.n = 17;
    refuse(g, "n is 17", "n");
    g = good, g.priority = 101;
    refuse(g, "priority", "priority");
    g = good, g.text = (struct wire_text){"\xff", 1};
    refuse(g, "UTF-8", "text");
    g = good, g.request_id = "";
    refuse(g, "request_id", "request_id");
    struct wire_text empty = {"", 0};
    g = good, g.n_stops = 1, g.stops = &empty;
    refuse(g, "stop[0] is empty", "stop");
}

Test(wire, memory_is_bounded)
{
    static int32_t many[100000];
    struct client_msg m = {.type = MSG_DETOKENIZE};
    struct wire_bytes out;
    struct wire_mem small, big;
    cr_assert(wire_mem_init(&small, 4096) == ST_OK && wire_mem_init(&big, 1 << 22) == ST_OK);
    m.u.detokenize =
        (struct msg_detokenize){.request_id = "r", .model = "", .n_tokens = 100000, .tokens = many};
    cr_assert(client_msg_encode_request(&out, &m, &small) == ST_NOMEM);
    cr_assert(client_msg_encode_request(&out, &m, &big) == ST_OK);
    cr_assert(client_msg_decode_request(&m, out.data, out.n, &small, NULL, NULL) == ST_NOMEM);
    wire_mem_fini(&small);
    wire_mem_fini(&big);
}

Test(endpoints, checks)
{
    cr_assert(sock_check_endpoint("tcp://127.0.0.1:5555", true, false) == ST_OK);
    cr_assert(sock_check_endpoint("tcp://localhost:*", true, false) == ST_OK);
    cr_assert(sock_check_endpoint("tcp://[::1]:80", true, false) == ST_OK);
    cr_assert(sock_check_endpoint("ipc:///tmp/x", true, false) == ST_OK);
    cr_assert(sock_check_endpoint("tcp://head:5556", false, false) == ST_OK);
    cr_assert(sock_check_endpoint("tcp://0.0.0.0:1", true, true) == ST_OK);
    static const char *const bad[] = {"tcp://0.0.0.0:5555",
                                      "tcp://*:5555",
                                      "tcp://127.0.0.1",
                                      "tcp://127.0.0.1:0",
                                      "tcp://127.0.0.1:65536",
                                      "udp://x:1",
                                      "ipc://",
                                      "tcp://127.evil.org:5",
                                      "tcp://:5"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert(sock_check_endpoint(bad[i], true, false) == ST_RANGE, "%s", bad[i]);
}

Test(utf8, prefixes)
{
    cr_assert(utf8_valid("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    cr_assert_eq(utf8_valid_prefix("ab\xe2\x82", 4), 2);
    cr_assert_eq(utf8_valid_prefix("\xc0\x80", 2), 0);         /* overlong */
    cr_assert_eq(utf8_valid_prefix("\xed\xa0\x80", 3), 0);     /* surrogate */
    cr_assert_eq(utf8_valid_prefix("\xf4\x90\x80\x80", 4), 0); /* above U+10FFFF */
}

Test(dtype, halves_round_trip_and_round_to_even)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f32_of_f16((uint16_t)h), g = f32_of_bf16((uint16_t)h);
        if (f == f)
            cr_assert_eq(f16_of_f32(f), h);
        else
            cr_assert(f32_of_f16(f16_of_f32(f)) != f32_of_f16(f16_of_f32(f)));
        if (g == g)
            cr_assert_eq(bf16_of_f32(g), h);
    }
    cr_assert_eq(f16_of_f32(65519.0f), 0x7bff);
    cr_assert_eq(f16_of_f32(65520.0f), 0x7c00);
    cr_assert_eq(f16_of_f32(0x1p-25f), 0); /* half the least: to even */
    cr_assert_eq(f16_of_f32(0x1.8p-25f), 1);
    cr_assert_eq(f16_of_f32(1.0f + 0x1p-11f), 0x3c00);
    cr_assert_eq(bf16_of_f32(1.0f + 0x1p-8f), 0x3f80);
    cr_assert_eq(bf16_of_f32(1.0f + 0x1.8p-8f), 0x3f81);
}
