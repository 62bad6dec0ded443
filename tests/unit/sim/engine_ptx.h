/* SPDX-License-Identifier: Apache-2.0
 *
 * Device code for the tests of the engine, as nvcc and GCC write it.
 */
#ifndef BERTH_TESTS_SIM_ENGINE_PTX_H
#define BERTH_TESTS_SIM_ENGINE_PTX_H

/* A wave of `slow` takes 2 ms, of `quick` 10 us. */
#define ENGINE_PTX                                                                            \
	"//\n// Generated\n//\n\n.version 7.4\n.target sm_52\n.address_size 64\n\n"           \
	"\t// .globl\tslow\n"                                                                 \
	".visible .global .align 4 .u32 counter = 7;\n"                                       \
	".const .align 4 .b8 coefficients[64];\n"                                             \
	".global .align 8 .b8 big[800];\n"                                                    \
	".global .align 4 .f32 halves[3] = {0f3F000000, 0.25, -1};\n"                         \
	".global .attribute(.managed) .align 8 .u64 shared_count;\n"                          \
	".extern .global .align 4 .u32 elsewhere;\n"                                          \
	".visible .global .align 1 .b8 text[] = {104, 105, 0};\n"                             \
	".visible .entry slow(\n\t.param .u64 slow_param_0,\n\t.param .u32 slow_param_1\n)\n" \
	"{\n\t.pragma \"berth-sim cost 2000000\";\n\t.reg .pred \t%p<2>;\n"                   \
	"\t.reg .b32 \t%r<23>;\n\tret;\n}\n"                                                  \
	".visible .entry quick()\n.maxntid 256, 1, 1\n"                                       \
	"{\n\t.pragma \"berth-sim cost 10000\";\n\t.shared .align 4 .b8 tile[1024];\n"        \
	"\t.reg .b64 \t%rd<4>;\n\t{\n\tret;\n\t}\n}\n"                                        \
	".visible .entry scale(.param .u64 .ptr .global .align 4 data, .param .u32 count,\n"  \
	"\t.param .f32 factor, .param .align 8 .b8 more[16])\n{\n\tret;\n}\n"                 \
	".visible .func (.param .b32 out) helper(.param .b32 in)\n{\n\tret;\n}\n"

#define ENGINE_GCC_PTX                                                                             \
	"// BEGIN PREAMBLE\n.version 6.0\n.target sm_30\n.address_size 64\n// END PREAMBLE\n"      \
	"// BEGIN FUNCTION DECL: main$_omp_fn$1\n"                                                 \
	".func main$_omp_fn$1 (.param .u64 %in_ar0);\n"                                            \
	"// BEGIN GLOBAL FUNCTION DECL: omp_get_num_threads\n"                                     \
	".extern .func (.param .u32 %value_out) omp_get_num_threads;\n"                            \
	".extern .shared .u64 __nvptx_stacks[32];\n"                                               \
	".visible .global .align 16 .u32 table[100] =\n{1,2,3 };\n"                                \
	".visible .global .align 8 .u64 pointer[1] =\n{generic(table)+4 };\n"                      \
	".const .align 1 .u8 $LC0[4] =\n{65,66,67,0 };\n"                                          \
	".func main$_omp_fn$1 (.param .u64 %in_ar0)\n{\n.reg .u64 %ar0;\n"                         \
	"ld.param.u64 %ar0,[%in_ar0];\n{\n.param .u32 %value_in;\n}\nret;\n}\n"                    \
	".visible .entry main$_omp_fn$0 (.param .u64 %arg, .param .u64 %stack, .param .u64 %sz)\n" \
	"{\n.reg .u32 %r<3>;\n.reg .u64 %R<4>;\nmov.u32 %r0,%tid.y;\nret;\n}\n"

#endif
