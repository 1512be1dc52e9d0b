/* What Ingot says of the configurations of popular repositories (popular.json, made by tests/golden/make_popular.py):
 * the verdict that `ingot inspect` begins with. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/model_config.h"
#include "rig.h"

static const char *string(const cJSON *o, const char *name)
{
    const cJSON *s = cJSON_GetObjectItem(o, name);
    cr_assert(cJSON_IsString(s), "%s", name);
    return s->valuestring;
}

static void check(const cJSON *row)
{
    const cJSON *config = cJSON_GetObjectItem(row, "config");
    const char *verdict = string(row, "verdict"), *repository = string(row, "repository");
    const char *class =
        cJSON_GetArrayItem(cJSON_GetObjectItem(config, "architectures"), 0)->valuestring;
    char *text = cJSON_PrintUnformatted(config);
    struct model_config *mc = malloc(sizeof *mc);
    bool known = arch_find(class) || arch_is_wrapper(class);
    enum status st = model_config_parse(mc, text, strlen(text), NULL, 0);
    if (strcmp(verdict, "served") == 0 || (strcmp(verdict, "class") == 0 && known)) {
        cr_expect_eq(st, ST_OK, "%s: %s", repository, status_text());
    } else {
        const char *says = strcmp(verdict, "class") == 0 ? class : verdict;
        cr_expect_eq(st, ST_UNSUPPORTED, "%s: %s", repository, status_name(st));
        cr_expect(st != ST_OK && strstr(status_text(), says), "%s: \"%s\" does not say \"%s\"",
                  repository, st == ST_OK ? "" : status_text(), says);
    }
    free(mc);
    free(text);
}

Test(popular, verdicts)
{
    size_t size;
    char *text = read_file(INGOT_SOURCE_DIR "/tests/model/popular.json", &size);
    cJSON *list = cJSON_Parse(text), *row;
    cr_assert_geq(cJSON_GetArraySize(list), 60);
    cJSON_ArrayForEach(row, list) check(row);
    cJSON_Delete(list);
    free(text);
}
