/* Which ranks share a GPU: by its place and UUID, not by the number that a process knows it by. */
#include <criterion/criterion.h>

#include "worker/rank_devices.h"

static void expect(const struct rank_device *all, int world, int i, int n_memory, int n_device,
                   int other)
{
    struct rank_sharing s = rank_sharing_of(all, world, i);
    cr_expect_eq(s.n_memory, n_memory, "rank %d: %d share the memory", i, s.n_memory);
    cr_expect_eq(s.n_device, n_device, "rank %d: %d share the device", i, s.n_device);
    cr_expect_eq(s.other, other, "rank %d: with rank %d", i, s.other);
}

Test(rank_devices, ranks_of_one_device_and_of_others)
{
    const struct rank_device all[] = {{"a", "0000:3b:00.0", "GPU-1"},
                                      {"a", "0000:86:00.0", "GPU-2"},
                                      {"a", "0000:3b:00.0", "GPU-1"},
                                      {"b", "0000:3b:00.0", "GPU-3"}};
    expect(all, 4, 0, 2, 2, 2);
    expect(all, 4, 1, 1, 1, -1);
    expect(all, 4, 2, 2, 2, 0);
    expect(all, 4, 3, 1, 1, -1); /* another host's device has the same place */
}

/* Two parts of one device: memory of their own, but NCCL sees one device twice. */
Test(rank_devices, parts_of_a_device)
{
    const struct rank_device all[] = {{"a", "0000:3b:00.0", "GPU-1"},
                                      {"a", "0000:3b:00.0", "GPU-2"},
                                      {"a", "0000:3b:00.0", "GPU-2"}};
    expect(all, 3, 0, 1, 3, -1);
    expect(all, 3, 1, 2, 3, 2);
}

Test(rank_devices, ranks_without_a_device_share_none)
{
    const struct rank_device all[] = {{"a", "", ""}, {"a", "", ""}};
    expect(all, 2, 0, 1, 1, -1);
}
