/* SPDX-License-Identifier: Apache-2.0
 *
 * One name with an old and a current version.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT int versioned_old(void);
EXPORT int versioned_new(void);

__asm__(".symver versioned_old, versioned@OLD_1.0");
__asm__(".symver versioned_new, versioned@@NEW_2.0");

int versioned_old(void)
{
	return 1;
}

int versioned_new(void)
{
	return 2;
}
