/* Classes and methods made at run time: the subset of GNU's <objc/runtime.h> that the double uses. */
#ifndef TESTS_METAL_OBJC_CLASSES_H
#define TESTS_METAL_OBJC_CLASSES_H

#include <stddef.h>

extern "C" {
typedef struct objc_object *id;
typedef const struct objc_selector *SEL;
typedef struct objc_class *Class;
typedef id (*IMP)(id, SEL, ...);

Class objc_allocateClassPair(Class super, const char *name, size_t extra);
void objc_registerClassPair(Class c);
unsigned char class_addIvar(Class c, const char *name, size_t bytes, unsigned char log2_align,
                            const char *type);
unsigned char class_addMethod(Class c, SEL sel, IMP imp, const char *types);
id class_createInstance(Class c, size_t extra);
const char *class_getName(Class c);
Class object_setClass(id object, Class c);
SEL sel_registerName(const char *name);
const char *sel_getName(SEL sel);

/* What answers a message that the receiver's class does not have. */
extern IMP (*__objc_msg_forward2)(id receiver, SEL sel);
}

/* An object begins with its class, a class with its own. */
static inline Class class_of(const void *object)
{
    return *(const Class *)object;
}

#endif
