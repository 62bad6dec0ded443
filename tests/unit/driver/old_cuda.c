/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver that lacks nearly everything.
 */
__attribute__((visibility("default"))) int cuInit(unsigned int flags);

int cuInit(unsigned int flags)
{
	return (int)flags;
}
