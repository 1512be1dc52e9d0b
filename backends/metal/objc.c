/* The table of messages and their selectors, and what all objects have. */
#include "backends/metal/objc.h"

const struct mtl_message_row mtl_messages[N_MTL_MESSAGES] = {
#define MTL_ROW(name, result, selector, signature, ...) [MTL_##name] = {selector, signature},
    MTL_MESSAGES(MTL_ROW)
#undef MTL_ROW
};

SEL mtl_selector[N_MTL_MESSAGES];

void mtl_register(void)
{
    for (int i = 0; i < N_MTL_MESSAGES; i++)
        mtl_selector[i] = sel_registerName(mtl_messages[i].selector);
}

id mtl_class(const char *name)
{
    return (id)objc_getClass(name);
}

id mtl_string(const char *s)
{
    return MTL(string, mtl_class("NSString"), s);
}

void metal_give(objc_ref *object)
{
    if (*object)
        MTL_GET(release, *object);
    *object = NULL;
}

const char *metal_error_text(objc_ref error)
{
    id text = error ? MTL_GET(description, error) : NULL;
    const char *s = text ? MTL_GET(utf8, text) : NULL;
    return s ? s : "?";
}
