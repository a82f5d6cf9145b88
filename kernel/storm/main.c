// SPDX-License-Identifier: GPL-2.0-only
/*
 * storm - helps to find bugs in I/O schedulers: it makes a disk with random faults, and
 * delays CPUs at random. The same seed gives the same random numbers (docs/storm.md). The
 * module is for tests only.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "storm.h"

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Of all random numbers. Default: 0");

static unsigned int chance;
module_param(chance, uint, 0444);
MODULE_PARM_DESC(chance, "Of a delay at a yield point, in 1024. Default: 0");

static unsigned int longest = 1;
module_param(longest, uint, 0444);
MODULE_PARM_DESC(longest, "Such a delay, in cpu_relax(). Default: 1");

static unsigned int hw_queues = 1;
module_param(hw_queues, uint, 0444);
MODULE_PARM_DESC(hw_queues, "Of the disk; 0: one for each CPU. Default: 1");

static unsigned int depth = 32;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "Requests each hardware queue takes at once. Default: 32");

static unsigned int service_us = 100;
module_param(service_us, uint, 0444);
MODULE_PARM_DESC(service_us, "Time a request takes, on average; 0: none. Default: 100");

static bool rotational;
module_param(rotational, bool, 0444);
MODULE_PARM_DESC(rotational, "The disk says that it rotates. Default: no");

static struct dentry *debugfs;

static int storm_disk_file_show(struct seq_file *m, void *unused)
{
	storm_disk_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(storm_disk_file);

static int storm_last_show(struct seq_file *m, void *unused)
{
	storm_points_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(storm_last);

static int storm_fingerprint_get(void *data, u64 *value)
{
	*value = storm_fingerprint();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(storm_fingerprint_fops, storm_fingerprint_get, NULL, "%016llx\n");

static int storm_freeze_set(void *data, u64 us)
{
	storm_disk_freeze(us);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(storm_freeze_fops, NULL, storm_freeze_set, "%llu\n");

static int storm_quiesce_set(void *data, u64 us)
{
	storm_disk_quiesce(us);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(storm_quiesce_fops, NULL, storm_quiesce_set, "%llu\n");

static int storm_passthrough_set(void *data, u64 at_head)
{
	return storm_disk_passthrough(at_head);
}
DEFINE_DEBUGFS_ATTRIBUTE(storm_passthrough_fops, NULL, storm_passthrough_set, "%llu\n");

/* Make the beginning of a function a yield point (yield.c). Each write names one function. */
static ssize_t storm_probe_write(struct file *file, const char __user *ubuf, size_t count,
				 loff_t *ppos)
{
	char name[64];
	int ret;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, ubuf, count))
		return -EFAULT;
	name[count] = '\0';
	ret = storm_probe(strim(name));
	return ret ?: count;
}

static const struct file_operations storm_probe_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= storm_probe_write,
};

static void storm_create_files(void)
{
	debugfs_create_file("disk", 0400, debugfs, NULL, &storm_disk_file_fops);
	debugfs_create_file("last", 0400, debugfs, NULL, &storm_last_fops);
	debugfs_create_file("fingerprint", 0400, debugfs, NULL, &storm_fingerprint_fops);
	debugfs_create_file("freeze", 0200, debugfs, NULL, &storm_freeze_fops);
	debugfs_create_file("quiesce", 0200, debugfs, NULL, &storm_quiesce_fops);
	debugfs_create_file("passthrough", 0200, debugfs, NULL, &storm_passthrough_fops);
	debugfs_create_file("probe", 0200, debugfs, NULL, &storm_probe_fops);
}

static int __init storm_init(void)
{
	const struct storm_disk_settings set = {
		.hw_queues = hw_queues,
		.depth = depth,
		.service_us = service_us,
		.rotational = rotational,
	};
	int ret;

	if (!depth || depth > 1024 || !longest || service_us > USEC_PER_SEC)
		return -EINVAL;
	debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	storm_yield_init(seed, chance, longest);
	ret = storm_disk_init(seed, &set, debugfs);
	if (ret) {
		storm_yield_exit();
		debugfs_remove(debugfs);
		return ret;
	}
	storm_create_files();
	return 0;
}

static void __exit storm_exit(void)
{
	debugfs_remove(debugfs);
	storm_disk_exit();
	storm_yield_exit();
}

module_init(storm_init);
module_exit(storm_exit);

MODULE_AUTHOR("The Triage authors");
MODULE_DESCRIPTION("A disk and delays that a seed decides, for testing I/O schedulers");
MODULE_LICENSE("GPL");
