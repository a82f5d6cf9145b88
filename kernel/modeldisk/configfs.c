// SPDX-License-Identifier: GPL-2.0-only
/*
 * modeldisk: block devices whose service times follow a model of a device.
 *
 * A device is a folder of configfs, as with null_blk. Make the folder, write a
 * profile, then the settings that differ from it, then 1 to power. rmdir removes
 * the device.
 *
 *   mkdir /sys/kernel/config/modeldisk/md0
 *   echo flash > /sys/kernel/config/modeldisk/md0/profile
 *   echo 1 > /sys/kernel/config/modeldisk/md0/power
 */
#include <linux/configfs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "modeldisk.h"

struct mdk_config {
	struct config_item item;
	struct mdk_settings set;
	struct mdk_disk *disk;	/* NULL: power is off */
};

/* Guards settings and power of all devices. */
static DEFINE_MUTEX(mdk_mutex);

static struct mdk_config *to_config(struct config_item *item)
{
	return container_of(item, struct mdk_config, item);
}

/* --- settings that are numbers --- */

struct mdk_setting {
	const char *name;
	size_t offset;		/* of the value, a u32, in struct mdk_settings */
	u32 smallest;
	u32 largest;
	u32 flags;
};

enum mdk_setting_id {
#define PARAM(name, ...) SETTING_##name,
#include "settings.h"
#define PARAM(name, ...) SETTING_##name,
#include "model-params.h"
	MDK_NR_SETTINGS
};

static const struct mdk_setting mdk_settings[] = {
#define PARAM(name, ...)						\
	[SETTING_##name] = {						\
		#name, offsetof(struct mdk_settings, name), __VA_ARGS__	\
	},
#include "settings.h"
#define PARAM(name, ...)						\
	[SETTING_##name] = {						\
		#name, offsetof(struct mdk_settings, model.name), __VA_ARGS__ \
	},
#include "model-params.h"
};

static u32 *setting_value(struct mdk_config *c, const struct mdk_setting *s)
{
	return (void *)&c->set + s->offset;
}

static ssize_t setting_show(struct config_item *item, enum mdk_setting_id id,
			    char *page)
{
	u32 *value = setting_value(to_config(item), &mdk_settings[id]);

	return sysfs_emit(page, "%u\n", READ_ONCE(*value));
}

/* Log that the value in @page is refused, and the setting's bounds. Return -EINVAL. */
static int setting_refuse(struct mdk_config *c, const struct mdk_setting *s,
			  const char *page)
{
	pr_warn("%s: %s=%.*s refused: must be a %s from %u to %u\n",
		config_item_name(&c->item), s->name,
		(int)min_t(size_t, strcspn(page, "\n"), 32), page,
		s->flags & PARAM_POWER_OF_2 ? "power of 2" : "number",
		s->smallest, s->largest);
	return -EINVAL;
}

static int setting_set(struct mdk_config *c, const struct mdk_setting *s,
		       const char *page)
{
	const struct model_profile *profile = c->set.profile;
	u32 value;

	if (!(s->flags & profile->model->param)) {
		pr_warn("%s: %s refused: profile %s is a model of kind %s\n",
			config_item_name(&c->item), s->name, profile->name,
			profile->model->name);
		return -EINVAL;
	}
	if (kstrtou32(page, 0, &value) ||
	    value < s->smallest || value > s->largest ||
	    (s->flags & PARAM_POWER_OF_2 && !is_power_of_2(value)))
		return setting_refuse(c, s, page);
	if (c->disk && !(s->flags & SETTING_LIVE)) {
		pr_warn("%s: %s cannot change while power is on\n",
			config_item_name(&c->item), s->name);
		return -EBUSY;
	}
	WRITE_ONCE(*setting_value(c, s), value);
	return 0;
}

static ssize_t setting_store(struct config_item *item, enum mdk_setting_id id,
			     const char *page, size_t count)
{
	int ret;

	mutex_lock(&mdk_mutex);
	ret = setting_set(to_config(item), &mdk_settings[id], page);
	mutex_unlock(&mdk_mutex);
	return ret ?: count;
}

/* Each file has its own show() and store(): configfs does not tell them the file's name. */
#define MDK_SETTING_FILE(name)						\
static ssize_t mdk_##name##_show(struct config_item *item, char *page);	\
static ssize_t mdk_##name##_store(struct config_item *item,		\
				  const char *page, size_t count);	\
CONFIGFS_ATTR(mdk_, name);						\
									\
static ssize_t mdk_##name##_show(struct config_item *item, char *page)	\
{									\
	return setting_show(item, SETTING_##name, page);		\
}									\
									\
static ssize_t mdk_##name##_store(struct config_item *item,		\
				  const char *page, size_t count)	\
{									\
	return setting_store(item, SETTING_##name, page, count);	\
}

#define PARAM(name, ...) MDK_SETTING_FILE(name)
#include "settings.h"
#define PARAM(name, ...) MDK_SETTING_FILE(name)
#include "model-params.h"

/* --- profile --- */

static void profile_apply(struct mdk_settings *set,
			  const struct model_profile *profile)
{
	set->profile = profile;
	set->model = profile->params;
	set->size = profile->size_mib;
	set->hw_queues = profile->hw_queues;
	set->depth = profile->depth;
}

static const struct model_profile *profile_find(const char *name)
{
	u32 i;

	for (i = 0; i < model_nr_profiles; i++)
		if (sysfs_streq(name, model_profiles[i].name))
			return &model_profiles[i];
	return NULL;
}

static ssize_t profiles_emit(char *page)
{
	ssize_t len = 0;
	u32 i;

	for (i = 0; i < model_nr_profiles; i++)
		len += sysfs_emit_at(page, len, "%s%s", i ? " " : "",
				     model_profiles[i].name);
	return len + sysfs_emit_at(page, len, "\n");
}

static ssize_t mdk_profile_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_config(item)->set.profile->name);
}

static int profile_set(struct mdk_config *c, const char *page)
{
	const struct model_profile *profile = profile_find(page);

	if (!profile) {
		pr_warn("%s: profile=%.*s refused: the group's file \"profiles\" lists them\n",
			config_item_name(&c->item),
			(int)min_t(size_t, strcspn(page, "\n"), 32), page);
		return -EINVAL;
	}
	if (c->disk)
		return -EBUSY;
	profile_apply(&c->set, profile);
	return 0;
}

static ssize_t mdk_profile_store(struct config_item *item, const char *page,
				 size_t count)
{
	int ret;

	mutex_lock(&mdk_mutex);
	ret = profile_set(to_config(item), page);
	mutex_unlock(&mdk_mutex);
	return ret ?: count;
}
CONFIGFS_ATTR(mdk_, profile);

/* --- power --- */

static ssize_t mdk_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", !!READ_ONCE(to_config(item)->disk));
}

static int power_set(struct mdk_config *c, bool on)
{
	struct mdk_disk *disk;

	if (on == !!c->disk)
		return 0;
	if (!on) {
		mdk_disk_del(c->disk);
		c->disk = NULL;
		return 0;
	}
	disk = mdk_disk_add(config_item_name(&c->item), &c->set);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	c->disk = disk;
	return 0;
}

static ssize_t mdk_power_store(struct config_item *item, const char *page,
			       size_t count)
{
	struct mdk_config *c = to_config(item);
	bool on;
	int ret;

	if (kstrtobool(page, &on)) {
		pr_warn("%s: power refused: must be 0 or 1\n",
			config_item_name(item));
		return -EINVAL;
	}
	mutex_lock(&mdk_mutex);
	ret = power_set(c, on);
	mutex_unlock(&mdk_mutex);
	return ret ?: count;
}
CONFIGFS_ATTR(mdk_, power);

/* --- the folders --- */

static struct configfs_attribute *mdk_attrs[] = {
#define PARAM(name, ...)						\
	[SETTING_##name] = &mdk_attr_##name,
#include "settings.h"
#define PARAM(name, ...)						\
	[SETTING_##name] = &mdk_attr_##name,
#include "model-params.h"
	[MDK_NR_SETTINGS] = &mdk_attr_profile,
	&mdk_attr_power,
	NULL
};

static void mdk_release(struct config_item *item)
{
	kfree(to_config(item));
}

static struct configfs_item_operations mdk_item_ops = {
	.release = mdk_release,
};

static const struct config_item_type mdk_type = {
	.ct_item_ops	= &mdk_item_ops,
	.ct_attrs	= mdk_attrs,
	.ct_owner	= THIS_MODULE,
};

static struct config_item *mdk_make_item(struct config_group *group,
					 const char *name)
{
	struct mdk_config *c;

	if (strlen(name) >= DISK_NAME_LEN)
		return ERR_PTR(-ENAMETOOLONG);
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return ERR_PTR(-ENOMEM);
	profile_apply(&c->set, &model_profiles[0]);
	c->set.block_size = SECTOR_SIZE;
	c->set.timeout_ms = 30000;	/* the block layer's default */
	c->set.seed = 1;
	config_item_init_type_name(&c->item, name, &mdk_type);
	return &c->item;
}

static void mdk_drop_item(struct config_group *group, struct config_item *item)
{
	mutex_lock(&mdk_mutex);
	power_set(to_config(item), false);
	mutex_unlock(&mdk_mutex);
	config_item_put(item);
}

static ssize_t mdk_group_profiles_show(struct config_item *item, char *page)
{
	return profiles_emit(page);
}
CONFIGFS_ATTR_RO(mdk_group_, profiles);

static struct configfs_attribute *mdk_group_attrs[] = {
	&mdk_group_attr_profiles,
	NULL,
};

static struct configfs_group_operations mdk_group_ops = {
	.make_item = mdk_make_item,
	.drop_item = mdk_drop_item,
};

static const struct config_item_type mdk_group_type = {
	.ct_group_ops	= &mdk_group_ops,
	.ct_attrs	= mdk_group_attrs,
	.ct_owner	= THIS_MODULE,
};

static struct configfs_subsystem mdk_subsystem = {
	.su_group = {
		.cg_item = {
			.ci_namebuf	= KBUILD_MODNAME,
			.ci_type	= &mdk_group_type,
		},
	},
};

static int __init mdk_init(void)
{
	int ret;

	mdk_debugfs_init();
	config_group_init(&mdk_subsystem.su_group);
	mutex_init(&mdk_subsystem.su_mutex);
	ret = configfs_register_subsystem(&mdk_subsystem);
	if (ret)
		mdk_debugfs_exit();
	return ret;
}

static void __exit mdk_exit(void)
{
	configfs_unregister_subsystem(&mdk_subsystem);
	mdk_debugfs_exit();
}

module_init(mdk_init);
module_exit(mdk_exit);

MODULE_DESCRIPTION("Block devices whose service times follow a model");
MODULE_LICENSE("GPL");
