/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the configuration once. The mutex is held while the environment is parsed: no I/O, no
 * driver. After that the words never change, so readers keep a plain pointer.
 */
#include "account/settings.h"

#include <pthread.h>
#include <string.h>

#include "region/directory.h"

static struct {
	pthread_mutex_t mutex;
	bool read;
	int err;
	struct berth_reason reason;
	struct berth_config config;
} settings = { .mutex = PTHREAD_MUTEX_INITIALIZER };

int berth_settings_get(const struct berth_config **ret_config, struct berth_reason *reason)
{
	int err;

	pthread_mutex_lock(&settings.mutex);
	if (!settings.read) {
		settings.config = (struct berth_config){ 0 };
		settings.reason.text[0] = '\0';
		settings.err = berth_config_from_environment(&settings.config, &settings.reason);
		settings.read = true;
	}
	err = settings.err;
	*ret_config = &settings.config;
	pthread_mutex_unlock(&settings.mutex);
	return err ? berth_reason_set(reason, err, "%s", settings.reason.text) : 0;
}

int berth_settings_region_path(const struct berth_config *config, bool make,
			       char ret_path[PATH_MAX], struct berth_reason *reason)
{
	if (!config->region_path[0])
		return berth_share_path(config->share_name, make, ret_path, reason);
	memcpy(ret_path, config->region_path, sizeof(config->region_path));
	return 0;
}

_Static_assert(sizeof(((struct berth_config *)0)->region_path) <= PATH_MAX, "a path fits");

void berth_settings_forget(void)
{
	settings.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	settings.read = false;
}
