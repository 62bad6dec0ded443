/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of the look-up tests' driver.
 */
#ifndef BERTH_TESTS_FAKE_CUDA_RESULTS_H
#define BERTH_TESTS_FAKE_CUDA_RESULTS_H

#define FAKE_RESULT         801
#define FAKE_INVALID_VALUE  1
#define FAKE_NOT_FOUND      500
#define FAKE_FUTURE_VERSION 99000

#endif
