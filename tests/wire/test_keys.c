/* Files of keys: what is written can be read, and whatever is wrong in one is named. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/key_list.h"
#include "temp_dir.h"

static char dir[64], path[96], public_path[100];

static void make_dir(void)
{
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/key", dir);
    snprintf(public_path, sizeof public_path, "%s.pub", path);
}

static void remove_dir(void)
{
    unlink(path);
    unlink(public_path);
    temp_dir_remove(dir);
}

TestSuite(keys, .init = make_dir, .fini = remove_dir);

static void says(const char *text)
{
    cr_assert(strstr(status_text(), text), "%s", status_text());
}

Test(keys, a_pair_is_written_once_and_for_its_owner_alone)
{
    struct curve_pair made, read;
    char public_key[CURVE_SIZE];
    struct stat st;
    cr_assert_eq(curve_pair_make(&made), ST_OK);
    cr_assert_eq(curve_pair_save(&made, path), ST_OK, "%s", status_text());
    cr_assert_eq(curve_pair_save(&made, path), ST_IO);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600u);
    cr_assert_eq(curve_pair_load(&read, path), ST_OK, "%s", status_text());
    cr_assert_eq(memcmp(&made, &read, sizeof made), 0);
    cr_assert_eq(curve_public_load(public_key, public_path), ST_OK);
    cr_assert_str_eq(public_key, made.public_key);
    cr_assert_eq(curve_public_load(public_key, made.public_key), ST_OK);
    cr_assert_eq(curve_pair_load(&read, public_path), ST_RANGE); /* mode 644 */
    chmod(public_path, 0600);
    cr_assert_eq(curve_pair_load(&read, public_path), ST_FORMAT);
    says("secret KEY");
    chmod(path, 0640);
    cr_assert_eq(curve_pair_load(&read, path), ST_RANGE);
    says("others may read");
}

Test(keys, a_path_of_forty_characters_is_no_key)
{
    struct curve_pair made;
    char public_key[CURVE_SIZE], long_path[CURVE_SIZE];
    cr_assert_eq(curve_pair_make(&made), ST_OK);
    cr_assert_eq(curve_pair_save(&made, path), ST_OK);
    int n = snprintf(long_path, sizeof long_path, "%s/", dir);
    while (n + 3 < CURVE_TEXT)
        long_path[n++] = '/';
    snprintf(long_path + n, sizeof long_path - (size_t)n, "key");
    cr_assert_eq(strlen(long_path), (size_t)CURVE_TEXT);
    cr_assert_eq(curve_public_load(public_key, long_path), ST_OK, "%s", status_text());
    cr_assert_str_eq(public_key, made.public_key);
}

Test(keys, a_public_key_must_be_the_secrets)
{
    struct curve_pair a, b, out;
    char text[128];
    cr_assert_eq(curve_pair_make(&a), ST_OK);
    cr_assert_eq(curve_pair_make(&b), ST_OK);
    int n = snprintf(text, sizeof text, "secret %s\npublic %s\n", a.secret_key, a.public_key);
    cr_assert_eq(curve_pair_parse(&out, text, (size_t)n, true), ST_OK, "%s", status_text());
    n = snprintf(text, sizeof text, "public %s\nsecret %s\n", b.public_key, a.secret_key);
    cr_assert_eq(curve_pair_parse(&out, text, (size_t)n, true), ST_FORMAT);
    cr_assert_eq(curve_pair_parse(&out, text, 40, true), ST_FORMAT);
    cr_assert_eq(curve_pair_parse(&out, "a\0b", 3, false), ST_FORMAT);
}

#define KEY_A "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
#define KEY_B "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"

Test(keys, a_list_keeps_names_roles_and_keys)
{
    static const char text[] = "# comment\n\nalice ask,observe " KEY_A "\nw serve " KEY_B;
    struct key_list l, again;
    char roles[KEY_LIST_ROLES];
    cr_assert_eq(key_list_parse(&l, text, sizeof text - 1), ST_OK, "%s", status_text());
    cr_assert_eq(l.n, 2u);
    cr_assert_eq(key_list_find(&l, KEY_A)->roles, (unsigned)(ROLE_ASK | ROLE_OBSERVE));
    cr_assert_str_eq(key_list_find(&l, KEY_B)->name, "w");
    cr_assert_eq(key_list_save(&l, path), ST_OK, "%s", status_text());
    cr_assert_eq(key_list_load(&again, path), ST_OK, "%s", status_text());
    cr_assert_eq(again.n, 2u);
    key_roles_text(again.grant[0].roles, roles);
    cr_assert_str_eq(roles, "ask,observe");
    cr_assert(key_list_remove(&again, "alice") && !key_list_remove(&again, "alice"));
    cr_assert_null(key_list_find(&again, KEY_A));
    cr_assert_eq(key_list_add(&again, &l.grant[1]), ST_RANGE);
    key_roles_text(31, roles);
    cr_assert_str_eq(roles, "ask,observe,operate,serve,act");
    key_list_free(&l);
    key_list_free(&again);
    chmod(path, 0660);
    cr_assert_eq(key_list_load(&again, path), ST_RANGE);
}

Test(keys, a_bad_line_is_named)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a ask " KEY_A "\na serve " KEY_B "\n", "line 2: the name a is taken"},
        {"a ask " KEY_A "\nb serve " KEY_A "\n", "line 2: the key is there already"},
        {"\na  \n", "line 2: it does not have a name"},
        {"a ask " KEY_A " more\n", "line 1: it does not have a name"},
        {"a ask,rule " KEY_A "\n", "'rule' is none of"},
        {"a ask, " KEY_A "\n", "'' is none of"},
        {"a ask 123\n", "the key is not 40 characters"},
        {"a\x1b ask " KEY_A "\n", "visible ASCII"},
    };
    struct key_list l;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(key_list_parse(&l, rows[i].text, strlen(rows[i].text)), ST_FORMAT, "%s",
                     rows[i].text);
        says(rows[i].says);
        cr_assert_eq(l.n, 0u);
    }
}
