#define _GNU_SOURCE /* truncate, setrlimit under strict C */
/* Compiled kernels in the user's cache folder, on the tests' double: what a start compiles and what it takes, damaged
 * files and folders that cannot be used, keys, several processes. */
#include "metal_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/metal/archive.h"
#include "temp_dir.h"

enum { AT_START = 36, OF_TYPE = 3, OF_CACHE = 1, ALL = AT_START + OF_TYPE + OF_CACHE };

static char cache[32], folder[64], said[64]; /* XDG_CACHE_HOME, its ingot/metal, what is logged */

static void begin(void)
{
    temp_dir_make(cache);
    snprintf(folder, sizeof folder, "%s/ingot/metal", cache);
    snprintf(said, sizeof said, "%s/said", cache);
    cr_assert_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    int fd = open(said, O_RDWR | O_CREAT | O_APPEND, 0600);
    cr_assert(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
}

static void end(void)
{
    temp_dir_remove(cache);
}

TestSuite(metal_archive, .init = begin, .fini = end);

/* Warnings since the last call; the last one has the word (NULL: there is none to look at). */
static int warnings(const char *word)
{
    static char text[1 << 16];
    int n = 0;
    FILE *f = fopen(said, "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
    for (const char *at = text; (at = strstr(at, " warn ")) != NULL; at++, n++)
        cr_assert(!word || strstr(at, word), "no '%s' in: %s", word, text);
    cr_assert_eq(truncate(said, 0), 0);
    return n;
}

/* The start of a model with matrices of the type: kernels compiled and kernels taken. */
static void start(enum dtype type, uint64_t compiled, uint64_t taken)
{
    static const struct backend_use use = {.kv = DT_F16, .d_head = {64}, .n_heads = 1};
    uint64_t c = metal_double_compiled(), t = metal_double_taken();
    struct backend *be = open_metal();
    load_type(be, type, false);
    MUST(metal_prepare(be, &use));
    metal_double_seal(true); /* steps make none */
    MUST(metal_prepare(be, &use));
    metal_double_seal(false);
    close_metal(be);
    cr_assert_eq(metal_double_compiled() - c, compiled, "%llu compiled, not %llu",
                 (unsigned long long)(metal_double_compiled() - c), (unsigned long long)compiled);
    cr_assert_eq(metal_double_taken() - t, taken, "%llu taken, not %llu",
                 (unsigned long long)(metal_double_taken() - t), (unsigned long long)taken);
}

/* How many files the folder has; the path of one of them. */
static int files(char path[512])
{
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, 512, "%s/%s", folder, e->d_name);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

Test(metal_archive, the_second_start_compiles_nothing)
{
    char path[512];
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), 1);
    start(DT_BF16, 0, ALL);
    cr_assert_eq(files(path), 1);
    cr_assert_eq(warnings(NULL), 0);
}

/* Another model's types are added; what the first one needs is there still. */
Test(metal_archive, models_share_a_file)
{
    char path[512];
    start(DT_BF16, ALL, 0);
    start(DT_Q4_K, OF_TYPE, AT_START + OF_CACHE);
    cr_assert_eq(files(path), 1);
    start(DT_BF16, 0, ALL);
    start(DT_Q4_K, 0, ALL);
    cr_assert_eq(files(path), 1);
    cr_assert_eq(warnings(NULL), 0);
}

/* A second model of the same process. */
Test(metal_archive, a_later_model_is_added)
{
    static const struct backend_use use = {.kv = DT_F16, .d_head = {64}, .n_heads = 1};
    struct backend *be = open_metal();
    load_type(be, DT_BF16, false);
    MUST(metal_prepare(be, &use));
    load_type(be, DT_Q4_K, false);
    MUST(metal_prepare(be, &use));
    close_metal(be);
    start(DT_Q4_K, 0, ALL);
    start(DT_BF16, 0, ALL);
}

static void make_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void flip(const char *path)
{
    FILE *f = fopen(path, "r+b");
    cr_assert(f && fseek(f, 40, SEEK_SET) == 0);
    int c = fgetc(f);
    cr_assert(fseek(f, 40, SEEK_SET) == 0 && fputc(c ^ 4, f) != EOF && fclose(f) == 0);
}

static void cut(const char *path)
{
    cr_assert_eq(truncate(path, 100), 0);
}

static void empty(const char *path)
{
    cr_assert_eq(truncate(path, 0), 0);
}

static void be_a_folder(const char *path)
{
    cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0);
}

static void be_nothing(const char *path)
{
    cr_assert(unlink(path) == 0 && symlink("/nonexistent/file", path) == 0);
}

static void be_another(const char *path)
{
    char other[512];
    snprintf(other, sizeof other, "%s", path);
    char *digit = strrchr(other, '-') + 1;
    *digit = *digit == '0' ? '1' : '0';
    cr_assert_eq(rename(path, other), 0);
}

/* A whole file by its digest, which Metal does not take. */
static void be_refused(const char *path)
{
    char temporary[600];
    struct archive_files f = {.path = ""};
    snprintf(f.dir, sizeof f.dir, "%s", folder);
    snprintf(f.key, sizeof f.key, "%.*s", ARCHIVE_DIGITS, strrchr(path, '/') + 1);
    snprintf(temporary, sizeof temporary, "%s/x", folder);
    make_file(temporary, "no archive", 10);
    cr_assert_eq(unlink(path), 0);
    MUST(archive_keep(&f, temporary));
}

Test(metal_archive, a_damaged_file_is_made_anew)
{
    static void (*const hurt[])(const char *path) = {flip,       cut,        empty,     be_a_folder,
                                                     be_nothing, be_another, be_refused};
    char path[512];
    start(DT_BF16, ALL, 0);
    for (size_t i = 0; i < ARRAY_LEN(hurt); i++) {
        cr_assert_eq(files(path), 1);
        hurt[i](path);
        start(DT_BF16, ALL, 0);
        cr_assert_eq(warnings("it is made anew"), 1, "%zu", i);
        start(DT_BF16, 0, ALL);
        cr_assert_eq(warnings(NULL), 0, "%zu", i);
    }
}

Test(metal_archive, a_file_that_cannot_be_read_is_made_anew)
{
    char path[512];
    if (geteuid() == 0)
        cr_skip_test("root reads every file");
    start(DT_BF16, ALL, 0);
    cr_assert(files(path) == 1 && chmod(path, 0) == 0);
    start(DT_BF16, ALL, 0);
    cr_assert_eq(warnings("it is made anew"), 1);
    start(DT_BF16, 0, ALL);
}

/* Below a file, in a file system that takes none, without an environment. */
Test(metal_archive, without_a_folder_every_start_compiles)
{
    static const char *const homes[] = {"/dev/null", "/proc/self", NULL};
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        cr_assert_eq(homes[i] ? setenv("XDG_CACHE_HOME", homes[i], 1) : unsetenv("XDG_CACHE_HOME"),
                     0);
        cr_assert_eq(unsetenv("HOME"), 0);
        for (int k = 0; k < 2; k++) {
            start(DT_BF16, ALL, 0);
            cr_assert_eq(warnings("compiled Metal kernels are not kept"), 1, "%zu", i);
        }
    }
}

Test(metal_archive, a_folder_that_is_read_only_is_read)
{
    if (geteuid() == 0)
        cr_skip_test("root writes everywhere");
    start(DT_BF16, ALL, 0);
    cr_assert_eq(chmod(folder, 0500), 0);
    start(DT_Q4_K, OF_TYPE, AT_START + OF_CACHE);
    cr_assert_eq(warnings("compiled Metal kernels are not kept"), 1);
    start(DT_BF16, 0, ALL);
    cr_assert_eq(warnings(NULL), 0);
    cr_assert_eq(chmod(folder, 0700), 0);
}

/* A file that does not fit leaves what was there, and nothing of its own. */
Test(metal_archive, without_room_the_old_file_stays)
{
    char path[512], after[512];
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), 1);
    struct rlimit old;
    cr_assert_eq(warnings(NULL), 0); /* what is logged is below the limit, too */
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){300, old.rlim_max}), 0);
    start(DT_Q4_K, OF_TYPE, AT_START + OF_CACHE);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    cr_assert_eq(warnings("compiled Metal kernels are not kept"), 1);
    cr_assert_eq(files(after), 1);
    cr_assert_str_eq(after, path);
    start(DT_BF16, 0, ALL);
}

Test(metal_archive, archives_that_metal_refuses_are_not_used)
{
    char path[512];
    metal_double_refuse_archives(true);
    start(DT_BF16, ALL, 0);
    cr_assert_eq(warnings("compiled Metal kernels are not kept"), 1);
    cr_assert_eq(files(path), 0);
    metal_double_refuse_archives(false);
    start(DT_BF16, ALL, 0);
    metal_double_refuse_archives(true);
    start(DT_BF16, ALL, 0);
    cr_assert_eq(warnings("compiled Metal kernels are not kept"), 1);
}

/* Another system, GPU or way to compile has a file of its own. */
Test(metal_archive, a_file_is_of_one_system_and_gpu)
{
    char path[512];
    start(DT_BF16, ALL, 0);
    metal_double_os_build("Version 14.6 (Build 23G80)");
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), 2);
    metal_double_family(1009);
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), 3);
    metal_double_without_math_mode(true);
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), 4);
    start(DT_BF16, 0, ALL);
    metal_double_without_math_mode(false);
    metal_double_family(1007);
    metal_double_os_build("Version 14.5 (Build 23F79)");
    start(DT_BF16, 0, ALL);
    cr_assert_eq(warnings(NULL), 0);
}

Test(metal_archive, a_key_is_of_the_source)
{
    char one[ARCHIVE_DIGITS + 1], other[ARCHIVE_DIGITS + 1];
    struct backend *be = open_metal();
    void *pool = objc_autoreleasePoolPush();
    metal_archive_key(be, metal_source, one);
    cr_assert_str_eq(one, be->files.key);
    metal_archive_key(be, metal_source + 1, other);
    cr_assert_str_neq(one, other);
    snprintf(be->name, sizeof be->name, "another GPU");
    metal_archive_key(be, metal_source, other);
    cr_assert_str_neq(one, other);
    archive_key((const char *[]){"ab", "c"}, 2, one);
    archive_key((const char *[]){"a", "bc"}, 2, other);
    cr_assert_str_neq(one, other);
    objc_autoreleasePoolPop(pool);
    close_metal(be);
}

static void set_age(const char *path, long seconds)
{
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){now.tv_sec - seconds, 0};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Those that were not used for the longest time go; files with other names stay. */
Test(metal_archive, old_files_go)
{
    static const char *const others[] = {"notes", "x.archive", "0123456789abcdef.tmp"};
    char path[512], name[512], first[512];
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(first), 1);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        snprintf(name, sizeof name, "%s/%s", folder, others[i]);
        make_file(name, "x", 1);
        set_age(name, 9000);
    }
    snprintf(name, sizeof name, "%s/00112233445566778899aabbccddeeff-17.tmp", folder);
    make_file(name, "left by a process that was killed", 33);
    set_age(name, 8000);
    set_age(first, 7000);
    for (int i = 0; i < ARCHIVE_FILES - 1; i++) {
        char system[32];
        snprintf(system, sizeof system, "system %d", i);
        metal_double_os_build(system);
        start(DT_BF16, ALL, 0);
    }
    cr_assert_eq(files(path), ARCHIVE_FILES + (int)ARRAY_LEN(others));
    cr_assert_neq(access(name, F_OK), 0, "the oldest temporary file is there");
    metal_double_os_build("Version 14.5 (Build 23F79)");
    start(DT_BF16, 0, ALL); /* is the youngest again */
    metal_double_os_build("one more system");
    start(DT_BF16, ALL, 0);
    cr_assert_eq(files(path), ARCHIVE_FILES + (int)ARRAY_LEN(others));
    cr_assert_eq(access(first, F_OK), 0, "the file that was used last is gone");
}

/* Processes that start at once, with types of their own: each has its kernels, and a whole file is left. */
Test(metal_archive, starts_at_once)
{
    enum { N = 4 };
    static const enum dtype types[N] = {DT_BF16, DT_Q4_K, DT_Q6_K, DT_F16};
    char path[512];
    for (int round = 0; round < 5; round++) {
        pid_t pid[N];
        for (int i = 0; i < N; i++)
            if ((pid[i] = fork()) == 0) {
                static const struct backend_use use = {.kv = DT_F16, .d_head = {64}, .n_heads = 1};
                struct backend *be = NULL;
                bool ok = backend_open(&be, "metal", &(struct backend_config){0}) == ST_OK &&
                          (load_type(be, types[i], false), metal_prepare(be, &use)) == ST_OK;
                _exit(ok ? 0 : 1);
            }
        for (int i = 0; i < N; i++) {
            int ws = 0;
            cr_assert(waitpid(pid[i], &ws, 0) == pid[i] && ws == 0, "status %x", (unsigned)ws);
        }
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* times of files are coarse */
    for (int i = 0; i < N; i++) {                             /* what a race has lost is added */
        struct backend *be = open_metal();
        load_type(be, types[i], false);
        MUST(metal_prepare(be, &(struct backend_use){.kv = DT_F16, .d_head = {64}, .n_heads = 1}));
        close_metal(be);
    }
    for (int i = 0; i < N; i++)
        start(types[i], 0, ALL);
    cr_assert_leq(files(path), ARCHIVE_FILES);
}
