#include "common/grammar/number_expr.h"

#include <stdlib.h>
#include <string.h>

/* ---- decimals ---- */

static bool put(char digits[NUMBER_MAX_DIGITS], int *n, char c)
{
    if (*n == NUMBER_MAX_DIGITS)
        return false;
    digits[(*n)++] = c;
    return true;
}

enum status decimal_read(struct decimal *d, struct json_span s)
{
    char digits[128];
    int n = 0, point = -1;
    long exponent = 0;
    *d = (struct decimal){.negative = s.n && s.p[0] == '-'};
    for (size_t i = d->negative; i < s.n; i++) {
        if (s.p[i] == '.') {
            point = n;
        } else if (s.p[i] == 'e' || s.p[i] == 'E') {
            exponent = strtol(s.p + i + 1, NULL,
                              10); /* the text goes on with no digit: JSON was checked */
            break;
        } else if (n == (int)sizeof digits) {
            FAIL(ST_RANGE, "a number of more than %zu digits", sizeof digits);
        } else if (n || s.p[i] != '0' || point >= 0) {
            digits[n++] = s.p[i];
        }
    }
    if (exponent > 1000 || exponent < -1000)
        FAIL(ST_RANGE, "a number with an exponent beyond 1000");
    long at = (point < 0 ? n : point) + exponent; /* where the point is in digits */
    bool room = true;
    for (long i = at < 0 ? at : 0; room && (i < n || i < at); i++) {
        char c = i >= 0 && i < n ? digits[i] : '0';
        if (i >= at)
            room = put(d->fraction, &d->n_fraction, c);
        else if (d->n_whole || c != '0')
            room = put(d->whole, &d->n_whole, c);
    }
    if (!room)
        FAIL(ST_RANGE, "a number of more than %d digits", NUMBER_MAX_DIGITS);
    while (d->n_fraction && d->fraction[d->n_fraction - 1] == '0')
        d->n_fraction--;
    d->negative = d->negative && (d->n_whole || d->n_fraction);
    return ST_OK;
}

static int compare_size(const struct decimal *a, const struct decimal *b)
{
    if (a->n_whole != b->n_whole)
        return a->n_whole < b->n_whole ? -1 : 1;
    int c = memcmp(a->whole, b->whole, (size_t)a->n_whole);
    int n = a->n_fraction < b->n_fraction ? a->n_fraction : b->n_fraction;
    if (c == 0)
        c = memcmp(a->fraction, b->fraction, (size_t)n);
    return c ? c : (a->n_fraction > b->n_fraction) - (a->n_fraction < b->n_fraction);
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_size(b, a) : compare_size(a, b);
}

/* ---- syntax ---- */

static uint32_t digits(struct expr_pool *p, uint32_t min, uint32_t max)
{
    return expr_repeat(p, expr_range(p, '0', '9'), min, max);
}

/* 0 or digits without leading zeros */
static uint32_t whole(struct expr_pool *p)
{
    uint32_t more = expr_concat(p, expr_range(p, '1', '9'), digits(p, 0, EXPR_NO_LIMIT));
    return expr_or2(p, expr_range(p, '0', '0'), more);
}

static uint32_t fraction(struct expr_pool *p)
{
    return expr_optional(p, expr_concat(p, expr_range(p, '.', '.'), digits(p, 1, EXPR_NO_LIMIT)));
}

static uint32_t exponent(struct expr_pool *p)
{
    struct byte_set e = {{0}}, sign = {{0}};
    byte_set_add(&e, 'e', 'e');
    byte_set_add(&e, 'E', 'E');
    byte_set_add(&sign, '+', '+');
    byte_set_add(&sign, '-', '-');
    uint32_t power =
        expr_concat(p, expr_optional(p, expr_bytes(p, &sign)), digits(p, 1, EXPR_NO_LIMIT));
    return expr_optional(p, expr_concat(p, expr_bytes(p, &e), power));
}

static uint32_t minus(struct expr_pool *p)
{
    return expr_range(p, '-', '-');
}

/* ---- bounds of numbers without a sign ---- */

/* Digits behind the point (from the i-th on, i > 0: the point has been read) whose value is above, or below, that of
 * the bound's; with the bound itself if or_equal. */
static uint32_t fraction_beyond(struct expr_pool *p, const struct decimal *b, int i, bool above,
                                bool or_equal)
{
    uint32_t any = digits(p, 0, EXPR_NO_LIMIT), parts[3];
    size_t n = 0;
    uint32_t zeros = expr_repeat(p, expr_range(p, '0', '0'), 0, EXPR_NO_LIMIT);
    if (i == b->n_fraction) { /* equal so far, and the bound has only zeros to come */
        uint32_t more = expr_concat(p, zeros, expr_concat(p, expr_range(p, '1', '9'), any));
        uint32_t e = above ? more : EXPR_NONE;
        return or_equal ? expr_or2(p, e, zeros) : e;
    }
    unsigned digit = (uint8_t)b->fraction[i];
    if (above && digit < '9')
        parts[n++] = expr_concat(p, expr_range(p, digit + 1, '9'), any);
    if (!above && digit > '0')
        parts[n++] = expr_concat(p, expr_range(p, '0', digit - 1), any);
    parts[n++] =
        expr_concat(p, expr_range(p, digit, digit), fraction_beyond(p, b, i + 1, above, or_equal));
    if (!above)
        parts[n++] = EXPR_EMPTY; /* the bound has a digit above 0 to come */
    return expr_or(p, parts, n);
}

/* The whole part, of n digits, is above or below the bound's, which has n digits too. */
static uint32_t whole_beyond(struct expr_pool *p, const struct decimal *b, int i, bool above)
{
    uint32_t rest = digits(p, (uint32_t)(b->n_whole - i - 1), (uint32_t)(b->n_whole - i - 1)),
             e = EXPR_NONE;
    if (i == b->n_whole)
        return EXPR_NONE;
    unsigned digit = (uint8_t)b->whole[i], least = i == 0 ? '1' : '0';
    if (above && digit < '9')
        e = expr_concat(p, expr_range(p, digit + 1, '9'), rest);
    if (!above && digit > least)
        e = expr_concat(p, expr_range(p, least, digit - 1), rest);
    return expr_or2(p, e,
                    expr_concat(p, expr_range(p, digit, digit), whole_beyond(p, b, i + 1, above)));
}

/* Whole parts above or below that of the bound. */
static uint32_t whole_side(struct expr_pool *p, const struct decimal *b, bool above)
{
    uint32_t e = whole_beyond(p, b, 0, above), n = (uint32_t)b->n_whole;
    if (above)
        return expr_or2(p, e, expr_concat(p, expr_range(p, '1', '9'), digits(p, n, EXPR_NO_LIMIT)));
    if (n > 0)
        e = expr_or2(p, e, expr_range(p, '0', '0'));
    if (n > 1)
        e = expr_or2(p, e, expr_concat(p, expr_range(p, '1', '9'), digits(p, 0, n - 2)));
    return e;
}

/* Numbers without a sign above, or below, the bound's size. */
static uint32_t size_beyond(struct expr_pool *p, const struct number_rule *rule,
                            const struct decimal *b, bool above, bool or_equal)
{
    uint32_t same =
        b->n_whole ? expr_literal(p, b->whole, (size_t)b->n_whole) : expr_range(p, '0', '0');
    uint32_t side = whole_side(p, b, above), at_bound;
    bool equal_whole =
        b->n_fraction ? !above : or_equal; /* may the whole part alone be the bound's? */
    if (rule->integer)
        return equal_whole ? expr_or2(p, side, same) : side;
    at_bound = expr_concat(
        p, expr_range(p, '.', '.'),
        expr_and2(p, fraction_beyond(p, b, 0, above, or_equal), digits(p, 1, EXPR_NO_LIMIT)));
    if (equal_whole)
        at_bound = expr_or2(p, at_bound, EXPR_EMPTY);
    return expr_or2(p, expr_concat(p, side, fraction(p)), expr_concat(p, same, at_bound));
}

/* Numbers without a sign between two sizes. */
static uint32_t sizes(struct expr_pool *p, const struct number_rule *rule,
                      const struct number_bound *lo, const struct number_bound *hi)
{
    uint32_t list[4];
    size_t n = 0;
    list[n++] = rule->integer ? whole(p) : expr_concat(p, whole(p), fraction(p));
    if (lo->set)
        list[n++] = size_beyond(p, rule, &lo->value, true, !lo->exclusive);
    if (hi->set)
        list[n++] = size_beyond(p, rule, &hi->value, false, !hi->exclusive);
    if (rule->divisor)
        list[n++] = expr_multiple(p, rule->divisor, rule->decimals);
    return expr_and(p, list, n);
}

uint32_t number_expr(struct expr_pool *p, const struct number_rule *rule)
{
    static const struct number_bound zero = {.set = true}, none = {.set = false};
    if (!rule->lo.set && !rule->hi.set && !rule->divisor) {
        uint32_t e = expr_concat(p, expr_optional(p, minus(p)), whole(p));
        return rule->integer ? e : expr_concat(p, e, expr_concat(p, fraction(p), exponent(p)));
    }
    uint32_t e = EXPR_NONE;
    struct number_bound from = rule->hi, to = rule->lo; /* of the negative numbers' sizes */
    from.value.negative = to.value.negative = false;
    if (!rule->hi.set || !rule->hi.value.negative) {
        const struct number_bound *lo =
            rule->lo.set && !rule->lo.value.negative ? &rule->lo : &none;
        e = sizes(p, rule, lo, rule->hi.set ? &rule->hi : &none);
        from = none;
    }
    bool to_zero = rule->hi.set && !rule->hi.value.negative && rule->hi.exclusive &&
                   decimal_compare(&rule->hi.value, &zero.value) == 0;
    if (to_zero) { /* below 0: without -0 */
        from = zero;
        from.exclusive = true;
    }
    if (!rule->lo.set || rule->lo.value.negative)
        e = expr_or2(p, e,
                     expr_concat(p, minus(p), sizes(p, rule, &from, rule->lo.set ? &to : &none)));
    return e;
}
