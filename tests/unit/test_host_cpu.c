/* Names of processors in files of the form of /proc/cpuinfo. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "common/host.h"
#include "temp_dir.h"

static const char *name_of(const char *text)
{
    static char name[64];
    char dir[32], path[64];
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/cpuinfo", dir);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
    host_cpu_name_of(path, name, sizeof name);
    return name;
}

Test(host_cpu, the_name_of_an_x86_processor)
{
    cr_assert_str_eq(name_of("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n"
                             "processor\t: 1\nmodel name\t: another\n"),
                     "AMD EPYC");
}

Test(host_cpu, the_numbers_of_an_arm_processor)
{
    cr_assert_str_eq(name_of("processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\n"
                             "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n"),
                     "Arm processor, implementer 0x41, part 0xd40");
}

Test(host_cpu, files_that_tell_nothing)
{
    char name[16];
    cr_assert_str_eq(name_of(""), "unnamed");
    cr_assert_str_eq(name_of("model name\nCPU part:\n:\n"), "unnamed");
    host_cpu_name_of("/does/not/exist", name, sizeof name);
    cr_assert_str_eq(name, "unnamed");
}
