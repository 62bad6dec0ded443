# The interposed pair beside the bare one: it preloads and loads what is built in lib/.
berth_bench(alloc SOURCES alloc.c place.c NEEDS berth_base)
add_dependencies(bench-alloc berth_cuda sim_cuda)
berth_bench(alloc-storm SOURCES alloc-storm.c place.c samples.c NEEDS berth_base ${CMAKE_DL_LIBS})
add_dependencies(bench-alloc-storm berth_cuda sim_cuda sim_nvml)
