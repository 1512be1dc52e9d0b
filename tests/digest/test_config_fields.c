/* The list of configuration fields: each member of the struct is in it, and each that changes numbers
 * changes the canonical text. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/config_fields.h"
#include "common/mapped_file.h"

/* The committed list of members that change no number. */
static const char *const silent[] = {"max_ctx", "wrapped", "dtype",    "bos_id",
                                     "eos_id",  "n_eos",   "n_mtp",    "mxfp4",
                                     "fp8",     "fp4",     "headless", "mrope_section"};

static const struct config_field *find(const char *name)
{
    for (size_t i = 0; i < n_config_fields; i++)
        if (strcmp(config_fields[i].name, name) == 0)
            return &config_fields[i];
    return NULL;
}

/* A configuration that uses every element of every array. */
static struct model_config *full(void)
{
    struct model_config *mc = calloc(1, sizeof *mc);
    cr_assert_not_null(mc);
    model_config_init(mc);
    mc->arch = arch_find("LlamaForCausalLM");
    mc->n_layers = MAX_LAYERS;
    mc->rope.rot_dim = 2 * MAX_ROPE_PAIRS;
    return mc;
}

static const char *text_of(const struct model_config *mc)
{
    static char text[2][CONFIG_TEXT_SIZE];
    static int turn;
    turn = !turn;
    cr_assert_eq(config_text(mc, text[turn]), strlen(text[turn]));
    return text[turn];
}

/* ---- the members in the header's text ---- */

/* The text of "struct NAME { ... }" without comments, from the header. */
static char *struct_body(const char *name)
{
    struct mapped_file f;
    char begin[64];
    cr_assert_eq(mapped_file_open(&f, INGOT_SOURCE_DIR "/common/formats/model_config.h"), ST_OK);
    char *text = calloc(1, f.size + 1);
    size_t n = 0;
    bool comment = false;
    for (size_t i = 0; i < f.size; i++) {
        if (!comment && i + 1 < f.size && memcmp(f.data + i, "/*", 2) == 0)
            comment = true;
        if (!comment)
            text[n++] = (char)f.data[i];
        else if (i > 1 && memcmp(f.data + i - 1, "*/", 2) == 0)
            comment = false;
    }
    mapped_file_close(&f);
    snprintf(begin, sizeof begin, "\nstruct %s {", name);
    char *at = strstr(text, begin);
    cr_assert_not_null(at, "%s", name);
    char *end = strstr(at, "\n};");
    cr_assert_not_null(end);
    *end = '\0';
    memmove(text, at + strlen(begin), strlen(at + strlen(begin)) + 1);
    return text;
}

/* Members that are structs: their own members are listed. */
static bool is_struct(const char *name)
{
    return strcmp(name, "rope") == 0 || strcmp(name, "local_rope") == 0 ||
           strcmp(name, "factors") == 0;
}

/* Calls of each member's name: the last identifier before , ; or [. */
static int check_members(const char *body, const char *prefix)
{
    int n = 0;
    const char *name = NULL;
    size_t len = 0;
    bool inside = false; /* brackets */
    for (const char *p = body; *p; p++) {
        if (isalpha((unsigned char)*p) && !inside) {
            for (name = p, len = 0; isalnum((unsigned char)name[len]) || name[len] == '_';)
                len++;
            p += len - 1;
        } else if (*p == '[' || *p == ']') {
            inside = *p == '[';
        } else if ((*p == ',' || *p == ';') && !inside) {
            char full_name[80];
            snprintf(full_name, sizeof full_name, "%s%.*s", prefix, (int)len, name);
            n++;
            if (!is_struct(full_name))
                cr_expect_not_null(find(full_name), "%s is in no list of config_fields.c",
                                   full_name);
        }
    }
    return n;
}

Test(config_fields, every_member_is_listed_once)
{
    char *config = struct_body("model_config"), *rope = struct_body("rope_config"),
         *factors = struct_body("layer_factors");
    int n = check_members(config, "") + check_members(rope, "rope.") +
            check_members(rope, "local_rope.") + check_members(factors, "factors.");
    free(config);
    free(rope);
    free(factors);
    cr_expect_eq((size_t)n, n_config_fields + 3, "%d members, %zu rows", n, n_config_fields);
    for (size_t i = 0; i < n_config_fields; i++)
        cr_expect_eq(find(config_fields[i].name), &config_fields[i], "%s is listed twice",
                     config_fields[i].name);
}

/* Sizes are right when the rows leave no byte over but padding before the next row's member. */
Test(config_fields, sizes_cover_the_struct)
{
    size_t at = 0;
    for (size_t i = 0; i < n_config_fields; i++) {
        const struct config_field *f = &config_fields[i];
        cr_expect(f->at >= at && f->at < at + 8, "%s begins at %zu, the row before ends at %zu",
                  f->name, f->at, at);
        at = f->at + config_field_size(f);
    }
    cr_expect(sizeof(struct model_config) >= at && sizeof(struct model_config) < at + 8);
}

/* ---- the text ---- */

Test(config_fields, each_element_of_each_field_counts_or_is_known_to_change_nothing)
{
    struct model_config *mc = full();
    char *before = strdup(text_of(mc));
    size_t n_silent = 0, n_checked = 0;
    for (size_t i = 0; i < n_config_fields; i++) {
        const struct config_field *f = &config_fields[i];
        size_t size = config_field_size(f) / (size_t)f->n;
        bool is_silent = false;
        for (size_t k = 0; k < sizeof silent / sizeof *silent; k++)
            is_silent = is_silent || strcmp(silent[k], f->name) == 0;
        n_silent += is_silent;
        cr_expect_eq(is_silent, !f->changes_numbers, "%s", f->name);
        for (int32_t k = 0; k < f->n; k++) {
            char *p = (char *)mc + f->at + (size_t)k * size, keep[8];
            memcpy(keep, p, size);
            if (f->kind == FIELD_ARCH)
                mc->arch = arch_find("Qwen3ForCausalLM");
            else
                p[0] = (char)(p[0] ^ 1);
            bool same = strcmp(before, text_of(mc)) == 0;
            cr_expect_eq(same, is_silent, "%s[%d]", f->name, k);
            memcpy(p, keep, size);
            n_checked++;
        }
    }
    cr_expect_eq(n_silent, sizeof silent / sizeof *silent);
    cr_expect(n_checked > 2 * MAX_LAYERS + MAX_ROPE_PAIRS);
    cr_expect_str_eq(before, text_of(mc));
    free(before);
    free(mc);
}

static struct model_config parsed(const char *json)
{
    static struct model_config mc;
    cr_assert_eq(model_config_parse(&mc, json, strlen(json), NULL, 0), ST_OK, "%s", status_text());
    return mc;
}

#define MEMBERS                                                                                    \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100,\"max_position_embeddings\":128"

Test(config_fields, order_and_layout_of_the_file_do_not_matter)
{
    struct model_config a =
        parsed("{\"architectures\":[\"LlamaForCausalLM\"]," MEMBERS ",\"rms_norm_eps\":1e-5}");
    struct model_config b =
        parsed("{ \"rms_norm_eps\" : 0.00001,\n\t" MEMBERS
               ",  \"transformers_version\":\"4.1\",\"torch_dtype\":\"bfloat16\",\n"
               "\"architectures\" : [ \"LlamaForCausalLM\" ] }\n");
    struct model_config c =
        parsed("{\"architectures\":[\"LlamaForCausalLM\"]," MEMBERS ",\"rms_norm_eps\":1e-6}");
    cr_expect_str_eq(text_of(&a), text_of(&b));
    cr_expect_str_neq(text_of(&a), text_of(&c));
    cr_expect_not_null(strstr(text_of(&a), "hidden=64\nffn=96\n"));
    cr_expect_not_null(strstr(text_of(&a), "sparse=00\n"));
}
