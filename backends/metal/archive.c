#include "backends/metal/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cache_dir.h"
#include "common/log.h"

/* MTLPipelineOptionFailOnBinaryArchiveMiss: what is not in the archive is not compiled. */
enum { FAIL_ON_MISS = 4 };

/* The rest of this process's pipelines are compiled and not kept. */
static void give_up(struct backend *be, const char *what, const char *why)
{
    log_line(LOG_WARN, "compiled Metal kernels are not kept: %s: %s", what, why);
    metal_give(&be->archive);
}

static id url_of(const char *path)
{
    return MTL(file_url, mtl_class("NSURL"), mtl_string(path));
}

/* The archive of the file; "": a new one. */
static id open_at(const struct backend *be, const char *path, id *error)
{
    id what = MTL_GET(new_object, mtl_class("MTLBinaryArchiveDescriptor"));
    if (*path)
        MTL(set_url, what, url_of(path));
    id archive = MTL(new_archive, be->device, what, error);
    MTL_GET(release, what);
    return archive;
}

void metal_archive_key(const struct backend *be, const char *source, char out[ARCHIVE_DIGITS + 1])
{
    char family[16];
    const char *system =
        MTL_GET(utf8, MTL_GET(os_version, MTL_GET(process_info, mtl_class("NSProcessInfo"))));
    snprintf(family, sizeof family, "%ld", be->family);
    const char *all[] = {"1", source, be->math, system ? system : "?", be->name, family};
    archive_key(all, ARRAY_LEN(all), out);
}

void metal_open_archive(struct backend *be)
{
    struct archive_files *f = &be->files;
    id error = NULL;
    metal_archive_key(be, metal_source, f->key);
    if (!cache_dir_of(getenv("XDG_CACHE_HOME"), getenv("HOME"), "metal", f->dir, sizeof f->dir)) {
        give_up(be, "there is no cache folder", "XDG_CACHE_HOME and HOME are not set, or too long");
        return;
    }
    archive_find(f);
    if (*f->path && !(be->archive = open_at(be, f->path, &error))) {
        log_line(LOG_WARN, "%s: %s: it is made anew", f->path, metal_error_text(error));
        archive_drop(f);
    }
    if (!be->archive && !(be->archive = open_at(be, "", &error)))
        give_up(be, "there is no archive", metal_error_text(error));
}

/* NULL: the archive is given up, and the pipeline is to be compiled without. */
static id through_archive(struct backend *be, id function)
{
    id error = NULL, what = MTL_GET(new_object, mtl_class("MTLComputePipelineDescriptor"));
    MTL(set_function, what, function);
    MTL(set_archives, what, MTL(array_of_one, mtl_class("NSArray"), be->archive));
    id made = MTL(pipeline_of, be->device, what, FAIL_ON_MISS, NULL, &error);
    if (made) {
        be->n_kept++;
    } else if (MTL(add_to_archive, be->archive, what, &error)) {
        be->n_added++;
        made = MTL(pipeline_of, be->device, what, 0, NULL, &error);
    }
    if (!made)
        give_up(be, "a kernel does not go through the archive", metal_error_text(error));
    MTL_GET(release, what);
    return made;
}

id metal_new_pipeline(struct backend *be, id function, id *error)
{
    id made = be->archive ? through_archive(be, function) : NULL;
    return made ? made : MTL(new_pipeline, be->device, function, error);
}

static void write_archive(struct backend *be)
{
    char temporary[ARCHIVE_PATH];
    struct archive_files *f = &be->files;
    id error = NULL;
    archive_temporary(f, temporary);
    if (!cache_dir_make(f->dir)) {
        give_up(be, f->dir, strerror(errno));
    } else if (!MTL(serialize, be->archive, url_of(temporary), &error)) {
        (void)remove(temporary);
        give_up(be, temporary, metal_error_text(error));
    } else if (archive_keep(f, temporary) != ST_OK) {
        give_up(be, f->dir, status_text());
    } else {
        log_line(LOG_INFO, "%d compiled Metal kernels are kept, beside %d that were: %s",
                 be->n_added, be->n_kept, f->path);
        be->n_kept += be->n_added;
        be->n_added = 0;
    }
}

void metal_keep_archive(struct backend *be)
{
    void *pool = objc_autoreleasePoolPush();
    if (be->archive && be->n_added > 0)
        write_archive(be);
    objc_autoreleasePoolPop(pool);
}
