/* The double's objects and classes: reference counts, autorelease pools, strings, messages that no class knows; and what
 * tests set and read. */
#include "double_objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace metal_double
{

state mtl;

void wrong(const char *fmt, ...)
{
    char s[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(s, sizeof s, fmt, args);
    va_end(args);
    if (!mtl.catching) {
        fprintf(stderr, "double of Metal: %s\n", s);
        abort();
    }
    if (mtl.first_error.empty())
        mtl.first_error = s;
}

/* ---- objects ---- */

object *make(const char *name, contents *of)
{
    object *o = obj(class_createInstance(mtl.classes.at(name), sizeof(object) - sizeof(Class)));
    o->refs = 1;
    o->of = of;
    mtl.live++;
    return o;
}

void retain(object *o)
{
    o->refs++;
}

/* The object stays as one of a class without methods: later messages are found. */
void release(object *o)
{
    if (--o->refs > 0)
        return;
    o->of->check_release();
    mtl.was[o] = class_getName(class_of(o));
    object_setClass(ident(o), mtl.classes.at("released"));
    contents *of = o->of;
    o->of = nullptr;
    mtl.live--;
    delete of;
}

id autorelease(object *o)
{
    if (mtl.pools.empty()) {
        wrong("an autoreleased %s without a pool", class_getName(o->isa));
        mtl.pools.emplace_back();
    }
    mtl.pools.back().push_back(o);
    return ident(o);
}

void check_seal(const char *what)
{
    if (mtl.sealed)
        wrong("a %s is made after the start", what);
}

static id no_method(id, SEL, ...)
{
    return nullptr;
}

static IMP unknown_message(id receiver, SEL sel)
{
    auto dead = mtl.was.find(receiver);
    if (dead != mtl.was.end())
        wrong("message %s to a released %s", sel_getName(sel), dead->second.c_str());
    else
        wrong("%s has no method %s", receiver ? class_getName(class_of(receiver)) : "nil",
              sel_getName(sel));
    return no_method;
}

static id any_retain(id self, SEL)
{
    retain(obj(self));
    return self;
}

static void any_release(id self, SEL)
{
    release(obj(self));
}

/* ---- strings and errors ---- */

static id string_make(id, SEL, const char *s)
{
    return autorelease(make("NSString", new text(s)));
}

static const char *string_utf8(id self, SEL)
{
    return inside<text>(self)->s.c_str();
}

static id error_description(id self, SEL)
{
    return autorelease(make("NSString", new text(inside<text>(self)->s.c_str())));
}

void set_error(id *error, const char *s)
{
    if (error)
        *error = autorelease(make("NSError", new text(s)));
}

/* ---- the classes ---- */

static void add_methods(Class c, const std::vector<method> &all)
{
    for (const method &m : all) {
        std::string types(1, m.types[0]);
        types += "@:";
        for (const char *t = m.types + 1; *t; t++)
            types += *t == 'S' ? std::string("{?=QQQ}") : std::string(1, *t);
        class_addMethod(c, sel_registerName(m.selector), m.imp, types.c_str());
        mtl.signatures[m.selector] = m.types;
    }
}

void make_class(const char *name, const std::vector<method> &of_objects,
                const std::vector<method> &of_class)
{
    Class c = objc_allocateClassPair(nullptr, name, 0);
    class_addIvar(c, "isa", sizeof(Class), 3, "#");
    add_methods(c, {METHOD("retain", "@", any_retain), METHOD("release", "v", any_release)});
    add_methods(c, of_objects);
    objc_registerClassPair(c);
    add_methods(class_of(c), of_class);
    mtl.classes[name] = c;
}

void make_classes()
{
    if (mtl.made)
        return;
    mtl.made = true;
    if (const char *seed = getenv("INGOT_EMULATE_SEED"))
        mtl.seed = strtoull(seed, nullptr, 10);
    if (const char *seed = getenv("INGOT_EMULATE_MATRICES"))
        mtl.matrices_seed = strtoull(seed, nullptr, 10);
    if (const char *bytes = getenv("INGOT_EMULATE_MAX_BUFFER"))
        mtl.max_buffer = strtoull(bytes, nullptr, 10);
    if (const char *bytes = getenv("INGOT_EMULATE_WORKING_SET"))
        mtl.working_set = strtoull(bytes, nullptr, 10);
    if (const char *family = getenv("INGOT_EMULATE_FAMILY"))
        mtl.family = strtol(family, nullptr, 10);
    if (const char *file = getenv("INGOT_METAL_FAIL"))
        mtl.fail_file = file;
    mtl.seal_at_commit = getenv("INGOT_METAL_STRICT") != nullptr;
    mtl.check_writes |= mtl.seal_at_commit;
    __objc_msg_forward2 = unknown_message;
    Class released = objc_allocateClassPair(nullptr, "released", 0);
    class_addIvar(released, "isa", sizeof(Class), 3, "#");
    objc_registerClassPair(released);
    mtl.classes["released"] = released;
    make_class("NSString", {METHOD("UTF8String", "*", string_utf8)},
               {METHOD("stringWithUTF8String:", "@*", string_make)});
    make_class("NSError", {METHOD("localizedDescription", "@", error_description)});
    make_device_classes();
    make_archive_classes();
    make_work_classes();
}

} // namespace metal_double

extern "C" void *objc_autoreleasePoolPush(void)
{
    mtl.pools.emplace_back();
    return (void *)(uintptr_t)mtl.pools.size();
}

extern "C" void objc_autoreleasePoolPop(void *pool)
{
    size_t n = (size_t)(uintptr_t)pool;
    if (n == 0 || n != mtl.pools.size()) {
        wrong("an autorelease pool that is not the innermost is ended");
        return;
    }
    std::vector<object *> all = mtl.pools.back();
    mtl.pools.pop_back();
    for (object *o : all)
        release(o);
}

/* ---- for tests ---- */

void metal_double_seed(uint64_t seed)
{
    mtl.seed = seed;
}

void metal_double_matrices(uint64_t seed)
{
    mtl.matrices_seed = seed;
}

uint64_t metal_double_matrices_seed(void)
{
    return mtl.matrices_seed;
}

void metal_double_break_matrices(enum metal_double_break how)
{
    mtl.broken = how;
}

enum metal_double_break metal_double_matrices_broken(void)
{
    return mtl.broken;
}

void metal_double_catch(bool on)
{
    mtl.catching = on;
    mtl.first_error.clear();
}

const char *metal_double_error(void)
{
    mtl.told = mtl.first_error;
    mtl.first_error.clear();
    return mtl.told.empty() ? nullptr : mtl.told.c_str();
}

void metal_double_limits(size_t max_buffer, size_t working_set)
{
    mtl.max_buffer = max_buffer;
    mtl.working_set = working_set;
}

void metal_double_family(long family)
{
    mtl.family = family;
}

void metal_double_pipelines(unsigned long width, unsigned long threads)
{
    mtl.simd_width = width;
    mtl.max_threads = threads;
}

void metal_double_matrix_threads(unsigned long threads)
{
    mtl.matrix_threads = threads;
}

void metal_double_without_math_mode(bool on)
{
    mtl.math_mode = !on;
}

void metal_double_fail(const char *kernel)
{
    mtl.fails = kernel ? kernel : "";
}

void metal_double_check_writes(bool on)
{
    mtl.check_writes = on;
}

void metal_double_seal(bool on)
{
    mtl.sealed = on;
}

size_t metal_double_live(void)
{
    return mtl.live;
}

size_t metal_double_buffers(void)
{
    return mtl.n_buffers;
}

size_t metal_double_allocated(void)
{
    return mtl.allocated;
}

uint64_t metal_double_commands(void)
{
    return mtl.n_commands;
}

uint64_t metal_double_pipelines_made(void)
{
    return mtl.n_pipelines;
}

void metal_double_os_build(const char *build)
{
    mtl.os_build = build;
}

void metal_double_refuse_archives(bool on)
{
    mtl.archives_refused = on;
}

uint64_t metal_double_compiled(void)
{
    return mtl.n_compiled;
}

uint64_t metal_double_taken(void)
{
    return mtl.n_taken;
}

uint64_t metal_double_dispatches(void)
{
    return mtl.n_dispatches;
}

const char *metal_double_signature(const char *selector)
{
    make_classes();
    auto found = mtl.signatures.find(selector);
    return found == mtl.signatures.end() ? nullptr : found->second.c_str();
}
