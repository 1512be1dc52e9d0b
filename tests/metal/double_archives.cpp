/* The double's binary archives, and pipelines that are made with them. */
#include "double_objects.h"


#include <fstream>
#include <sstream>

namespace metal_double
{

enum { FAIL_ON_MISS = 4 }; /* MTLPipelineOption */

struct url : contents {
    std::string path;
    explicit url(const std::string &from) : path(from)
    {
    }
};

/* Of one object, retained. */
struct array : contents {
    object *only;
    explicit array(object *o) : only(o)
    {
        retain(o);
    }
    ~array() override
    {
        release(only);
    }
};

/* Of an archive or of a pipeline: what its properties hold, retained. */
struct descriptor : contents {
    object *first = nullptr, *second = nullptr;
    ~descriptor() override
    {
        set(&first, nullptr);
        set(&second, nullptr);
    }
    static void set(object **property, object *to)
    {
        if (to)
            retain(to);
        if (*property)
            release(*property);
        *property = to;
    }
};

/* A property of an object that is not there any more is wrong, and stays as it is. */
static void set_property(object **property, id to, const char *what)
{
    if (mtl.was.count(to))
        wrong("%s of a released %s", what, mtl.was[to].c_str());
    else
        descriptor::set(property, obj(to));
}

/* ---- files ---- */

static uint64_t digest_of(const std::string &s)
{
    uint64_t h = 1469598103934665603U;
    for (unsigned char c : s)
        h = (h ^ c) * 1099511628211U;
    return h;
}

static std::string system_line()
{
    return mtl.os_build + " family " + std::to_string(mtl.family);
}

static bool write_archive(const std::string &path, const archive &a)
{
    std::ostringstream text;
    text << system_line() << "\n";
    for (const auto *names : {&a.kept, &a.added})
        for (const std::string &name : *names)
            text << name << "\n";
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text.str() << digest_of(text.str()) << "\n";
    file.close();
    return file.good();
}

/* false: it is not whole. */
static bool read_archive(const std::string &path, archive *a)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream all;
    all << file.rdbuf();
    std::string s = all.str();
    size_t end = s.size() > 1 ? s.rfind('\n', s.size() - 2) : std::string::npos;
    if (end == std::string::npos ||
        s.substr(end + 1) != std::to_string(digest_of(s.substr(0, end + 1))) + "\n")
        return false;
    std::istringstream lines(s.substr(0, end + 1));
    std::string line;
    std::getline(lines, line);
    if (line != system_line())
        wrong("an archive of %s is opened on %s", line.c_str(), system_line().c_str());
    while (std::getline(lines, line))
        a->kept.insert(line);
    return true;
}

/* ---- archives ---- */

id device_new_archive(id, SEL, id what, id *error)
{
    const object *at = inside<descriptor>(what)->first;
    archive *a = new archive;
    if (!at || read_archive(static_cast<url *>(at->of)->path, a))
        return ident(make("MTLBinaryArchive", a));
    delete a;
    set_error(error, "the file is no archive");
    return nullptr;
}

static const metal_double_kernel *kernel_in(id what, id *error)
{
    const object *function = inside<descriptor>(what)->first;
    if (!function)
        set_error(error, "no function");
    return function ? static_cast<kernel_object *>(function->of)->kernel : nullptr;
}

static unsigned char archive_add(id self, SEL, id what, id *error)
{
    archive *a = inside<archive>(self);
    const metal_double_kernel *k = kernel_in(what, error);
    check_seal("pipeline of an archive");
    if (mtl.archives_refused)
        set_error(error, "archives are refused");
    if (!k || mtl.archives_refused)
        return 0;
    if (a->kept.count(k->name) || !a->added.insert(k->name).second)
        wrong("kernel %s is in the archive already", k->name);
    mtl.n_compiled++;
    return 1;
}

static unsigned char archive_serialize(id self, SEL, id to, id *error)
{
    if (write_archive(inside<url>(to)->path, *inside<archive>(self)))
        return 1;
    set_error(error, "the archive cannot be written");
    return 0;
}

id device_pipeline_of(id, SEL, id what, unsigned long options, id *, id *error)
{
    const object *archives = inside<descriptor>(what)->second;
    const metal_double_kernel *k = kernel_in(what, error);
    check_seal("pipeline");
    if (options != 0 && options != FAIL_ON_MISS)
        wrong("a pipeline with options %lu", options);
    if (!k)
        return nullptr;
    const archive *a =
        archives ? static_cast<archive *>(static_cast<array *>(archives->of)->only->of) : nullptr;
    bool kept = a && a->kept.count(k->name), added = a && a->added.count(k->name);
    if (mtl.archives_refused || (!kept && !added && options == FAIL_ON_MISS)) {
        set_error(error, mtl.archives_refused ? "archives are refused" : "not in the archive");
        return nullptr;
    }
    mtl.n_taken += kept;
    mtl.n_compiled += !kept && !added;
    mtl.n_pipelines++;
    return ident(make("MTLComputePipelineState", new kernel_object(k)));
}

/* ---- properties, and what is made without a device ---- */

static id descriptor_of_archive(id, SEL)
{
    return ident(make("MTLBinaryArchiveDescriptor", new descriptor));
}

static id descriptor_of_pipeline(id, SEL)
{
    return ident(make("MTLComputePipelineDescriptor", new descriptor));
}

static void set_url(id self, SEL, id to)
{
    set_property(&inside<descriptor>(self)->first, to, "setUrl");
}

static void set_function(id self, SEL, id to)
{
    set_property(&inside<descriptor>(self)->first, to, "setComputeFunction");
}

static void set_archives(id self, SEL, id to)
{
    set_property(&inside<descriptor>(self)->second, to, "setBinaryArchives");
}

static id url_of_path(id, SEL, id path)
{
    return autorelease(make("NSURL", new url(inside<text>(path)->s)));
}

static id array_of_one(id, SEL, id o)
{
    if (mtl.was.count(o)) {
        wrong("arrayWithObject of a released %s", mtl.was[o].c_str());
        return nullptr;
    }
    return autorelease(make("NSArray", new array(obj(o))));
}

static id process_info(id, SEL)
{
    return autorelease(make("NSProcessInfo", new contents));
}

static id os_version(id, SEL)
{
    return autorelease(make("NSString", new text(mtl.os_build.c_str())));
}

void make_archive_classes()
{
    make_class("NSProcessInfo", {METHOD("operatingSystemVersionString", "@", os_version)},
               {METHOD("processInfo", "@", process_info)});
    make_class("NSURL", {}, {METHOD("fileURLWithPath:", "@@", url_of_path)});
    make_class("NSArray", {}, {METHOD("arrayWithObject:", "@@", array_of_one)});
    make_class("MTLBinaryArchiveDescriptor", {METHOD("setUrl:", "v@", set_url)},
               {METHOD("new", "@", descriptor_of_archive)});
    make_class("MTLComputePipelineDescriptor",
               {METHOD("setComputeFunction:", "v@", set_function),
                METHOD("setBinaryArchives:", "v@", set_archives)},
               {METHOD("new", "@", descriptor_of_pipeline)});
    make_class("MTLBinaryArchive",
               {METHOD("addComputePipelineFunctionsWithDescriptor:error:", "B@^", archive_add),
                METHOD("serializeToURL:error:", "B@^", archive_serialize)});
}

} // namespace metal_double
