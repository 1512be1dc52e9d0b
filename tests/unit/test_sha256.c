/* SHA-256: the examples of FIPS 180-4 and of NIST's test vectors; any cut into parts gives the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/sha256.h"

static const char *hex(const uint8_t digest[SHA256_BYTES])
{
    static char text[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

Test(sha256, published_vectors)
{
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "m"
         "nopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    uint8_t got[SHA256_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sha256(rows[i].text, strlen(rows[i].text), got);
        cr_expect_str_eq(hex(got), rows[i].digest, "\"%s\"", rows[i].text);
    }
}

Test(sha256, a_million_letters_in_parts)
{
    char part[1000];
    struct sha256 s;
    uint8_t got[SHA256_BYTES];
    memset(part, 'a', sizeof part);
    sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        sha256_update(&s, part, sizeof part);
    sha256_final(&s, got);
    cr_expect_str_eq(hex(got), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

Test(sha256, any_cut_gives_the_same)
{
    unsigned char data[200];
    uint8_t whole[SHA256_BYTES], got[SHA256_BYTES];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    sha256(data, sizeof data, whole);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        struct sha256 s;
        sha256_init(&s);
        sha256_update(&s, data, cut);
        sha256_update(&s, data + cut, sizeof data - cut);
        sha256_final(&s, got);
        cr_expect_arr_eq(got, whole, sizeof whole, "cut at %zu", cut);
    }
}
