/* The digest of a file, its cache and its lock. */
#define _GNU_SOURCE /* utimensat, st_mtim */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/digest/file_digest.h"
#include "temp_dir.h"

static char dir[64];
static struct digest_cache cache;

static void setup(void)
{
    temp_dir_make(dir);
    digest_cache_init(&cache, dir, NULL);
}

static void teardown(void)
{
    temp_dir_remove(dir);
}

TestSuite(file_digest, .init = setup, .fini = teardown);

/* Valid until the next but one call. */
static const char *at(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(data, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

/* Sets the file's time, long ago unless it is said otherwise. */
static void set_time(const char *path, time_t seconds)
{
    struct timespec t[2] = {{.tv_sec = seconds, .tv_nsec = 5}, {.tv_sec = seconds, .tv_nsec = 5}};
    cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}
enum { LONG_AGO = 1000000000 };

static unsigned char *pattern(size_t n)
{
    unsigned char *p = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 31 + (i >> 13));
    return p;
}

static struct file_digest_job job(void)
{
    return (struct file_digest_job){.cache = &cache, .n_threads = 1, .locked = true};
}

static void digest(const char *path, uint8_t out[SHA256_BYTES])
{
    struct file_digest_job j = job();
    cr_assert_eq(file_digest(path, &j, out), ST_OK, "%s", status_text());
}

/* The definition of the header, in the plainest way. */
static void expect(const unsigned char *data, size_t n, uint8_t out[SHA256_BYTES])
{
    static const char head[] = "ingot file digest 1\n";
    size_t blocks = (n + FILE_DIGEST_BLOCK - 1) / FILE_DIGEST_BLOCK, len = sizeof head - 1 + 8;
    unsigned char *text = calloc(1, len + blocks * SHA256_BYTES);
    memcpy(text, head, sizeof head - 1);
    for (int i = 0; i < 8; i++)
        text[sizeof head - 1 + (size_t)i] = (unsigned char)((uint64_t)n >> (8 * i));
    for (size_t i = 0; i < blocks; i++, len += SHA256_BYTES) {
        size_t from = i * FILE_DIGEST_BLOCK, left = n - from;
        sha256(data + from, left < FILE_DIGEST_BLOCK ? left : FILE_DIGEST_BLOCK, text + len);
    }
    sha256(text, len, out);
    free(text);
}

Test(file_digest, is_the_tree_of_its_blocks_on_any_number_of_threads)
{
    static const size_t sizes[] = {0,
                                   1,
                                   1000,
                                   FILE_DIGEST_BLOCK - 1,
                                   FILE_DIGEST_BLOCK,
                                   FILE_DIGEST_BLOCK + 1,
                                   5 * FILE_DIGEST_BLOCK + 77};
    digest_cache_init(&cache, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        unsigned char *data = pattern(sizes[i]);
        uint8_t want[SHA256_BYTES], got[SHA256_BYTES];
        write_bytes(at("file"), data, sizes[i]);
        expect(data, sizes[i], want);
        for (int threads = 1; threads < 8; threads += 3) {
            struct file_digest_job j = job();
            j.n_threads = threads;
            cr_assert_eq(file_digest(at("file"), &j, got), ST_OK, "%s", status_text());
            cr_expect_arr_eq(got, want, sizeof want, "%zu bytes, %d threads", sizes[i], threads);
        }
        free(data);
    }
}

Test(file_digest, every_byte_counts)
{
    size_t n = FILE_DIGEST_BLOCK + 3;
    unsigned char *data = pattern(n);
    const size_t changed[] = {0, 257, FILE_DIGEST_BLOCK - 1, FILE_DIGEST_BLOCK, n - 1};
    uint8_t before[SHA256_BYTES], after[SHA256_BYTES];
    digest_cache_init(&cache, NULL, NULL);
    write_bytes(at("file"), data, n);
    digest(at("file"), before);
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
        data[changed[i]] ^= 1;
        write_bytes(at("file"), data, n);
        digest(at("file"), after);
        cr_expect_arr_neq(after, before, sizeof after, "byte %zu", changed[i]);
        data[changed[i]] ^= 1;
    }
    free(data);
}

/* Changes a byte of the file behind the cache's back. */
static void change_silently(const char *path)
{
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "!", 1, 3), 1);
    close(fd);
    struct timespec t[2] = {st.st_atim, st.st_mtim};
    cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

Test(file_digest, is_cached_by_path_size_time_and_inode)
{
    uint8_t first[SHA256_BYTES], got[SHA256_BYTES], changed[SHA256_BYTES];
    write_bytes(at("file"), "some bytes", 10);
    set_time(at("file"), LONG_AGO);
    digest(at("file"), first);
    change_silently(at("file"));
    digest(at("file"), got);
    cr_expect_arr_eq(got, first, sizeof first, "the cache was not used");
    set_time(at("file"), LONG_AGO + 1);
    digest(at("file"), changed);
    cr_expect_arr_neq(changed, first, sizeof first, "another time");
    /* the same path, size and time, another inode */
    write_bytes(at("other"), "other byte", 10);
    set_time(at("other"), LONG_AGO + 1);
    cr_assert_eq(rename(at("other"), at("file")), 0);
    digest(at("file"), got);
    cr_expect_arr_neq(got, changed, sizeof got, "another inode");
    /* another size */
    write_bytes(at("file"), "other bytes", 11);
    set_time(at("file"), LONG_AGO + 1);
    digest(at("file"), changed);
    cr_expect_arr_neq(got, changed, sizeof got, "another size");
    /* the same facts under another path: the bytes are read */
    cr_assert_eq(rename(at("file"), at("moved")), 0);
    change_silently(at("moved"));
    digest(at("moved"), got);
    cr_expect_arr_neq(got, changed, sizeof got, "another path");
}

Test(file_digest, a_file_that_is_still_being_written_is_not_cached)
{
    uint8_t first[SHA256_BYTES], got[SHA256_BYTES];
    write_bytes(at("file"), "some bytes", 10);
    set_time(at("file"), time(NULL) + 1000);
    digest(at("file"), first);
    change_silently(at("file"));
    digest(at("file"), got);
    cr_expect_arr_neq(got, first, sizeof first);
}

/* ---- damaged entries ---- */

Test(file_digest, a_damaged_entry_is_ignored)
{
    char *text = calloc(1, 8192), *copy = calloc(1, 8192), entry[256], command[256];
    uint8_t want[SHA256_BYTES], got[SHA256_BYTES];
    struct file_facts f;
    write_bytes(at("file"), "some bytes", 10);
    set_time(at("file"), LONG_AGO);
    digest(at("file"), want);
    cr_assert_eq(file_facts_read(&f, at("file")), ST_OK);
    snprintf(command, sizeof command, "find %s/ingot/digests -type f ! -name '*.*'", dir);
    FILE *p = popen(command, "r");
    cr_assert(p && fgets(entry, sizeof entry, p));
    entry[strcspn(entry, "\n")] = '\0';
    pclose(p);
    FILE *in = fopen(entry, "rb");
    size_t n = fread(text, 1, 8192, in);
    fclose(in);
    cr_assert(n > 150 && digest_cache_find(&cache, &f, got));
    for (size_t i = 0; i < n; i++) {
        memcpy(copy, text, n);
        copy[i] ^= 1;
        write_bytes(entry, copy, n);
        cr_expect_not(digest_cache_find(&cache, &f, got), "byte %zu", i);
        write_bytes(entry, text, i);
        cr_expect_not(digest_cache_find(&cache, &f, got), "%zu bytes", i);
    }
    memcpy(copy, text, n);
    write_bytes(entry, copy, n + 1);
    cr_expect_not(digest_cache_find(&cache, &f, got), "a byte too many");
    digest(at("file"), got); /* hashed and written anew */
    cr_expect_arr_eq(got, want, sizeof want);
    cr_expect(digest_cache_find(&cache, &f, got));
    free(text);
    free(copy);
}

Test(file_digest, a_cache_that_cannot_be_written_does_no_harm)
{
    uint8_t want[SHA256_BYTES], got[SHA256_BYTES];
    struct file_digest_job j = job();
    write_bytes(at("file"), "some bytes", 10);
    set_time(at("file"), LONG_AGO);
    expect((const unsigned char *)"some bytes", 10, want);
    digest_cache_init(&cache, at("file"), NULL); /* a folder below a file */
    digest(at("file"), got);
    cr_expect_arr_eq(got, want, sizeof want);
    cr_expect(cache.complained);
    j.needs_lock = true;
    cr_expect_eq(file_digest(at("file"), &j, got), ST_IO);
}

/* ---- lock ---- */

struct waiter {
    struct file_digest_job job;
    enum status st;
    uint8_t got[SHA256_BYTES];
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    w->st = file_digest(at("file"), &w->job, w->got);
    return NULL;
}

Test(file_digest, another_process_s_result_is_taken)
{
    static const uint8_t invented[SHA256_BYTES] = {1, 2, 3};
    struct digest_cache own = cache;
    struct waiter w = {.job = job()};
    struct file_facts f;
    pthread_t thread;
    int fd, second;
    write_bytes(at("file"), "some bytes", 10);
    set_time(at("file"), LONG_AGO);
    cr_assert_eq(file_facts_read(&f, at("file")), ST_OK);
    cr_assert_eq(digest_cache_try_lock(&cache, &f, &fd), ST_OK);
    cr_assert(fd >= 0);
    cr_assert_eq(digest_cache_try_lock(&cache, &f, &second), ST_OK);
    cr_assert_eq(second, -1, "locked twice");
    w.job.cache = &own;
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    digest_cache_store(&cache, &f, UINT64_MAX, invented);
    close(fd);
    pthread_join(thread, NULL);
    cr_assert_eq(w.st, ST_OK);
    cr_expect_arr_eq(w.got, invented, sizeof invented, "it hashed the file itself");
}

Test(file_digest, waiting_for_the_lock_can_be_ended)
{
    struct digest_cache own = cache;
    atomic_bool stop = false;
    struct waiter w = {.job = job()};
    struct file_facts f;
    pthread_t thread;
    int fd;
    write_bytes(at("file"), "some bytes", 10);
    cr_assert_eq(file_facts_read(&f, at("file")), ST_OK);
    cr_assert_eq(digest_cache_try_lock(&cache, &f, &fd), ST_OK);
    w.job.cache = &own;
    w.job.stop = &stop;
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    cr_expect_eq(w.st, ST_CANCELED);
    close(fd);
}

Test(file_digest, what_is_no_file_is_named)
{
    struct file_digest_job j = job();
    uint8_t got[SHA256_BYTES];
    cr_expect_eq(file_digest(at("nothing"), &j, got), ST_NOT_FOUND);
    cr_expect_not_null(strstr(status_text(), "nothing"));
    cr_expect_eq(file_digest(dir, &j, got), ST_IO);
}
